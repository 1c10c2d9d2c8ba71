import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sqliteStorage } from '../../../adapters/storage/sqlite/mod.ts'
import { parseConfig } from '../../../server/config/mod.ts'
import { wire } from '../../../server/wiring/mod.ts'
import { kit, readyJob, testLog } from '../../kit.ts'

/** Batches that nobody answers for: its gateway waits, closed. */
const nano = (more = '') =>
  `[[gateways]]\nname = "nano"\npay_to = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"\nport = 0\nbatched = { url = "http://127.0.0.1:1" }\n${more}`
const RETIRED = '[[gateways]]\nname = "old"\nretired = true\n'

async function wired(toml: string, database = 'memory:') {
  const read = parseConfig(`object_store = "memory:"\ndatabase_url = "${database}"\n${toml}`, {})
  if (!read.ok) throw new Error(read.mistakes.join('\n'))
  const log = { ...testLog(), access() {}, flush() {} }
  return { log, ...(await wire(read.config, log)) }
}

test('a gateway sells models of any kind by name, and a name that is none stops the start', async () => {
  const { gateways, close } = await wired(nano('catalog = ["elevenlabs/sound-effects", "vendor-c/video-1"]\n'))
  expect(gateways.map(({ gateway }) => gateway.name)).toEqual(['nano'])
  await close()
  await expect(wired(nano('catalog = ["elevenlabs/thunder"]\n'))).rejects.toThrow(
    'Gateway nano: catalog names elevenlabs/thunder, which is not in the catalog',
  )
})

test('money that is in doubt on a gateway that is retired is told to a person', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'farebox-'))
  const path = join(dir, 'ledger.db')
  const storage = sqliteStorage(path)
  const before = kit({ name: 'old', inlineMs: 0, ports: { storage } })
  const doubtful = await readyJob(before)
  before.chain.simulate('dropped')
  await doubtful.alice.poll(doubtful.pollUrl, doubtful.payment)
  await storage.close()
  const { log, storage: ledger, close } = await wired(RETIRED + nano(), `sqlite:${path}`)
  expect(await ledger.getCall(doubtful.id)).toMatchObject({ gateway: 'old', paymentStatus: 'settling' })
  expect(log.lines.find(({ level }) => level === 'alert')?.fields).toEqual({ gateways: ['old'], calls: [doubtful.id] })
  await close()
  rmSync(dir, { recursive: true })
})
