/** Vouchers of a channel: in order, within the caps, and never further than a seller was promised. */
import { afterAll, afterEach, beforeAll, describe, expect, setSystemTime, test } from 'bun:test'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { capOf } from '../../../server/buyer/budget.ts'
import { proxyChannel } from '../../../server/cli/lib/proxy_channel.ts'
import { type Channel, CHANNEL_SCHEME } from '../../../server/proxy/channels.ts'
import type { ProxyOptions } from '../../../server/proxy/mod.ts'
import { NOW, demand, encodeHeader, OFFER, PAYEE, type Received, seller, startProxy } from './proxy_kit.ts'

beforeAll(() => void setSystemTime(NOW))
afterAll(() => void setSystemTime())

const METERED = { ...OFFER, scheme: CHANNEL_SCHEME, extra: { ...OFFER.extra, withdrawDelay: 900 } }
const ID = `0x${'c0'.repeat(32)}`

const opened: { stop(): Promise<unknown> }[] = []
afterEach(async () => {
  for (const each of opened.splice(0)) await each.stop()
})

/** A channel whose base is what receipts say was charged. */
function channel(given: Partial<Channel> = {}) {
  const state = { base: 0n, isOpen: false, notes: 0 }
  const made: Channel = {
    id: ID,
    maxDeposit: 2_000_000n,
    async sign({ amount }) {
      const voucher = { channelId: ID, maxClaimableAmount: String(state.base + BigInt(amount)), signature: '0x' }
      const isFirst = !state.isOpen
      state.isOpen = true
      return { type: isFirst ? 'deposit' : 'voucher', voucher, ...(isFirst && { deposit: { amount: '2000000' } }) }
    },
    left: async () => undefined,
    async note(receipt) {
      state.notes += 1
      if (receipt !== undefined) state.base = BigInt(JSON.parse(atob(receipt)).total)
    },
    correct: async () => false,
    ...given,
  }
  return { made, state }
}

async function open(
  answer: (received: Received) => Response | Promise<Response>,
  { made, ...given }: Partial<ProxyOptions> & { readonly made: Channel },
) {
  const vendor = seller((received) => (received.payment ? answer(received) : demand([OFFER, METERED])))
  const started = await startProxy(vendor.url, { channel: async () => made, ...given })
  opened.push(started, vendor)
  const ceilings = () => vendor.payments().map(({ payload }) => Number(payload.voucher.maxClaimableAmount))
  return { ...started, vendor, ceilings, spent: () => Number(started.journal.today()) }
}

const paid = (total: number, body: object = {}) =>
  Response.json(body, { headers: { 'payment-response': encodeHeader({ total: String(total) }) } })

