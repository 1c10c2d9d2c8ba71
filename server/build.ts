/**
 * `bun run build`: core and the portable adapters as JavaScript with types, in dist/, a package of their own.
 * `bun run build -- --binary FILE`: the gateway as one executable file, for who brings a chain; the local one stays with its packages.
 */
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import manifest from '../package.json' with { type: 'json' }

const ROOT = join(import.meta.dirname, '..')
const TSC = join(ROOT, 'node_modules/typescript/bin/tsc')

/** Empties `out` and builds into it. Throws with the compiler's words when the sources do not compile. */
export async function build(out: string): Promise<void> {
  await rm(out, { recursive: true, force: true })
  await compile(out)
  for (const file of ['LICENSE', 'README.md', ...(await documents())]) {
    await mkdir(dirname(join(out, file)), { recursive: true })
    await copyFile(join(ROOT, file), join(out, file))
  }
  await writeFile(join(out, 'package.json'), `${JSON.stringify(await describe(out), null, 2)}\n`)
}

/** What the README links to. */
async function documents(): Promise<readonly string[]> {
  const guides = (await readdir(join(ROOT, 'server/docs'))).filter((file) => file.endsWith('.md'))
  return ['core/CONTRACT.md', 'core/DECISIONS.md', ...guides.map((file) => `server/docs/${file}`)]
}

/** The demo works on threads of its own: a binary finds their program by its path from the root. */
const PROGRAMS = ['adapters/providers/demo/worker.ts']

/** Compiles the server into one file. Throws with the compiler's words. */
export async function compileBinary(out: string): Promise<void> {
  const compiler = Bun.spawn(
    [process.execPath, 'build', '--compile', 'server/main.ts', ...PROGRAMS, '--outfile', resolve(out)],
    { cwd: ROOT, stdout: 'ignore', stderr: 'pipe' },
  )
  const said = await compiler.stderr.text()
  if ((await compiler.exited) !== 0) throw new Error(`the binary does not compile:\n${said}`)
}

/** `adapters/tsconfig.json` says what is portable: it starts at the two doors, without Bun's types. */
async function compile(out: string): Promise<void> {
  const tsc = Bun.spawn([process.execPath, TSC, '-p', join(ROOT, 'adapters'), '--noEmit', 'false', '--outDir', out], {
    stderr: 'inherit',
  })
  const said = await new Response(tsc.stdout).text()
  if ((await tsc.exited) !== 0) throw new Error(`the package does not compile:\n${said}`)
}

async function describe(out: string): Promise<Record<string, unknown>> {
  const { name, version, description, license, type, engines } = manifest
  const door = (path: string) => ({ types: `./${path}.d.ts`, default: `./${path}.js` })
  return {
    name,
    version,
    description,
    license,
    type,
    engines,
    exports: { '.': door('core/mod'), './adapters': door('adapters/mod') },
    dependencies: await needs(out),
  }
}

/** What the built files import, at the versions that the root package names; one that it does not name is a mistake. */
async function needs(out: string): Promise<Record<string, string>> {
  const versions: Readonly<Record<string, string>> = manifest.dependencies
  const needed = new Set<string>()
  for (const path of await readdir(out, { recursive: true })) {
    if (!path.endsWith('.js') && !path.endsWith('.d.ts')) continue
    const text = await readFile(join(out, path), 'utf8')
    for (const [, stated, loaded] of text.matchAll(
      /^(?:import|export|\}).* from '([^.'][^']*)'|\bimport\(["']([^."'][^"']*)["']\)/gm,
    )) {
      const specifier = stated ?? loaded ?? ''
      if (!specifier.startsWith('node:')) needed.add(packageOf(specifier))
    }
  }
  return Object.fromEntries([...needed].sort().map((name) => [name, versions[name] ?? missing(name)]))
}

const packageOf = (specifier: string): string => specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/')

function missing(name: string): never {
  throw new Error(`the built package imports ${name}, which is not among the dependencies in package.json`)
}

if (import.meta.main) {
  const started = performance.now()
  const [option, file] = process.argv.slice(2)
  if (option !== undefined && (option !== '--binary' || file === undefined))
    throw new Error('usage: bun run build [-- --binary FILE]')
  if (file === undefined) await build(join(ROOT, 'dist'))
  else await compileBinary(file)
  console.log(
    `built farebox ${manifest.version} into ${file ?? 'dist/'} in ${Math.round(performance.now() - started)} ms`,
  )
}
