/** Attacks on API keys, and accidents: what a thief gets, and what is left after a loss. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { channelStates } from '../../../adapters/chains/evm/channels/records.ts'
import { lower } from '../../../adapters/chains/lib/hex.ts'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import type { Offer, Payment, Storage } from '../../../core/mod.ts'
import { print, usdc } from '../../../core/x402/money.ts'
import { NETWORK } from '../../adapters/chains/evm/channels/vouchers.ts'
import { strangerHears } from '../../conformance/public_payment.ts'
import { wholeAnswer } from '../../fakes/chat.ts'
import { CLIP, scriptedVideo } from '../../fakes/videos.ts'
import { decodeHeader } from '../../kit.ts'
import { unlessDead } from '../fault_injection.ts'
import { ending } from './dying_storage.ts'
import { CHARGE, closeByWallet, QUOTE, selling } from './keys_kit.ts'
import { COMPLETIONS, SKY } from './stream_kit.ts'

const VIDEOS = '/api/v1/videos/generations'

type Subject = Awaited<ReturnType<typeof selling>>

/** Amount paid, by the ledger. */
const chargesOf = async ({ calls }: Subject): Promise<bigint> =>
  (await calls()).reduce((sum, { receipt }) => sum + BigInt(receipt?.amount ?? 0), 0n)

const closeKey = (subject: Subject) => subject.ask({}, { path: '/api/v1/keys/close' })

/** The payload that a claim of the channel has published. */
async function publishedOf(subject: Subject, offer: Offer): Promise<object> {
  const { buyer, storage } = subject
  const seller = lower(String((offer.extra as { receiverAuthorizer: string }).receiverAuthorizer))
  const state = await channelStates(storage, { network: NETWORK, seller }).get(buyer.channelId, subject.clock.now())
  if (!state) throw new Error('the channel has no record')
  const { channelId, ceiling, signature, config } = state
  return { channelConfig: config, voucher: { channelId, maxClaimableAmount: String(ceiling), signature } }
}

test('what a claim publishes of a key buys, reads and refunds nothing (contract 23.8)', async () => {
  const subject = await selling()
  expect((await subject.ask(SKY)).status).toBe(200)
  const offer = decodeHeader((await subject.post(SKY)).headers.get('payment-required')).accepts[0] as Offer
  const before = await subject.channel()
  const [call] = await subject.calls()
  const published = await publishedOf(subject, offer)
  const parts = [
    { ...published, type: 'voucher' },
    { ...published, type: 'refund' },
    { ...published, type: 'key', call: 'key/mine', isLate: true, until: subject.clock.now() + 600_000 },
  ]
  const offers = [offer, { ...offer, amount: String(CHARGE) }, { ...offer, amount: '0' }]
  const payments: readonly Payment[] = parts.flatMap((payload) =>
    offers.map((accepted) => ({ x402Version: 2, accepted, payload })),
  )
  const orders = [{ method: 'POST', path: COMPLETIONS, body: SKY }]
  const polls = [`/api/v1/calls/${call?.id}`]
  const statuses: number[] = []
  for (const payment of payments)
    for (const { status } of await strangerHears(subject.gateway, { payment, orders, polls })) statuses.push(status)
  expect(statuses.filter((status) => ![400, 402, 404].includes(status))).toEqual([])
  expect(statuses.length).toBeGreaterThan(payments.length)
  expect(subject.refunded).toEqual([])
  expect(await subject.channel()).toEqual(before as NonNullable<typeof before>)
})

/** The writes of a call of a key: alone it is one, with all that it charges. */
const WRITES = { alone: 1, 'with replicas': 5 }

test('a process that ends at any write of a call charges it once or not at all, and reserves nothing for long (contract 23.6)', async () => {
  for (const [name, writes] of Object.entries(WRITES))
    for (const isDone of [false, true])
      for (let at = 1; ; at++) {
        const memory = { ...memoryStorage(), ...(writes > 1 && { isShared: true as const }) }
        if (await endsAt(memory, { at, isDone, where: `${name}, ${isDone ? 'after' : 'before'} write ${at}` })) continue
        expect([name, at - 1]).toEqual([name, writes])
        break
      }
})

