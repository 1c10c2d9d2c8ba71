/**
 * `bun run build`: builds the package `farebox` into dist/, ready for `npm publish dist`.
 * `bun run build -- --binary FILE`: builds the gateway as one executable for this machine.
 */
import { existsSync, readdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import manifest from '../package.json' with { type: 'json' }
import { buildPackage } from './release/package.ts'

const ROOT = join(import.meta.dirname, '..')

/** The gateway, and the thread that it starts. */
const ENTRY_POINTS = ['server/main.ts', 'server/token_worker.ts'].map((path) => join(ROOT, path))

/**
 * Compiles the server into one executable, with the modules as bytecode: parsing them takes longer than running them.
 * Throws with the compiler's output when that fails.
 */
export async function compileBinary(out: string): Promise<void> {
  const { success, logs } = await Bun.build({
    entrypoints: ENTRY_POINTS,
    // Own files may import packages of their own.
    compile: { outfile: resolve(out), autoloadPackageJson: true },
    target: 'bun',
    format: 'esm',
    bytecode: true,
    minify: { whitespace: true, syntax: true, identifiers: false },
    plugins: [nativeSignatures],
    throw: false,
  })
  if (!success) throw new Error(`compiling the binary failed:\n${logs.map(String).join('\n')}`)
}

/**
 * Puts the native library of secp256k1 into the executable: the package looks for it by name, which no compiler
 * follows. Where the package is not installed or has no library for this platform, importing it throws, as it does from
 * source.
 */
const nativeSignatures: Bun.BunPlugin = {
  name: 'native signatures',
  setup(builder) {
    const home = join(ROOT, 'node_modules/secp256k1')
    const library = join(home, 'prebuilds', `${process.platform}-${process.arch}`, libraryName())
    builder.onResolve({ filter: /^secp256k1\/bindings\.js$/ }, () => ({ path: 'secp256k1', namespace: 'native' }))
    builder.onLoad({ filter: /.*/, namespace: 'native' }, () => ({
      loader: 'js',
      contents: existsSync(library)
        ? `const addon = require(${JSON.stringify(library)})
           module.exports = require(${JSON.stringify(join(home, 'lib/index.js'))})(new addon.Secp256k1())`
        : `throw new Error('there is no native library of secp256k1 for this platform')`,
    }))
  },
}

function libraryName(): string {
  if (process.platform !== 'linux') return 'secp256k1.node'
  const isMusl = readdirSync('/lib').some((name) => name.startsWith('ld-musl-'))
  return `secp256k1.${isMusl ? 'musl' : 'glibc'}.node`
}

if (import.meta.main) {
  const startedAt = performance.now()
  const [option, file] = process.argv.slice(2)
  if (option !== undefined && (option !== '--binary' || file === undefined))
    throw new Error('usage: bun run build [-- --binary FILE]')
  if (file === undefined) await buildPackage(join(ROOT, 'dist'))
  else await compileBinary(file)
  console.log(
    `built farebox ${manifest.version} into ${file ?? 'dist/'} in ${Math.round(performance.now() - startedAt)} ms`,
  )
}
