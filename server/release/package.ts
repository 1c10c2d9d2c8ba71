/**
 * The package `farebox`: core and the portable adapters as JavaScript with types, one door for each entry of `exports`
 * of the root package.json, and the server for Bun behind the command `farebox` (decision 77).
 */
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import manifest from '../../package.json' with { type: 'json' }
import { licensesOf, packagesIn } from './components.ts'
import { finishedPages } from './web_pages.ts'

const ROOT = join(import.meta.dirname, '../..')
const TSC = join(ROOT, 'node_modules/typescript/bin/tsc')

/** Bun for every platform on which the command runs: npm installs the one that fits. */
const BUN_VERSION = '1.4.4'
const RUNTIMES = [
  'darwin-aarch64',
  'darwin-x64',
  'linux-aarch64',
  'linux-aarch64-musl',
  'linux-x64',
  'linux-x64-musl',
  'windows-x64',
].map((platform) => `@oven/bun-${platform}`)

/** Packages that the server starts or loads from its installation, and never bundles. */
const APART = ['@foundry-rs/anvil', 'e2b', 'hash-wasm', 'litesvm', 'modal', 'pyodide', 'secp256k1']

/** The programs of the server, and the thread that it starts. */
const PROGRAMS = ['server/main.ts', 'server/token_worker.ts']

/** Empties `out` and builds into it. Throws with the compiler's output when the sources do not compile. */
export async function buildPackage(out: string): Promise<void> {
  await rm(out, { recursive: true, force: true })
  await compileLibrary(out, ['--declarationMap'])
  const { required, optional } = await imported(out)
  const bundled = await bundleServer(join(out, 'server'), [...required, ...optional])
  for (const file of ['LICENSE', 'README.md', ...(await documentation())]) await copyInto(out, file)
  await addSources(out)
  await writeFile(join(out, 'server/THIRD_PARTY_LICENSES.txt'), await licensesOf(bundled))
  await writeFile(join(out, 'server/bunfig.toml'), '')
  await writeFile(join(out, 'package.json'), `${JSON.stringify(publishedManifest(required), null, 2)}\n`)
}

async function copyInto(out: string, file: string, path = file): Promise<void> {
  await mkdir(dirname(join(out, path)), { recursive: true })
  await copyFile(join(ROOT, file), join(out, path))
}

/**
 * Adds the sources that the maps of the declarations name, so that an editor goes to them. They stand apart: beside its
 * declaration, the compiler of a program would check the source instead.
 */
async function addSources(out: string): Promise<void> {
  for (const path of await readdir(out, { recursive: true })) {
    if (!path.endsWith('.d.ts.map')) continue
    const source = path.replace(/\.d\.ts\.map$/, '.ts')
    const map = JSON.parse(await readFile(join(out, path), 'utf8')) as Record<string, unknown>
    const sources = [relative(dirname(path), join('src', source))]
    await writeFile(join(out, path), JSON.stringify({ ...map, sources }))
    await copyInto(out, source, join('src', source))
  }
}

/** The files that the README links to, and the notes that decisions name. */
async function documentation(): Promise<readonly string[]> {
  const guides = (await readdir(join(ROOT, 'server/docs'))).filter((file) => file.endsWith('.md'))
  const notes = await readdir(join(ROOT, 'core/notes'))
  return [
    ...notes.map((file) => `core/notes/${file}`),
    'core/README.md',
    'core/CONTRACT.md',
    'core/DECISIONS.md',
    'server/docs/pictures/console.png',
    'server/docs/pictures/keys.png',
    'server/docs/pictures/pages.png',
    ...guides.map((file) => `server/docs/${file}`),
  ]
}

/** Compiles the doors: `adapters/tsconfig.json` names every one, and checks them without Bun's types. */
export async function compileLibrary(out: string, flags: readonly string[]): Promise<void> {
  const options = ['--noEmit', 'false', ...flags, '--outDir', out]
  const tsc = Bun.spawn([process.execPath, TSC, '-p', join(ROOT, 'adapters'), ...options], { stderr: 'inherit' })
  const output = await new Response(tsc.stdout).text()
  if ((await tsc.exited) !== 0) throw new Error(`compiling the package failed:\n${output}`)
}

/**
 * Bundles the server for Bun, with the packages that only it uses; those of the library stay outside. The launcher is
 * bundled for Node. Returns the packages that went in.
 */
