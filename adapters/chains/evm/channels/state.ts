/**
 * State of a channel, which is the only proof of what was charged since the last claim, and each step it can take
 * (decision 134).
 */
import { checksummed, type Json } from '../../../../core/lib/mod.ts'
import type { Hex } from '../../lib/hex.ts'
import type { ChannelConfig } from './digests.ts'

/** State of a channel on chain. Amounts are in base units. */
export type Mirror = {
  /** Everything that was deposited and not paid back; claims do not lower it. */
  readonly balance: bigint
  readonly claimed: bigint
  /** Amount that the payer has asked to withdraw, and when, in seconds; 0 if none. */
  readonly withdrawing: bigint
  readonly withdrawRequestedAt: number
  readonly refundNonce: bigint
}

/**
 * A refund at the payer's wish: the one under way, or the last one. While one is `requested`, nothing was sent, and a
 * purchase that is under way comes first. Once it is `sent`, no purchase is charged until it is `done`.
 */
export type Refund = {
  readonly status: 'requested' | 'sent' | 'done'
  /** The total charged when it was requested, and the requested amount; null for everything that is left. */
  readonly base: string
  readonly part: string | null
  /** The most that is sent back; once done, the amount sent. In base units. */
  readonly amount: string
  /** The contract's nonce: it takes one refund for each. */
  readonly nonce: string
  /** When it was asked for, and then when it was sent last or was done, in milliseconds. */
  readonly at: number
  /** The block before it was sent, and its transaction; where they are known. */
  readonly block?: number
  readonly transaction?: Hex
}

/** `claimed <= charged <= ceiling <= balance`, and `signature` is the payer's over `ceiling`. */
export type ChannelState = Mirror & {
  readonly channelId: Hex
  readonly config: ChannelConfig
  readonly charged: bigint
  readonly ceiling: bigint
  readonly signature: Hex
  /** The last deposit that we sent: the nonce of its authorization, and its transaction where it is known. */
  readonly deposit: { readonly nonce: Hex; readonly transaction?: Hex } | null
  readonly refund?: Refund
  /** Gas that the gateway has paid since the last refund, and the total charged until then, in base units. */
  readonly gasSpent?: string
  readonly refundedAt?: string
  /** The same since the first deposit, with the channel's part of claims, in base units. */
  readonly gasPaid?: string
  /** The payer has signed a deposit into this channel, which names the key that signs its vouchers. */
  readonly isPayerProven?: true
  /** Ceilings, from what is charged on, of vouchers that have paid: whoever reads a claim has their signatures. */
  readonly spent?: readonly string[]
  /** The total charged before the last charge: it names the call that was charged last. */
  readonly lastBase?: string
  /** When the chain first showed that the payer has withdrawn what is due, in milliseconds. The operator was told. */
  readonly lostAt?: number
  /** Claims on chain that this record did not know, after the restore of an older backup. In base units. */
  readonly forgotten?: string
  /** The claimed total up to which the ceilings that claims have published are in `spent`, if they were read. */
  readonly publishedTo?: string
  /** The claimed total that this record began with, while the vouchers of these claims were not read. */
  readonly unread?: string
  /** Open calls of an API key, by the name of the call (decision 151). */
  readonly reserved?: Readonly<Record<string, CallReservation>>
  /** Calls that were charged out of a reservation and may not be in the ledger yet, by name, with what was charged. */
  readonly charges?: Readonly<Record<string, string>>
  /** When a call was charged last out of a reservation, or a deposit came for its key, in milliseconds. */
  readonly usedAt?: number
  /** Its key was closed. `rest`: what open calls leave goes back once they have ended. A deposit opens it again. */
  readonly closing?: 'rest' | 'done'
  /** When the mirror was read, in milliseconds. */
  readonly syncedAt: number
}

/**
 * A part of the balance that an open call may be charged. `isSigned`: its voucher cannot be signed when it is charged,
 * so every voucher that is signed meanwhile covers it too.
 */
type CallReservation = {
  /** In base units. */
  readonly amount: string
  /** When it ends by itself, in milliseconds: its process was killed. */
  readonly until: number
  readonly isSigned?: true
}

/** How old the mirror of a channel may be, in milliseconds. */
export const freshMsOf = (withdrawDelay: number): number =>
  Math.min(300_000, Math.max(30_000, (withdrawDelay * 1000) / 3))

