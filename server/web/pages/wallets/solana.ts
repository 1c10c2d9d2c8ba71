/** Payments on Solana, whoever signs them. The code that builds transactions is loaded with the first of them. */
import type { Offer } from '../lib/x402.ts'
import { NotSigned } from './wallet.ts'

type Sign = (transaction: Uint8Array) => Promise<Uint8Array>

/** The `payload` of a payment: the transaction that pays the offer, signed by its payer. */
export async function payOnSolana(offer: Offer, from: string, sign: Sign): Promise<unknown> {
  if (typeof offer.extra?.feePayer !== 'string')
    throw new NotSigned(
      'Payments cannot be taken on Solana now: no account is ready to pay their fee. Try again later.',
    )
  const [{ transferOf }, blockhash] = await Promise.all([import('./solana_transfer.ts'), newestBlockhash(offer)])
  const signed = await sign(await transferOf(offer, { from, blockhash }))
  return { transaction: btoa(String.fromCharCode(...signed)) }
}

/**
 * The newest blockhash, because a transaction lives a minute from its blockhash, and a person may have looked at the
 * price for a while. The gateway answers this without a payment; the offer's own is second best.
 */
async function newestBlockhash({ extra }: Offer): Promise<string> {
  const request = { jsonrpc: '2.0', id: 1, method: 'getLatestBlockhash', params: [{ commitment: 'confirmed' }] }
  const newest = await fetch('/api/v1/solana/rpc', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(request),
  }).then(
    async (reply) =>
      reply.ok ? ((await reply.json()) as { result?: { value?: { blockhash?: string } } }).result?.value : undefined,
    () => undefined,
  )
  const blockhash = newest?.blockhash ?? extra?.recentBlockhash
  if (typeof blockhash === 'string') return blockhash
  throw new NotSigned('Solana cannot be asked for its newest block. Nothing was signed; try again in a moment.')
}