describe('a channel', () => {
  test('is paid by vouchers that build on what was charged, whatever the program sends in parallel', async () => {
    const { made, state } = channel()
    let charged = 0
    let running = 0
    let most = 0
    const { chat, ceilings, spent, vendor } = await open(
      async () => {
        most = Math.max(most, ++running)
        await Promise.resolve()
        running -= 1
        return paid((charged += 500))
      },
      { made },
    )
    const replies = await Promise.all([1, 2, 3, 4].map(async (i) => await chat({}, { model: 'a', i })))
    expect(replies.map(({ status }) => status)).toEqual([200, 200, 200, 200])
    for (const reply of replies) await reply.text()
    expect([ceilings(), most, state.base]).toEqual([[2_000, 2_500, 3_000, 3_500], 1, 2_000n])
    expect(vendor.payments().map(({ payload }) => payload.type)).toEqual(['deposit', 'voucher', 'voucher', 'voucher'])
    expect(spent()).toBe(3_500)
  })

  test('reads the receipt of a stream in its comments, before the next call', async () => {
    const { made, state } = channel()
    const { chat } = await open(
      () => new Response(`data: [DONE]\n\n: payment-response ${encodeHeader({ total: '700' })}\n\n`),
      { made },
    )
    await (await chat()).text()
    expect([state.base, state.notes]).toEqual([700n, 1])
  })

  test('gets no voucher further than the cap of a call, whatever the seller says it charged', async () => {
    const { made } = channel()
    const { chat, ceilings, spent } = await open(() => paid(1_500_000), { made })
    await (await chat()).text()
    const reply = await chat({}, { model: 'b' })
    expect([reply.status, await reply.text()]).toEqual([
      402,
      expect.stringContaining('raise the ceiling of the channel'),
    ])
    expect([ceilings(), spent()]).toEqual([[2_000], 2_000])
  })

  test.each([
    [
      'a price above the cap of a call',
      { caps: { perCall: capOf('0.001'), perDay: capOf('5'), perSession: undefined } },
    ],
    [
      'a price above the cap of the day',
      { caps: { perCall: capOf('1'), perDay: capOf('0.001'), perSession: undefined } },
    ],
    ['the end of the session', { caps: { perCall: capOf('1'), perDay: capOf('5'), perSession: capOf('0.001') } }],
  ])('gets nothing for %s', async (_, given) => {
    const { made } = channel()
    const { chat, vendor, spent } = await open(() => paid(0), { made, ...given })
    expect((await chat()).status).toBe(402)
    expect([vendor.payments(), spent()]).toEqual([[], 0])
  })

  test.each([
    ['a deposit above its limit', { maxDeposit: 1_000_000n }],
    ['a voucher of another channel', { id: `0x${'ee'.repeat(32)}` }],
  ])('gets nothing for %s', async (_, given) => {
    const { made } = channel(given)
    const { chat, vendor, spent } = await open(() => paid(0), { made })
    expect((await chat()).status).toBe(402)
    expect([vendor.payments(), spent()]).toEqual([[], 0])
  })

  test('is not opened where it could not be left for months', async () => {
    const { made } = channel()
    const vendor = seller(() => demand([{ ...METERED, extra: { withdrawDelay: 99_999_999 } }]))
    const started = await startProxy(vendor.url, { channel: async () => made })
    opened.push(started, vendor)
    expect((await started.chat()).status).toBe(402)
    expect(vendor.payments()).toEqual([])
  })

  test('takes no more than one deposit, however often a seller changes the terms of its channel', async () => {
    let opening = 0
    const another = async (): Promise<Channel> => {
      const id = `0x${String(++opening).padStart(64, '0')}`
      return {
        ...channel().made,
        id,
        sign: async ({ amount }) => ({
          type: 'deposit',
          voucher: { channelId: id, maxClaimableAmount: amount },
          deposit: { amount: '2000000' },
        }),
      }
    }
    const { chat, vendor } = await open(() => paid(0), { made: channel().made, channel: another })
    const statuses: number[] = []
    for (let i = 0; i < 5; i++) statuses.push((await chat({}, { model: 'a', i })).status)
    expect([statuses, vendor.payments().length]).toEqual([[200, 402, 402, 402, 402], 1])
    const other = await open(() => paid(0), { made: channel().made, channel: another })
    await Promise.all([1, 2, 3, 4].map((i) => other.chat({}, { model: 'a', i })))
    expect(other.vendor.payments().length).toBe(1)
  })

  test('is corrected once, and a seller that corrects for ever gets no more than one price', async () => {
    let corrections = 0
    const { made } = channel({ correct: async () => ++corrections < 100 })
    const { chat, ceilings, spent } = await open(() => demand([METERED]), { made })
    for (let i = 0; i < 3; i++) expect((await chat()).status).toBe(402)
    expect([new Set(ceilings()).size, spent()]).toEqual([1, 2_000])
  })

  test('gets no more than the cap of a call for one request, however often it is corrected and sent again', async () => {
    const { made, state } = channel()
    // Charges all that was signed, serves nothing, and proves the charge with the voucher itself.
    const correct: Channel['correct'] = async () => {
      state.base = BigInt(ceilings().at(-1) ?? 0)
      return true
    }
    const caps = { perCall: capOf('0.005'), perDay: capOf('5'), perSession: undefined }
    const started = await open(() => demand([METERED]), { made: { ...made, correct }, caps })
    const { chat, ceilings, spent, calls } = started
    for (let i = 0; i < 4; i++) expect((await chat()).status).toBe(402)
    expect([Math.max(...ceilings()), spent()]).toEqual([4_000, 4_000])
    expect(calls.map(({ paid: counted }) => counted)).toEqual(['0.004'])
    const next = await chat({}, { model: 'b' })
    expect([next.status, spent()]).toEqual([402, 8_000])
  })

  test('gets no signature that a seller could use for longer than an hour', async () => {
    const { made } = channel()
    const vendor = seller(() => demand([{ ...METERED, maxTimeoutSeconds: 315_360_000 }]))
    const started = await startProxy(vendor.url, { channel: async () => made })
    opened.push(started, vendor)
    const reply = await started.chat()
    expect([reply.status, await reply.text()]).toEqual([402, expect.stringContaining('more than 3600 seconds')])
    expect([vendor.payments(), Number(started.journal.today())]).toEqual([[], 0])
  })
})

