/** A thousand answers on one key, 64 at a time, on what `farebox start` starts: two transactions, and nothing lost. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { KEY_PATTERN } from '../../core/x402/api_key.ts'
import { CHANNEL_CONTRACT } from '../../server/buyer/key_deposit.ts'
import { parseConfig } from '../../server/config/mod.ts'
import { rpc } from '../../server/devnet/anvil.ts'
import { type Running, start } from '../../server/main.ts'
import { runCommand } from './cli/command_kit.ts'
import { type Devnet } from './clients/payer.ts'

const [CALLS, AT_ONCE] = [1_000, 64]
const ORDER = { model: 'farebox/echo', max_tokens: 100, messages: [{ role: 'user', content: 'Hello there, gateway' }] }
const scratch = mkdtempSync(join(tmpdir(), 'farebox-thousand-'))
const quiet = () => {}
let running: Running

beforeAll(async () => {
  const env = { PORT: '0', DATABASE_URL: `sqlite:${join(scratch, 'farebox.db')}` }
  const read = parseConfig('', env)
  if (!read.ok) throw new Error(read.mistakes.join('\n'))
  const log = { info: quiet, warn: quiet, alert: quiet, access: quiet, flush: quiet }
  running = await start({ ...read.config, devnetDir: join(scratch, 'devnet') }, log)
}, 60_000)

afterAll(() => rmSync(scratch, { recursive: true, force: true }))

test('a thousand calls of one key are charged one by one, and the chain sees a deposit and a refund', async () => {
  const command = async (args: readonly string[], more = {}) =>
    (await runCommand(['key', ...args], { env: { HOME: scratch, FAREBOX_URL: running.url, ...more } })).out
  const key = KEY_PATTERN.exec(await command(['new', '--deposit', '5']))?.[0] ?? ''
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  let [left, charged] = [CALLS, 0]
  const lane = async () => {
    while (left-- > 0) {
      const init = { method: 'POST', headers, body: JSON.stringify(ORDER) }
      const answer = await fetch(`${running.url}/api/v1/chat/completions`, init)
      expect([answer.status, (await answer.text()).includes('Hello there')]).toEqual([200, true])
      charged += Math.round(Number(answer.headers.get('x-payment-charged')) * 1e6)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, lane))
  const statement = (await (await fetch(`${running.url}/api/v1/keys/statement`, { headers })).json()) as any
  expect([statement.calls, statement.charged, statement.calls_charged]).toEqual([
    CALLS,
    (charged / 1e6).toFixed(6),
    statement.charged,
  ])
  const refunded = /^refunded {2}(\S+) USDC/m.exec(await command(['close'], { FAREBOX_KEY: key }))?.[1]
  expect(Math.round(Number(refunded) * 1e6)).toBe(5_000_000 - charged)
  const { rpc_url: url } = (await (await fetch(`${running.url}/devnet`)).json()) as Devnet
  const filter = { address: CHANNEL_CONTRACT, fromBlock: '0x0', toBlock: 'latest' }
  const logs = await rpc<readonly { readonly transactionHash: string }[]>(url, 'eth_getLogs', [filter])
  expect(new Set(logs.map(({ transactionHash }) => transactionHash)).size).toBe(2)
}, 300_000)
