/** Who signed a payment, and whether the deposit pays for it. */
import { checksummed } from '../../../../core/lib/mod.ts'
import type { Identity, Unavailable, Verdict } from '../../../../core/ports/mod.ts'
import { type Offer, type Payment, usdc, type Usdc } from '../../../../core/x402/mod.ts'
import { type CallOptions, unavailable } from '../../lib/results.ts'
import { parseAddress } from '../node/address.ts'
import { find } from './fate.ts'
import { checkAuthorization, checkSignature, refused } from './payload.ts'
import type { BatchedParts } from './scheme.ts'

/** The deposit on the network that is offered first. */
export async function balance(
  parts: BatchedParts,
  address: string,
  { signal }: { signal: AbortSignal },
): Promise<Usdc> {
  const depositor = parseAddress(address)
  const [first] = parts.terms
  const deposit = first
    ? await depositOf(parts, depositor, first.network, { now: parts.latestNow, signal })
    : unavailable('no network is offered yet')
  if (typeof deposit !== 'bigint') throw new Error(deposit.reason)
  return usdc(deposit)
}

export async function identify(parts: BatchedParts, payment: Payment, offer: Offer): Promise<Identity> {
  const parsed = parts.parse(payment, offer)
  if ('kind' in parsed) return parsed
  const refusal = await checkSignature(parsed)
  if (refusal) return refusal
  const { exact, key, wallet, endsAt } = parsed
  return { kind: 'known', payer: checksummed(exact.from), key, expiresAt: endsAt, fundedBy: wallet }
}

/** The API's own /verify is not used: it checks neither balance nor nonce, and everything else is checked here. */
export async function verify(parts: BatchedParts, payment: Payment, offer: Offer, at: CallOptions): Promise<Verdict> {
  const parsed = parts.parse(payment, offer)
  if ('kind' in parsed) return parsed
  const refusal = checkAuthorization(parsed, offer, at.now)
  if (refusal) return refusal
  parts.latestNow = at.now
  const { exact } = parsed
  const [deposit, found] = await Promise.all([
    depositOf(parts, exact.from, offer.network, at),
    find(parts, parsed, offer, at),
  ])
  if (found.kind !== 'none' && found.kind !== 'failure')
    return refused('PAYMENT_REPLAY', 'nonce_already_used', `${exact.from} has used this nonce`)
  if (found.kind === 'failure') return unavailable(found.reason)
  if (typeof deposit !== 'bigint') return deposit
  if (deposit < exact.value)
    return refused(
      'PAYMENT_UNFUNDED',
      'insufficient_balance',
      `the payer has ${deposit} base units in the Gateway; the price is ${exact.value}`,
    )
  return { kind: 'valid', balance: usdc(deposit), asOf: at.now }
}

async function depositOf(
  parts: BatchedParts,
  depositor: string,
  network: string,
  at: CallOptions,
): Promise<bigint | Unavailable> {
  const domain = parts.domainNumbers[network]
  if (domain === undefined)
    return unavailable(`the deposit on ${network} cannot be read: its domain number is not configured`)
  const response = await parts.api.deposit({ depositor, domain }, { ...at, timeoutMs: parts.verifyMs })
  return response.kind === 'result' ? response.value : unavailable(response.reason)
}
