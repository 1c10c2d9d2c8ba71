/** What became of a payment on Solana: paid, dead, or neither yet. No nonce tells; only signatures, and blockhashes that run out. */
import type { Fate } from '../../../core/ports/mod.ts'
import { type Trouble, trouble } from '../evm/rpc.ts'
import { lruCache } from '../lru_cache.ts'
import type { SolanaExact } from './payload.ts'
import { isPaidIn, type SolanaReads } from './reads.ts'

export type Found =
  /** In a confirmed block, with exactly this transfer. */
  | { readonly kind: 'paid'; readonly transaction: string; readonly slot: number }
  /** In a confirmed block, where it moved nothing, or another amount: it cannot run a second time. */
  | { readonly kind: 'failed' }
  /** In a block that is not confirmed yet. */
  | { readonly kind: 'pending' }
  | { readonly kind: 'none' }
  | Trouble

/** Looks for the transaction of a payment, not before `earliest`, in milliseconds; trouble from a node that has not come as far as the slot `since`. */
export type Finder = (
  exact: SolanaExact,
  at: { since?: number; earliest?: number | undefined; signal?: AbortSignal | undefined },
) => Promise<Found>

export type FateConfig = {
  /** How far the node's finalized bank may be behind, 60 s unless told; some 13 s is usual. Without a fresh one nothing is said to be dead. */
  readonly finalitySeconds?: number
}

export type SolanaFates = {
  /** When this process first saw the payment; its blockhash is older than that. */
  seen(key: string, now: number): number
  /** Paid and dead are final, whatever a node says later. */
  ended(key: string): Extract<Fate, { kind: 'paid' | 'dead' }> | undefined
  /** A fate, by what has just been found; undefined while that decides nothing. */
  conclude(exact: SolanaExact, found: Found): Extract<Fate, { kind: 'paid' | 'dead' }> | undefined
  fate(exact: SolanaExact, at: Asking): Promise<Fate>
}

/** `expiresAt` is the end of its life, as it was told when it was first seen. */
type Asking = {
  readonly now: number
  readonly expiresAt?: number | undefined
  readonly signal?: AbortSignal | undefined
}

/** A blockhash lives for a minute or two, and no transaction runs before it: whatever ran this long before its end is another one. */
const MAX_LIFE_MS = 900_000

/** How far the clocks of chain and gateway may be apart when it is judged whether a blockhash is too old or too new. */
const SKEW_MS = 15_000
const REMEMBERED = 10_000

export function solanaFates(
  { reads, find }: { reads: SolanaReads; find: Finder },
  config: FateConfig & { readonly network: string },
): SolanaFates {
  const finalitySeconds = config.finalitySeconds ?? 60
  const firsts = lruCache<number>(REMEMBERED)
  const ends = lruCache<Extract<Fate, { kind: 'paid' | 'dead' }>>(REMEMBERED)

  function seen(key: string, now: number): number {
    const first = Math.min(firsts.get(key) ?? now, now)
    firsts.set(key, first)
    return first
  }

  function conclude({ key, payer, amount }: SolanaExact, found: Found) {
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
    ends.set(key, end)
    return end
  }

  async function fate(exact: SolanaExact, { now, expiresAt, signal }: Asking): Promise<Fate> {
    const earliest = expiresAt === undefined ? undefined : expiresAt - MAX_LIFE_MS
    const first = seen(exact.key, now)
    const known = ends.get(exact.key)
    if (known) return known
    const [found, recentEnough] = await Promise.all([
      find(exact, { earliest, signal }),
      reads.validity(exact.wire.blockhash, 'confirmed', signal),
    ])
    const end = conclude(exact, found)
    if (end) return end
    if (found.kind === 'trouble') return unknown(found.reason)
    if (found.kind === 'pending') return { kind: 'open' }
    if (recentEnough.kind === 'trouble') return unknown(recentEnough.reason)
    if (recentEnough.valid) return { kind: 'open' }
    return over(exact, { now, first, earliest, signal })
  }

  /**
   * Dead, if that can be proven. A blockhash that a node does not know is too old, or too new for it: the finalized bank must be of a time
   * after the payment was first seen, and not far behind. And the signature is looked for again after the blockhash has run out everywhere,
   * by a node that has come as far: before that, it may land between two questions.
   */
  async function over(
    exact: SolanaExact,
    {
      now,
      first,
      earliest,
      signal,
    }: { now: number; first: number; earliest: number | undefined; signal: AbortSignal | undefined },
  ): Promise<Fate> {
    const { blockhash } = exact.wire
    const bank = await reads.accounts([], { commitment: 'finalized', signal })
    if (bank.kind === 'trouble') return unknown(bank.reason)
    if (bank.time + finalitySeconds < now / 1000) return unknown('the node is behind')
    if (bank.time * 1000 < first + SKEW_MS)
      return unknown('its blockhash is not known to the node; whether it is too old or too new cannot be told yet')
    const [processed, finalized] = await Promise.all([
      reads.validity(blockhash, 'processed', signal),
      reads.validity(blockhash, 'finalized', signal),
    ])
    if (processed.kind === 'trouble') return unknown(processed.reason)
    if (finalized.kind === 'trouble') return unknown(finalized.reason)
    if (processed.valid || finalized.valid) return { kind: 'open' }
    if (finalized.slot < bank.slot) return unknown('the node is behind what it has just shown')
    const found = await find(exact, { since: finalized.slot, earliest, signal })
    const end = conclude(exact, found)
    if (end) return end
    if (found.kind !== 'none')
      return unknown(found.kind === 'trouble' ? found.reason : 'it has run in a block that is not confirmed')
    const dead: Fate = { kind: 'dead', code: 'PAYMENT_BLOCKHASH_STALE' }
    ends.set(exact.key, dead)
    return dead
  }

  return { seen, ended: ends.get, conclude, fate }
}

