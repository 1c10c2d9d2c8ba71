/** Claims of many channels, against a contract that only keeps their sums. No node is needed. */
import { expect, test } from 'bun:test'
import { decodeFunctionData, toFunctionSelector } from 'viem'
import { channelClaims, type ClaimsConfig } from '../../../../../adapters/chains/evm/channels/claims.ts'
import { channelDigests, type ChannelConfig } from '../../../../../adapters/chains/evm/channels/digests.ts'
import { channelStates } from '../../../../../adapters/chains/evm/channels/records.ts'
import { type ChannelState, newState } from '../../../../../adapters/chains/evm/channels/state.ts'
import { gasPricer } from '../../../../../adapters/chains/evm/node/gas.ts'
import type { ContractCall } from '../../../../../adapters/chains/evm/node/multicall.ts'
import { type Hex, lower, word } from '../../../../../adapters/chains/lib/hex.ts'
import { failure } from '../../../../../adapters/chains/lib/json_rpc.ts'
import { batchSettlementAbi as abi } from '../../../../../adapters/chains/evm/node/x402_contracts.ts'
import { memoryStorage } from '../../../../../adapters/storage/memory/mod.ts'
import { sqliteStorage } from '../../../../../adapters/storage/sqlite/mod.ts'
import { type Storage, usdc } from '../../../../../core/mod.ts'
import { offerOf } from '../../../../../core/x402/offer.ts'
import { scaled } from '../../../../scope.ts'
import { voucherBuyer, voucherChain } from './vouchers.ts'

const T = 1_795_132_800_000
const NETWORK = 'eip155:84532'
const DELAY = 86_400
const HOUR = 3_600_000
const [ASSET, PAY_TO, SELLER] = ['1', '2', '3'].map((digit) => `0x${digit.repeat(40)}`) as [Hex, Hex, Hex]
const digests = channelDigests(84_532)
const SIGNATURE = `0x${'ab'.repeat(65)}` as Hex

type Claimed = readonly { readonly id: Hex; readonly totalClaimed: bigint }[]
type Escrow = { balance: bigint; claimed: bigint; withdrawing: bigint; requestedAt: number }

