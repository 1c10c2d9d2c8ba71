/** The outcome of an authorization as the chain shows it: by the state of its nonce, and the event that used it. */
import { boundedMap, type BoundedMap } from '../../../../core/lib/mod.ts'
import type { Fate } from '../../../../core/ports/mod.ts'
import type { Offer } from '../../../../core/x402/mod.ts'
import { flagIn, type Hex, lower, word } from '../../lib/hex.ts'
import type { Rpc } from '../../lib/json_rpc.ts'
import { blockAt, searchPast, type SearchPosition } from '../node/log_search.ts'
import type { Reads, ReadsConfig } from '../node/reads.ts'
import {
  AUTHORIZATION_CANCELED,
  AUTHORIZATION_USED,
  type ChainLog,
  findPayment,
  parseReceipt,
  stateCall,
} from '../node/token.ts'
import { type Exact, LOOKBACK_SECONDS } from './payload.ts'

/** A fate; `isUsed` when the token reports the authorization as used and no event shows what for. */
export type EvmFate = Fate | { readonly kind: 'unknown'; readonly reason: string; readonly isUsed: true }

export type ExactFates = {
  fate(exact: Exact, offer: Offer, signal?: AbortSignal): Promise<EvmFate>
  /** Remembers the transaction that used an authorization, so that `fate` need not search for it. */
  rememberTransaction(key: string, transaction: Hex): void
}

const MAX_REMEMBERED = 10_000

/** State of `exactFates`. */
type FateParts = {
  readonly rpc: Rpc
  readonly reads: Pick<Reads, 'view'>
  readonly config: Pick<ReadsConfig, 'logWindow' | 'lookbackSeconds'>
  readonly transactionHints: BoundedMap<Hex>
  /** Unfinished searches, by the block they continue from. */
  readonly searches: BoundedMap<SearchPosition>
}

export function exactFates(ports: Pick<FateParts, 'rpc' | 'reads'>, config: FateParts['config']): ExactFates {
  const parts: FateParts = {
    ...ports,
    config,
    transactionHints: boundedMap<Hex>(MAX_REMEMBERED),
    searches: boundedMap<SearchPosition>(MAX_REMEMBERED),
  }
  return { fate: (...args) => fate(parts, ...args), rememberTransaction: parts.transactionHints.set }
}

async function fate(parts: FateParts, exact: Exact, offer: Offer, signal?: AbortSignal): Promise<EvmFate> {
  const call = { to: lower(offer.asset), data: stateCall(exact.from, exact.nonce) }
  const seen = await parts.reads.view([call], { lagSeconds: 0, ...(signal ? { signal } : {}) })
  if (seen.kind === 'failure') return { kind: 'unknown', reason: seen.reason }
  const used = flagIn(seen.results[0])
  if (used === undefined) return { kind: 'unknown', reason: 'authorizationState() did not return a boolean' }
  // A transfer needs block.timestamp < validBefore and time only grows, so an authorization unused by now stays
  // unused.
  if (!used) return BigInt(seen.time) >= exact.validBefore ? { kind: 'dead' } : { kind: 'open' }
  const known = parts.transactionHints.get(exact.key)
  const hinted = known && (await fateIn(parts, known, { exact, offer }, signal))
  if (hinted && hinted.kind === 'paid') return hinted
  return search(parts, exact, offer, signal)
}

/** Decides between paid and dead by what the transaction that used the authorization did. */
async function fateIn(
  parts: FateParts,
  transaction: Hex,
  { exact, offer }: { exact: Exact; offer: Offer },
  signal?: AbortSignal,
): Promise<Fate> {
  const answer = await parts.rpc.request('eth_getTransactionReceipt', [transaction], signal)
  if (answer.kind === 'failure') return { kind: 'unknown', reason: answer.reason }
  const receipt = answer.kind === 'result' ? parseReceipt(answer.value) : undefined
  if (!receipt) return { kind: 'unknown', reason: 'the transaction that used the authorization has no receipt' }
  const paid = findPayment(receipt, exact, offer)
  if (!paid) return { kind: 'dead' }
  parts.transactionHints.set(exact.key, receipt.transactionHash)
  return { kind: 'paid', receipt: paid }
}

/**
 * Searches the event that used the authorization, newest blocks first, no further back than it can be
 * (`maxLifetimeSeconds`).
 */
async function search(parts: FateParts, exact: Exact, offer: Offer, signal?: AbortSignal): Promise<EvmFate> {
  const head = await blockAt(parts.rpc, 'latest', signal)
  if (head.kind === 'failure') return { kind: 'unknown', reason: head.reason }
  const last = exact.validBefore < BigInt(head.time) ? Number(exact.validBefore) : head.time
  const first = last - offer.maxTimeoutSeconds - (parts.config.lookbackSeconds ?? LOOKBACK_SECONDS)
  const topics = [[AUTHORIZATION_USED, AUTHORIZATION_CANCELED], `0x${word(exact.from)}`, exact.nonce]
  const past = { filter: { address: lower(offer.asset), topics }, key: exact.key, first, last, head }
  const { searches: positions, config } = parts
  const end = await searchPast(parts.rpc, { ...past, positions, window: config.logWindow, signal }, (logs) =>
    logs.find((log) => isAuthorizationEvent(log, exact, offer)),
  )
  if (end.kind === 'failure' || end.kind === 'refused') return { kind: 'unknown', reason: end.reason }
  if (end.kind === 'found') {
    const { topics: found, transactionHash } = end.found
    if (found[0] === AUTHORIZATION_CANCELED) return { kind: 'dead' }
    if (found[0] === AUTHORIZATION_USED) return await fateIn(parts, transactionHash, { exact, offer }, signal)
  }
  const isOver = end.kind !== 'more'
  return {
    kind: 'unknown',
    reason: `the authorization is used, but its event was not found${isOver ? '' : ' yet'}`,
    isUsed: true,
  }
}

/** Whether the log is about this authorization: another one's event must not make ours dead. */
function isAuthorizationEvent(log: ChainLog, exact: Exact, offer: Offer): boolean {
  return (
    log.address === lower(offer.asset) &&
    log.topics[1]?.slice(2) === word(exact.from) &&
    log.topics[2]?.slice(2) === word(exact.nonce)
  )
}