const unknown = (reason: string): Fate => ({ kind: 'unknown', reason })

/** Where the fee payer's key is ours, its signature names the transaction. */
export function bySignature(reads: SolanaReads, signatureOf: (exact: SolanaExact) => Promise<string>): Finder {
  return async (exact, { since = 0, signal }) => {
    const signature = await signatureOf(exact)
    const status = await reads.status(signature, signal)
    if (status.kind === 'trouble') return status
    if (status.kind === 'unseen')
      return status.slot >= since ? { kind: 'none' } : trouble('the node is behind what it has just shown')
    if (!status.isConfirmed) return { kind: 'pending' }
    const landed = await reads.transaction(signature, signal)
    if (landed.kind === 'trouble') return landed
    if (landed.kind === 'absent') return trouble('its transaction is confirmed, but the node does not show it yet')
    if (landed.id !== exact.wire.id || landed.failed !== status.failed)
      return trouble('the node shows another transaction under this signature')
    return isPaidIn(landed, exact) ? { kind: 'paid', transaction: signature, slot: landed.slot } : { kind: 'failed' }
  }
}

const PAGE = 1_000
const PAGES = 3
const TOGETHER = 10

/**
 * Where it is not: the payer's token account has been touched by few transactions, and one of them has our message. At most `most` of them
 * are looked into, those with our memo and those without one, or whose memo the node does not tell.
 */
export function bySearch(reads: SolanaReads, most = 200): Finder {
  /** Undefined where it is none of these. */
  async function among(
    signatures: readonly string[],
    exact: SolanaExact,
    signal: AbortSignal | undefined,
  ): Promise<Found | undefined> {
    const all = await Promise.all(
      signatures.map(async (signature) => ({ signature, landed: await reads.transaction(signature, signal) })),
    )
    const ours = all.find(({ landed }) => landed.kind === 'landed' && landed.id === exact.wire.id)
    if (ours?.landed.kind === 'landed')
      return isPaidIn(ours.landed, exact)
        ? { kind: 'paid', transaction: ours.signature, slot: ours.landed.slot }
        : { kind: 'failed' }
    const lost = all.find(({ landed }) => landed.kind !== 'landed')?.landed
    if (lost?.kind === 'absent')
      return trouble('a transaction of its payer is confirmed, but the node does not show it yet')
    return lost?.kind === 'trouble' ? lost : undefined
  }

  return async (exact, { since, earliest = 0, signal }) => {
    const memo = memoLine(exact)
    let before: string | undefined
    let left = most
    for (let page = 0; page < PAGES; page++) {
      const rows = await reads.signatures(exact.source, { before, limit: PAGE, since }, signal)
      if (rows.kind === 'trouble') return rows
      const late = rows.found.filter(({ time = Number.POSITIVE_INFINITY }) => time * 1000 >= earliest)
      const likely = late.filter((row) => row.memo === undefined || row.memo === memo).map(({ signature }) => signature)
      for (let i = 0; i < likely.length; i += TOGETHER) {
        const some = likely.slice(i, i + TOGETHER)
        left -= some.length
        if (left < 0) return TOO_MANY
        const found = await among(some, exact, signal)
        if (found) return found
      }
      if (late.length < PAGE) return { kind: 'none' }
      before = rows.found.at(-1)?.signature
    }
    return TOO_MANY
  }
}

const TOO_MANY = trouble('its payer has too many transactions to find it among them')

/** The memos of a payment, as nodes list them. */
function memoLine({ memos }: SolanaExact): string {
  return memos.map((memo) => `[${memo.length}] ${new TextDecoder().decode(memo)}`).join('; ')
}
