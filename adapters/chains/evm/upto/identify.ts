/** Who signed a payment by `upto`. */
import { checksummed } from '../../../../core/lib/mod.ts'
import type { Identity } from '../../../../core/ports/mod.ts'
import type { Offer, Payment } from '../../../../core/x402/mod.ts'
import { recoverSigner } from '../exact/eip3009.ts'
import { refusedUpto } from './payload.ts'
import { digestOf, parse, type UptoScheme } from './scheme.ts'

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
