/** The runtimes of embedding programs: the Node of the machine, this Bun, and Node 22 and Deno of `test/programs`. */
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { PROGRAMS } from '../programs/mod.ts'

const required = createRequire(PROGRAMS)

export type Runtime = { readonly name: string; readonly command: readonly string[] }

/** Folder of an installed package of `test/programs`. */
export const folderOf = (name: string): string => dirname(required.resolve(`${name}/package.json`))

export const node: Runtime = { name: 'Node of the machine', command: ['node', '--expose-gc'] }
export const node22: Runtime = {
  name: 'Node 22',
  command: [
    join(folderOf(`node-${process.platform}-${process.arch}`), 'bin/node'),
    '--expose-gc',
    '--disable-warning=ExperimentalWarning',
  ],
}
const denoFolder = () =>
  dirname(createRequire(required.resolve('deno/package.json')).resolve(`@deno/${denoPlatform()}/package.json`))
export const deno: Runtime = {
  name: 'Deno',
  get command() {
    return [join(denoFolder(), 'deno'), 'run', '--allow-all', '--no-lock', '--v8-flags=--expose-gc']
  },
}
export const bun: Runtime = { name: 'Bun', command: [process.execPath, '--no-install'] }

function denoPlatform(): string {
  return `${process.platform}-${process.arch}${process.platform === 'linux' ? '-glibc' : ''}`
}
