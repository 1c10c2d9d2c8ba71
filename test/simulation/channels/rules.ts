/** Rules of channels, each switched off by what stands behind a port: the model must miss every one. */
import { decodeFunctionData, encodeFunctionData } from 'viem'
import { type ChannelCosts, DEPOSIT_GAS, type Reservation } from '../../../adapters/chains/evm/channels/costs.ts'
import type { ContractCall } from '../../../adapters/chains/evm/node/multicall.ts'
import { batchSettlementAbi as abi } from '../../../adapters/chains/evm/node/x402_contracts.ts'
import type { Rpc } from '../../../adapters/chains/lib/json_rpc.ts'
import type { Reads } from '../../../adapters/chains/evm/node/reads.ts'
import type { Relayer } from '../../../adapters/chains/evm/node/relayer.ts'
import type { Storage, Timeouts } from '../../../core/mod.ts'
import type { Chain, StoredRecord } from '../../../core/ports/mod.ts'
import type { Hex } from '../../../adapters/chains/lib/hex.ts'
import { checksummed } from '../../../core/lib/checksum.ts'
import type { Json } from '../../../core/lib/json.ts'
import type { LawName } from './ledger.ts'
import { CHANNELS_VIEW, claimRowsOf, digests, lowered, WITHDRAWALS_VIEW } from './contract.ts'
import { AUTHORIZER } from './keys.ts'

/** Ports of the adapter of channels. */
export type Backing = {
  readonly rpc: Pick<Rpc, 'request'>
  readonly reads: Pick<Reads, 'view'>
  readonly relayer: Pick<Relayer, 'send'>
  readonly storage: Storage
  readonly costs: ChannelCosts
}

export type ChannelRule = {
  readonly name: string
  /** So many channels were charged before the run begins. */
  readonly load?: number
  /** Somebody tries to read, take and drain. */
  readonly isThief?: boolean
  /** The thief's most frequent attempt, by the name of the event; each run has its own unless told. */
  readonly trick?: string
  /** Limit of a process for one wallet in an hour; plenty in most runs unless told. */
  readonly gasPerWallet?: bigint
  readonly timeouts?: Partial<Timeouts>
  readonly backing?: (backing: Backing) => Backing
  readonly chain?: (chain: Chain) => Chain
  /** The laws that are judged; all of them unless told. */
  readonly breaks?: readonly LawName[]
  /** A campaign whose first runs miss it. */
  readonly seed?: number
}

export const CHANNELS: ChannelRule = { name: 'channels, as built' }

/** More than fit into two batches of claims. */
export const LOAD_OF_CHANNELS: ChannelRule = { name: 'hundreds of channels', load: 220 }
export const THIEF_OF_CHANNELS: ChannelRule = { name: 'channels, with a thief', isThief: true }

