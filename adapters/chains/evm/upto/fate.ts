/** The fate of an authorization by `upto`: by its nonce, and by the transfer that used it. */
import type { Fate, SettleOptions } from '../../../../core/ports/mod.ts'
import type { Offer, Payment } from '../../../../core/x402/mod.ts'
import { type Hex, uintIn, word } from '../../lib/hex.ts'
import { LOOKBACK_SECONDS } from '../exact/payload.ts'
import { blockAt, searchPast } from '../node/log_search.ts'
import { parseReceipt } from '../node/token.ts'
import type { Upto } from './payload.ts'
import { bitmapCall, isNonceUsed, isSettlementOf, TRANSFER, transferIn } from './permit2.ts'
import { nothingMoved, parse, type UptoScheme } from './scheme.ts'

type UptoFate = Fate | { readonly kind: 'unknown'; readonly reason: string; readonly isUsed?: true }

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

async function paidIn(
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
async function search(scheme: UptoScheme, upto: Upto, signal?: AbortSignal): Promise<UptoFate & { isUsed?: true }> {
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
