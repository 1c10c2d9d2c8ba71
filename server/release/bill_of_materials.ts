/** A software bill of materials (CycloneDX 1.6), from the bundle and the lock files: versions, checksums, licences. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import manifest from '../../package.json' with { type: 'json' }
import { componentOf } from './components.ts'

const ROOT = join(import.meta.dirname, '../..')
const RUNTIMES = 'server/release/runtimes'

/** `bundled`: folders of packages in the executable. `beside`: names of programs under runtimes/ that go with it. */
export async function billOfMaterials(bundled: readonly string[], beside: readonly string[]): Promise<string> {
  const programs = beside.map((name) => `${RUNTIMES}/node_modules/${name}`)
  const checksums = new Map([...(await checksumsOf('bun.lock')), ...(await checksumsOf(`${RUNTIMES}/bun.lock`))])
  const all = await Promise.all([...bundled, ...programs].map(componentOf))
  const components = new Map(
    all.map(({ name, version, license }) => {
      const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`
      const checksum = checksums.get(`${name}@${version}`)
      const hashes = checksum ? [{ alg: 'SHA-512', content: Buffer.from(checksum, 'base64').toString('hex') }] : []
      const licenses = [/[ ()]/.test(license) ? { expression: license } : { license: { name: license } }]
      return [purl, { type: 'library', 'bom-ref': purl, name, version, purl, hashes, licenses }]
    }),
  )
  const { name, version, license } = manifest
  const root = { type: 'application', name, version, licenses: [{ license: { id: license } }] }
  const bill = {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: { component: root },
    components: [...components].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, component]) => component),
  }
  return `${JSON.stringify(bill, null, 2)}\n`
}

/** SHA-512 in base64 by `name@version`. */
async function checksumsOf(path: string): Promise<ReadonlyMap<string, string>> {
  const lock = await readFile(join(ROOT, path), 'utf8')
  return new Map(
    [...lock.matchAll(/\["((?:@[^/"]+\/)?[^@"]+@[^"]+)".*"sha512-([^"]+)"\]/g)].map(([, id = '', sum = '']) => [
      id,
      sum,
    ]),
  )
}