/** A seller with channels on a chain: what was claimed, in how many transactions, and what was alerted. */
function seller(storage: Storage = memoryStorage(), settings: Partial<ClaimsConfig> = {}) {
  const escrows = new Map<Hex, Escrow>()
  const spoiled = new Set<Hex>()
  const ids = new Map<Hex, Hex>()
  const transactions: (readonly Hex[])[] = []
  const alerts: string[] = []
  const relay = { isDown: false }
  let views = 0
  const states = channelStates(storage, { network: NETWORK, seller: SELLER })

  function viewed({ data }: ContractCall): { ok: boolean; data: Hex } {
    const { balance, claimed, withdrawing, requestedAt } = escrows.get(`0x${data.slice(-64)}`) ?? NONE
    const words = VIEWS[data.slice(0, 10)]?.({ balance, claimed, withdrawing, requestedAt }) ?? []
    return { ok: true, data: `0x${words.map((each) => word(each)).join('')}` }
  }

  let last: { readonly data: Hex; readonly rows: Claimed } = { data: '0x', rows: [] }
  const claimsIn = ({ data }: ContractCall) => {
    if (last.data === data) return last.rows
    const [claim] = (decodeFunctionData({ abi, data }).args?.[0] ?? []) as readonly Hex[]
    const { args } = decodeFunctionData({ abi, data: claim as Hex })
    const rows = args?.[0] as readonly { voucher: { channel: ChannelConfig }; totalClaimed: bigint }[]
    last = {
      data,
      rows: rows.map(({ voucher, totalClaimed }) => ({ id: ids.get(voucher.channel.salt) as Hex, totalClaimed })),
    }
    return last.rows
  }
  const reverts = (call: ContractCall) =>
    claimsIn(call).some(({ id, totalClaimed }) => spoiled.has(id) || totalClaimed > (escrows.get(id)?.balance ?? 0n))

  const claims = channelClaims(
    {
      reads: {
        async view(calls, { direct }) {
          views++
          const results = calls.map((call) => (direct ? { ok: !reverts(call), data: '0x' as Hex } : viewed(call)))
          return { kind: 'seen' as const, time: T / 1000, results }
        },
      },
      relayer: {
        async send(call) {
          if (relay.isDown) return { kind: 'rejected' as const, reason: 'no gas' }
          const rows = claimsIn(call)
          transactions.push(rows.map(({ id }) => id))
          for (const { id, totalClaimed } of rows) (escrows.get(id) as Escrow).claimed = totalClaimed
          const receipt = { transactionHash: '0x1' as Hex, block: 1, success: true, logs: [] }
          return { kind: 'mined' as const, receipt, hasOtherNonces: false }
        },
      },
      states,
      digests,
      authorizer: { address: SELLER, sign: async () => SIGNATURE },
      refunds: { resume: async () => {} },
    },
    {
      network: NETWORK,
      lagSeconds: 4,
      withdrawDelay: DELAY,
      claimAbove: 1n,
      takeLease: async () => true,
      alert: (message) => void alerts.push(message),
      ...settings,
    },
  )
  return {
    ...claims,
    states,
    escrows,
    spoiled,
    transactions,
    alerts,
    relay,
    views: () => views,
    /** A channel with a deposit, of which so much is charged. */
    async opened(n: number, { charged = 10n, balance = 100n, at = T } = {}): Promise<Hex> {
      const config = configOf(n)
      const channelId = digests.channelId(config)
      escrows.set(channelId, { ...NONE, balance })
      ids.set(config.salt, channelId)
      const mirror = { balance, claimed: 0n, withdrawing: 0n, withdrawRequestedAt: 0, refundNonce: 0n }
      const state: ChannelState = { ...newState({ channelId, config }, mirror, at), charged, ceiling: balance }
      await states.replace(undefined, { ...state, signature: SIGNATURE }, at)
      return channelId
    },
    claimedInAll: () => [...escrows.values()].reduce((sum, { claimed }) => sum + claimed, 0n),
  }
}

const VIEWS: Record<string, (escrow: Escrow) => readonly bigint[]> = {
  [toFunctionSelector('channels(bytes32)')]: ({ balance, claimed }) => [balance, claimed],
  [toFunctionSelector('pendingWithdrawals(bytes32)')]: ({ withdrawing, requestedAt }) => [
    withdrawing,
    BigInt(requestedAt),
  ],
  [toFunctionSelector('refundNonce(bytes32)')]: () => [0n],
}
const NONE: Escrow = { balance: 0n, claimed: 0n, withdrawing: 0n, requestedAt: 0 }

const configOf = (n: number): ChannelConfig => ({
  payer: ASSET,
  payerAuthorizer: ASSET,
  receiver: lower(PAY_TO),
  receiverAuthorizer: SELLER,
  token: ASSET,
  withdrawDelay: DELAY,
  salt: `0x${word(BigInt(n))}`,
})

const idsOf = async (states: ReturnType<typeof channelStates>): Promise<readonly Hex[]> => {
  const found: Hex[] = []
  for await (const page of states.due(T)) found.push(...page.map(({ channelId }) => channelId))
  return found
}

test('every due claim is made, of however many channels', async () => {
  const count = scaled(1_234, 200_000)
  const storage = sqliteStorage(':memory:')
  const subject = seller(storage)
  for (let n = 0; n < count; n += 1_000)
    await Promise.all(Array.from({ length: Math.min(1_000, count - n) }, (_, i) => subject.opened(n + i + 1)))
  expect(await subject.claimDue(T, BigInt(count) * 10n)).toEqual({ claimed: BigInt(count) * 10n })
  expect(subject.claimedInAll()).toBe(BigInt(count) * 10n)
  expect(subject.transactions).toHaveLength(Math.ceil(count / 100))
  expect(await idsOf(subject.states)).toEqual([])
  expect(await subject.claimDue(T, 1n)).toEqual({ claimed: 0n })
  expect(subject.alerts).toEqual([])
  await storage.close()
}, 600_000)

