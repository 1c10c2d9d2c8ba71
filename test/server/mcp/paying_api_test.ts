/** `farebox mcp` and a seller that lies about everything: what it can spend stays within the caps. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fieldsOf } from '../../../core/lib/json.ts'
import { usdc } from '../../../core/mod.ts'
import type { Offer } from '../../../server/cli/buy/gateway.ts'
import { openWallet } from '../../../server/cli/buy/wallet.ts'
import { payingApi } from '../../../server/mcp/paying_api.ts'
import { openJournal } from '../../../server/buyer/journal.ts'

const dir = mkdtempSync(join(tmpdir(), 'farebox-paying-'))
const OFFER: Offer = {
  scheme: 'exact',
  network: 'eip155:8453',
  amount: '20000',
  asset: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913',
  payTo: '0x23566F8B2e82ADfCF01846E54899d110e97ac053',
  maxTimeoutSeconds: 600,
  extra: { name: 'USD Coin', version: '2' },
}
const KEY = `0x${'11'.repeat(32)}`
const CAPS = { perCall: usdc(100_000n), perDay: usdc(50_000n) }
const NOON = Date.UTC(2026, 10, 20, 12)
const NOBODY = { mcpReq: { elicitInput: () => Promise.reject(new Error('no')) } } as never

type Seller = {
  demanded: number
  signed: bigint[]
  demand: () => unknown
  header: () => unknown
  refusal: () => Response
}
const seller: Seller = { demanded: 0, signed: [], demand: () => [], header: () => [], refusal: () => new Response() }

const server = Bun.serve({
  port: 0,
  fetch(request) {
    const header = request.headers.get('payment-signature')
    if (header !== null) {
      const { authorization } = fieldsOf(fieldsOf(JSON.parse(atob(header))).payload)
      seller.signed.push(BigInt(String(fieldsOf(authorization).value)))
      return seller.refusal()
    }
    seller.demanded++
    const resource = { url: request.url, description: '', mimeType: '' }
    const required = btoa(JSON.stringify({ x402Version: 2, resource, accepts: seller.header() }))
    return Response.json({ accepts: seller.demand() }, { status: 402, headers: { 'payment-required': required } })
  },
})
afterAll(() => {
  rmSync(dir, { recursive: true })
  return server.stop(true)
})

// The libraries that sign are loaded with the first payment.
beforeAll(() => Promise.all([import('@x402/fetch'), import('@x402/evm'), import('viem')]).then(() => {}), 60_000)

let files = 0
beforeEach(() => {
  Object.assign(seller, {
    demanded: 0,
    signed: [],
    demand: () => [OFFER],
    header: () => [OFFER],
    refusal: () => Response.json({ error: 'Try again' }, { status: 500, headers: { 'x-request-id': 'abcdefgh' } }),
  })
})

function open({ isUnspent = undefined as (() => Promise<boolean>) | undefined, now = Date.now } = {}) {
  const origin = `http://127.0.0.1:${server.port}`
  const send = payingApi({
    caps: CAPS,
    journal: openJournal(join(dir, `${files++}.db`), now),
    wallet: async (offer) => ({ ...(await openWallet({ origin, key: KEY }, offer)), isUnspent }),
  })
  const buy = () => send(new Request(`${origin}/api/v1/x`, { method: 'POST', body: '{}' }), NOBODY)
  return { buy }
}

async function signedIn(calls: number, buy: () => Promise<unknown>): Promise<bigint> {
  for (let call = 0; call < calls; call++) await buy().catch(() => {})
  return seller.signed.reduce((sum, value) => sum + value, 0n)
}

describe('a seller that is paid and says that it was not', () => {
  const settled = (success: boolean) => btoa(JSON.stringify({ success, transaction: '', network: OFFER.network }))
  const refusals: Readonly<Record<string, () => Response>> = {
    'an error of the gateway': () =>
      Response.json({ error: 'Try again' }, { status: 500, headers: { 'x-request-id': 'abcdefgh' } }),
    'a receipt of failure': () =>
      Response.json({}, { status: 402, headers: { 'x-request-id': 'abcdefgh', 'payment-response': settled(false) } }),
    'a demand again': () =>
      Response.json({ accepts: [OFFER] }, { status: 402, headers: { 'x-request-id': 'abcdefgh' } }),
    'a job': () => Response.json({ poll_url: '/api/v1/jobs/1' }, { status: 202 }),
  }
  for (const [name, refusal] of Object.entries(refusals))
    test(`with ${name} gets no signature beyond the cap of the day`, async () => {
      seller.refusal = refusal
      expect(await signedIn(6, open().buy)).toBe(40_000n)
    })
})

describe('a seller whose 402 is not what it seems', () => {
  test('is asked once: what was checked is what is signed', async () => {
    await signedIn(1, open().buy)
    expect([seller.demanded, seller.signed]).toEqual([1, [20_000n]])
  })

  test.each([
    ['the amount', { amount: '90000' }],
    ['the wallet', { payTo: '0x0000000000000000000000000000000000000001' }],
    ['the time', { maxTimeoutSeconds: 3_000 }],
  ] as const)('gets no signature where its header has another one for %s, and nothing counts', async (_, change) => {
    seller.header = () => [{ ...OFFER, ...change }]
    const { buy } = open()
    expect(await signedIn(6, buy)).toBe(0n)
    seller.header = () => [OFFER]
    expect(await signedIn(6, buy)).toBe(40_000n)
  })

  test.each([86_400, 3_601, undefined])('gets none that is valid for %p seconds', async (maxTimeoutSeconds) => {
    const offer = { ...OFFER, maxTimeoutSeconds }
    Object.assign(seller, { demand: () => [offer], header: () => [offer] })
    const { buy } = open()
    const reply = await buy()
    expect([reply.status, await signedIn(3, buy)]).toEqual([403, 0n])
  })
})

describe('what was signed and not spent', () => {
  const AFTER = (600 + 120) * 1000

  test('counts until the chain says that it was not, and cannot be any longer', async () => {
    let later = 0
    let isUnspent = false
    const { buy } = open({ isUnspent: async () => isUnspent, now: () => NOON + later })
    expect(await signedIn(5, buy)).toBe(40_000n)
    isUnspent = true
    expect(await signedIn(5, buy)).toBe(40_000n)
    later = AFTER
    isUnspent = false
    expect(await signedIn(5, buy)).toBe(40_000n)
    isUnspent = true
    expect(await signedIn(5, buy)).toBe(80_000n)
  })

  test('counts all day where no chain is asked, or it does not answer', async () => {
    for (const isUnspent of [undefined, () => Promise.reject(new Error('away'))]) {
      seller.signed = []
      let later = 0
      const { buy } = open({ isUnspent, now: () => NOON + later })
      await signedIn(5, buy)
      later = AFTER
      expect(await signedIn(5, buy)).toBe(40_000n)
    }
  })
})
