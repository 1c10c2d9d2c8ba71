/**
 * The scheme `upto`: the buyer signs a ceiling through Permit2, and what was used is moved (decision 129). The key that
 * the buyer signed for has to send it, so nothing is batched.
 */
import {
  boundedMap,
  type BoundedMap,
  checksummed,
  concurrencyLimiter,
  type ConcurrencyLimiter,
} from '../../../../core/lib/mod.ts'
import { type Offer, type Payment, usdc } from '../../../../core/x402/mod.ts'
import type { Fate, Identity, Refused, Settlement, SettleOptions, Verdict } from '../../../../core/ports/mod.ts'
import { LOOKBACK_SECONDS } from '../exact/payload.ts'
import { recoverSigner } from '../exact/eip3009.ts'
import { type Hex, lower, uintIn, word } from '../../lib/hex.ts'
import { inFlightSettlements, type InFlightSettlements } from '../../lib/in_flight.ts'
import { checkAmount, checkUpto, parseUpto, refusedUpto, type Upto } from './payload.ts'
import type { Rpc } from '../../lib/json_rpc.ts'
import { type CallOptions, unavailable } from '../../lib/results.ts'
import { MAX_CONTRACT_REVERTS, payerRevertLimiter, type RevertLimiter } from '../../lib/revert_limiter.ts'
import {
  allowanceCall,
  bitmapCall,
  isNonceUsed,
  isSettlementOf,
  permitDigest,
  settleCall,
  tokenPermitOf,
  TRANSFER,
  transferIn,
} from './permit2.ts'
import type { Reads } from '../node/reads.ts'
import type { Relayer } from '../node/relayer.ts'
import { blockAt, searchPast, type SearchPosition } from '../node/log_search.ts'
import { balanceCall, parseReceipt } from '../node/token.ts'

export type UptoConfig = {
  readonly network: string
  readonly chainId: number
  /** The account that sends. */
  readonly facilitator: Hex
  /** All accounts that a buyer may have signed for: those of the other replicas as well. */
  readonly facilitators: readonly Hex[]
  readonly lagSeconds: number
  readonly lookbackSeconds?: number | undefined
  readonly maxInFlight?: number | undefined
  readonly logWindow?: number | undefined
}

export type EvmUpto = {
  identify(payment: Payment, offer: Offer): Promise<Identity>
  verify(payment: Payment, offer: Offer, at: CallOptions): Promise<Verdict>
  settle(payment: Payment, offer: Offer, at: SettleOptions): Promise<Settlement>
  fate(payment: Payment, offer: Offer, at: SettleOptions): Promise<Fate>
  isIdle(): boolean
}

/** Gas limits: Permit2 and a token's transfer cost about 120,000, the permit of a token 60,000 more. */
const SETTLE_GAS = 250_000n
const SETTLE_WITH_PERMIT_GAS = 350_000n
const MAX_REMEMBERED = 10_000

/** State of `evmUpto`. */
export type UptoScheme = {
  readonly rpc: Rpc
  readonly reads: Reads
  readonly relayer: Relayer
  readonly config: UptoConfig
  readonly network: string
  readonly chainId: number
  readonly facilitator: Hex
  readonly lagSeconds: number
  readonly known: Set<Hex>
  readonly inFlight: InFlightSettlements
  readonly sending: ConcurrencyLimiter
  readonly reverts: RevertLimiter
  readonly digests: BoundedMap<Hex>
  /** The transaction that settled an authorization. */
  readonly settledIn: BoundedMap<Hex>
  /** Unfinished searches, by the block they continue from. */
  readonly searches: BoundedMap<SearchPosition>
  active: number
}

export function evmUpto(
  context: { readonly rpc: Rpc; readonly reads: Reads; readonly relayer: Relayer },
  config: UptoConfig,
): EvmUpto {
  const { network, chainId, facilitator, lagSeconds } = config

  const scheme: UptoScheme = {
    ...context,
    config,
    network,
    chainId,
    facilitator,
    lagSeconds,
    known: new Set(config.facilitators.map(lower)),
    inFlight: inFlightSettlements(),
    sending: concurrencyLimiter(config.maxInFlight ?? 4, { most: 10_000, full: () => new Error('too many wait') }),
    reverts: payerRevertLimiter(),
    digests: boundedMap<Hex>(MAX_REMEMBERED),
    settledIn: boundedMap<Hex>(MAX_REMEMBERED),
    searches: boundedMap<SearchPosition>(MAX_REMEMBERED),
    active: 0,
  }
  return {
    identify: (...args) => identify(scheme, ...args),
    verify: (...args) => verify(scheme, ...args),
    settle: (...args) => settle(scheme, ...args),
    fate: (...args) => fate(scheme, ...args),
    isIdle: () => scheme.active === 0,
  }
}