test('a withdrawal is found among many channels before the delay is half over, and its claim comes first', async () => {
  const subject = seller(sqliteStorage(':memory:'), { claimAbove: 10n ** 12n })
  const ids = await Promise.all(Array.from({ length: 1_200 }, (_, n) => subject.opened(n + 1)))
  const last = ids.toSorted().at(-1) as Hex
  Object.assign(subject.escrows.get(last) as Escrow, { withdrawing: 90n, requestedAt: T / 1000 })
  await subject.maintain({ now: T })
  expect(subject.transactions).toEqual([])
  await subject.maintain({ now: T + DELAY * 250 })
  expect(subject.transactions).toEqual([[last]])
  expect(subject.alerts).toEqual(['a payer withdraws from a channel; what is due is claimed now'])
})

test('of a batch that reverts, every channel but the one that spoils it is claimed', async () => {
  const subject = seller()
  const ids = await Promise.all(Array.from({ length: 37 }, (_, n) => subject.opened(n + 1)))
  const bad = ids[21] as Hex
  subject.spoiled.add(bad)
  expect(await subject.claimDue(T, 1n)).toEqual({ claimed: 360n })
  expect(subject.transactions.flat().toSorted()).toEqual(ids.filter((id) => id !== bad).toSorted())
  expect(subject.alerts).toEqual(['a channel cannot be claimed'])
  expect(await idsOf(subject.states)).toEqual([bad])
})

test('what is due is claimed where it is worth its gas, and above what the operator has set in all', async () => {
  const costOf = async (gas: bigint) => gas / 10_000n
  const subject = seller(memoryStorage(), { costOf })
  const [small, large] = [await subject.opened(1, { charged: 7n }), await subject.opened(2, { charged: 50n })]
  expect(await subject.claimDue(T, 51n)).toEqual({ claimed: 0n })
  expect(await subject.claimDue(T, 50n)).toEqual({ claimed: 50n })
  expect(subject.transactions).toEqual([[large]])
  expect(await idsOf(subject.states)).toEqual([small])
})

test('a batch is claimed where it is worth its gas, each row of it included', async () => {
  const subject = seller(memoryStorage(), { costOf: async (gas) => gas / 10_000n })
  for (const n of [1, 2, 3]) await subject.opened(n, { charged: 14n })
  expect(await subject.claimDue(T, 1n)).toEqual({ claimed: 0n })
  await subject.opened(4, { charged: 14n })
  expect(await subject.claimDue(T, 1n)).toEqual({ claimed: 56n })
})

test('who does not get the lease claims nothing', async () => {
  const subject = seller(memoryStorage(), { takeLease: async () => false })
  await subject.opened(1)
  await subject.maintain({ now: T })
  expect([subject.views(), subject.transactions]).toEqual([0, []])
})

test('a withdrawal and a loss are told once, however often the claim fails', async () => {
  const subject = seller()
  const id = await subject.opened(1, { charged: 40n })
  subject.spoiled.add(id)
  Object.assign(subject.escrows.get(id) as Escrow, { balance: 30n, withdrawing: 9n, requestedAt: T / 1000 })
  await subject.claimDue(T, 1n)
  await subject.claimDue(T, 1n)
  expect(subject.alerts.filter((alert) => alert !== 'a channel cannot be claimed')).toHaveLength(2)
})

test('gas costs what the node asks for it, at the price that the operator sets for a coin', async () => {
  const fee = async (max: bigint) => ({ max, tip: 1_000_000n })
  expect(await gasPricer(() => fee(21_000_000n), 3_000)(70_000n, T)).toBe(2_310n)
  expect(await gasPricer(() => fee(21_000_000n), 0.25)(70_000n, T)).toBe(1n)
  expect(await gasPricer(async () => failure('no node'), 3_000)(70_000n, T)).toBeUndefined()
})