test('a node that fails is not named to the program: its address may have a key', async () => {
  const node = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response('busy', { status: 500 }) })
  const vendor = seller(() => demand([{ ...METERED, extra: { ...METERED.extra, receiverAuthorizer: PAYEE } }]))
  opened.push({ stop: () => node.stop(true) }, vendor)
  const rpcUrl = `http://127.0.0.1:${node.port}/v2/secret-key`
  const limits = { directory: join(tmpdir(), 'farebox-no-channels'), deposit: undefined, maxDeposit: 5_000_000n }
  const started = await startProxy(vendor.url, {
    channel: (offer) => proxyChannel(`0x${'11'.repeat(32)}`, { offer, rpcUrl, origin: vendor.url, limits }),
  })
  opened.push(started)
  const reply = await started.chat()
  expect([reply.status, (await reply.json()) as unknown]).toEqual([
    502,
    { error: expect.objectContaining({ message: 'farebox proxy: HTTP request failed.' }) },
  ])
})

describe('a seller with several schemes', () => {
  const UPTO = { ...OFFER, scheme: 'upto', amount: '3000', extra: { ...OFFER.extra, facilitatorAddress: OFFER.payTo } }
  const signer =
    (bend: object = {}): NonNullable<ProxyOptions['signer']> =>
    async () => ({
      balance: async () => 1_234_000n,
      sign: async ({ amount, asset, payTo }) => ({
        payload: {
          permit2Authorization: {
            permitted: { token: asset, amount },
            witness: { to: payTo },
            deadline: String(NOW / 1000 + 300),
            ...bend,
          },
        },
        extensions: { eip2612GasSponsoring: { info: {} } },
      }),
    })
  async function market(given: Partial<ProxyOptions>, accepts: readonly object[] = [OFFER, UPTO, METERED]) {
    const vendor = seller((received) => (received.payment ? Response.json({ ok: true }) : demand(accepts)))
    const started = await startProxy(vendor.url, given)
    opened.push(started, vendor)
    const reply = await started.chat()
    await reply.text()
    const paidBy = vendor.payments().map(({ accepted }) => accepted.scheme)
    return { ...started, status: reply.status, paidBy, vendor, spent: Number(started.journal.today()) }
  }

  test('is paid by a channel, else by upto, else by exact, and counts the whole price of each', async () => {
    const { made } = channel()
    const usable = { channel: async () => made, takesUpto: async () => true, signer: signer() }
    expect((await market(usable)).paidBy).toEqual([CHANNEL_SCHEME])
    const unfunded = await market({ ...usable, channel: async () => undefined })
    expect([unfunded.paidBy, unfunded.spent]).toEqual([['upto'], 3_000])
    const { payload, extensions } = unfunded.vendor.payments()[0]
    expect([payload.permit2Authorization.permitted.amount, extensions.eip2612GasSponsoring]).toEqual([
      '3000',
      { info: {} },
    ])
    const { signer: _, ...plain } = usable
    const poor = await market({ ...plain, channel: async () => undefined, takesUpto: async () => false })
    expect([poor.paidBy, poor.spent]).toEqual([['exact'], 2_000])
  })

  test('gets no payment by upto for more, later or somebody else than its offer', async () => {
    for (const bend of [
      { permitted: { token: OFFER.asset, amount: '3001' } },
      { permitted: { token: OFFER.payTo, amount: '3000' } },
      { witness: { to: OFFER.asset } },
      { deadline: String(NOW / 1000 + 99_999) },
    ]) {
      const { status, paidBy, spent } = await market({ takesUpto: async () => true, signer: signer(bend) })
      expect([status, paidBy, spent]).toEqual([402, [], 0])
    }
  })

  test('a line has the balance of a wallet that paid by itself, once the node has reported it', async () => {
    const reported = Promise.withResolvers<string | undefined>()
    await market({ takesUpto: async () => true, signer: signer(), report: ({ balance }) => reported.resolve(balance) })
    expect(await reported.promise).toBe('1.234')
  })

  test('is paid by itself where the turn in the channel does not come, and the channel goes on afterwards', async () => {
    const { made } = channel()
    const serving = Promise.withResolvers<void>()
    const timeout = Promise.withResolvers<void>()
    const arrived = Promise.withResolvers<void>()
    let served = 0
    const vendor = seller(async ({ payment }) => {
      if (!payment) return demand([OFFER, METERED])
      arrived.resolve()
      if (++served === 1) await serving.promise
      return paid(500)
    })
    const started = await startProxy(vendor.url, { channel: async () => made, turnTimeout: () => timeout.promise })
    opened.push(started, vendor)
    const first = started.chat()
    await arrived.promise
    const second = started.chat({}, { model: 'b' })
    timeout.resolve()
    expect((await second).status).toBe(200)
    serving.resolve()
    expect((await first).status).toBe(200)
    await (await first).text()
    const schemes = vendor.payments().map(({ accepted }) => accepted.scheme)
    expect(schemes).toEqual([CHANNEL_SCHEME, 'exact'])
    expect(Number(started.journal.today())).toBe(4_000)
  })
})