type Sending = {
  readonly charge: bigint
  readonly payment: Payment
  readonly now: number
  readonly hasCallers: () => boolean
}

type UptoFate = Fate | { readonly kind: 'unknown'; readonly reason: string; readonly isUsed?: true }

export function parse(scheme: UptoScheme, payment: Payment, offer: Offer): Upto | Refused {
  return parseUpto(payment, offer, scheme.known)
}

export function digestOf(scheme: UptoScheme, upto: Upto): Hex {
  const before = scheme.digests.get(upto.key + upto.signature)
  if (before) return before
  const digest = permitDigest(upto, scheme.chainId)
  scheme.digests.set(upto.key + upto.signature, digest)
  return digest
}

export async function identify(scheme: UptoScheme, payment: Payment, offer: Offer): Promise<Identity> {
  const upto = parse(scheme, payment, offer)
  if (upto.kind === 'refused') return upto
  const signer = await recoverSigner(digestOf(scheme, upto), upto.signature)
  if (signer !== upto.from) {
    const text = `it was signed by ${signer ?? 'an unknown key'}, not by ${upto.from}; contract wallets cannot pay by upto, use exact`
    return refusedUpto('PAYMENT_INVALID', 'permit2_signature', text)
  }
  return { kind: 'known', payer: checksummed(upto.from), key: upto.key, expiresAt: upto.expiresAt }
}

export async function verify(scheme: UptoScheme, payment: Payment, offer: Offer, at: CallOptions): Promise<Verdict> {
  const upto = parse(scheme, payment, offer)
  if (upto.kind === 'refused') return upto
  const refusal = checkUpto(upto, offer, at.now, scheme.config.lookbackSeconds)
  if (refusal) return refusal
  const permit = tokenPermitOf(payment, upto)
  const calls = [{ to: upto.token, data: balanceCall(upto.from) }, bitmapCall(upto), allowanceCall(upto)]
  const [seen, plain, permitted] = await Promise.all([
    scheme.reads.view(calls, { lagSeconds: scheme.lagSeconds, signal: at.signal }),
    simulate(scheme, upto, settleCall(upto, upto.amount), at.signal),
    permit ? simulate(scheme, upto, settleCall(upto, upto.amount, permit), at.signal) : undefined,
  ])
  if (seen.kind === 'failure') return unavailable(seen.reason)
  if (plain.kind === 'failure') return unavailable(plain.reason)
  if (permitted?.kind === 'failure') return unavailable(permitted.reason)
  const [balance, bitmap, allowance] = seen.results.map((result) => uintIn(result))
  if (balance === undefined || bitmap === undefined || allowance === undefined)
    return refusedUpto(
      'PAYMENT_INVALID',
      'permit2_proxy_not_deployed',
      `${scheme.network} has no Permit2, or no such token`,
    )
  if (isNonceUsed(bitmap, upto))
    return refusedUpto('PAYMENT_REPLAY', 'permit2_invalid_nonce', 'the nonce is used or invalidated on chain')
  if (balance < upto.amount) {
    const text = `the payer has ${balance} base units; the price is at most ${upto.amount}`
    return refusedUpto('PAYMENT_UNFUNDED', 'permit2_insufficient_balance', text)
  }
  if (plain.results[0]?.ok || permitted?.results[0]?.ok) {
    // The limit on open calls together: Permit2 moves no more, and a permit serves one call.
    const movable = plain.results[0]?.ok ? allowance : upto.amount
    const { block } = seen
    const funds = usdc(movable < balance ? movable : balance)
    return { kind: 'valid', balance: funds, asOf: at.now, ...(block !== undefined && { block }) }
  }
  if (allowance < upto.amount) {
    const text = `Permit2 may move ${allowance} base units of the payer; approve it, or send an ERC-2612 permit for exactly ${upto.amount} (eip2612GasSponsoring)`
    return refusedUpto('PAYMENT_UNFUNDED', 'permit2_allowance_required', text)
  }
  return refusedUpto('PAYMENT_INVALID', 'permit2_simulation_failed', 'the settlement would revert')
}

/** As the transaction would run: from the facilitator itself, because the proxy compares the sender. */
export function simulate(scheme: UptoScheme, upto: Upto, call: ReturnType<typeof settleCall>, signal?: AbortSignal) {
  return scheme.reads.view([call], {
    lagSeconds: scheme.lagSeconds,
    from: upto.facilitator,
    gas: SETTLE_WITH_PERMIT_GAS,
    direct: true,
    ...(signal && { signal }),
  })
}