test('where a payer withdraws, what is above the gas of its claim is claimed at once', async () => {
  const costOf = async (gas: bigint) => gas / 10_000n
  const withdrawing = { withdrawing: 60n, requestedAt: T / 1000 }
  for (const [charged, claimed] of [
    [29n, 0n],
    [30n, 30n],
  ] as const) {
    const subject = seller(memoryStorage(), { costOf })
    Object.assign(subject.escrows.get(await subject.opened(1, { charged })) as Escrow, withdrawing)
    expect(await subject.claimDue(T, 10n ** 12n)).toEqual({ claimed })
  }
})

test('a claim that comes later than half of the withdraw delay is an alert', async () => {
  const late = 'claims of channels are late by half of the withdraw delay'
  const subject = seller(memoryStorage(), { claimAbove: 10n ** 12n })
  const id = await subject.opened(1)
  await subject.maintain({ now: T + DELAY * 499 })
  expect(subject.alerts).toEqual([])
  await subject.maintain({ now: T + DELAY * 1_100 })
  expect(subject.alerts).toEqual([late])
  await subject.maintain({ now: T + DELAY * 1_300 })
  Object.assign(subject.escrows.get(id) as Escrow, { withdrawing: 9n, requestedAt: T / 1000 + DELAY })
  await subject.maintain({ now: T + DELAY * 1_600 })
  expect(subject.alerts.slice(1)).toEqual(['a payer withdraws from a channel; what is due is claimed now', late])
})

test('a withdrawal that took what was due is told once, and the channel is listed no more', async () => {
  const subject = seller()
  const id = await subject.opened(1, { charged: 40n })
  Object.assign(subject.escrows.get(id) as Escrow, { balance: 30n })
  expect(await subject.claimDue(T, 1n)).toEqual({ claimed: 30n })
  expect(await subject.claimDue(T + HOUR, 1n)).toEqual({ claimed: 0n })
  expect(subject.alerts).toHaveLength(1)
  expect(await idsOf(subject.states)).toEqual([])
  // A later payment pays for it, a part of it too.
  for (const [balance, claimed] of [
    [35n, 30n],
    [50n, 35n],
  ] as const) {
    Object.assign(subject.escrows.get(id) as Escrow, { balance })
    const mirror = { balance, claimed, withdrawing: 0n, withdrawRequestedAt: 0, refundNonce: 0n }
    await subject.states.mirror(id, mirror, T + HOUR)
    expect(await subject.claimDue(T + HOUR, 1n)).toEqual({ claimed: 5n })
  }
})

test('a node that does not show the deposit yet hides no channel from claims', async () => {
  const subject = seller()
  const id = await subject.opened(1, { charged: 40n })
  const { balance } = subject.escrows.get(id) as Escrow
  Object.assign(subject.escrows.get(id) as Escrow, { balance: 0n })
  expect(await subject.claimDue(T, 1n)).toEqual({ claimed: 0n })
  Object.assign(subject.escrows.get(id) as Escrow, { balance })
  expect(await subject.claimDue(T + 60_000, 1n)).toEqual({ claimed: 40n })
})

test('channels of earlier versions are claimed as well', async () => {
  const storage = memoryStorage()
  const subject = seller(storage)
  const ids = await Promise.all(Array.from({ length: 40 }, (_, n) => subject.opened(n + 1)))
  for (const id of ids) {
    const name = `${NETWORK}/${id}`
    const record = await storage.getRecord('channel', name, T)
    if (!record) throw new Error('it is stored')
    await storage.moveRecord({ ...record, owner: `${NETWORK}/${SELLER}/${id.slice(2, 3)}` }, record.data, T)
  }
  expect(await subject.claimDue(T, 1n)).toEqual({ claimed: 400n })
})

