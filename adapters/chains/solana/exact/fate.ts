/** The fate of a payment on Solana. No nonce proves it, only signatures and blockhashes that expire. */
import type { Fate } from '../../../../core/ports/mod.ts'
import { type RpcFailure, failure } from '../../lib/json_rpc.ts'
import { boundedMap } from '../../../../core/lib/mod.ts'
import { memoText, type SolanaExact } from './payload.ts'
import { isPayment, type SolanaReads } from '../node/reads.ts'

export type SearchResult =
  /** In a confirmed block, with exactly this transfer. */
  | { readonly kind: 'paid'; readonly transaction: string; readonly slot: number }
  /** In a confirmed block, where it moved nothing or another amount. It cannot run again. */
  | { readonly kind: 'failed' }
  /** In a block that is not confirmed yet. */
  | { readonly kind: 'pending' }
  | { readonly kind: 'none' }
  | RpcFailure

/**
 * Finds the transaction of a payment, not before `earliest` in milliseconds. Fails when the node is behind the slot
 * `since`.
 */
export type TransactionFinder = (
  exact: SolanaExact,
  at: { since?: number; earliest?: number | undefined; signal?: AbortSignal | undefined },
) => Promise<SearchResult>

export type FateConfig = {
  /**
   * How many seconds the node's finalized bank may be behind. Default 60; about 13 is usual. Without a fresh bank
   * nothing is dead.
   */
  readonly finalitySeconds?: number
}

export type SolanaFates = {
  /** When this process first saw the payment; its blockhash is older than that. */
  firstSeenAt(key: string, now: number): number
  /** The final fate, if known: paid and dead stay so, whatever a node says later. */
  finalFate(key: string): Extract<Fate, { kind: 'paid' | 'dead' }> | undefined
  /** Records a final fate from a search result; undefined while the result decides nothing. */
  conclude(exact: SolanaExact, found: SearchResult): Extract<Fate, { kind: 'paid' | 'dead' }> | undefined
  fate(exact: SolanaExact, at: FateQuery): Promise<Fate>
}

/** `expiresAt` is the end of its life, as reported when it was first seen. */
type FateQuery = {
  readonly now: number
  readonly expiresAt?: number | undefined
  readonly signal?: AbortSignal | undefined
}

/** A blockhash lives for a minute or two, so a transaction that ran this long before its end is another one. */
const MAX_LIFE_MS = 900_000

/** Allowed difference between chain and gateway clocks when judging whether a blockhash is too old or too new. */
const MAX_SKEW_MS = 15_000
const MAX_REMEMBERED = 10_000

export function solanaFates(
  { reads, find }: { reads: SolanaReads; find: TransactionFinder },
  config: FateConfig & { readonly network: string },
): SolanaFates {
  const finalitySeconds = config.finalitySeconds ?? 60
  const firstSeen = boundedMap<number>(MAX_REMEMBERED)
  const finalFates = boundedMap<Extract<Fate, { kind: 'paid' | 'dead' }>>(MAX_REMEMBERED)

  function firstSeenAt(key: string, now: number): number {
    const first = Math.min(firstSeen.get(key) ?? now, now)
    firstSeen.set(key, first)
    return first
  }

  function conclude({ key, payer, amount }: SolanaExact, found: SearchResult) {
    if (found.kind !== 'paid' && found.kind !== 'failed') return undefined
    const { network } = config
    const receipt = found.kind === 'paid' && {
      transaction: found.transaction,
      network,
      payer,
      amount: String(amount),
      block: found.slot,
    }
    const end = receipt ? { kind: 'paid' as const, receipt } : { kind: 'dead' as const }
    finalFates.set(key, end)
    return end
  }

  async function fate(exact: SolanaExact, { now, expiresAt, signal }: FateQuery): Promise<Fate> {
    const earliest = expiresAt === undefined ? undefined : expiresAt - MAX_LIFE_MS
    const first = firstSeenAt(exact.key, now)
    const known = finalFates.get(exact.key)
    if (known) return known
    const [found, validity] = await Promise.all([
      find(exact, { earliest, signal }),
      reads.validity(exact.tx.blockhash, 'confirmed', signal),
    ])
    const end = conclude(exact, found)
    if (end) return end
    if (found.kind === 'failure') return unknown(found.reason)
    if (found.kind === 'pending') return { kind: 'open' }
    if (validity.kind === 'failure') return unknown(validity.reason)
    if (validity.valid) return { kind: 'open' }
    return proveDead(exact, { now, first, earliest, signal })
  }

  /**
   * Proves that a payment is dead, if possible. A node may not know a blockhash because it is too old or too new, so
   * the finalized bank must be later than the first sight of the payment, and recent. Then the signature is searched
   * again, by a node that has reached the slot in which the blockhash had expired: before that, it may land between two
   * calls.
   */
  async function proveDead(
    exact: SolanaExact,
    {
      now,
      first,
      earliest,
      signal,
    }: { now: number; first: number; earliest: number | undefined; signal: AbortSignal | undefined },
  ): Promise<Fate> {
    const { blockhash } = exact.tx
    const bank = await reads.accounts([], { commitment: 'finalized', signal })
    if (bank.kind === 'failure') return unknown(bank.reason)
    if (bank.time + finalitySeconds < now / 1000) return unknown('the node is behind')
    if (bank.time * 1000 < first + MAX_SKEW_MS)
      return unknown('the node does not know its blockhash, which may be too old or too new')
    const [processed, finalized] = await Promise.all([
      reads.validity(blockhash, 'processed', signal),
      reads.validity(blockhash, 'finalized', signal),
    ])
    if (processed.kind === 'failure') return unknown(processed.reason)
    if (finalized.kind === 'failure') return unknown(finalized.reason)
    if (processed.valid || finalized.valid) return { kind: 'open' }
    if (finalized.slot < bank.slot) return unknown('the node is behind a slot it has already shown')
    const found = await find(exact, { since: finalized.slot, earliest, signal })
    const end = conclude(exact, found)
    if (end) return end
    if (found.kind !== 'none')
      return unknown(found.kind === 'failure' ? found.reason : 'it ran in a block that is not confirmed')
    const dead: Fate = { kind: 'dead', code: 'PAYMENT_BLOCKHASH_STALE' }
    finalFates.set(exact.key, dead)
    return dead
  }

  return { firstSeenAt, finalFate: finalFates.get, conclude, fate }
}