async function bundleServer(out: string, external: readonly string[]): Promise<readonly string[]> {
  const pages = await finishedPages()
  const [server, launcher] = await Promise.all([
    Bun.build({
      entrypoints: PROGRAMS.map((path) => join(ROOT, path)),
      root: join(ROOT, 'server'),
      outdir: out,
      target: 'bun',
      format: 'esm',
      splitting: true,
      metafile: true,
      external: [...external, ...APART].flatMap((name) => [name, `${name}/*`]),
      plugins: [compiledWorker, pages.plugin],
      throw: false,
    }),
    Bun.build({
      entrypoints: [join(import.meta.dirname, 'launcher.ts')],
      outdir: out,
      target: 'node',
      format: 'esm',
      banner: '#!/usr/bin/env node',
      throw: false,
    }),
  ])
  const logs = [...server.logs, ...launcher.logs].map(String)
  if (!server.success || !launcher.success) throw new Error(`bundling the server failed:\n${logs.join('\n')}`)
  return [...new Set([...packagesIn(server.metafile), ...pages.packages])].sort()
}

/** The thread is a file of its own, which is JavaScript in the package. */
const compiledWorker: Bun.BunPlugin = {
  name: 'compiled worker',
  setup(builder) {
    builder.onLoad({ filter: /server\/start_token_worker\.ts$/ }, async ({ path }) => ({
      contents: (await readFile(path, 'utf8')).replace('./token_worker.ts', './token_worker.js'),
      loader: 'ts',
    }))
  },
}

// ── the manifest ────────────────────────────────────────────────────────────────────────────────────────────────────

type Versions = Readonly<Record<string, string>>

function publishedManifest(required: readonly string[]): Record<string, unknown> {
  const { name, version, description, keywords, license, type, engines } = manifest
  const versions: Versions = { ...manifest.dependencies, ...manifest.optionalDependencies }
  const pick = (names: readonly string[]) => Object.fromEntries(names.map((each) => [each, versions[each] ?? '']))
  const entry = (path: string) => ({ types: path.replace(/\.ts$/, '.d.ts'), default: path.replace(/\.ts$/, '.js') })
  const doors = Object.entries(manifest.exports).map(([door, path]) => [door, entry(path)])
  return {
    name,
    version,
    description,
    keywords,
    license,
    ...repository(process.env),
    type,
    engines,
    sideEffects: false,
    exports: { ...Object.fromEntries(doors), './package.json': './package.json' },
    bin: { farebox: 'server/launcher.js' },
    files: ['core', 'adapters', 'server', 'src'],
    publishConfig: { access: 'public', provenance: true },
    dependencies: pick(required),
    optionalDependencies: {
      ...pick(APART),
      ...Object.fromEntries(RUNTIMES.map((runtime) => [runtime, BUN_VERSION])),
    },
  }
}

/** npm accepts a provenance statement only for the repository that the workflow ran in, so the workflow names it. */
function repository({ GITHUB_SERVER_URL, GITHUB_REPOSITORY }: NodeJS.ProcessEnv): Record<string, unknown> {
  if (!GITHUB_SERVER_URL || !GITHUB_REPOSITORY) return {}
  const page = `${GITHUB_SERVER_URL}/${GITHUB_REPOSITORY}`
  return { repository: { type: 'git', url: `git+${page}.git` }, homepage: `${page}#readme`, bugs: `${page}/issues` }
}

/**
 * The packages that the built library imports, and whether they are optional in the root package.json. Throws for one
 * that is missing there.
 */
async function imported(out: string): Promise<{ required: readonly string[]; optional: readonly string[] }> {
  const names = new Set<string>()
  for (const path of await readdir(out, { recursive: true })) {
    if (!path.endsWith('.js') && !path.endsWith('.d.ts')) continue
    const text = await readFile(join(out, path), 'utf8')
    for (const [, staticImport, dynamicImport] of text.matchAll(
      /^(?:import|export|\}).* from '([^.'][^']*)'|\bimport\(["']([^."'][^"']*)["']\)/gm,
    )) {
      const specifier = staticImport ?? dynamicImport ?? ''
      if (!/^(?:node|bun):/.test(specifier)) names.add(packageOf(specifier))
    }
  }
  const all = [...names].sort()
  for (const name of all)
    if (!(name in manifest.dependencies) && !(name in manifest.optionalDependencies) && !SPARE.includes(name))
      throw new Error(
        `the built package imports ${name}, which is not in the dependencies of package.json; add it there`,
      )
  return {
    required: all.filter((name) => name in manifest.dependencies),
    optional: all.filter((name) => name in manifest.optionalDependencies),
  }
}

/** Used where an embedding program has installed it. */
const SPARE = ['better-sqlite3']

const packageOf = (specifier: string): string => specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/')