export async function settle(
  scheme: UptoScheme,
  payment: Payment,
  offer: Offer,
  at: SettleOptions,
): Promise<Settlement> {
  const upto = parse(scheme, payment, offer)
  if (upto.kind === 'refused') return { kind: 'refused', reason: upto.reason }
  const bad = checkAmount(upto, offer)
  if (bad) return { kind: 'refused', reason: bad.reason }
  const charge = at.charge ?? upto.amount
  if (charge > upto.amount) {
    const text = `the charge is ${charge} base units, and ${upto.amount} were signed`
    return { kind: 'refused', reason: `invalid_upto_evm_payload_settlement_exceeds_amount: ${text}` }
  }
  if (charge === 0n) return { kind: 'settled', receipt: nothingMoved(scheme, upto) }
  if (at.signal.aborted) return { kind: 'unknown', reason: 'no time left to settle' }
  if (upto.facilitator !== lower(scheme.facilitator))
    return {
      kind: 'unavailable',
      reason: `the key of ${upto.facilitator} has to send it, and this replica has another`,
    }
  const { now } = at
  return await scheme.inFlight.settle(
    digestOf(scheme, upto),
    async (pending) => {
      scheme.active++
      try {
        return await scheme.sending(() =>
          send(scheme, upto, { charge, payment, now, hasCallers: () => pending.callers > 0 }),
        )
      } catch (error) {
        return { kind: 'unavailable', reason: (error as Error).message }
      } finally {
        pending.isSending = false
        scheme.active--
      }
    },
    at.signal,
  )
}

export async function send(
  scheme: UptoScheme,
  upto: Upto,
  { charge, payment, now, hasCallers }: Sending,
): Promise<Settlement> {
  if (!hasCallers()) return { kind: 'unknown', reason: 'no caller waits for it any more' }
  const plain = settleCall(upto, charge)
  const [state, simulated] = await Promise.all([
    scheme.reads.view([bitmapCall(upto), allowanceCall(upto)], { lagSeconds: 0 }),
    simulate(scheme, upto, plain),
  ])
  if (state.kind === 'failure') return { kind: 'unknown', reason: `nothing was sent: ${state.reason}` }
  if (simulated.kind === 'failure') return { kind: 'unknown', reason: `nothing was sent: ${simulated.reason}` }
  const [bitmap, allowance] = state.results.map((result) => uintIn(result))
  if (bitmap === undefined || isNonceUsed(bitmap, upto) || BigInt(state.time) > upto.deadline)
    return await endOf(scheme, upto)
  if (scheme.reverts.count(upto.from, now) >= MAX_CONTRACT_REVERTS)
    return { kind: 'refused', reason: `too many transfers of ${upto.from} have reverted on chain` }
  const permit = simulated.results[0]?.ok ? undefined : tokenPermitOf(payment, upto)
  const call = permit ? settleCall(upto, charge, permit) : plain
  const seen = permit ? await simulate(scheme, upto, call) : simulated
  if (seen.kind === 'failure') return { kind: 'unknown', reason: `nothing was sent: ${seen.reason}` }
  if (!seen.results[0]?.ok) {
    const short = (allowance ?? 0n) < charge ? `; Permit2 may move ${allowance} base units of the payer` : ''
    return {
      kind: 'refused',
      reason: `nothing was sent: the settlement of ${charge} base units would revert${short}`,
    }
  }
  const sent = await scheme.relayer.send({ ...call, gas: permit ? SETTLE_WITH_PERMIT_GAS : SETTLE_GAS }, now)
  if (sent.kind === 'rejected') return { kind: 'unavailable', reason: `nothing was sent: ${sent.reason}` }
  if (sent.kind === 'mined') {
    const receipt = transferIn(sent.receipt, upto, scheme.network)
    if (receipt) scheme.settledIn.set(upto.key, sent.receipt.transactionHash)
    if (receipt) return { kind: 'settled', receipt }
    scheme.reverts.recordRevert(upto.from, now)
  }
  const after = await fateOf(scheme, upto)
  if (after.kind === 'paid') return { kind: 'settled', receipt: after.receipt }
  if (after.kind === 'dead') return { kind: 'refused', reason: 'the authorization is dead: used or expired' }
  const mayLand = after.kind === 'unknown' || sent.kind === 'lost' || sent.hasOtherNonces
  return mayLand
    ? { kind: 'unknown', reason: 'the transaction was lost, and may still be mined' }
    : { kind: 'refused', reason: 'the transfer reverted: nothing moved' }
}