const unknown = (reason: string): Fate => ({ kind: 'unknown', reason })

/** Finds a payment by the fee payer's signature, when the fee payer's key is ours. */
export function findBySignature(
  reads: SolanaReads,
  signatureOf: (exact: SolanaExact) => Promise<string>,
): TransactionFinder {
  return async (exact, { since = 0, signal }) => {
    const signature = await signatureOf(exact)
    const status = await reads.status(signature, signal)
    if (status.kind === 'failure') return status
    if (status.kind === 'unseen')
      return status.slot >= since ? { kind: 'none' } : failure('the node is behind a slot it has already shown')
    if (!status.isConfirmed) return { kind: 'pending' }
    const landed = await reads.transaction(signature, signal)
    if (landed.kind === 'failure') return landed
    if (landed.kind === 'absent') return failure('the transaction is confirmed, but the node does not show it yet')
    if (landed.id !== exact.tx.id || landed.failed !== status.failed)
      return failure('the node shows another transaction under this signature')
    return isPayment(landed, exact) ? { kind: 'paid', transaction: signature, slot: landed.slot } : { kind: 'failed' }
  }
}

const PAGE = 1_000
const MAX_PAGES = 3
const CONCURRENCY = 10

/**
 * Finds a payment without the fee payer's key: among the transactions of the payer's token account, one has our
 * message. Inspects at most `limit` of them: those with our memo, and those with no memo or an unknown one.
 */
export function findByScan(reads: SolanaReads, limit = 200): TransactionFinder {
  /** Undefined when it is none of these. */
  async function inspect(
    signatures: readonly string[],
    exact: SolanaExact,
    signal: AbortSignal | undefined,
  ): Promise<SearchResult | undefined> {
    const all = await Promise.all(
      signatures.map(async (signature) => ({ signature, landed: await reads.transaction(signature, signal) })),
    )
    const ours = all.find(({ landed }) => landed.kind === 'landed' && landed.id === exact.tx.id)
    if (ours?.landed.kind === 'landed')
      return isPayment(ours.landed, exact)
        ? { kind: 'paid', transaction: ours.signature, slot: ours.landed.slot }
        : { kind: 'failed' }
    const unreadable = all.find(({ landed }) => landed.kind !== 'landed')?.landed
    if (unreadable?.kind === 'absent')
      return failure('a transaction of the payer is confirmed, but the node does not show it yet')
    return unreadable?.kind === 'failure' ? unreadable : undefined
  }

  return async (exact, { since, earliest = 0, signal }) => {
    const memo = memoLine(exact)
    let before: string | undefined
    let remaining = limit
    for (let page = 0; page < MAX_PAGES; page++) {
      const rows = await reads.signatures(exact.source, { before, limit: PAGE, since }, signal)
      if (rows.kind === 'failure') return rows
      const inTime = rows.found.filter(({ time = Number.POSITIVE_INFINITY }) => time * 1000 >= earliest)
      const candidates = inTime
        .filter((row) => row.memo === undefined || row.memo === memo)
        .map(({ signature }) => signature)
      for (let i = 0; i < candidates.length; i += CONCURRENCY) {
        const batch = candidates.slice(i, i + CONCURRENCY)
        remaining -= batch.length
        if (remaining < 0) return TOO_MANY
        const found = await inspect(batch, exact, signal)
        if (found) return found
      }
      if (inTime.length < PAGE) return { kind: 'none' }
      before = rows.found.at(-1)?.signature
    }
    return TOO_MANY
  }
}

const TOO_MANY = failure('the payer has too many recent transactions to search')

/** The memos of a payment, in the format of nodes' lists. */
function memoLine({ memos }: SolanaExact): string {
  return memos.map((memo) => `[${memo.length}] ${memoText(memo)}`).join('; ')
}
