/** Writes the payments into the ledger that the chain has and the ledger lacks, so that both agree again. */
import { createHash } from 'node:crypto'
import type { Storage } from '../../core/ports/mod.ts'
import { type Offer, type Receipt, usdc } from '../../core/x402/mod.ts'
import { type ChainSide, type Difference, type OnChain, RECOVERED } from './reconcile.ts'

type Mending = Pick<Storage, 'openCall' | 'moveCall' | 'finishSettlement'>

/** `gateway` is the name that the payments are booked on. */
type MendedLedger = {
  readonly storage: Mending
  readonly side: ChainSide
  readonly gateway: string
  readonly now: number
}

const DAY_MS = 86_400_000
/** No process that sells meanwhile takes a call for lost before it is booked. */
const LEASE_MS = 60_000

/**
 * Books each payment that was named. A call that the ledger knows is settled by it. Of any other the chain tells payer,
 * amount, time and authorization, so a call of the endpoint `recovered` is written, without model, request and result:
 * its authorization opens no other call. Payments without an authorization in the logs (`upto`, plain transfers) and
 * charges of channels are left, because nothing says which call they paid. It may be repeated. Returns what was booked.
 */
export async function mendLedger(
  ledger: MendedLedger,
  differences: readonly Difference[],
): Promise<readonly Difference[]> {
  const mended: Difference[] = []
  for (const difference of differences) {
    const { transfer } = difference
    if (!transfer) continue
    const at = (await ledger.side.timeOf?.(transfer.block)) ?? ledger.side.since
    const id = difference.call ?? (await opened(ledger, { transfer, at }))
    if (id === undefined) continue
    const isBooked = await ledger.storage.finishSettlement(
      id,
      0,
      { kind: 'paid', receipt: receiptOf(ledger.side, transfer) },
      { now: at },
    )
    if (isBooked) mended.push({ ...difference, call: id })
  }
  return mended
}

/** The call of a payment that no call has. Undefined where the chain does not tell its authorization. */
async function opened(
  { storage, side, gateway, now }: MendedLedger,
  { transfer, at }: { readonly transfer: OnChain; readonly at: number },
): Promise<string | undefined> {
  const key = side.keyOf?.(transfer)
  if (key === undefined) return undefined
  const { network, asset, payTo } = side
  const { payer, amount } = transfer
  const offer: Offer = { scheme: 'exact', network, amount, asset, payTo, maxTimeoutSeconds: 0, extra: {} }
  const digest = createHash('sha256').update(key).digest('hex')
  const id = `job_${digest.slice(0, 32)}`
  const done = { workStatus: 'completed', result: null, error: null, endedAt: at, expiresAt: at + DAY_MS } as const
  const isUnpaid = { workStatus: ['queued', 'failed', 'completed'], paymentStatus: 'verified' } as const
  const end = () => storage.moveCall(id, isUnpaid, done)
  // It was opened before, and its booking was interrupted.
  if (await end()) return id
  const call = {
    id,
    gateway,
    endpoint: RECOVERED,
    model: null,
    payer,
    asset: `${network}/${asset.toLowerCase()}`,
    quote: usdc(BigInt(amount)),
    offer,
    fingerprint: digest,
    request: null,
    createdAt: at,
    workerId: 'reconcile',
    expiresAt: at + DAY_MS,
  }
  // Expired, so that it is looked up and never sent.
  const payment = { x402Version: 2 as const, accepted: offer, payload: {} }
  const authorization = { key, payer, payment, offer, expiresAt: at }
  const answer = await storage.openCall(call, authorization, { now: at, until: now + LEASE_MS })
  // Opened since the ledger was read: the next comparison tells whether the payment pays for it.
  if (answer.kind === 'replayed' && answer.call.id !== id) return undefined
  return (await end()) ? id : undefined
}

function receiptOf({ network }: ChainSide, { transaction, payer, amount, block }: OnChain): Receipt {
  return { transaction, network, payer, amount, block }
}
