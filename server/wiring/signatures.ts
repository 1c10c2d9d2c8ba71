/** Signed offers and receipts, for commands that check them. */
import { isSignedBy } from '../../adapters/offer_signer.ts'
import { type Jwk, readSigned, type SignedContent } from '../../core/mod.ts'

/** What a signature says, and whether it is of a key. Undefined for what is no offer and no receipt. */
export function openSigned(
  signature: string,
): { readonly content: SignedContent; isOf(key: Jwk): Promise<boolean> } | undefined {
  const content = readSigned(signature)
  return content && { content, isOf: (key) => isSignedBy(signature, key) }
}
