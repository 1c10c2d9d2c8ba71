/**
 * How much a payer may have open: pure decisions over rows that a storage has read (contract 1.47, 1.46; decisions 18,
 * 92 and 140).
 */
import { print, type Usdc, usdc } from '../../x402/money.ts'
import type { Call, Cap, NewCall, NewWalletLimit, Opened, OverWhy, Verdict } from '../../ports/mod.ts'

/**
 * open: bound, never sent. sent: handed to a chain or facilitator, so it may have been broadcast. dead and paid are
 * final.
 */
export type BindingStatus = 'open' | 'sent' | 'dead' | 'paid'

/** How far a balance read at `asOf` may lag behind settlements, in milliseconds, where block numbers are not known. */
export const BALANCE_LAG_MS = 5_000

/**
 * How far before `asOf` storages search for settled calls, in milliseconds. No node that is read lags further behind.
 */
export const SETTLED_LOOKBACK_MS = 60_000

/** Number of a payer's newest settled calls that are summed, so that opening a call stays cheap. */
export const SETTLED_CALLS = 100

/**
 * A call of a payer with one of its bindings, or nulls where it has none. A call with several bindings may appear
 * several times.
 */
export type ExposedCall = Pick<
  Call,
  'id' | 'endpoint' | 'quote' | 'charge' | 'workStatus' | 'paymentStatus' | 'startedAt' | 'settledAt'
> & {
  readonly bindingStatus: BindingStatus | null
  readonly bindingExpiresAt: number | null
  /** Block or slot of its settlement; null when the receipt names none. */
  readonly block: number | null
}

type ReadAt = { readonly now: number; readonly without: string | undefined } & Pick<Cap, 'asOf' | 'block'>

/**
 * The sum that may still leave the payer's wallet, or has left it since the balance was read. `without` excludes one
 * call.
 */
export function exposure(exposedCalls: Iterable<ExposedCall>, at: ReadAt): Usdc {
  return sumOf(
    callsIn(
      exposedCalls,
      (exposed) => exposed.id !== at.without && (isOpen(exposed, at.now) || isMissing(exposed, at)),
    ),
  )
}

type Exposed = {
  readonly exposedCalls: Iterable<ExposedCall>
  /** Total of the payer's last SETTLED_CALLS settled calls in this asset; absent when there are none. */
  readonly settled?: Settled
}

/** A function is called only where the sum decides. */
export type Settled = Usdc | (() => Usdc) | undefined

type Judged =
  | { readonly kind: 'over'; readonly sum: Usdc; readonly why?: OverWhy }
  | { readonly kind: 'within'; readonly atLimit: boolean; readonly isNew: boolean }

/** Whether what the payer has paid before decides anything. */
export const needsSettled = (cap: Cap | undefined): boolean =>
  cap?.newWallet !== undefined || cap?.newWallets !== undefined

/**
 * Whether the payer may open one more call under the cap. `atLimit`: a new wallet could not open another such call, or
 * a wallet that has paid would have more open than it has paid so far. A stream is then settled before content is sent.
 */
export function judgeCap(
  call: NewCall,
  { exposedCalls: read, settled }: Exposed,
  at: { now: number; without: string | undefined; cap: Cap },
): Judged {
  const { observed, newWallet, newWallets, ...readAt } = at.cap
  const exposedCalls = [...read]
  const open = callsIn(
    exposedCalls,
    (exposed) => exposed.id !== at.without && exposed.quote > 0n && isOpen(exposed, at.now),
  )
  if (observed === undefined && open.size > 0)
    return { kind: 'over', sum: plus(sumOf(open), call.quote), why: 'unreadable' }
  if (observed !== undefined) {
    const sum = plus(exposure(exposedCalls, { ...readAt, now: at.now, without: at.without }), call.quote)
    if (sum > observed) return { kind: 'over', sum }
  }
  const isNew = newWallets !== undefined && !hasPaid(settled, newWallets.paid)
  if (isNew && newWallets.isFull) return { kind: 'over', sum: call.quote, why: 'new_wallets' }
  const within = (atLimit: boolean): Judged => ({ kind: 'within', atLimit, isNew })
  if (!newWallet) return within(false)

  // Jobs have a start time of their own, and their results cannot be read before payment.
  const unproven = [...open.values()].filter(
    ({ endpoint, startedAt }) => startedAt === null && newWallet.endpoints.includes(endpoint),
  )
  const sum = unproven.reduce((all, { quote, charge }) => all + (charge ?? quote), call.quote as bigint)
  // A wallet that has paid is never refused here; what exceeds its payments so far is settled earlier.
  if (settled !== undefined) {
    const isBeyond = (paid: Settled) => sum > (typeof paid === 'function' ? paid() : (paid ?? 0n))
    return within(sum > newWallet.worth && isBeyond(settled))
  }
  const isOver = (calls: number, worth: bigint) => calls > newWallet.calls || worth > newWallet.worth
  // The first call is allowed whatever it costs: otherwise a new wallet could never use an expensive model.
  if (unproven.length > 0 && isOver(unproven.length + 1, sum))
    return { kind: 'over', sum: usdc(sum), why: 'new_wallet' }
  return within(isOver(unproven.length + 2, sum + call.quote))
}

