/**
 * Brings signed deposits on chain. A deposit is simulated right before it is sent, is sent once, and is in the record
 * of its channel before anything is worked on (decision 138).
 */
import type { Refused, Unavailable } from '../../../../core/ports/mod.ts'
import { flagIn, type Hex, lower } from '../../lib/hex.ts'
import { type CallOptions, unavailable } from '../../lib/results.ts'
import { payerRevertLimiter, type RevertLimiter } from '../../lib/revert_limiter.ts'
import type { Reads, ViewOptions } from '../node/reads.ts'
import type { Relayer } from '../node/relayer.ts'
import { stateCall } from '../node/token.ts'
import { depositCall, mirrorCalls, mirrorIn } from './contract.ts'
import type { ChannelCosts, DepositGroup, GroupLimit } from './costs.ts'
import { type Channeled, type Deposit, endOf, overBudget, refusedChannel } from './payload.ts'
import { type ChannelState, type Mirror, gasPaidWith, newState, withMirror } from './state.ts'
import { type ChannelStates } from './records.ts'

type DepositsContext = {
  readonly reads: Pick<Reads, 'view'>
  readonly relayer: Pick<Relayer, 'send'>
  readonly states: ChannelStates
  readonly costs: ChannelCosts
}

type DepositsConfig = {
  readonly network: string
  readonly asset: string
  readonly lagSeconds: number
  readonly alert?: ((message: string, fields: Record<string, unknown>) => void) | undefined
}

/** A payload that brings a deposit, signed by the payer. */
type Depositing = Pick<Channeled, 'channelId' | 'config'> & { readonly deposit: Deposit }

type Landing =
  | { readonly kind: 'landed'; readonly state: ChannelState }
  | Refused
  | Unavailable
  /** It was sent, and may still be mined. */
  | { readonly kind: 'unknown'; readonly reason: string }

/** A deposit and its channel in one block: where it is used, it is in the balance, or was taken out again. */
type DepositSeen = { readonly used: boolean; readonly mirror: Mirror; readonly time: number }

/** Gas of a deposit, and of its simulation. */
const GAS = 250_000n
/** Least remaining lifetime of a deposit's authorization, in milliseconds (decision 67). */
const LIFE_MS = 6_000
const MAX_RACES = 8

/** State of `channelDeposits`. */
type DepositParts = DepositsContext &
  DepositsConfig & {
    /** Deposits of this process that are under way, by nonce. */
    readonly landings: Map<Hex, Promise<Landing>>
    /** The end of the last one, by payer. */
    readonly turns: Map<Hex, Promise<void>>
    readonly revertLimiter: RevertLimiter
    /** Until when deposits of a group wait, as the operator was told. In milliseconds. */
    readonly alertedUntil: Record<DepositGroup, number>
  }

export function channelDeposits(context: DepositsContext, config: DepositsConfig) {
  const landings = new Map<Hex, Promise<Landing>>()

  const deposits: DepositParts = {
    ...context,
    ...config,
    landings,
    turns: new Map<Hex, Promise<void>>(),
    revertLimiter: payerRevertLimiter(),
    alertedUntil: { first: 0, later: 0 },
  }
  return {
    seen: (depositing: Depositing, at: Pick<ViewOptions, 'lagSeconds' | 'signal'>) => seen(deposits, depositing, at),
    problem: (depositing: Depositing, at: { readonly now: number; readonly signal?: AbortSignal }) =>
      problem(deposits, depositing, at),
    land: (depositing: Depositing, at: CallOptions) => land(deposits, depositing, at),
    isIdle: () => landings.size === 0,
  }
}

async function seen(
  deposits: DepositParts,
  { channelId, config: { payer }, deposit }: Depositing,
  at: Pick<ViewOptions, 'lagSeconds' | 'signal'>,
): Promise<DepositSeen | Unavailable> {
  const used = { to: lower(deposits.asset), data: stateCall(payer, deposit.nonce) }
  const answer = await deposits.reads.view([used, ...mirrorCalls(channelId)], at)
  if (answer.kind === 'failure') return unavailable(answer.reason)
  const [first, ...rest] = answer.results
  const [flag, mirror] = [flagIn(first), mirrorIn(rest)]
  if (flag === undefined) return unavailable('authorizationState() of the token cannot be read')
  if (!mirror) return unavailable('the settlement contract does not answer on this network')
  return { used: flag, mirror, time: answer.time }
}