/** The outcome of an authorization that can no longer be sent. */
export async function endOf(scheme: UptoScheme, upto: Upto): Promise<Settlement> {
  const found = await fateOf(scheme, upto)
  if (found.kind === 'paid') return { kind: 'settled', receipt: found.receipt }
  if (found.kind === 'dead') return { kind: 'refused', reason: 'the authorization is dead: used or expired' }
  if (found.kind === 'open') return { kind: 'unknown', reason: 'nothing was sent: the node is behind' }
  return found.isUsed ? { kind: 'refused', reason: found.reason } : found
}

export async function fate(scheme: UptoScheme, payment: Payment, offer: Offer, at: SettleOptions): Promise<Fate> {
  const upto = parse(scheme, payment, offer)
  if (upto.kind === 'refused') return { kind: 'unknown', reason: upto.reason }
  if (at.charge === 0n) return { kind: 'paid', receipt: nothingMoved(scheme, upto) }
  return await fateOf(scheme, upto, at.signal)
}

/** By the bitmap of nonces. A used nonce was paid to us where a transfer to us settles this authorization. */
export async function fateOf(
  scheme: UptoScheme,
  upto: Upto,
  signal?: AbortSignal,
): Promise<UptoFate & { isUsed?: true }> {
  const seen = await scheme.reads.view([bitmapCall(upto)], { lagSeconds: 0, ...(signal && { signal }) })
  if (seen.kind === 'failure') return { kind: 'unknown', reason: seen.reason }
  const bitmap = uintIn(seen.results[0])
  if (bitmap === undefined) return { kind: 'unknown', reason: 'nonceBitmap() did not return a number' }
  // Permit2 accepts a signature in the second of its deadline, and not after it.
  if (!isNonceUsed(bitmap, upto)) return BigInt(seen.time) > upto.deadline ? { kind: 'dead' } : { kind: 'open' }
  const hint = scheme.settledIn.get(upto.key)
  const paid = hint && (await paidIn(scheme, hint, upto, signal))
  return paid || (await search(scheme, upto, signal))
}

export async function paidIn(
  scheme: UptoScheme,
  transaction: Hex,
  upto: Upto,
  signal?: AbortSignal,
): Promise<Fate | undefined> {
  const [made, mined] = await Promise.all([
    scheme.rpc.request('eth_getTransactionByHash', [transaction], signal),
    scheme.rpc.request('eth_getTransactionReceipt', [transaction], signal),
  ])
  const input = made.kind === 'result' ? (made.value as { input?: unknown } | null)?.input : undefined
  const receipt = mined.kind === 'result' ? parseReceipt(mined.value) : undefined
  if (!receipt || !isSettlementOf(input, upto)) return undefined
  const paid = transferIn(receipt, upto, scheme.network)
  if (paid) scheme.settledIn.set(upto.key, transaction)
  return paid && { kind: 'paid', receipt: paid }
}

/** Searches the transfers from the payer to the payee, newest first, back to when it can have been signed. */
export async function search(
  scheme: UptoScheme,
  upto: Upto,
  signal?: AbortSignal,
): Promise<UptoFate & { isUsed?: true }> {
  const { rpc, config, searches: positions } = scheme
  const head = await blockAt(rpc, 'latest', signal)
  if (head.kind === 'failure') return { kind: 'unknown', reason: head.reason }
  const filter = { address: upto.token, topics: [TRANSFER, `0x${word(upto.from)}`, `0x${word(upto.to)}`] }
  const last = Math.min(Number(upto.deadline), head.time)
  const first = Number(upto.deadline) - (config.lookbackSeconds ?? LOOKBACK_SECONDS) - 3_600
  const past = { filter, key: upto.key, first, last, head, positions, window: config.logWindow, signal }
  const end = await searchPast(rpc, past, async (logs) => {
    for (const { transactionHash } of logs) {
      const paid = await paidIn(scheme, transactionHash, upto, signal)
      if (paid) return paid
    }
    return undefined
  })
  if (end.kind === 'found') return end.found
  if (end.kind === 'failure' || end.kind === 'refused') return { kind: 'unknown', reason: end.reason }
  // Only our own accounts can settle it: until all blocks were searched, the transfer may be ours.
  if (end.kind === 'more') return { kind: 'unknown', reason: 'the nonce is used, and its transfer was not found yet' }
  return { kind: 'unknown', reason: 'the nonce is used, and no transfer to the payee shows it', isUsed: true }
}

export function nothingMoved(scheme: UptoScheme, upto: Upto) {
  return { transaction: '', network: scheme.network, payer: checksummed(upto.from), amount: '0' }
}
