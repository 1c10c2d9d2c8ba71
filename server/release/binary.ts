/**
 * The gateway as one executable, for this machine or another one: Bun for that platform comes from npm, at the version
 * and checksum of the lock file in runtimes/.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { packagesIn } from './components.ts'
import { finishedPages } from './web_pages.ts'

const ROOT = join(import.meta.dirname, '../..')

/** A platform, as Bun's compiler, its npm package and the prebuilt libraries name it. */
type Platform = { readonly target: Bun.Build.CompileTarget; readonly runtime: string; readonly prebuilt: string }

export const PLATFORMS = {
  'linux-x64': { target: 'bun-linux-x64', runtime: 'bun-linux-x64', prebuilt: 'linux-x64' },
  'linux-arm64': { target: 'bun-linux-arm64', runtime: 'bun-linux-aarch64', prebuilt: 'linux-arm64' },
  'darwin-x64': { target: 'bun-darwin-x64', runtime: 'bun-darwin-x64', prebuilt: 'darwin-x64' },
  'darwin-arm64': { target: 'bun-darwin-arm64', runtime: 'bun-darwin-aarch64', prebuilt: 'darwin-arm64' },
  'windows-x64': { target: 'bun-windows-x64', runtime: 'bun-windows-x64', prebuilt: 'win32-x64' },
} as const satisfies Readonly<Record<string, Platform>>
export type PlatformName = keyof typeof PLATFORMS

const RUNTIMES = join(import.meta.dirname, 'runtimes/node_modules/@oven')

/** The gateway, and the thread that it starts. */
const ENTRY_POINTS = ['server/main.ts', 'server/token_worker.ts'].map((path) => join(ROOT, path))

/**
 * Compiles the server into one executable, with the modules as bytecode: parsing them takes longer than running them.
 * They are split by what is imported later, so that a start reads what it uses and nothing else. Throws with the
 * compiler's output when that fails. Returns the folders of the packages that are in it.
 */
export async function compileBinary(out: string, platform?: PlatformName): Promise<readonly string[]> {
  const { target, runtime } = platform ? PLATFORMS[platform] : { target: undefined, runtime: undefined }
  const program = runtime && join(RUNTIMES, runtime, 'bin', runtime.includes('windows') ? 'bun.exe' : 'bun')
  if (program !== undefined && !existsSync(program))
    throw new Error(`there is no ${program}; run: ${INSTALL_RUNTIMES.join(' ')}`)
  const pages = await finishedPages()
  const { success, logs, metafile } = await Bun.build({
    entrypoints: ENTRY_POINTS,
    // Own files may import packages of their own.
    // .env and bunfig.toml of the working directory are not ours to read.
    compile: {
      outfile: resolve(out),
      autoloadPackageJson: true,
      autoloadDotenv: false,
      autoloadBunfig: false,
      ...(target && program && { target, executablePath: program }),
    },
    metafile: true,
    target: 'bun',
    format: 'esm',
    bytecode: true,
    splitting: true,
    minify: { whitespace: true, syntax: true, identifiers: false },
    plugins: [
      nativeSignatures(platform ? PLATFORMS[platform].prebuilt : `${process.platform}-${process.arch}`),
      oneKit,
      pages.plugin,
    ],
    throw: false,
  })
  if (!success) throw new Error(`compiling the binary failed:\n${logs.map(String).join('\n')}`)
  return [...new Set([...packagesIn(metafile), ...pages.packages])].sort()
}

/**
 * Puts the native library of secp256k1 into the executable: the package looks for it by name, which no compiler
 * follows. Where the package is not installed or has no library for this platform, importing it throws, as it does from
 * source.
 */
const nativeSignatures = (prebuilt: string): Bun.BunPlugin => ({
  name: 'native signatures',
  setup(builder) {
    const home = join(ROOT, 'node_modules/secp256k1')
    const library = join(home, 'prebuilds', prebuilt, libraryName(prebuilt))
    builder.onResolve({ filter: /^secp256k1\/bindings\.js$/ }, () => ({ path: 'secp256k1', namespace: 'native' }))
    builder.onLoad({ filter: /.*/, namespace: 'native' }, () => ({
      loader: 'js',
      contents: existsSync(library)
        ? `const addon = require(${JSON.stringify(library)})
           module.exports = require(${JSON.stringify(join(home, 'lib/index.js'))})(new addon.Secp256k1())`
        : `throw new Error('there is no native library of secp256k1 for this platform')`,
    }))
  },
})

/**
 * The local Solana asks for the kit as CommonJS, so the executable would hold and load a second copy of all of it: it
 * gets what it uses from the one that gateways import.
 */
const oneKit: Bun.BunPlugin = {
  name: 'one kit',
  setup(builder) {
    const litesvm = join(ROOT, 'node_modules/litesvm/dist/index.js')
    builder.onResolve({ filter: /\/kit$/ }, ({ importer, path }) =>
      importer === litesvm ? { path, namespace: 'kit' } : undefined,
    )
    builder.onLoad({ filter: /.*/, namespace: 'kit' }, ({ path }) => {
      const used = readFileSync(litesvm, 'utf8').matchAll(/\bkit_1\.(\w+)/g)
      const kit = JSON.stringify(Bun.resolveSync(path, ROOT))
      return {
        loader: 'js',
        contents: `export { ${[...new Set([...used].map(([, name]) => name))].join(', ')} } from ${kit}`,
      }
    })
  },
}

function libraryName(prebuilt: string): string {
  if (!prebuilt.startsWith('linux')) return 'secp256k1.node'
  if (process.platform !== 'linux') return 'secp256k1.glibc.node'
  const isMusl = readdirSync('/lib').some((name) => name.startsWith('ld-musl-'))
  return `secp256k1.${isMusl ? 'musl' : 'glibc'}.node`
}

/** Fetches Bun for every platform, checked against the lock file. */
export const INSTALL_RUNTIMES = [
  process.execPath,
  'install',
  '--frozen-lockfile',
  '--ignore-scripts',
  '--cpu=*',
  '--os=*',
  '--cwd',
  join(import.meta.dirname, 'runtimes'),
] as const