/** Undefined when it would be taken now; `landed` when it is in the channel already. */
async function problem(
  deposits: DepositParts,
  depositing: Depositing,
  { now, signal }: { readonly now: number; readonly signal?: AbortSignal },
): Promise<Refused | Unavailable | 'landed' | undefined> {
  const { channelId, config: channel, deposit } = depositing
  const before = await seen(deposits, depositing, { lagSeconds: deposits.lagSeconds, ...(signal && { signal }) })
  if ('kind' in before) return before
  if (before.used) return 'landed'
  const least = deposits.costs.minDeposit()
  if (deposit.amount < least) {
    const text = `deposit.amount is ${deposit.amount}; it must be at least ${least}`
    return refusedChannel('PAYMENT_INVALID', 'deposit_below_min_deposit', text)
  }
  if (endOf(deposit) < now + LIFE_MS) {
    const text = `deposit.authorization.validBefore is ${deposit.validBefore}; it must be at least 6 seconds after now, ${Math.ceil(now / 1000)}`
    return refusedChannel('PAYMENT_UNFUNDED', 'payload_authorization_valid_before', text)
  }
  const limited = limitOf(deposits, depositing, { group: await groupOf(deposits, depositing, now), now })
  if (limited) return limited
  const call = depositCall(channel, deposit)
  const answer = await deposits.reads.view([call], {
    lagSeconds: deposits.lagSeconds,
    ...(signal && { signal }),
    gas: GAS,
    direct: true,
  })
  if (answer.kind === 'failure') return unavailable(answer.reason)
  if (answer.results[0]?.ok) return undefined
  const text = `the deposit of ${deposit.amount} base units into ${channelId} would revert: check its signature, its times and the payer's balance`
  return refusedChannel('PAYMENT_UNFUNDED', 'deposit_simulation_failed', text)
}

const groupOf = async ({ states }: DepositParts, { channelId }: Depositing, now: number): Promise<DepositGroup> =>
  (await states.get(channelId, now))?.isPayerProven ? 'later' : 'first'

/** Why nothing more is sent for this payer, or for anybody of the group. */
function limitOf(
  deposits: DepositParts,
  { config: { payer }, deposit }: Depositing,
  { group, now }: { readonly group: DepositGroup; readonly now: number },
): Refused | Unavailable | undefined {
  const limit = deposits.costs.groupLimit(group, now)
  if (limit) return tooMany(group, limit)
  const isContract = deposit.signature.length !== 132
  const until = deposits.revertLimiter.blockedUntil(payer, isContract, now)
  const paidUntil = deposits.costs.depositsLimitedUntil(payer, now)
  if (until === undefined && paidUntil === undefined) return undefined
  if (until === undefined) return overBudget('deposit_transaction_failed', payer, paidUntil ?? now)
  const pause = `nothing is sent for it until ${new Date(until).toISOString()}`
  const text = `${deposits.revertLimiter.count(payer, now)} deposits of ${payer} passed simulation and reverted on chain; ${pause}`
  return refusedChannel('PAYMENT_UNFUNDED', 'deposit_transaction_failed', text)
}

/** Resolves once the deposit is in the channel and its record, however often and by whomever it was sent. */
async function land(deposits: DepositParts, depositing: Depositing, { now, signal }: CallOptions): Promise<Landing> {
  const { nonce } = depositing.deposit
  const before = await deposits.states.get(depositing.channelId, now)
  if (before?.deposit?.nonce === nonce) return { kind: 'landed', state: before }
  if (signal.aborted) return PENDING
  const running = deposits.landings.get(nonce) ?? begin(deposits, depositing, { now, signal })
  return await unlessAborted(running, signal)
}

/** Deposits of one payer take turns: each is simulated on what the one before it left. */
function begin(deposits: DepositParts, depositing: Depositing, { now, signal }: CallOptions): Promise<Landing> {
  const { config: channel, deposit } = depositing
  const work = async () => (signal.aborted ? PENDING : await bring(deposits, depositing, now))
  const landing = (deposits.turns.get(channel.payer) ?? Promise.resolve()).then(work).finally(() => {
    deposits.landings.delete(deposit.nonce)
    if (deposits.turns.get(channel.payer) === turn) deposits.turns.delete(channel.payer)
  })
  const turn = landing.then(
    () => {},
    () => {},
  )
  deposits.landings.set(deposit.nonce, landing)
  deposits.turns.set(channel.payer, turn)
  return landing
}

async function bring(deposits: DepositParts, depositing: Depositing, now: number): Promise<Landing> {
  const group = await groupOf(deposits, depositing, now)
  const bad = await problem(deposits, depositing, { now })
  if (bad === 'landed') return await note(deposits, depositing, { now })
  if (bad) return bad
  const { config: channel, deposit } = depositing
  const shared = deposits.costs.reserveInGroup(group, now)
  if (shared.kind === 'limited') return tooMany(group, shared)
  const reserved = deposits.costs.reserveDeposit(channel.payer, now)
  if (reserved.kind === 'limited') {
    shared.release()
    return overBudget('deposit_transaction_failed', channel.payer, reserved.until)
  }
  // Its gas is gone whatever became of the money: the payer may have used up the nonce meanwhile.
  let isWasted = false
  let landing: Landing | 'reverted'
  try {
    const sent = await deposits.relayer.send({ ...depositCall(channel, deposit), gas: GAS }, now)
    if (sent.kind === 'rejected') reserved.release()
    isWasted = sent.kind === 'mined' && !sent.receipt.success
    landing = await landed(deposits, depositing, { sent, now })
  } finally {
    if (isWasted) shared.spend()
    else shared.release()
  }
  if (isWasted) warn(deposits, group, now)
  if (landing !== 'reverted') return landing
  deposits.revertLimiter.recordRevert(channel.payer, now)
  const text = 'the deposit reverted on chain: nothing moved'
  return refusedChannel('PAYMENT_UNFUNDED', 'deposit_transaction_failed', text)
}

