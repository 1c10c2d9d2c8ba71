/** The archive of a release: what is in it, that it sells by itself, and that it is the same when it is built again. */
import { afterAll, expect, test } from 'bun:test'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type PlatformName } from '../../server/release/binary.ts'
import { buildRelease, platformsOf } from '../../server/release/release.ts'

const here = `${process.platform}-${process.arch}` as PlatformName
const dir = await mkdtemp(join(tmpdir(), 'farebox-release-'))
afterAll(() => rm(dir, { recursive: true, force: true }))

test('two builds are equal byte for byte, and the checksums and the bill of materials say what is in them', async () => {
  const [one, other] = [join(dir, 'one'), join(dir, 'other')]
  await buildRelease(one, [here])
  await buildRelease(other, [here])
  const sums = await readFile(join(one, 'SHA256SUMS'), 'utf8')
  expect(sums).toMatch(new RegExp(`^[0-9a-f]{64}  farebox-.*-${here}\\.tar\\.gz\\n$`))
  expect(await readFile(join(other, 'SHA256SUMS'), 'utf8')).toBe(sums)
  const [bill = ''] = (await readdir(one)).filter((name) => name.endsWith('.cdx.json'))
  const { bomFormat, components } = JSON.parse(await readFile(join(one, bill), 'utf8')) as {
    bomFormat: string
    components: readonly { name: string; hashes: readonly unknown[] }[]
  }
  expect(bomFormat).toBe('CycloneDX')
  expect(components.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['viem', 'elysia', 'preact', 'uplot', `@oven/bun-${here}`]),
  )
  expect(components.filter(({ hashes }) => hashes.length === 0)).toEqual([])
}, 600_000)

test('the archive holds the executable, licences, the bill of materials and the chain of the devnet', async () => {
  const one = join(dir, 'one')
  const [archive = ''] = (await readdir(one)).filter((name) => name.endsWith('.tar.gz'))
  const tar = Bun.spawn(['tar', '-tzf', join(one, archive)], { stdout: 'pipe' })
  const files = (await tar.stdout.text()).split('\n').map((path) => path.replace(/^[^/]+\//, ''))
  expect(files).toEqual(expect.arrayContaining(['farebox', 'LICENSE', 'THIRD_PARTY_LICENSES.txt', 'sbom.cdx.json']))
  if (here === 'linux-x64') expect(files).toContain('node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil')
  expect(Bun.file(join(one, archive)).size).toBeLessThan(100e6)
})

test('a platform that is none is named', () => {
  expect(() => platformsOf(['solaris'])).toThrow('there is no platform solaris; there are linux-x64, linux-arm64')
})
