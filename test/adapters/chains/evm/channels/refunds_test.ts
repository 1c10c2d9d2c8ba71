/** Refunds whose transaction is slow, lost or reverted. No node is needed. */
import { expect, test } from 'bun:test'
import { decodeFunctionData } from 'viem'
import { refundLogs } from '../../../../../adapters/chains/evm/channels/contract.ts'
import { channelDigests } from '../../../../../adapters/chains/evm/channels/digests.ts'
import type { RefundRequest } from '../../../../../adapters/chains/evm/channels/payload.ts'
import { channelRefunds } from '../../../../../adapters/chains/evm/channels/refunds/mod.ts'
import { isDue, type ChannelState, newState, type Refund } from '../../../../../adapters/chains/evm/channels/state.ts'
import { channelStates } from '../../../../../adapters/chains/evm/channels/records.ts'
import type { SendResult } from '../../../../../adapters/chains/evm/node/relayer.ts'
import { type Hex, word } from '../../../../../adapters/chains/lib/hex.ts'
import { batchSettlementAbi as abi } from '../../../../../adapters/chains/evm/node/x402_contracts.ts'
import { memoryStorage } from '../../../../../adapters/storage/memory/mod.ts'
import { FREE } from './vouchers.ts'

const T = 1_795_132_800_000
const NETWORK = 'eip155:84532'
const [ASSET, PAY_TO, SELLER, PAYER] = ['1', '2', '3', '4'].map((digit) => `0x${digit.repeat(40)}`) as Hex[] as [
  Hex,
  Hex,
  Hex,
  Hex,
]
const digests = channelDigests(84_532)
const SIGNATURE: Hex = `0x${'ab'.repeat(65)}`
const config = {
  payer: PAYER,
  payerAuthorizer: PAYER,
  receiver: PAY_TO,
  receiverAuthorizer: SELLER,
  token: ASSET,
  withdrawDelay: 900,
  salt: `0x${word(1n)}` as Hex,
}
const channelId = digests.channelId(config)
const LOST: SendResult = { kind: 'lost', reason: 'another transaction took its nonce' }

/** A channel of 100, of which 40 are charged and nothing is claimed. */
async function channel(reserved = 0n) {
  const chain = { balance: 100n, claimed: 0n, refundNonce: 0n, reverts: false }
  const sent: (readonly string[])[] = []
  let answer: (data: Hex) => SendResult | Promise<SendResult> = () => LOST
  const storage = memoryStorage()
  const states = channelStates(storage, { network: NETWORK, seller: SELLER })
  const refunds = channelRefunds(
    {
      costs: FREE,
      reserved: () => reserved,
      rpc: { request: async () => ({ kind: 'result', value: '0x8' }) },
      reads: {
        async view(_, { direct }) {
          const { balance, claimed, refundNonce, reverts } = chain
          const words = [[balance, claimed], [0n, 0n], [refundNonce]]
          const views = words.map((each) => ({ ok: true, data: `0x${each.map((n) => word(n)).join('')}` as Hex }))
          return { kind: 'seen', time: T / 1000, results: direct ? [{ ok: !reverts, data: '0x' as Hex }] : views }
        },
      },
      relayer: {
        async send({ data }) {
          const calls = decodeFunctionData({ abi, data }).args?.[0] as readonly Hex[]
          sent.push(calls.map((each) => decodeFunctionData({ abi, data: each }).functionName))
          return await answer(data)
        },
      },
      states,
      authorizer: { address: SELLER, sign: async () => SIGNATURE },
      digests,
    },
    { network: NETWORK, lagSeconds: 4 },
  )
  const mirror = { balance: 100n, claimed: 0n, withdrawing: 0n, withdrawRequestedAt: 0, refundNonce: 0n }
  const charged = { charged: 40n, ceiling: 50n, signature: SIGNATURE }
  await states.replace(undefined, { ...newState({ channelId, config }, mirror, T), ...charged }, T)
  let isFree = true
  let from = 'nowhere'
  const state = async () => {
    const found = await states.get(channelId, T)
    if (!found) throw new Error('it has a record')
    return found
  }
  return {
    refunds,
    states,
    sent,
    chain,
    state,
    mined: (next: typeof answer) => (answer = next),
    busy: () => (isFree = false),
    orderedWith: (key: string) => (from = key),
    ask: (now = T, given: Partial<Pick<RefundRequest, 'amount' | 'ceiling'>> = {}) =>
      refunds.refund(
        {
          kind: 'refund',
          config,
          channelId,
          ceiling: 40n,
          signature: SIGNATURE,
          key: 'k',
          fundedBy: 'channel',
          amount: undefined,
          ...given,
        },
        { now, signal: new AbortController().signal, isFree: async () => isFree, isFrom: async (key) => key === from },
      ),
    /** The transaction is mined after all. */
    land(amount = 60n): SendResult {
      Object.assign(chain, { balance: 100n - amount, claimed: 40n, refundNonce: 1n })
      const log = {
        ...refundLogs(channelId),
        topics: refundLogs(channelId).topics as Hex[],
        data: `0x${word(amount)}` as Hex,
      }
      const logs = [{ ...log, transactionHash: '0x9' as Hex }]
      const receipt = { transactionHash: '0x9' as Hex, block: 9, success: true, logs }
      return { kind: 'mined', receipt, hasOtherNonces: false }
    },
  }
}