export const channelFlags: readonly ChannelRule[] = [
  {
    name: 'a record changes only from what was read',
    breaks: ['monotone', 'oneCharge', 'trueLedger'],
    seed: 27,
    backing: ({ storage, ...rest }) => ({
      ...rest,
      storage: {
        ...storage,
        async moveRecord(record, from, now) {
          const stored = await storage.getRecord(record.kind, record.id, now)
          return await storage.moveRecord(record, stored && record.kind === 'channel' ? stored.data : from, now)
        },
      },
    }),
  },
  {
    name: 'the signature of the last voucher is kept',
    breaks: ['order'],
    backing: (backing) =>
      withRecords(backing, { written: (data) => ({ ...data, ceiling: String(BigInt(String(data.ceiling)) * 10n) }) }),
  },
  {
    name: 'what was charged is claimed, and not what was signed',
    breaks: ['neverOverclaimed'],
    backing: ({ relayer, ...rest }) => ({ ...rest, relayer: { send: (call, now) => relayer.send(greedy(call), now) } }),
  },
  {
    name: 'everything that is due is claimed',
    breaks: ['sellerIsPaid'],
    backing: (backing) => withRecords(backing, { listed: () => [] }),
  },
  {
    name: 'the balance of a channel is what the chain says',
    breaks: ['covered'],
    backing: (backing) => withView(backing, CHANNELS_VIEW, (data) => `0x${'f'.padStart(60, '0')}ffff${data.slice(66)}`),
  },
  {
    name: 'a refund leaves what was charged',
    breaks: ['refundLeavesDue'],
    seed: 8,
    backing: ({ relayer, ...rest }) => ({
      ...rest,
      relayer: { send: (call, now) => relayer.send(withoutClaim(call), now) },
    }),
  },
  {
    name: 'a withdrawal is looked for',
    breaks: ['withdrawalSeen'],
    backing: (backing) => withView(backing, WITHDRAWALS_VIEW, () => `0x${'0'.repeat(128)}`),
  },
  {
    name: 'nothing is charged before there is a result, and no deposit sent without a call',
    breaks: ['depositHasCall', 'chargeHasResult'],
    chain: (chain) => ({
      ...chain,
      async verify(payment, offer, at) {
        const verdict = await chain.verify(payment, offer, at)
        if (verdict.kind === 'valid') await chain.settle(payment, offer, at)
        return verdict
      },
    }),
  },
  {
    name: 'what is told to be charged is charged',
    breaks: ['resultHasCharge'],
    chain: ({ drawDown: _, ...chain }) => ({
      ...chain,
      async settle(_payment, { network, amount }) {
        return { kind: 'settled', receipt: { transaction: '', network, payer: '', amount } }
      },
    }),
  },
  {
    name: 'a receipt says what was charged',
    breaks: ['resultHasCharge', 'trueLedger'],
    chain: ({ drawDown: _, ...chain }) => ({
      ...chain,
      async settle(payment, offer, at) {
        const settlement = await chain.settle(payment, offer, at)
        if (settlement.kind !== 'settled') return settlement
        return { ...settlement, receipt: { ...settlement.receipt, amount: offer.amount } }
      },
    }),
  },
  {
    name: 'what was charged is known to be paid',
    breaks: ['noSecondSignature', 'trueLedger', 'oneCharge'],
    chain: ({ drawDown: _, ...chain }) => ({
      ...chain,
      async settle(payment, offer, at) {
        const settlement = await chain.settle(payment, offer, at)
        return settlement.kind === 'settled' ? { kind: 'refused', reason: 'it is text not to be' } : settlement
      },
      fate: async () => ({ kind: 'dead' }),
    }),
  },
  {
    name: 'a buyer that is out of step is corrected',
    breaks: ['nothingStuck'],
    chain: (chain) => ({
      ...chain,
      async verify(payment, offer, at) {
        const verdict = await chain.verify(payment, offer, at)
        if (verdict.kind !== 'refused') return verdict
        const { kind, code, reason } = verdict
        return { kind, code, reason }
      },
    }),
  },
  {
    name: 'answers are charged',
    breaks: ['nothingGiven'],
    chain: ({ drawDown: _, ...chain }) => ({
      ...chain,
      settle: async () => ({ kind: 'unavailable', reason: 'nobody settles' }),
      fate: async () => ({ kind: 'open' }),
    }),
  },
  {
    name: 'only the wallet that ordered collects',
    breaks: ['onlyThePayer'],
    chain: (chain) => ({
      ...chain,
      async identify(payment, offer, at) {
        const identity = await chain.identify(payment, offer, at)
        return identity.kind === 'known' ? { ...identity, payer: '0xeverybody' } : identity
      },
    }),
  },
  {
    name: 'all batches of a claim are sent',
    load: 220,
    breaks: ['sellerIsPaid'],
    backing: (backing) => ({ ...backing, relayer: { send: (call, now) => firstBatch(backing, call, now) } }),
  },
  {
    name: 'the wallet of a channel is who has signed',
    isThief: true,
    breaks: ['payerHasSigned'],
    chain: (chain) => ({
      ...chain,
      async identify(payment, offer, at) {
        const identity = await chain.identify(payment, offer, at)
        const { payer } = (payment.payload as { channelConfig: { payer: string } }).channelConfig
        return identity.kind === 'known' ? { ...identity, payer: checksummed(payer) } : identity
      },
    }),
  },
  {
    name: 'a voucher that others can read buys nothing',
    isThief: true,
    breaks: ['ownVoucher'],
    trick: 'spendRest',
    backing: (backing) => withRecords(backing, { written: (data) => ({ ...data, spent: [] }) }),
  },
  {
    name: 'the gas of one wallet has a limit',
    isThief: true,
    breaks: ['gasIsBounded'],
    trick: 'bySalts',
    gasPerWallet: DEPOSIT_GAS,
    backing: ({ costs, ...rest }) => ({
      ...rest,
      costs: unlimited(costs),
    }),
  },
  {
    name: 'the storage answers',
    breaks: ['noSurprise'],
    backing: ({ storage, ...rest }) => ({
      ...rest,
      storage: { ...storage, callOf: () => Promise.reject(new Error('no such table')) },
    }),
  },
]