/** Total that can be claimed. A withdrawal that may end before the next claims counts as paid back. */
export function claimableOf(
  { balance, withdrawing, withdrawRequestedAt }: Mirror,
  { now, withdrawDelay }: { readonly now: number; readonly withdrawDelay: number },
): bigint {
  const end = (withdrawRequestedAt + withdrawDelay) * 1000
  return withdrawing > 0n && now > end - freshMsOf(withdrawDelay) ? balance - withdrawing : balance
}

/** Of one channel, before the lowest is forgotten and everything up to it is refused. */
const MAX_SPENT = 64

/** The channel after a charge by a voucher. */
export function chargedState(
  state: ChannelState,
  { due, ceiling, signature }: Pick<ChannelState, 'ceiling' | 'signature'> & { readonly due: bigint },
): ChannelState {
  const charged = state.charged + due
  const spent = spentWith({ ...state, charged }, ceiling)
  return { ...state, charged, ceiling, signature, spent, lastBase: String(state.charged) }
}

/** The ceilings that have paid, with one more. */
export function spentWith(state: ChannelState, ceiling: bigint): readonly string[] {
  const spent = [...new Set([...spentBy(state), String(ceiling)])].filter((each) => BigInt(each) >= state.charged)
  return spent.toSorted((one, other) => (BigInt(one) < BigInt(other) ? -1 : 1)).slice(-MAX_SPENT)
}

/** The channel with a newer voucher, which a claim may publish. */
export function withCeiling(
  state: ChannelState,
  { ceiling, signature }: Pick<ChannelState, 'ceiling' | 'signature'>,
): ChannelState {
  return { ...state, ceiling, signature, spent: spentWith(state, ceiling) }
}

/** The total that gas has cost for a channel, with one more transaction. */
export const gasPaidWith = ({ gasPaid = '0' }: Pick<ChannelState, 'gasPaid'>, cost: bigint): string =>
  String(BigInt(gasPaid) + cost)

type Reservations = NonNullable<ChannelState['reserved']>

/** Name of the reservation that one was taken from: `child/ADDRESS` of `child/ADDRESS/CALL`. Undefined for others. */
export const takenFrom = (name: string): string | undefined => /^(child\/[^/]+)\/./.exec(name)?.[1]

/** The reservations that have not ended. One that has goes back to the reservation that it was taken from. */
export function openReservations({ reserved = {} }: Pick<ChannelState, 'reserved'>, now: number): Reservations {
  const open = Object.fromEntries(Object.entries(reserved).filter(([, { until }]) => until > now))
  for (const [name, { amount, until }] of Object.entries(reserved)) {
    if (until > now) continue
    const source = takenFrom(name) ?? ''
    const own = open[source]
    if (own) open[source] = { ...own, amount: String(BigInt(own.amount) + BigInt(amount)) }
  }
  return open
}

const sumOf = (all: readonly CallReservation[]): bigint => all.reduce((sum, { amount }) => sum + BigInt(amount), 0n)

/** Sum of the reservations that have not ended. */
export const reservedIn = (state: Pick<ChannelState, 'reserved'>, now: number): bigint =>
  sumOf(Object.values(openReservations(state, now)))

/** The same of those that every voucher has to cover. */
export const signedIn = (state: Pick<ChannelState, 'reserved'>, now: number): bigint =>
  sumOf(Object.values(openReservations(state, now)).filter(({ isSigned }) => isSigned))

/** The channel with a reservation, and without those that have ended. */
export function withReservation(
  state: ChannelState,
  { name, reservation, now }: { readonly name: string; readonly reservation: CallReservation; readonly now: number },
): ChannelState {
  return { ...state, reserved: { ...openReservations(state, now), [name]: reservation } }
}

/** The channel without one reservation. */
export function withoutReservation(state: ChannelState, name: string): ChannelState {
  const { [name]: _, ...reserved } = state.reserved ?? {}
  const { reserved: __, ...rest } = state
  return Object.keys(reserved).length > 0 ? { ...rest, reserved } : rest
}

/** Charges that a channel remembers at most: those whose process was killed before it knew that the ledger has them. */
const MAX_CHARGES = 1_024

/**
 * The channel that remembers what a call was charged, until the ledger has it: a settlement that is asked for again is
 * not made again. Those that are `recorded` are forgotten.
 */
export function withCharge(
  state: ChannelState,
  { name, due, isRecorded }: { readonly name: string; readonly due: bigint; isRecorded(name: string): boolean },
): ChannelState {
  const open = Object.entries(state.charges ?? {}).filter(([each]) => !isRecorded(each))
  return { ...state, charges: { ...Object.fromEntries(open.slice(1 - MAX_CHARGES)), [name]: String(due) } }
}

