/**
 * `bun run build`: builds core and the portable adapters into dist/, a package of JavaScript with types.
 * `bun run build -- --binary FILE`: builds the gateway as one executable. It has no devnet chain, so it needs a
 * configured gateway.
 */
import { existsSync, readdirSync } from 'node:fs'
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import manifest from '../package.json' with { type: 'json' }

const ROOT = join(import.meta.dirname, '..')
const TSC = join(ROOT, 'node_modules/typescript/bin/tsc')

/** Empties `out` and builds into it. Throws with the compiler's output when the sources do not compile. */
export async function build(out: string): Promise<void> {
  await rm(out, { recursive: true, force: true })
  await compile(out)
  for (const file of ['LICENSE', 'README.md', ...(await documentation())]) {
    await mkdir(dirname(join(out, file)), { recursive: true })
    await copyFile(join(ROOT, file), join(out, file))
  }
  await writeFile(join(out, 'package.json'), `${JSON.stringify(await packageManifest(out), null, 2)}\n`)
}

/** The files that the README links to. */
async function documentation(): Promise<readonly string[]> {
  const guides = (await readdir(join(ROOT, 'server/docs'))).filter((file) => file.endsWith('.md'))
  return ['core/CONTRACT.md', 'core/DECISIONS.md', ...guides.map((file) => `server/docs/${file}`)]
}

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

/** `adapters/tsconfig.json` defines what is portable: it compiles both mod.ts files without Bun's types. */
async function compile(out: string): Promise<void> {
  const tsc = Bun.spawn([process.execPath, TSC, '-p', join(ROOT, 'adapters'), '--noEmit', 'false', '--outDir', out], {
    stderr: 'inherit',
  })
  const output = await new Response(tsc.stdout).text()
  if ((await tsc.exited) !== 0) throw new Error(`compiling the package failed:\n${output}`)
}

async function packageManifest(out: string): Promise<Record<string, unknown>> {
  const { name, version, description, license, type, engines } = manifest
  const entry = (path: string) => ({ types: `./${path}.d.ts`, default: `./${path}.js` })
  return {
    name,
    version,
    description,
    license,
    type,
    engines,
    exports: { '.': entry('core/mod'), './adapters': entry('adapters/mod') },
    ...(await dependencies(out)),
  }
}

type Versions = Readonly<Record<string, string>>

/**
 * The packages that the built files import, at the versions of the root package.json, and optional where they are
 * optional there. Throws for one missing there.
 */
async function dependencies(out: string): Promise<{ dependencies: Versions; optionalDependencies: Versions }> {
  const imported = new Set<string>()
  for (const path of await readdir(out, { recursive: true })) {
    if (!path.endsWith('.js') && !path.endsWith('.d.ts')) continue
    const text = await readFile(join(out, path), 'utf8')
    for (const [, staticImport, dynamicImport] of text.matchAll(
      /^(?:import|export|\}).* from '([^.'][^']*)'|\bimport\(["']([^."'][^"']*)["']\)/gm,
    )) {
      const specifier = staticImport ?? dynamicImport ?? ''
      if (!specifier.startsWith('node:')) imported.add(packageOf(specifier))
    }
  }
  const names = [...imported].sort()
  const required: Versions = manifest.dependencies
  const optional: Versions = manifest.optionalDependencies
  for (const name of names) if (!required[name] && !optional[name]) missing(name)
  const pick = (versions: Versions) =>
    Object.fromEntries(names.flatMap((name) => (versions[name] ? [[name, versions[name]]] : [])))
  return { dependencies: pick(required), optionalDependencies: pick(optional) }
}

const packageOf = (specifier: string): string => specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/')

function missing(name: string): never {
  throw new Error(`the built package imports ${name}, which is not in the dependencies of package.json; add it there`)
}

if (import.meta.main) {
  const startedAt = performance.now()
  const [option, file] = process.argv.slice(2)
  if (option !== undefined && (option !== '--binary' || file === undefined))
    throw new Error('usage: bun run build [-- --binary FILE]')
  if (file === undefined) await build(join(ROOT, 'dist'))
  else await compileBinary(file)
  console.log(
    `built farebox ${manifest.version} into ${file ?? 'dist/'} in ${Math.round(performance.now() - startedAt)} ms`,
  )
}
