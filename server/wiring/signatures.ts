/** Signed offers and receipts, for commands that check them. */
import { isSignedBy } from '../../adapters/offer_signer.ts'
import { type Jwk, readSigned, type SignedContent } from '../../core/mod.ts'

/** Returns the content of a signature, and whether a key made it. Undefined unless it is an offer or a receipt. */
export function openSigned(
  signature: string,
): { readonly content: SignedContent; isOf(key: Jwk): Promise<boolean> } | undefined {
  const content = readSigned(signature)
  return content && { content, isOf: (key) => isSignedBy(signature, key) }
}