/**
 * Whether a voucher for this ceiling may be in the hands of others. Claims publish vouchers, and a correction tells the
 * last one; what it allows above the charge would buy for whoever presents it.
 */
export function isSpentVoucher(state: ChannelState, ceiling: bigint): boolean {
  const spent = spentBy(state)
  const isUnknown = spent.length >= MAX_SPENT && ceiling <= BigInt(spent[0] ?? 0)
  return isUnknown || spent.includes(String(ceiling))
}

/**
 * Whether others may have a voucher for exactly what is charged, which is all that a refund needs. So it is at fixed
 * prices, whose ceilings are charged in full, and where nobody knows what was signed before.
 */
export function isRefundPublic(state: ChannelState): boolean {
  const { charged, ceiling, forgotten, unread } = state
  const isUnknown = ceiling === 0n || forgotten !== undefined || unread !== undefined
  return charged > 0n && (isUnknown || isSpentVoucher(state, charged))
}

/** A record of before they were noted has its last one. */
export const spentBy = ({ spent, ceiling }: ChannelState): readonly string[] =>
  spent ?? (ceiling > 0n ? [String(ceiling)] : [])

/** By how much the clocks of replicas may differ, and more. */
const MAX_SKEW_MS = 30_000

/**
 * Ignores the answer of a node behind the last refund, which would count money that has gone, and one that was asked
 * long before something newer was noted. Where more was claimed than the record knows, the record is an old one, from a
 * backup: the chain is right, and no voucher of ours goes beyond it.
 */
export function withMirror(state: ChannelState, mirror: Mirror, now: number): ChannelState {
  if (mirror.refundNonce < state.refundNonce || now < state.syncedAt - MAX_SKEW_MS) return state
  if (mirror.claimed <= state.charged) {
    const { lostAt, ...rest } = state
    const isLess = mirror.balance < state.charged && lostAt !== undefined
    return { ...rest, ...mirror, ...(isLess && { lostAt }), syncedAt: now }
  }
  const forgotten = String(BigInt(state.forgotten ?? 0) + mirror.claimed - state.charged)
  const unsigned = { charged: mirror.claimed, ceiling: 0n, signature: '0x' as Hex, forgotten }
  return { ...state, ...mirror, ...unsigned, unread: String(mirror.claimed), syncedAt: now }
}

/** A channel that we have no voucher of: nothing is charged beyond what was claimed. */
export function newState(
  { channelId, config }: Pick<ChannelState, 'channelId' | 'config'>,
  mirror: Mirror,
  now: number,
): ChannelState {
  const unsigned = { ceiling: 0n, signature: '0x' as Hex, deposit: null }
  const unread = mirror.claimed > 0n && { unread: String(mirror.claimed) }
  return { channelId, config, charged: mirror.claimed, ...unsigned, ...unread, ...mirror, syncedAt: now }
}

/**
 * The wallet that has signed what this channel pays for: its payer where that is proven, otherwise the key that signs
 * its vouchers. Whoever opens a channel may name any payer.
 */
export const buyerOf = ({ config, isPayerProven }: Pick<ChannelState, 'config' | 'isPayerProven'>): string =>
  checksummed(isPayerProven ? config.payer : config.payerAuthorizer)

/** A node may be behind: what it shows as withdrawn is looked at for so long before it counts as lost. */
const LOST_AFTER_MS = 3_600_000

/** Whether a claim or a refund of the channel is to be made. */
export const isDue = (state: ChannelState): boolean =>
  isRefunding(state) ||
  state.closing === 'rest' ||
  (state.charged > state.claimed && (state.balance > state.claimed || !isLost(state)))

const isLost = ({ lostAt, syncedAt }: ChannelState): boolean =>
  lostAt !== undefined && syncedAt - lostAt >= LOST_AFTER_MS

/** Everything that was deposited is claimed or paid back. */
export const isClosed = (state: ChannelState): boolean => !isDue(state) && state.balance === state.claimed

export const isRefunding = ({ refund }: ChannelState): boolean => refund !== undefined && refund.status !== 'done'

/** The state as clients of the scheme know it. */
export function channelStateOf(state: ChannelState): { readonly [name: string]: Json } {
  return {
    channelId: state.channelId,
    balance: String(state.balance),
    totalClaimed: String(state.claimed),
    withdrawRequestedAt: state.withdrawRequestedAt,
    refundNonce: String(state.refundNonce),
    chargedCumulativeAmount: String(state.charged),
  }
}