/** False for a call that has fewer writes. */
async function endsAt(
  memory: Storage,
  { at, isDone, where }: { readonly at: number; readonly isDone: boolean; readonly where: string },
): Promise<boolean> {
  const balance = QUOTE * 2n
  const dying = ending({ ...memory }, { at, isDone })
  const victim = await selling(undefined, { storage: dying.storage, balance })
  dying.arm()
  const answer = await unlessDead(victim.clock, victim.ask(SKY))
  if (!dying.isDead()) {
    expect(answer?.status).toBe(200)
    return false
  }
  const next = await selling(undefined, { storage: { ...memory }, balance })
  await next.gateway.takeOver()
  for (const ms of [60_000, 3_600_000, 86_400_000]) {
    await next.clock.advance(ms)
    await next.gateway.maintain()
  }
  const [call] = await next.calls()
  const polled = call && (await (await next.ask(undefined, { path: `/api/v1/calls/${call.id}` })).text())
  // A result that was stored and not charged is paid for by the poll that reads it.
  const charged = await chargesOf(next)
  expect([where, [0n, CHARGE].includes(charged)]).toEqual([where, true])
  expect([where, answer?.status === 200 || polled?.includes('Hello') ? charged : CHARGE]).toEqual([where, CHARGE])
  expect([where, await next.channel()]).toMatchObject([where, { charged, reserved: 0n }])
  expect([where, (await next.ask(SKY)).status]).toEqual([where, 200])
  expect([where, await next.channel()]).toMatchObject([where, { charged: charged + CHARGE, reserved: 0n }])
  return true
}

test('a node that does not answer is 503 and charges nothing, and the key is served when it is back (contract 23.7)', async () => {
  let isAway = false
  const subject = await selling(undefined, { views: (balance) => (isAway ? [] : [[balance, 0n], [0n, 0n], [0n]]) })
  isAway = true
  // The balance that was read a moment ago covers the call.
  expect((await subject.ask(SKY)).status).toBe(200)
  await subject.clock.advance(600_000)
  const refused = await subject.ask(SKY)
  expect([refused.status, refused.headers.has('retry-after'), refused.headers.has('payment-required')]).toEqual([
    503,
    true,
    false,
  ])
  expect(await subject.channel()).toMatchObject({ charged: CHARGE, reserved: 0n })
  isAway = false
  expect((await subject.ask(SKY)).status).toBe(200)
  expect(await subject.channel()).toMatchObject({ charged: CHARGE * 2n, reserved: 0n })
})

test('a leaked key spends at this seller what is left, or sends it to its payer, and is worth nothing then (contract 23.11)', async () => {
  const balance = QUOTE + CHARGE
  const after = (all: bigint, refunded: readonly bigint[]) => {
    const back = refunded.reduce((sum, each) => sum + each, 0n)
    return [[all - back, back === 0n ? 0n : all - back], [0n, 0n], [BigInt(refunded.length)]]
  }
  const thief = await selling(undefined, { balance, views: after })
  expect((await thief.ask(SKY)).status).toBe(200)
  const closed = await closeKey(thief)
  expect([closed.status, (await closed.json()).payer]).toEqual([200, thief.buyer.payer.address])
  expect(thief.refunded).toEqual([balance - CHARGE])
  const used = await thief.ask(SKY)
  expect([used.status, (await used.json()).error.code]).toEqual([402, 'insufficient_quota'])
  expect((await thief.ask(undefined, { path: '/api/v1/key' })).status).toBe(200)
})

test('whatever a vendor says was used, a call is charged its quote at most; the ledger and the channel agree (contract 23.5)', async () => {
  const tokens = fc.oneof(fc.nat(200), fc.nat(3_000_000))
  const charges = new Set<bigint | null>()
  const property = fc.asyncProperty(fc.array(fc.tuple(tokens, tokens), { minLength: 1, maxLength: 6 }), async (all) => {
    let turn = 0
    const subject = await selling(async () => {
      const [prompt_tokens = 0, completion_tokens = 0] = all[turn++] ?? []
      return wholeAnswer({
        usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
      })
    })
    for (let at = 0; at < all.length; at++) expect((await subject.ask(SKY)).status).toBe(200)
    const calls = await subject.calls()
    for (const { charge, quote } of calls) {
      expect(charge !== null && charge > 0n && charge <= quote).toBe(true)
      charges.add(charge)
    }
    const charged = usdc(await chargesOf(subject))
    expect(await subject.channel()).toMatchObject({ charged, reserved: 0n, available: 100_000n - charged })
  })
  await fc.assert(property, { numRuns: 25 })
  expect(charges.size).toBeGreaterThan(5)
})