/** Whether a wallet has paid something, and at least this much. */
function hasPaid(settled: Settled, least: Usdc): boolean {
  if (settled === undefined || least === 0n) return settled !== undefined
  return (typeof settled === 'function' ? settled() : settled) >= least
}

/** Whether the authorization can still move money. */
function isOpen(exposed: ExposedCall, now: number): boolean {
  if (exposed.paymentStatus === 'settled' || (exposed.paymentStatus === 'verified' && exposed.workStatus === 'failed'))
    return false
  return (
    exposed.bindingStatus !== null &&
    isSpendable(exposed.bindingStatus) &&
    exposed.bindingExpiresAt !== null &&
    exposed.bindingExpiresAt > now
  )
}

/**
 * Whether a settled call may be missing from the balance: its block is later or, without block numbers, it is too
 * recent.
 */
function isMissing({ paymentStatus, settledAt, block }: ExposedCall, at: Pick<Cap, 'asOf' | 'block'>): boolean {
  if (paymentStatus !== 'settled' || settledAt === null) return false
  const age = at.asOf - settledAt
  if (at.block === undefined || block === null) return age <= BALANCE_LAG_MS
  return block > at.block && age <= SETTLED_LOOKBACK_MS
}

export function isSpendable(state: BindingStatus): boolean {
  return state === 'open' || state === 'sent'
}

/** Each call once, however many bindings it has. */
function callsIn(
  exposedCalls: Iterable<ExposedCall>,
  counts: (exposed: ExposedCall) => boolean,
): ReadonlyMap<string, ExposedCall> {
  const found = new Map<string, ExposedCall>()
  for (const exposed of exposedCalls) if (counts(exposed)) found.set(exposed.id, exposed)
  return found
}

const plus = (one: Usdc, other: Usdc): Usdc => usdc(one + other)

function sumOf(calls: ReadonlyMap<string, ExposedCall>): Usdc {
  let sum = 0n
  for (const { quote, charge } of calls.values()) sum += charge ?? quote
  return usdc(sum)
}

// ── the cap of one order ────────────────────────────────────────────────────────────────────────────────────────────

/** The cap of a verified payer, with the limits on new wallets that apply. */
export function capOf(
  { balance, asOf, block }: Extract<Verdict, { kind: 'valid' }>,
  limits: Pick<Cap, 'newWallet' | 'newWallets'> = {},
): Cap {
  return {
    asOf,
    ...(balance !== undefined && { observed: balance }),
    ...(block !== undefined && { block }),
    ...limits,
  }
}

/** The reason of the refusal, and what to do. */
export function overText({ sum, why }: Extract<Opened, { kind: 'over' }>, { calls, worth }: NewWalletLimit): string {
  if (why === 'unreadable')
    return 'the balance of this wallet cannot be read at the moment, so it may have one open call at a time; wait until the open call has ended, then send the same signed request again'
  if (why === 'new_wallet') {
    const allowed = `${calls} open ${calls === 1 ? 'call' : 'calls'} of this kind, worth ${print(worth)} USDC in total`
    return `a wallet that has not paid here yet may have ${allowed}, and with this one the total would be ${print(sum)} USDC; wait until one of them is paid, then send the same signed request again`
  }
  return `the open calls of this wallet would total ${print(sum)} USDC, more than its balance`
}