test('a refund claims what is due in the same transaction, and what is left goes back', async () => {
  const subject = await channel()
  subject.mined(() => subject.land())
  expect(await subject.ask()).toMatchObject({ kind: 'refunded', receipt: { amount: '60', transaction: '0x9' } })
  expect(subject.sent).toEqual([['claimWithSignature', 'refundWithSignature', 'settle']])
  expect(await subject.state()).toMatchObject({ balance: 40n, claimed: 40n, charged: 40n, refund: { status: 'done' } })
  expect(await subject.ask(T + 1)).toMatchObject({ kind: 'refunded', isRepeated: true, receipt: { amount: '60' } })
  expect(subject.sent).toHaveLength(1)
})

test('a refund that ends long after it was asked for leaves nothing of what it has moved', async () => {
  const { ask, mined, land, states, state } = await channel()
  mined(async () => {
    // Something newer is noted meanwhile, so that what this request sees counts as old.
    const { balance, claimed, withdrawing, withdrawRequestedAt, refundNonce } = await state()
    await states.mirror(channelId, { balance, claimed, withdrawing, withdrawRequestedAt, refundNonce }, T + 60_000)
    return land()
  })
  expect(await ask()).toMatchObject({ kind: 'refunded' })
  expect(await state()).toMatchObject({ balance: 40n, refundNonce: 1n })
})

test('a refund that was sent is sent again after a minute, and not before, whoever asks', async () => {
  const subject = await channel()
  expect(await subject.ask()).toMatchObject({ kind: 'unknown' })
  expect(await subject.ask(T + 59_999)).toMatchObject({ kind: 'unknown' })
  await subject.refunds.resume([await subject.state()], T + 59_999)
  expect(subject.sent).toHaveLength(1)
  await subject.refunds.resume([await subject.state()], T + 60_000)
  expect(subject.sent).toHaveLength(2)
  expect(await subject.ask(T + 119_999)).toMatchObject({ kind: 'unknown' })
  expect(subject.sent).toHaveLength(2)
})

test('a refund that was mined unseen is done, and is never sent again', async () => {
  const subject = await channel()
  await subject.ask()
  subject.land()
  await subject.refunds.resume([await subject.state()], T + 61_000)
  expect(subject.sent).toHaveLength(1)
  expect((await subject.state()).refund).toMatchObject({ status: 'done' })
})

test('a refund leaves what open calls may cost, and a call that is charged meanwhile is claimed later', async () => {
  const subject = await channel(30n)
  subject.mined(async () => {
    await subject.states.change(channelId, T, (state) => ({ ...state, charged: 50n }))
    const mined = subject.land(30n)
    // A node that is behind does not show it yet.
    Object.assign(subject.chain, { balance: 100n, claimed: 0n, refundNonce: 0n })
    return mined
  })
  expect(await subject.ask()).toMatchObject({ kind: 'refunded', receipt: { amount: '30' } })
  const state = await subject.state()
  expect(state).toMatchObject({ balance: 70n, claimed: 40n, charged: 50n })
  expect(isDue(state)).toBe(true)
})

test('while a refund is under way nothing is charged, and it waits in the list of what is due', async () => {
  const subject = await channel()
  await subject.ask()
  expect((await subject.state()).refund).toMatchObject({ status: 'sent', amount: '60', base: '40' })
  const claimed = { balance: 100n, claimed: 40n, withdrawing: 0n, withdrawRequestedAt: 0, refundNonce: 0n }
  await subject.states.mirror(channelId, claimed, T)
  const listed: Hex[] = []
  for await (const page of subject.states.due(T)) listed.push(...page.map((each) => each.channelId))
  expect(listed).toEqual([channelId])
  expect(await subject.ask(T + 1, { amount: 10n })).toMatchObject({ kind: 'refused' })
  expect(subject.sent).toHaveLength(1)
})