/** A finished video that nobody has collected, in a record that knows less than was claimed: an older backup. */
async function restored() {
  await import('../../../core/call/delivery/upstream_poll.ts')
  let claimed = 0n
  const video = scriptedVideo({ pollUpstream: async () => ({ kind: 'done', url: CLIP }) })
  const views = (balance: bigint, refunded: readonly bigint[]) => {
    const back = refunded.reduce((sum, each) => sum + each, 0n)
    return [[balance - back, claimed], [0n, 0n], [BigInt(refunded.length)]]
  }
  const subject = await selling(undefined, { balance: 100_000_000n, video, views })
  expect((await subject.ask({ model: 'vendor-c/video-1', prompt: 'a fox' }, { path: VIDEOS })).status).toBe(202)
  const { reserved = usdc(0n) } = (await subject.channel()) ?? {}
  claimed = 30_000n
  await subject.clock.advance(600_000)
  const [job] = await subject.calls()
  const poll = () => subject.ask(undefined, { path: `/api/v1/calls/${job?.id}` })
  return { ...subject, claimed, reserved, poll }
}

test('a close as the first call after a restored backup charges the job that is done, by the key that asks (contract 23.11)', async () => {
  const subject = await restored()
  const { claimed, reserved } = subject
  expect((await closeKey(subject)).status).toBe(200)
  expect(subject.refunded).toEqual([100_000_000n - claimed - reserved])
  expect(await subject.channel()).toMatchObject({ charged: claimed + reserved, reserved: 0n })
  expect((await subject.poll()).status).toBe(200)
})

test('a close by the wallet then leaves that job its price, and the key collects it (contract 23.12)', async () => {
  const subject = await restored()
  const { claimed, reserved, buyer } = subject
  const closed = await closeByWallet(subject, buyer.payer, `/api/v1/keys/${buyer.key.address}/close`)
  expect([closed.status, await closed.json()]).toMatchObject([200, { reserved: print(reserved) }])
  expect(subject.refunded).toEqual([100_000_000n - claimed - reserved])
  expect(await subject.channel()).toMatchObject({ charged: claimed, reserved })
  expect((await subject.poll()).status).toBe(200)
  expect(await subject.channel()).toMatchObject({ charged: claimed + reserved, reserved: 0n })
})

test('a close charges the jobs that are done at every gateway of the process (contract 23.11)', async () => {
  await import('../../../core/call/delivery/upstream_poll.ts')
  const storage = memoryStorage()
  const video = scriptedVideo({ pollUpstream: async () => ({ kind: 'done', url: CLIP }) })
  const given = { balance: 100_000_000n, storage, video }
  const [first, second] = [await selling(undefined, { ...given, name: 'first' }), await selling(undefined, given)]
  expect((await first.ask({ model: 'vendor-c/video-1', prompt: 'a fox' }, { path: VIDEOS })).status).toBe(202)
  const { reserved = usdc(0n) } = (await first.channel()) ?? {}
  expect((await closeKey(second)).status).toBe(200)
  expect(second.refunded).toEqual([100_000_000n - reserved])
  expect(await first.channel()).toMatchObject({ charged: reserved, reserved: 0n })
  const [job] = await first.calls()
  expect((await first.ask(undefined, { path: `/api/v1/calls/${job?.id}` })).status).toBe(200)
})

test('jobs whose vendor does not answer stay reserved, and hold up no close (contract 23.11)', async () => {
  // Loaded when it is first needed; the clock of this test does not wait for that.
  await import('../../../core/call/delivery/upstream_poll.ts')
  let isAway = false
  const never = new Promise<never>(() => {})
  const video = scriptedVideo({ pollUpstream: async () => (isAway ? await never : { kind: 'done', url: CLIP }) })
  const subject = await selling(undefined, { balance: 1_000_000_000n, video })
  const order = (prompt: string) => subject.ask({ model: 'vendor-c/video-1', prompt }, { path: VIDEOS })
  for (let i = 0; i < 8; i++) expect((await order(`a fox, ${i}`)).status).toBe(202)
  const reserved = (await subject.channel())?.reserved ?? 0n
  isAway = true
  const closing = closeKey(subject)
  await subject.clock.advance(30_000)
  expect((await closing).status).toBe(200)
  expect(subject.refunded).toEqual([1_000_000_000n - reserved])
  isAway = false
  await subject.clock.advance(60_000)
  expect((await closeKey(subject)).status).toBe(402)
  expect(await subject.channel()).toMatchObject({ charged: reserved, reserved: 0n })
})
