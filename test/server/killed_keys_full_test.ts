/** A gateway killed (SIGKILL) at ten moments of calls by one API key: what it has charged, and where the key is. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { bytesToHex, toHex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { keyText, privateKeyOf } from '../../core/x402/mod.ts'
import { keyDeposit } from '../../server/buyer/key_deposit.ts'
import type { Offer } from '../../server/buyer/signed_payment.ts'
import { type Devnet, startDevnet } from '../../server/devnet/mod.ts'
import { wallets } from '../bench/buyers.ts'
import { decodeHeader } from '../kit.ts'
import { type GatewayProcess, gatewayProcesses } from './gateway_process.ts'
import { killedGateway } from './killed_gateway.ts'

const COMPLETIONS = '/api/v1/chat/completions'
const ORDER = { model: 'vendor-h/chat-4', messages: [{ role: 'user', content: 'Hello?' }], max_tokens: 200 }
const DEPOSIT = 5_000_000n
/** Calls that are under way together, every second one a stream. */
const CALLS = 12

const { dir: freshDir, start } = gatewayProcesses()
const SEED = new Uint8Array(32).fill(0x37)
const KEY = keyText(SEED, 'test')
let devnet: Devnet
let vendor: ReturnType<typeof countingVendor>

beforeAll(async () => {
  devnet = await startDevnet()
  vendor = countingVendor()
}, 60_000)

afterAll(async () => {
  await vendor?.stop()
  await devnet?.stop()
})

/** A chat service that tells when it has had so many orders. */
function countingVendor() {
  let [orders, awaited] = [0, { count: 0, resolve: () => {} }]
  const usage = { prompt_tokens: 20, completion_tokens: 40, total_tokens: 60 }
  const event = (data: object) => `data: ${JSON.stringify({ id: 'c', created: 1, model: 'm', ...data })}\n\n`
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      const { stream } = (await request.json()) as { stream?: boolean }
      if (++orders === awaited.count) awaited.resolve()
      const message = { role: 'assistant', content: 'Good day.' }
      if (!stream)
        return Response.json({
          id: 'c',
          object: 'chat.completion',
          created: 1,
          model: 'm',
          choices: [{ index: 0, message, finish_reason: 'stop' }],
          usage,
        })
      const text =
        event({ choices: [{ index: 0, delta: message, finish_reason: 'stop' }] }) +
        event({ choices: [], usage }) +
        'data: [DONE]\n\n'
      return new Response(text, { headers: { 'content-type': 'text/event-stream' } })
    },
  })
  return {
    origin: server.url.origin,
    /** Resolves with the order of this number from now on. */
    ordered(count: number): Promise<void> {
      const { promise, resolve } = Promise.withResolvers<void>()
      awaited = { count: orders + count, resolve }
      return promise
    },
    stop: () => server.stop(true),
  }
}

const gatewayIn = (at: string): GatewayProcess =>
  killedGateway(at, { start, devnet, vendor: vendor.origin, hasKeys: true })

const bearer = { 'content-type': 'application/json', authorization: `Bearer ${KEY}` }
const micro = (text: string | null | undefined): bigint => BigInt(Math.round(Number(text ?? 0) * 1e6))

async function fund(url: string): Promise<{ readonly payer: string }> {
  const [account] = await wallets(
    { port: 0, rpcUrl: devnet.rpcUrl, asset: devnet.asset, payTo: devnet.payTo, minterKey: devnet.relayerKey },
    1,
  )
  if (!account) throw new Error('no wallet')
  const challenge = await fetch(url + COMPLETIONS, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(ORDER),
  })
  const { accepts } = decodeHeader(challenge.headers.get('payment-required')) as { accepts: readonly Offer[] }
  const offer = accepts.find(({ scheme }) => scheme === 'batch-settlement')
  if (!offer) throw new Error('no channels are sold')
  const key = privateKeyToAccount(toHex(privateKeyOf(SEED)))
  const signing = { wallet: account, key, amount: DEPOSIT, now: Date.now(), nonce: toHex(1n, { size: 32 }) }
  const payment = Buffer.from(JSON.stringify(await keyDeposit(offer, signing))).toString('base64')
  const deposited = await fetch(`${url}/api/v1/keys/deposit`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ payment }),
  })
  expect([deposited.status, (await deposited.json()).object]).toEqual([200, 'key.deposit'])
  return { payer: account.address }
}