test('ten thousand records of channels that hold nothing hide no claim', async () => {
  const storage = memoryStorage()
  const subject = seller(storage)
  const digit = digests.channelId(configOf(1)).slice(2, 3)
  const mirror = { balance: 0n, claimed: 0n, withdrawing: 0n, withdrawRequestedAt: 0, refundNonce: 0n }
  await subject.states.replace(undefined, newState({ channelId: '0x0', config: configOf(2) }, mirror, T), T)
  const empty = await storage.getRecord('channel', `${NETWORK}/0x0`, T)
  if (!empty) throw new Error('it is stored')
  for (let n = 0; n < 10_050; n++) {
    const channelId = `0x${digit}${n}`
    const { version, data } = empty.data as { version: number; data: object }
    const owner = `${NETWORK}/${SELLER}/${digit}`
    const record = { ...empty, id: `${NETWORK}/${channelId}`, owner, data: { version, data: { ...data, channelId } } }
    await storage.putRecord(record, T)
  }
  await subject.opened(1)
  expect(await subject.claimDue(T, 1n)).toEqual({ claimed: 10n })
}, 60_000)

test('the record of a channel goes a month after everything in it was claimed, and stays while anything is left', async () => {
  const storage = memoryStorage()
  const subject = seller(storage)
  const [closed, open] = [await subject.opened(1, { charged: 100n }), await subject.opened(2, { charged: 99n })]
  await subject.claimDue(T, 1n)
  const lives = async (id: Hex, days: number) =>
    (await storage.getRecord('channel', `${NETWORK}/${id}`, T + days * 86_400_000)) !== undefined
  expect([await lives(closed, 30.9), await lives(closed, 31)]).toEqual([true, false])
  expect([await lives(open, 399), await lives(open, 400)]).toEqual([true, false])
})

test('polls with vouchers of empty channels store nothing, and every claim is made all the same', async () => {
  const count = scaled(50, 10_050)
  const storage = memoryStorage()
  const chain = voucherChain(storage, [], () => [[0n, 0n], [0n, 0n], [0n]])
  const [terms] = chain.terms(T)
  if (!terms) throw new Error('it sells nothing')
  const offer = offerOf(terms, { amount: usdc(10n), maxTimeoutSeconds: 600 })
  const at = { now: T, signal: new AbortController().signal }
  for (let n = 0; n < count; n++) {
    const payment = await voucherBuyer(`wallet ${n}`).sign(offer, 0n)
    expect(await chain.fate(payment, offer, at)).toEqual({ kind: 'dead' })
  }
  const extra = offer.extra as { readonly receiverAuthorizer: string }
  const owner = `${NETWORK}/${lower(extra.receiverAuthorizer)}/`
  for (const each of ['due', 'idle', ...'0123456789abcdef'])
    expect(await storage.listRecords('channel', owner + each, { now: T, limit: 10 })).toEqual([])
}, 120_000)

test('what is due and not mined for half of the withdraw delay is an alert, once, and again after a claim', async () => {
  const subject = seller(memoryStorage(), { claimAbove: 10n })
  const unclaimed = 'what channels owe is not claimed for half of the withdraw delay'
  subject.relay.isDown = true
  await subject.opened(1, { charged: 10n })
  await subject.maintain({ now: T })
  await subject.maintain({ now: T + 11 * HOUR })
  expect(subject.alerts).toEqual([])
  await subject.maintain({ now: T + 13 * HOUR })
  await subject.maintain({ now: T + 14 * HOUR })
  expect(subject.alerts).toEqual([unclaimed])
  subject.relay.isDown = false
  await subject.maintain({ now: T + 15 * HOUR })
  subject.relay.isDown = true
  await subject.opened(2, { charged: 10n, at: T + 15 * HOUR })
  await subject.maintain({ now: T + 16 * HOUR })
  await subject.maintain({ now: T + 29 * HOUR })
  expect(subject.alerts.filter((alert) => alert === unclaimed)).toHaveLength(2)
})

test('each claimed channel notes its part of the gas', async () => {
  const subject = seller(memoryStorage(), { costOf: async (gas) => gas / 100_000n })
  const ids = [await subject.opened(1, { charged: 90n }), await subject.opened(2, { charged: 90n })]
  await subject.maintain({ now: T })
  const states = await Promise.all(ids.map((id) => subject.states.get(id, T)))
  // 220,000 and 70,000 for each.
  expect(states.map((state) => state?.gasPaid)).toEqual(['1', '1'])
})
