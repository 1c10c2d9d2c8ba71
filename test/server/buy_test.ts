/** The buyer's command against a started gateway: a process of its own, the official client inside. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseConfig } from '../../server/config.ts'
import { type Running, start } from '../../server/main.ts'
import { type Payer, payerAt, pngSize } from './payer.ts'

const BUY = join(import.meta.dir, '../../server/buy.ts')
const scratch = mkdtempSync(join(tmpdir(), 'farebox-buy-'))
const log = { info: () => {}, warn: () => {}, alert: (message: string, fields: unknown) => console.error(message, fields), access: () => {}, flush: () => {} }
let running: Running
let payer: Payer

beforeAll(async () => {
  const read = parseConfig('', { PORT: '0', DATABASE_URL: 'memory:', OBJECT_STORE: 'memory:' })
  if (!read.ok) throw new Error(read.mistakes.join('\n'))
  running = await start(read.config, log)
  payer = await payerAt(running.url)
})

afterAll(async () => {
  await running.stop()
  rmSync(scratch, { recursive: true, force: true })
})

async function buy(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<{ code: number; out: string; err: string }> {
  const child = Bun.spawn([process.execPath, BUY, ...args], { cwd: scratch, env: { PATH: process.env.PATH ?? '', ...env }, stdout: 'pipe', stderr: 'pipe' })
  const [code, out, err] = await Promise.all([child.exited, child.stdout.text(), child.stderr.text()])
  return { code, out, err }
}

const usd = (micro: bigint): string => String(Number(micro) / 1e6)

test('buy images prints the quote, the transaction and both balances, and saves the picture', async () => {
  const before = await payer.balance()
  const { code, out, err } = await buy(['images', 'a red fox in the snow', '--url', running.url, '--out', 'fox.png'])
  expect({ code, err }).toEqual({ code: 0, err: '' })
  const after = await payer.balance()
  expect(before - after).toBe(22_000n)
  const transaction = /transaction (0x[0-9a-f]{64})/.exec(out)?.[1] ?? ''
  expect(out.split('\n')).toEqual([
    `quote     0.022000 USDC on eip155:84532, to ${payer.payTo}`,
    `wallet    ${payer.account.address}, ${usd(before)} USDC`,
    `paid      settled on base-sepolia, transaction ${transaction}`,
    `balance   ${usd(before)} -> ${usd(after)} USDC`,
    expect.stringMatching(/^hosted    http:.*\/api\/media\/images\/.*\.png$/),
    'image     fox.png',
    '',
  ])
  expect(await payer.transfersIn(transaction)).toMatchObject([{ value: 22_000n }])
  expect(pngSize(readFileSync(join(scratch, 'fox.png')))).toBe('1024x1024')
})

test('buy images takes model, size and count, finds the gateway in FAREBOX_URL, and numbers the pictures', async () => {
  const { code, out } = await buy(['images', 'two boats', '--model', 'vendor-d/image-cv4', '--size', '768x1344', '--n', '2', '--out', 'boat.png'], { FAREBOX_URL: `${running.url}/` })
  expect(code).toBe(0)
  expect(out).toContain('quote     0.032500 USDC')
  expect(readdirSync(scratch).filter((name) => name.startsWith('boat')).toSorted()).toEqual(['boat-1.png', 'boat.png'])
  for (const name of ['boat.png', 'boat-1.png']) expect(pngSize(readFileSync(join(scratch, name)))).toBe('768x1344')
})

test.each([
  ['no product', [], 'usage: bun run buy -- images "<prompt>"'],
  ['a count that is none', ['images', 'a fox', '--n', 'two'], '--n takes a whole number, not "two"'],
  ['a folder that is not there', ['images', 'a fox', '--out', 'nowhere/fox.png'], '--out names a folder that cannot be written to'],
  ['an unknown option', ['images', 'a fox', '--colour', 'red'], '--colour'],
  ['a model that is not sold', ['images', 'a fox', '--model', 'vendor-z/none'], '400 Invalid model: Unknown model: vendor-z/none.'],
])('buy with %s says so, exits with 1 and pays nothing', async (_, args, message) => {
  const before = await payer.balance()
  const { code, out, err } = await buy(args, { FAREBOX_URL: running.url })
  expect({ code, out }).toEqual({ code: 1, out: '' })
  expect(err).toContain(message)
  expect(err).not.toContain('    at ')
  expect(await payer.balance()).toBe(before)
})

test('buy without a gateway says how to start one', async () => {
  const { code, err } = await buy(['images', 'a fox', '--url', 'http://127.0.0.1:1'])
  expect({ code, err }).toEqual({ code: 1, err: 'There is no gateway at http://127.0.0.1:1. Start one with: npx -y bun@1.4.4 start\n' })
})