/** One call; its charge once the whole answer is there, undefined if the gateway was gone before. */
async function call(url: string, isStream: boolean, hasAnswer: () => void): Promise<bigint | undefined> {
  try {
    const response = await fetch(url + COMPLETIONS, {
      method: 'POST',
      headers: bearer,
      body: JSON.stringify({ ...ORDER, stream: isStream }),
    })
    const text = await response.text()
    const charged = isStream ? /x-payment-charged ([0-9.]+)/.exec(text)?.[1] : response.headers.get('x-payment-charged')
    if (response.status !== 200 || !charged) return undefined
    hasAnswer()
    return micro(charged)
  } catch {
    return undefined
  }
}

/** Starts calls, and kills the gateway at the n-th order of its vendor, or when n answers are whole. */
async function killedAt(process: GatewayProcess, { by, count }: { by: 'order' | 'answer'; count: number }) {
  const url = await process.url
  const moment = Promise.withResolvers<void>()
  if (by === 'order') void vendor.ordered(count).then(moment.resolve)
  let answers = 0
  const hasAnswer = () => void (++answers === count && by === 'answer' && moment.resolve())
  const calls = Array.from({ length: CALLS }, (_, i) => call(url, i % 2 === 1, hasAnswer))
  await moment.promise
  process.kill('SIGKILL')
  const charges = await Promise.all(calls)
  return { ...(await process.exited), charges: charges.filter((charge) => charge !== undefined) }
}

test('whenever it is killed, the charges of a key are those of its calls, no answer is lost, and the rest comes back', async () => {
  const dir = freshDir()
  let gateway = gatewayIn(dir)
  await fund(await gateway.url)
  const printed: string[] = []
  let answered = 0n
  let [whole, sent] = [0, 0]
  const moments = (['order', 'answer'] as const).flatMap((by) => [1, 3, 6, 9, 11].map((count) => ({ by, count })))
  expect(moments).toHaveLength(10)
  for (const moment of moments) {
    const { charges, out, err } = await killedAt(gateway, moment)
    printed.push(out, err)
    whole += charges.length
    sent += CALLS
    answered += charges.reduce((sum, charge) => sum + charge, 0n)
    gateway = gatewayIn(dir)
    const url = await gateway.url
    const statement = (await (await fetch(`${url}/api/v1/keys/statement`, { headers: bearer })).json()) as any
    // A charge is stored before its answer is whole; one whose answer was on its way may be charged too.
    expect([moment, statement.charged]).toEqual([moment, statement.calls_charged])
    expect(micro(statement.charged) >= answered).toBe(true)
    expect(statement.calls >= whole && statement.calls <= sent).toBe(true)
    const after = await call(url, false, () => {})
    expect(after).toBeGreaterThan(0n)
    await gateway.printed(COMPLETIONS)
    ;[whole, sent, answered] = [statement.calls + 1, statement.calls + 1, micro(statement.charged) + (after ?? 0n)]
  }
  const url = await gateway.url
  const closed = await fetch(`${url}/api/v1/keys/close`, { method: 'POST', headers: bearer })
  const refund = (await closed.json()) as { amount: string; reserved: string }
  expect([closed.status, refund.reserved]).toEqual([200, '0.000000'])
  expect(micro(refund.amount) + answered).toBe(DEPOSIT)
  gateway.kill('SIGABRT')
  const crash = await gateway.exited
  const secret = privateKeyOf(SEED)
  const secrets = [KEY, KEY.slice(9, 40), bytesToHex(SEED).slice(2), bytesToHex(secret).slice(2)]
  const files = readdirSync(dir, { recursive: true, encoding: 'utf8' }).map((name) => join(dir, name))
  const texts = files.filter((path) => statSync(path).isFile()).map((path) => readFileSync(path).toString('latin1'))
  const written = [...texts, ...printed, crash.out, crash.err].join('\n')
  expect([printed.join('').includes(COMPLETIONS), texts.length > 0]).toEqual([true, true])
  for (const each of secrets) expect(written.includes(each)).toBe(false)
}, 240_000)
