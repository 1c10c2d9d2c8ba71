/** `farebox keys recover`: the keys of buyers work again after the loss of the database. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { KEY_PATTERN } from '../../../core/x402/api_key.ts'
import { readConfig } from '../../../server/config/mod.ts'
import { type Devnet, startDevnet } from '../../../server/devnet/mod.ts'
import { start } from '../../../server/main.ts'
import { runCommand } from './command_kit.ts'

const dir = mkdtempSync(join(tmpdir(), 'farebox-recover-'))
const path = join(dir, 'farebox.toml')
const log = { info: () => {}, warn: () => {}, alert: () => {}, access: () => {}, flush: () => {} }
let devnet: Devnet
let vendor: Bun.Server<undefined>

beforeAll(async () => {
  devnet = await startDevnet()
  vendor = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => Response.json({}) })
  const row = {
    name: 'base',
    network: devnet.network,
    pay_to: devnet.payTo,
    asset: devnet.asset,
    asset_name: devnet.domain.name,
    asset_version: devnet.domain.version,
    rpc_url: devnet.rpcUrl,
    relayer_key_env: ['RELAYER_KEY'],
    channel_key_env: 'CHANNEL_KEY',
    schemes: ['exact', 'batch-settlement'],
    keys: true,
  }
  const lines = Object.entries(row).map(([name, value]) => `${name} = ${JSON.stringify(value)}`)
  const storage = `port = 0\ndatabase_url = "sqlite:${dir}/farebox.db"\nobject_store = "file:${dir}/media"\n`
  writeFileSync(path, `${storage}[[gateways]]\n${lines.join('\n')}\n`)
}, 60_000)

afterAll(async () => {
  await devnet.stop()
  await vendor.stop(true)
  rmSync(dir, { recursive: true })
})

const env = () => ({
  HOME: dir,
  FAREBOX_CONFIG: path,
  RELAYER_KEY: devnet.relayerKey,
  CHANNEL_KEY: `0x${'5'.repeat(64)}`,
  OPENAI_API_KEY: 'good',
  OPENAI_BASE_URL: `${vendor.url}v1`,
})

async function gateway() {
  const read = readConfig(env())
  if (!read.ok) throw new Error(read.mistakes.join('\n'))
  return await start(read.config, log)
}

const left = async (url: string, key: string) => {
  const response = await fetch(`${url}/v1/key`, { headers: { authorization: `Bearer ${key}` } })
  return { status: response.status, body: (await response.json()) as any }
}

test('keys recover writes the keys of a lost database from the logs of the chain', async () => {
  const first = await gateway()
  const buyer = { ...env(), FAREBOX_URL: first.url, FAREBOX_BUYER_KEY: devnet.buyer.privateKey }
  const made = await runCommand(['key', 'new', '--test', '--deposit', '3', '--rpc', devnet.rpcUrl], { env: buyer })
  expect([made.code, made.err.includes('deposited 3 USDC')]).toEqual([0, true])
  const key = KEY_PATTERN.exec(made.out)?.[0] ?? ''
  expect(await left(first.url, key)).toMatchObject({ status: 200, body: { data: { limit_remaining: 3 } } })
  const running = await runCommand(['keys', 'recover', '--from-block', '0'], { env: env() })
  expect([running.code, running.err]).toEqual([1, expect.stringContaining('Stop the gateway first')])
  await first.stop()
  for (const end of ['', '-wal', '-shm'])
    try {
      renameSync(join(dir, `farebox.db${end}`), join(dir, `lost.db${end}`))
    } catch {
      // Closed for good, a database has no such file.
    }
  const second = await gateway()
  expect((await left(second.url, key)).status).toBe(401)
  await second.stop()
  const recovered = await runCommand(['keys', 'recover', '--from-block', '0'], { env: env() })
  expect([recovered.code, recovered.out, recovered.err]).toEqual([
    0,
    expect.stringMatching(/^eip155:84532 {2}1 channels of keys written, up to block \d+\n$/),
    '',
  ])
  const again = await runCommand(['keys', 'recover', '--from-block', '0'], { env: env() })
  expect(again.out).toContain('  0 channels of keys written')
  const third = await gateway()
  expect(await left(third.url, key)).toMatchObject({ status: 200, body: { data: { limit_remaining: 3 } } })
  await third.stop()
  const wrong = await runCommand(['keys', 'recover'], { env: env() })
  expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining('--from-block N')])
}, 90_000)
