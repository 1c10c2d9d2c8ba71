/** The runtimes of embedding programs: the Node of the machine, this Bun, and Node 22 and Deno of `test/programs`. */
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { PROGRAMS } from '../programs/mod.ts'

const required = createRequire(PROGRAMS)
export const PROGRAMS_DIR = dirname(fileURLToPath(PROGRAMS))

export type Runtime = { readonly name: string; readonly command: readonly string[] }

const folderOf = (name: string): string => dirname(required.resolve(`${name}/package.json`))

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

/** Compiles better-sqlite3 for the Node of the machine, once: its own download is not part of the installation. */
export async function compileBetterSqlite(): Promise<void> {
  const home = folderOf('better-sqlite3')
  if (existsSync(join(home, 'build/Release/better_sqlite3.node'))) return
  const child = Bun.spawn(['npm', 'run', 'build-release'], {
    cwd: home,
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [output, errors, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  if (code !== 0) throw new Error(`better-sqlite3 does not compile:\n${output}${errors}`)
}
