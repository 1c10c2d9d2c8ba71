/**
 * The files of a release: for each platform an archive with the executable, its licences and a bill of materials, and
 * SHA256SUMS over all of them. Two builds from the same sources and lock files are equal, byte for byte.
 */
import { chmod, cp, mkdir, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import manifest from '../../package.json' with { type: 'json' }
import { compileBinary, INSTALL_RUNTIMES, PLATFORMS, type PlatformName } from './binary.ts'
import { billOfMaterials } from './bill_of_materials.ts'
import { licensesOf } from './components.ts'

const ROOT = join(import.meta.dirname, '../..')
const RUNTIMES = join(import.meta.dirname, 'runtimes')

/** The chain of the devnet, where npm has it for the platform. */
const CHAINS: Readonly<Partial<Record<PlatformName, string>>> = { 'linux-x64': '@foundry-rs/anvil-linux-amd64' }

/** The platforms of these names, or all. Throws a RangeError for a name that is none. */
export function platformsOf(names: readonly string[]): readonly PlatformName[] {
  const all = Object.keys(PLATFORMS) as PlatformName[]
  const wrong = names.find((name) => !all.includes(name as PlatformName))
  if (wrong !== undefined) throw new RangeError(`there is no platform ${wrong}; there are ${all.join(', ')}`)
  return names.length === 0 ? all : (names as PlatformName[])
}

/** Builds the archives into `out`, which is created. Fetches Bun for the platforms from npm where it is missing. */
export async function buildRelease(out: string, platforms: readonly PlatformName[]): Promise<void> {
  await mkdir(out, { recursive: true })
  await run(INSTALL_RUNTIMES)
  for (const platform of platforms) await buildArchive(out, platform)
  const archives = (await readdir(out)).filter((name) => name.endsWith('.tar.gz')).sort()
  const lines = await Promise.all(
    archives.map(
      async (name) =>
        `${new Bun.CryptoHasher('sha256').update(await readFile(join(out, name))).digest('hex')}  ${name}\n`,
    ),
  )
  await writeFile(join(out, 'SHA256SUMS'), lines.join(''))
}

async function buildArchive(out: string, platform: PlatformName): Promise<void> {
  const name = `farebox-${manifest.version}-${platform}`
  const folder = join(out, name)
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder)
  const program = join(folder, platform.startsWith('windows') ? 'farebox.exe' : 'farebox')
  const packages = await compileBinary(program, platform)
  await chmod(program, 0o755)
  await cp(join(ROOT, 'LICENSE'), join(folder, 'LICENSE'))
  await writeFile(join(folder, 'THIRD_PARTY_LICENSES.txt'), await licensesOf(packages))
  const chain = CHAINS[platform]
  if (chain && existsSync(join(RUNTIMES, 'node_modules', chain)))
    await cp(join(RUNTIMES, 'node_modules', chain), join(folder, 'node_modules', chain), { recursive: true })
  const beside = [`@oven/${PLATFORMS[platform].runtime}`, ...(chain ? [chain] : [])]
  const bill = await billOfMaterials(packages, beside)
  for (const path of [join(folder, 'sbom.cdx.json'), join(out, `${name}.cdx.json`)]) await writeFile(path, bill)
  await pack(out, name)
  await rm(folder, { recursive: true })
}

/** A tar whose bytes depend on the files alone: sorted, without times and owners. */
async function pack(out: string, name: string): Promise<void> {
  for (const path of await readdir(join(out, name), { recursive: true })) await utimes(join(out, name, path), 0, 0)
  const flags = [
    '--sort=name',
    '--mtime=@0',
    '--owner=0',
    '--group=0',
    '--numeric-owner',
    '--mode=go-w',
    '--format=ustar',
  ]
  const tar = Bun.spawn(['tar', ...flags, '-cf', '-', '-C', out, name], { stdout: 'pipe', stderr: 'inherit' })
  const bytes = await new Response(tar.stdout).arrayBuffer()
  if ((await tar.exited) !== 0) throw new Error(`packing ${name} failed`)
  await writeFile(join(out, `${name}.tar.gz`), gzipSync(bytes, { level: 9 }))
}

async function run(command: readonly string[]): Promise<void> {
  const child = Bun.spawn([...command], { stdout: 'ignore', stderr: 'inherit' })
  if ((await child.exited) !== 0) throw new Error(`${command.join(' ')} failed`)
}
