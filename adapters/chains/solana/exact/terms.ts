/** The terms of Solana payments. */
import type { Terms } from '../../../../core/x402/mod.ts'
import type { BlockhashExtra } from '../node/blockhash.ts'

type Account = { readonly network: string; readonly mint: string; readonly payTo: string }
type Made = { readonly feePayer: string | undefined; readonly blockhash: BlockhashExtra; readonly terms: Terms[] }

/**
 * Builds the terms for a fee payer and a blockhash. While both are the same objects, so are the terms, and values
 * derived from them can be cached.
 */
export function solanaTerms({ network, mint, payTo }: Account) {
  let last: Made | undefined
  return (feePayer: string | undefined, blockhash: BlockhashExtra): readonly Terms[] => {
    if (last && last.feePayer === feePayer && last.blockhash === blockhash) return last.terms
    const terms = [{ scheme: 'exact', network, asset: mint, payTo, extra: { feePayer, ...blockhash } }]
    last = { feePayer, blockhash, terms }
    return terms
  }
}