/** A claim of more than the first hundred channels is refused. */
const claimedBefore = new WeakMap<Backing, number>()
async function firstBatch(backing: Backing, call: Parameters<Relayer['send']>[0], now: number) {
  const { functionName, args } = decodeFunctionData({ abi, data: call.data })
  const [first] = functionName === 'multicall' ? args[0] : []
  const rows = first && decodeFunctionData({ abi, data: first })
  const count = rows?.functionName === 'claimWithSignature' ? rows.args[0].length : 0
  const before = claimedBefore.get(backing) ?? 0
  claimedBefore.set(backing, before + count)
  if (count > 0 && before >= 100) return { kind: 'rejected', reason: 'the first hundred are enough' } as const
  return await backing.relayer.send(call, now)
}

type Data = Readonly<Record<string, unknown>>

/** Changes channels where they are written, or where they are listed. */
function withRecords(
  { storage, ...rest }: Backing,
  { written = (data) => data, listed = (data) => [data] }: { written?(data: Data): Data; listed?(data: Data): Data[] },
): Backing {
  const isChannel = ({ kind }: Pick<StoredRecord, 'kind'>) => kind === 'channel'
  const dataOf = ({ data }: StoredRecord) => (data as { data: Data }).data
  const put = (record: StoredRecord, data: Data): StoredRecord => ({ ...record, data: { version: 1, data } as Json })
  const changed = (record: StoredRecord) => (isChannel(record) ? put(record, written(dataOf(record))) : record)
  return {
    ...rest,
    storage: {
      ...storage,
      putRecord: (record, now) => storage.putRecord(changed(record), now),
      moveRecord: (record, from, now) => storage.moveRecord(changed(record), from, now),
      async listRecords(...of) {
        const records = await storage.listRecords(...of)
        return records.flatMap((record) =>
          isChannel(record) ? listed(dataOf(record)).map((data) => put(record, data)) : [record],
        )
      },
    },
  }
}

/** A refund of everything, which brings in nothing that is due. */
function withoutClaim<C extends ContractCall>(call: C): C {
  const { functionName, args } = decodeFunctionData({ abi, data: call.data })
  if (functionName !== 'multicall') return call
  const parts = args[0].map((data) => decodeFunctionData({ abi, data }))
  const refund = parts.find((part) => part.functionName === 'refundWithSignature')
  if (refund?.functionName !== 'refundWithSignature') return call
  const [config, , nonce] = refund.args
  const amount = 10n ** 12n
  const signature = AUTHORIZER.sign(digests.refund(digests.channelId(lowered(config)), { nonce, amount }))
  return {
    ...call,
    data: encodeFunctionData({ abi, functionName: 'refundWithSignature', args: [config, amount, nonce, signature] }),
  }
}

/** A claim of everything that was signed, in place of what was charged. */
function greedy<C extends ContractCall>(call: C): C {
  const { functionName, args } = decodeFunctionData({ abi, data: call.data })
  if (functionName !== 'multicall') return call
  return { ...call, data: encodeFunctionData({ abi, functionName, args: [args[0].map(greedyPart)] }) }
}

function greedyPart(data: Hex): Hex {
  const { functionName, args } = decodeFunctionData({ abi, data })
  if (functionName !== 'claimWithSignature') return data
  const rows = args[0].map((row) => ({ ...row, totalClaimed: row.voucher.maxClaimableAmount }))
  const signature = AUTHORIZER.sign(digests.claims(claimRowsOf(rows)))
  return encodeFunctionData({ abi, functionName, args: [rows, signature] })
}

/** Changes what a view of the contract answers. */
function withView({ reads, ...rest }: Backing, selector: string, changed: (data: Hex) => Hex): Backing {
  return {
    ...rest,
    reads: {
      async view(calls, at) {
        const seen = await reads.view(calls, at)
        if (seen.kind === 'failure') return seen
        const results = seen.results.map(({ ok, data }, index) =>
          calls[index]?.data.startsWith(selector) ? { ok, data: changed(data) } : { ok, data },
        )
        return { ...seen, results }
      },
    },
  }
}

const RESERVED: Extract<Reservation, { kind: 'reserved' }> = { kind: 'reserved', release: () => {}, spend: () => {} }

/** Without a budget of a wallet. */
export const unlimited = (costs: ChannelCosts): ChannelCosts => ({
  ...costs,
  groupLimit: () => undefined,
  reserveInGroup: () => RESERVED,
  depositsLimitedUntil: () => undefined,
  refundsLimitedUntil: () => undefined,
  reserveDeposit: () => RESERVED,
  reserveRefund: () => RESERVED,
})
