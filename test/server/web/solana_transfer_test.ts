import { describe, expect, test } from 'bun:test'
import { checkPayment, DEFAULT_FEE_LIMITS } from '../../../adapters/chains/solana/exact/payload.ts'
import { fromBase58, parseTransaction } from '../../../adapters/chains/solana/node/transaction.ts'
import type { Offer } from '../../../core/x402/protocol.ts'
import { MINT } from '../../../server/devnet/solana/tokens.ts'
import { signText, signTransaction, transferOf } from '../../../server/web/pages/wallets/solana_transfer.ts'
import { NETWORK, newKey, paymentOf } from '../../adapters/chains/solana/solana_kit.ts'

const [payer, feePayer, seller] = await Promise.all([newKey(), newKey(), newKey()])
const BLOCKHASH = seller.address

const offer: Offer = {
  scheme: 'exact',
  network: NETWORK,
  amount: '2233',
  asset: MINT,
  payTo: seller.address,
  maxTimeoutSeconds: 60,
  extra: { feePayer: feePayer.address },
}

async function signed(wanted: Offer = offer): Promise<string> {
  const transaction = await transferOf(wanted, { from: payer.address, blockhash: BLOCKHASH })
  return Buffer.from(await signTransaction(transaction, payer.secret)).toString('base64')
}

const judged = async (wanted: Offer) =>
  await checkPayment(paymentOf(wanted, await signed(wanted)), wanted, {
    network: NETWORK,
    feePayers: [feePayer.address],
    limits: DEFAULT_FEE_LIMITS,
  })

describe('a payment on Solana that the playground writes', () => {
  test('is one that the chain adapter accepts, from the signer, under the blockhash that was asked for', async () => {
    const payment = await judged(offer)
    expect(payment).toMatchObject({ kind: 'exact', payer: payer.address, amount: 2233n, mint: MINT })
    expect(parseTransaction(await signed())).toMatchObject({ blockhash: BLOCKHASH })
  })

  test("is another transaction each time, and has the seller's memo where the offer names one", async () => {
    const [one, two] = await Promise.all([judged(offer), judged(offer)])
    expect((one as { key: string }).key).not.toBe((two as { key: string }).key)
    const named = await judged({ ...offer, extra: { ...offer.extra, memo: 'order 7' } })
    expect((named as { memos: readonly Uint8Array[] }).memos.map((memo) => new TextDecoder().decode(memo))).toEqual([
      'order 7',
    ])
  })

  test('can be proven: a text is signed by the same key', async () => {
    const signature = fromBase58(await signText('poll:v1:image:1:1', payer.secret), 64) as Uint8Array
    const { publicKey } = payer.keyPair
    const text = new TextEncoder().encode('poll:v1:image:1:1')
    expect(await crypto.subtle.verify('Ed25519', publicKey, Uint8Array.from(signature), text)).toBe(true)
  })
})
