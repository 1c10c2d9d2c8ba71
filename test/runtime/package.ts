/** The package as a stranger gets it: built, packed, installed into an empty folder. */
import { existsSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { buildPackage } from '../../server/release/package.ts'

const bunPackage = `@oven/bun-${process.platform}-${process.arch === 'arm64' ? 'aarch64' : process.arch}`
const ROOT = join(import.meta.dirname, '../..')

export type Installed = {
  /** A folder with the package in its node_modules and `type: module`. */
  readonly dir: string
  /** Every path in the tarball, sorted. */
  readonly files: readonly string[]
  /** The tarball that `npm publish` would send. */
  readonly tarball: string
  /** Runs a command in the folder; throws with all that it said when it does not end well. */
  run(command: readonly string[]): Promise<string>
  remove(): Promise<void>
}

/**
 * Builds, packs and installs without a network: what `npm install` would do with the tarball, beside exactly the
 * dependencies that it names.
 */
export async function installPackage(): Promise<Installed> {
  const dir = await mkdtemp(join(tmpdir(), 'farebox-package-'))
  const dist = join(dir, 'dist')
  await buildPackage(dist)
  const pack = ['npm', 'pack', '--offline', '--ignore-scripts', '--json', '--pack-destination', dir]
  const [{ filename, files }] = JSON.parse(await run(pack, dist)) as [{ filename: string; files: { path: string }[] }]
  const home = join(dir, 'node_modules/farebox')
  await mkdir(home, { recursive: true })
  await run(['tar', '-xzf', join(dir, filename), '-C', home, '--strip-components=1'], dir)
  const { dependencies, optionalDependencies, bin } = JSON.parse(
    await readFile(join(home, 'package.json'), 'utf8'),
  ) as Record<'dependencies' | 'optionalDependencies' | 'bin', Record<string, string>>
  const programs = join(dir, 'node_modules/.bin')
  await mkdir(programs)
  for (const [name, path] of Object.entries(bin)) {
    await chmod(join(home, path), 0o755)
    await symlink(join(home, path), join(programs, name))
  }
  for (const name of [...Object.keys({ ...dependencies, ...optionalDependencies }), '@types/node', '@types/pg']) {
    const path = join(dir, 'node_modules', name)
    const from = join(ROOT, 'node_modules', name)
    if (!existsSync(from)) continue
    await mkdir(dirname(path), { recursive: true })
    await symlink(from, path, 'dir')
  }
  // The Bun that runs the tests, as the package of this platform.
  const bun = Object.keys(optionalDependencies).find((name) => name === bunPackage)
  if (bun) {
    await mkdir(join(dir, 'node_modules', bun, 'bin'), { recursive: true })
    await symlink(process.execPath, join(dir, 'node_modules', bun, 'bin/bun'))
  }
  await writeFile(join(dir, 'package.json'), JSON.stringify({ type: 'module' }))
  const paths = files.map(({ path }) => path).sort()
  return {
    dir,
    files: paths,
    tarball: join(dir, filename),
    run: (command) => run(command, dir),
    remove: () => rm(dir, { recursive: true, force: true }),
  }
}

async function run(command: readonly string[], cwd: string): Promise<string> {
  const child = Bun.spawn([...command], { cwd, stdout: 'pipe', stderr: 'pipe' })
  const [output, complained, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  if (code !== 0) throw new Error(`${command.join(' ')} ended with ${code}:\n${output}${complained}`)
  return output
}