type Sent = Awaited<ReturnType<Relayer['send']>>

/** Where a deposit is after it was sent; `reverted` where nothing moved. */
async function landed(
  deposits: DepositParts,
  depositing: Depositing,
  { sent, now }: { readonly sent: Sent; readonly now: number },
): Promise<Landing | 'reverted'> {
  if (sent.kind === 'rejected') return unavailable(`nothing was sent: ${sent.reason}`)
  if (sent.kind === 'mined' && sent.receipt.success)
    return await note(deposits, depositing, { now, transaction: sent.receipt.transactionHash })
  const after = await seen(deposits, depositing, { lagSeconds: deposits.lagSeconds })
  if (!('kind' in after) && after.used) return await note(deposits, depositing, { now })
  if ('kind' in after || sent.kind !== 'mined' || sent.hasOtherNonces) return PENDING
  return 'reverted'
}

/** Tells the operator once that deposits have to wait. */
function warn({ costs, alertedUntil, network, alert }: DepositParts, group: DepositGroup, now: number): void {
  const limit = costs.groupLimit(group, now)
  if (!limit || limit.isBusy || now < alertedUntil[group]) return
  alertedUntil[group] = limit.until
  const who = group === 'first' ? 'new channels' : 'deposits into known channels'
  alert?.(`deposits revert on chain: ${who} wait`, { network, until: new Date(limit.until).toISOString() })
}

function tooMany(group: DepositGroup, { until, isBusy }: GroupLimit): Refused | Unavailable {
  if (isBusy) return unavailable('too many deposits are on their way to the chain; ask again in a few seconds')
  const what = group === 'first' ? 'first deposits into channels' : 'deposits into channels'
  const pause = `pay by another scheme, or deposit later, at the latest after ${new Date(until).toISOString()}`
  const text = `${what} reverted on chain too often within an hour; ${pause}`
  return refusedChannel('PAYMENT_UNFUNDED', 'deposit_transaction_failed', text)
}

/**
 * Stores the channel with a deposit that is mined. A node that does not show the deposit yet shows the rest.
 * A deposit that landed without a known transaction may be of a process that was killed: its gas counts too. Its signer
 * may also have used up its nonce: a channel that nothing is in gets no record.
 */
async function note(
  deposits: DepositParts,
  depositing: Depositing,
  { now, transaction }: { readonly now: number; readonly transaction?: Hex },
): Promise<Landing> {
  const { channelId, deposit } = depositing
  const after = await seen(deposits, depositing, { lagSeconds: deposits.lagSeconds })
  if ('kind' in after) return { kind: 'unknown', reason: after.reason }
  const isEmpty = after.used && after.mirror.balance === 0n
  if (isEmpty && !transaction && !(await deposits.states.get(channelId, now))) {
    const text = 'the authorization of the deposit is used, and the channel is empty: nothing was deposited'
    return refusedChannel('PAYMENT_UNFUNDED', 'deposit_transaction_failed', text)
  }
  const added = after.used ? 0n : deposit.amount
  const mirror = { ...after.mirror, balance: after.mirror.balance + added }
  for (let race = 0; race < MAX_RACES; race++) {
    const before = await deposits.states.get(channelId, now)
    const state = before ? withMirror(before, mirror, now) : newState(depositing, mirror, now)
    // A deposit that landed before the record was read raises no balance, and its gas is counted.
    const isCounted = before !== undefined && mirror.balance < before.balance + deposit.amount
    const isNoted = !transaction && (isCounted || state.deposit?.nonce === deposit.nonce)
    const noted = isNoted ? state.deposit : { nonce: deposit.nonce, ...(transaction && { transaction }) }
    const cost = isNoted ? 0n : deposits.costs.deposit()
    const gas = { gasSpent: String(BigInt(state.gasSpent ?? 0) + cost), gasPaid: gasPaidWith(state, cost) }
    const { closing, ...open } = state
    const isClosing = isNoted && closing && { closing }
    const next: ChannelState = { ...open, ...isClosing, ...gas, deposit: noted, isPayerProven: true }
    if (await deposits.states.replace(before, next, now)) return { kind: 'landed', state: next }
  }
  return { kind: 'unknown', reason: 'the record of the channel is changed by others' }
}

export type ChannelDeposits = ReturnType<typeof channelDeposits>

const PENDING = { kind: 'unknown', reason: 'the deposit was sent, and is not mined yet' } as const

/** The outcome, or that it is pending where nobody waits for it any more. */
function unlessAborted(landing: Promise<Landing>, signal: AbortSignal): Promise<Landing> {
  return new Promise((resolve, reject) => {
    const onAbort = () => resolve(PENDING)
    signal.addEventListener('abort', onAbort, { once: true })
    landing.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}