test('a refund that a call of the channel forbids, or that would revert, is not sent and leaves no mark', async () => {
  const [busy, reverting] = [await channel(), await channel()]
  busy.busy()
  expect(await busy.ask()).toMatchObject({ kind: 'refused' })
  reverting.chain.reverts = true
  expect(await reverting.ask()).toMatchObject({ kind: 'refused' })
  for (const subject of [busy, reverting]) {
    expect(subject.sent).toEqual([])
    expect((await subject.state()).refund).toBeUndefined()
  }
})

test('a refund of more than is left, on another base than what was charged, or of nothing is refused', async () => {
  const subject = await channel()
  for (const [given, problem] of [
    [{ amount: 61n }, 'refund_amount_invalid'],
    [{ amount: 0n }, 'refund_amount_invalid'],
    [{ ceiling: 39n }, 'cumulative_amount_mismatch'],
    [{ ceiling: 50n }, 'cumulative_amount_mismatch'],
  ] as const) {
    const reason = expect.stringContaining(problem)
    expect(await subject.ask(T, given)).toMatchObject({ kind: 'refused', reason })
  }
  expect(subject.sent).toEqual([])
})

test('a request that was noted by a process which is gone ends after a minute, unsent', async () => {
  const subject = await channel()
  const before = await subject.state()
  const requested: Refund = { status: 'requested', base: '40', part: null, amount: '60', nonce: '0', at: T }
  await subject.states.replace(before, { ...before, refund: requested }, T)
  expect(await subject.refunds.ended(await subject.state(), { now: T + 59_999 })).toMatchObject({ refund: requested })
  expect((await subject.refunds.ended(await subject.state(), { now: T + 60_000 })).refund).toBeUndefined()
  expect(subject.sent).toEqual([])
})

test('a refund that reverts moves nothing, and may be asked for again', async () => {
  const subject = await channel()
  const receipt = { transactionHash: '0x9' as Hex, block: 9, success: false, logs: [] }
  subject.mined(() => ({ kind: 'mined', receipt, hasOtherNonces: false }))
  expect(await subject.ask()).toMatchObject({ kind: 'unavailable' })
  expect((await subject.state()).refund).toBeUndefined()
  subject.mined(() => ({ kind: 'rejected', reason: 'no gas' }))
  expect(await subject.ask()).toMatchObject({ kind: 'unavailable' })
  expect((await subject.state()).refund).toBeUndefined()
  subject.mined(() => subject.land())
  expect(await subject.ask()).toMatchObject({ kind: 'refunded' })
})

/** The channel's record, with what a claim of its vouchers would have published. */
const known = async (subject: Awaited<ReturnType<typeof channel>>, more: Partial<ChannelState>) =>
  await subject.states.change(channelId, T, (state) => ({ ...state, ...more }))

test.each<readonly [string, Partial<ChannelState>]>([
  ['its last voucher is charged in full', { ceiling: 40n, spent: ['40'] }],
  ['an earlier voucher allowed what is charged by now', { ceiling: 50n, spent: ['40', '50'] }],
  [
    'more vouchers have paid than are remembered',
    { ceiling: 200n, spent: Array.from({ length: 64 }, (_, i) => `${100 + i}`) },
  ],
  ['its record is of before they were noted', { ceiling: 40n }],
  ['its record is lost', { ceiling: 0n, signature: '0x' }],
  ['its record came from a backup', { forgotten: '10', spent: ['50'] }],
])('a refund is sent only to the address of the last call where %s (contract 1.100)', async (_, more) => {
  const subject = await channel()
  subject.mined(() => subject.land())
  await known(subject, more)
  expect(await subject.ask()).toMatchObject({ kind: 'refused', code: 'PAYMENT_REPLAY' })
  await known(subject, { lastBase: '30' })
  subject.orderedWith('channel/40')
  expect(await subject.ask()).toMatchObject({ kind: 'refused', code: 'PAYMENT_REPLAY' })
  expect(subject.sent).toEqual([])
  subject.orderedWith('channel/30')
  expect(await subject.ask()).toMatchObject({ kind: 'refunded' })
})

test('a refund with a voucher that only the payer can have is sent wherever it is asked for (contract 1.100)', async () => {
  const subject = await channel()
  subject.mined(() => subject.land())
  await known(subject, { ceiling: 50n, spent: ['45', '50'], lastBase: '30' })
  expect(await subject.ask()).toMatchObject({ kind: 'refunded' })
})
