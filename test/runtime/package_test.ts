/** The package as a stranger gets it: built, packed, installed into an empty folder, and used under Node and Bun. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import manifest from '../../package.json' with { type: 'json' }
import { build } from '../../server/build.ts'

const ROOT = join(import.meta.dirname, '../..')
const TSC = join(ROOT, 'node_modules/typescript/bin/tsc')

const tsconfig = {
  compilerOptions: { target: 'ES2023', module: 'NodeNext', strict: true, exactOptionalPropertyTypes: true, skipLibCheck: false, types: ['node'] },
  files: ['visitor.ts'],
}

let dir = ''
let packed: readonly string[] = []

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'farebox-package-'))
  await build(join(dir, 'dist'))
  await install(await pack())
  await copyFile(join(import.meta.dirname, 'visitor.ts'), join(dir, 'visitor.ts'))
  await writeFile(join(dir, 'tsconfig.json'), JSON.stringify(tsconfig))
  await writeFile(join(dir, 'package.json'), JSON.stringify({ type: 'module' }))
}, 30_000)

afterAll(() => rm(dir, { recursive: true, force: true }))

/** `npm pack`, without a network. Resolves with the path of the tarball. */
async function pack(): Promise<string> {
  const report = await run(['npm', 'pack', '--offline', '--ignore-scripts', '--json', '--pack-destination', dir], join(dir, 'dist'))
  const [{ filename, files }] = JSON.parse(report) as [{ filename: string; files: { path: string }[] }]
  packed = files.map(({ path }) => path).sort()
  return join(dir, filename)
}

/** What `npm install` would do with the tarball: unpack it, and put exactly the dependencies that it names beside it. */
async function install(tarball: string): Promise<void> {
  const home = join(dir, 'node_modules/farebox')
  await mkdir(home, { recursive: true })
  await run(['tar', '-xzf', tarball, '-C', home, '--strip-components=1'])
  const { dependencies } = JSON.parse(await readFile(join(home, 'package.json'), 'utf8')) as { dependencies: Record<string, string> }
  for (const name of [...Object.keys(dependencies), '@types/node']) {
    const place = join(dir, 'node_modules', name)
    await mkdir(dirname(place), { recursive: true })
    await symlink(join(ROOT, 'node_modules', name), place, 'dir')
  }
}

/** Standard output of a command that ends well; throws with all that it said when it does not. */
async function run(command: readonly string[], cwd = dir): Promise<string> {
  const child = Bun.spawn([...command], { cwd, stdout: 'pipe', stderr: 'pipe' })
  const [said, complained, code] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text(), child.exited])
  if (code !== 0) throw new Error(`${command.join(' ')} ended with ${code}:\n${said}${complained}`)
  return said
}

test('the package holds core, the portable adapters and their types, and nothing that needs Bun', () => {
  expect(packed).toContain('core/mod.d.ts')
  expect(packed).toContain('adapters/chains/evm.js')
  expect(packed).toContain('LICENSE')
  expect(packed.filter((path) => /sqlite|sketch|schema|^server|^test/.test(path))).toEqual([])
})

test('the package asks for three dependencies, at the versions that were tested', async () => {
  const described = JSON.parse(await readFile(join(dir, 'dist/package.json'), 'utf8')) as Record<string, unknown>
  const { '@noble/hashes': hashes, '@sinclair/typebox': typebox, viem } = manifest.dependencies
  expect(described.dependencies).toEqual({ '@noble/hashes': hashes, '@sinclair/typebox': typebox, viem })
  expect(described).toMatchObject({ name: 'farebox', version: manifest.version, license: 'Apache-2.0' })
  expect(described).not.toHaveProperty('devDependencies')
  expect(described).not.toHaveProperty('private')
})

test('a program type-checks against the packed types, and runs under Node and Bun: challenge, identify, call', async () => {
  await run([process.execPath, TSC, '-p', dir])
  const seen = { challenge: 402, paid: 200, payment: 'settled' }
  const [node, bun] = await Promise.all([run(['node', 'visitor.js']), run([process.execPath, '--no-install', 'visitor.js'])])
  expect(JSON.parse(node)).toEqual({ runtime: 'node', ...seen })
  expect(JSON.parse(bun)).toEqual({ runtime: 'bun', ...seen })
}, 30_000)
