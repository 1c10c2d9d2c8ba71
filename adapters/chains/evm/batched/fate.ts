/** The fate of an authorization, by the transfers that the API lists. */
import { checksummed } from '../../../../core/lib/mod.ts'
import type { Fate } from '../../../../core/ports/mod.ts'
import type { Offer, Payment, Receipt } from '../../../../core/x402/mod.ts'
import { lower } from '../../lib/hex.ts'
import type { CallOptions } from '../../lib/results.ts'
import { PAID_STATUSES } from './api.ts'
import type { BatchedPayment } from './payload.ts'
import type { BatchedParts } from './scheme.ts'

/** Answer of the API about an authorization. */
export type TransferSearch =
  | { readonly kind: 'paid'; readonly receipt: Receipt }
  /** Its nonce is used, and not for us. */
  | { readonly kind: 'dead' }
  /** `isExpired` also by the API's own clock, if it reports one: it refuses whatever arrives after this answer. */
  | { readonly kind: 'none'; readonly isExpired: boolean }
  | { readonly kind: 'failure'; readonly reason: string }

/** Finds the transfer of an authorization. A list with other transfers was not filtered, so it proves nothing. */
export async function find(
  parts: BatchedParts,
  parsed: BatchedPayment,
  offer: Offer,
  at: { now: number; signal?: AbortSignal },
): Promise<TransferSearch> {
  const { exact, endsAt } = parsed
  const { from, nonce } = exact
  const response = await parts.api.transfers(
    { from, nonce, network: offer.network },
    { ...at, timeoutMs: parts.verifyMs },
  )
  if (response.kind === 'failure') return { kind: 'failure', reason: response.reason }
  const { list, clock = at.now } = response.value
  if (list.length === 0) return { kind: 'none', isExpired: Math.min(clock, at.now) >= endsAt }
  const isFiltered = list.every(
    (each) => lower(each.fromAddress) === from && lower(each.nonce) === nonce && each.sendingNetwork === offer.network,
  )
  if (!isFiltered) return { kind: 'failure', reason: "the API's list contains other transfers than requested" }
  const ours = list.filter(({ toAddress, amount }) => lower(toAddress) === exact.to && BigInt(amount) === exact.value)
  const paidTransfer = ours.find(({ status }) => PAID_STATUSES.includes(status))
  if (paidTransfer) return { kind: 'paid', receipt: rememberPaid(parts, parsed, offer, paidTransfer.id) }
  const hasUnknownStatus = ours.some(({ status }) => status !== 'failed')
  return hasUnknownStatus ? { kind: 'failure', reason: "the API's transfer has an unknown status" } : { kind: 'dead' }
}

export function rememberPaid(
  parts: BatchedParts,
  { key, exact }: BatchedPayment,
  { network }: Offer,
  transaction: string,
): Receipt {
  const receipt = parts.paid.get(key) ?? {
    transaction,
    network,
    payer: checksummed(exact.from),
    amount: String(exact.value),
  }
  parts.paid.set(key, receipt)
  return receipt
}

export async function fate(parts: BatchedParts, payment: Payment, offer: Offer, at: CallOptions): Promise<Fate> {
  const parsed = parts.parse(payment, offer)
  if ('kind' in parsed) return { kind: 'unknown', reason: parsed.reason }
  const receipt = parts.paid.get(parsed.key)
  if (receipt) return { kind: 'paid', receipt }
  const found = await find(parts, parsed, offer, at)
  if (found.kind === 'none') return { kind: found.isExpired ? 'dead' : 'open' }
  return found.kind === 'failure' ? { kind: 'unknown', reason: found.reason } : found
}
