/** `farebox key` against a started devnet: a key from its deposit to its refund, and one that is lost. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { KEY_PATTERN } from '../../../core/x402/api_key.ts'
import { parseConfig } from '../../../server/config/mod.ts'
import { type Running, start } from '../../../server/main.ts'
import { type Payer, payerAt } from '../clients/payer.ts'
import { runCommand } from './command_kit.ts'

const scratch = mkdtempSync(join(tmpdir(), 'farebox-key-'))
const log = { info: () => {}, warn: () => {}, alert: console.error, access: () => {}, flush: () => {} }
let running: Running
let payer: Payer

beforeAll(async () => {
  const read = parseConfig('', { PORT: '0', DATABASE_URL: 'memory:', OBJECT_STORE: 'memory:' })
  if (!read.ok) throw new Error(read.mistakes.join('\n'))
  running = await start(read.config, log)
  payer = await payerAt(running.url)
}, 60_000)

afterAll(async () => {
  await running.stop()
  rmSync(scratch, { recursive: true, force: true })
})

const key = (args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  runCommand(['key', ...args], { env: { HOME: scratch, FAREBOX_URL: running.url, ...env } })

async function newKey(...args: readonly string[]): Promise<string> {
  const made = await key(['new', ...args])
  expect({ code: made.code, err: made.code === 0 ? '' : made.err }).toEqual({ code: 0, err: '' })
  return KEY_PATTERN.exec(made.out)?.[0] ?? ''
}

const chat = (text: string, path = '/api/v1/chat/completions') =>
  fetch(running.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${text}` },
    body: JSON.stringify({ model: 'farebox/echo', max_tokens: 50, messages: [{ role: 'user', content: 'Hello' }] }),
  })

const micro = (text: string | null | undefined): bigint => BigInt(Math.round(Number(text) * 1e6))

test('new deposits and shows the key once; it buys, is topped up, and what is left comes back to the unit', async () => {
  const before = await payer.balance()
  const made = await key(['new', '--tool', 'claude'])
  expect([made.code, made.out]).toEqual([0, expect.stringMatching(/^export FAREBOX_KEY=sk-fbx-t1\w{49}\n$/)])
  expect(made.err).toContain(`export ANTHROPIC_BASE_URL='${running.url}/api'`)
  expect(made.err).toContain('export ANTHROPIC_AUTH_TOKEN="$FAREBOX_KEY"')
  expect(made.err).toContain("export ANTHROPIC_MODEL='farebox/echo'")
  const text = KEY_PATTERN.exec(made.out)?.[0] ?? ''
  expect(made.err).not.toContain(text)
  expect(before - (await payer.balance())).toBe(2_000_000n)

  const answers = await Promise.all([chat(text), chat(text), chat(text)])
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
  const charged = answers.reduce((sum, { headers }) => sum + micro(headers.get('x-payment-charged')), 0n)
  const balance = await key(['show'], { FAREBOX_KEY: text })
  expect([balance.code, balance.err]).toEqual([0, ''])
  expect(balance.out).toContain(`wallet    ${payer.devnet.buyer.address}\ndeposited 2 USDC\n`)
  expect(micro(/^charged   (\S+) USDC$/m.exec(balance.out)?.[1])).toBe(charged)

  const more = await key(['topup', '--deposit', '3'], { FAREBOX_KEY: text })
  expect([more.code, more.out]).toEqual([0, expect.stringContaining('deposited 5 USDC')])
  const closed = await key(['close'], { FAREBOX_KEY: text })
  expect([closed.code, closed.err]).toEqual([0, ''])
  expect(closed.out).toMatch(/^refunded  4\.99\d+ USDC to 0x\w{40} on eip155:84532, transaction 0x[0-9a-f]{64}\n$/)
  expect(before - (await payer.balance())).toBe(charged)
  expect((await chat(text)).status).toBe(402)
}, 60_000)

test('the key is in no file; a list names the keys by their addresses', async () => {
  const text = await newKey()
  const directory = join(scratch, '.farebox/keys')
  for (const name of readdirSync(directory)) {
    expect(statSync(join(directory, name)).mode & 0o777).toBe(0o600)
    expect(readFileSync(join(directory, name), 'utf8')).not.toContain('sk-fbx-')
  }
  const listed = await key(['show'])
  expect(listed.out).not.toContain(text.slice(8, 20))
  expect(listed.out.match(/^key {7}0x\w{40} for http:\/\/\S+ on eip155:84532, made \d{4}-\d\d-\d\d$/gm)).toHaveLength(2)
}, 60_000)

test('the wallet gets back what a lost key has left, and nobody else does', async () => {
  const before = await payer.balance()
  const text = await newKey('--deposit', '4')
  const [address = ''] = /0x\w{40}(?= for .*\n$)/.exec((await key(['show'])).out) ?? []
  const stranger = { FAREBOX_BUYER_KEY: `0x${'7'.repeat(64)}` }
  expect(await key(['close', '--address', address], stranger)).toMatchObject({
    code: 1,
    err: 'Nothing was sent back. 404: This wallet has no key of this address here.\n',
  })
  expect((await key(['close'])).err).toContain('Name one with --address')
  const closed = await key(['close', '--address', address])
  expect([closed.code, closed.out]).toEqual([0, expect.stringContaining('refunded  4.000000 USDC')])
  expect(await payer.balance()).toBe(before)
  expect((await chat(text)).status).toBe(402)
}, 60_000)

test('mistakes are named, and move nothing', async () => {
  const before = await payer.balance()
  const wrong: readonly (readonly [readonly string[], Readonly<Record<string, string>>, string])[] = [
    [['new', '--deposit', '1'], {}, '--deposit is 1 USDC; this gateway takes 2 USDC or more'],
    [['new', '--deposit', 'five'], {}, '--deposit must be an amount in USDC such as 0.10, got "five"'],
    [['new', '--tool', 'emacs'], {}, '--tool takes one of claude, codex'],
    [['new', '--deposit', '999999'], {}, 'and the deposit is 999999 USDC. Send USDC to it. Nothing was moved.'],
    [['new', '--gateway', 'solana'], {}, 'takes no API keys'],
    [['new', '--url', 'http://ai.example.com'], {}, '--url must be an https URL'],
    [['topup'], {}, 'Set FAREBOX_KEY to the key.'],
    [['topup'], { FAREBOX_KEY: 'sk-fbx-t1short' }, 'FAREBOX_KEY is no key that can deposit'],
    [['close'], { FAREBOX_KEY: `sk-fbx-t1${'0'.repeat(49)}` }, '401: The API key is mistyped'],
    [['show', '--deposit', '1'], {}, '--deposit does not go with farebox key show'],
    [['burn'], {}, 'key takes new, show, topup, close; not burn'],
  ]
  for (const [args, env, message] of wrong) {
    const { code, out, err } = await key(args, env)
    expect([args, code === 0, out, err]).toEqual([args, false, '', expect.stringContaining(message)])
  }
  expect(await payer.balance()).toBe(before)
}, 60_000)
