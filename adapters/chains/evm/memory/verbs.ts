/** The questions of the port, as a chain in memory answers them. */
import { checksummed } from '../../../../core/lib/mod.ts'
import type { Fate, Identity, Settlement, SettleOptions, Verdict } from '../../../../core/ports/mod.ts'
import { type Offer, type Payment, usdc, type Usdc } from '../../../../core/x402/mod.ts'
import type { CallOptions } from '../../lib/results.ts'
import { refused } from '../exact/payload.ts'
import { parseAddress } from '../node/address.ts'
import { advance, balanceAt, execute, fateAt, head, type MemoryLedger, spentAt, visibleBlock } from './ledger.ts'
import { checkPayment, checkPrice, parsePayment } from './payload.ts'
import { isSignedBy } from './signing.ts'

export async function identify(ledger: MemoryLedger, payment: Payment, offer: Offer): Promise<Identity> {
  const exact = parsePayment(payment, offer)
  if (exact.kind === 'refused') return exact
  if (!isSignedBy(ledger, exact, offer))
    return refused('PAYMENT_INVALID', 'signature', `it was not signed by ${exact.from} in this domain`)
  return { kind: 'known', payer: checksummed(exact.from), key: exact.key, expiresAt: exact.expiresAt }
}

export async function verify(ledger: MemoryLedger, payment: Payment, offer: Offer, at: CallOptions): Promise<Verdict> {
  await ledger.options.before?.('verify')
  advance(ledger, at.now)
  if (ledger.isDown || at.signal.aborted) return { kind: 'unavailable', reason: 'the node does not answer' }
  const who = await identify(ledger, payment, offer)
  if (who.kind !== 'known') return who
  const exact = parsePayment(payment, offer)
  if (exact.kind === 'refused') return exact
  const bad = checkPayment(exact, offer, at.now)
  if (bad) return bad
  const block = visibleBlock(ledger)
  if (block === undefined) return { kind: 'unavailable', reason: 'the node is behind' }
  if (spentAt(ledger, exact.key, block))
    return refused('PAYMENT_REPLAY', 'nonce_already_used', 'the authorization is used or canceled')
  const balance = balanceAt(ledger, exact.from, block)
  if (balance >= exact.value) return { kind: 'valid', balance: usdc(balance), asOf: at.now, block }
  return refused(
    'PAYMENT_UNFUNDED',
    'insufficient_balance',
    `the balance is ${balance} base units; the price is ${exact.value}`,
  )
}

export async function settle(
  ledger: MemoryLedger,
  payment: Payment,
  offer: Offer,
  at: SettleOptions,
): Promise<Settlement> {
  await ledger.options.before?.('settle')
  advance(ledger, at.now)
  const exact = parsePayment(payment, offer)
  if (exact.kind === 'refused') return { kind: 'refused', reason: exact.reason }
  const bad = checkPrice(exact, offer)
  if (bad) return { kind: 'refused', reason: bad.reason }
  const value = exact.kind === 'upto' ? (at.charge ?? exact.value) : exact.value
  if (value > exact.value) return { kind: 'refused', reason: 'the charge is more than was signed' }
  if (ledger.isDown || at.signal.aborted) return { kind: 'unknown', reason: 'the node does not answer' }
  if (!isSignedBy(ledger, exact, offer))
    return { kind: 'refused', reason: `it was not signed by ${exact.from} in this domain` }

  const before = fateAt(ledger, exact, offer, head(ledger), at.charge)
  if (before.kind === 'paid') return { kind: 'settled', receipt: before.receipt }
  if (before.kind === 'dead') return { kind: 'refused', reason: 'the authorization is dead' }
  const outcome = ledger.outcomes.shift() ?? 'normal'
  if (outcome === 'refused') return { kind: 'refused', reason: 'refused by simulation' }
  if (outcome === 'late') ledger.mempool.push({ exact, value })
  if (outcome === 'late' || outcome === 'dropped') return { kind: 'unknown', reason: 'no receipt in time' }
  const reverted = execute(ledger, exact, value)
  if (reverted !== undefined) return { kind: 'refused', reason: reverted }
  if (outcome === 'landed') return { kind: 'unknown', reason: 'no receipt in time' }
  ledger.newestReported = head(ledger)
  const after = fateAt(ledger, exact, offer, head(ledger))
  return after.kind === 'paid'
    ? { kind: 'settled', receipt: after.receipt }
    : { kind: 'unknown', reason: 'no transfer' }
}

export async function fate(ledger: MemoryLedger, payment: Payment, offer: Offer, at: SettleOptions): Promise<Fate> {
  await ledger.options.before?.('fate')
  advance(ledger, at.now)
  if (ledger.isDown || at.signal.aborted) return { kind: 'unknown', reason: 'the node does not answer' }
  const exact = parsePayment(payment, offer)
  if (exact.kind === 'refused') return { kind: 'unknown', reason: exact.reason }
  const block = visibleBlock(ledger)
  if (block === undefined) return { kind: 'unknown', reason: 'the node is behind' }
  return fateAt(ledger, exact, offer, block, at.charge)
}

export async function balance(ledger: MemoryLedger, address: string, at: { signal: AbortSignal }): Promise<Usdc> {
  await ledger.options.before?.('balance')
  const who = parseAddress(address)
  const block = ledger.isDown || at.signal.aborted ? undefined : visibleBlock(ledger)
  if (block === undefined) throw new Error('the node does not answer')
  return usdc(balanceAt(ledger, who, block))
}
