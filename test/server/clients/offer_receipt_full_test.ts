/** The official verifier of `@x402/extensions`, unchanged, against a devnet: it finds the key by did:web itself. */
import { beforeAll, describe, expect, test } from 'bun:test'
import { createKeyPairSignerFromBytes, getBase58Encoder } from '@solana/kit'
import { x402Client } from '@x402/core/client'
import { ExactEvmScheme } from '@x402/evm'
import {
  decodeSignedOffers,
  extractOffersFromPaymentRequired,
  extractReceiptFromResponse,
  findAcceptsObjectFromSignedOffer,
  verifyOfferSignatureJWS,
  verifyReceiptMatchesOffer,
  verifyReceiptSignatureJWS,
} from '@x402/extensions/offer-receipt'
import { wrapFetchWithPayment } from '@x402/fetch'
import { ExactSvmScheme } from '@x402/svm'
import { privateKeyToAccount } from 'viem/accounts'
import { gatewayProcesses } from '../gateway_process.ts'

const processes = gatewayProcesses()
const order = (path: string, body: unknown) => (origin: string) =>
  new Request(`${origin}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
const IMAGE = order('/api/v1/images/generations', { model: 'vendor-a/image-1', prompt: 'a red fox in the snow' })

type Devnet = {
  readonly gateways: readonly {
    name: string
    base_url: string
    rpc_url: string
    buyer: { address: string; private_key: string }
  }[]
}
let devnet: Devnet
const gatewayOf = (name: string) => {
  const found = devnet.gateways.find((gateway) => gateway.name === name)
  if (!found) throw new Error(`this devnet has no gateway ${name}`)
  return found
}

beforeAll(async () => {
  const origin = await processes.start(processes.dir()).url
  devnet = (await (await fetch(`${origin}/devnet`)).json()) as Devnet
})

describe('the official verifier takes what a devnet signs', () => {
  const proven = async (
    { base_url: origin, buyer }: ReturnType<typeof gatewayOf>,
    pay: (request: Request) => Promise<Response>,
  ) => {
    const challenge = (await (await fetch(IMAGE(origin))).json()) as any
    const [offer, ...more] = decodeSignedOffers(extractOffersFromPaymentRequired(challenge))
    if (!offer) throw new Error('there is no signed offer')
    expect(1 + more.length).toBe(challenge.accepts.length)
    const content = await verifyOfferSignatureJWS(offer.signedOffer as never)
    expect(content.amount).toBe(findAcceptsObjectFromSignedOffer(offer, challenge.accepts)?.amount as string)

    const bought = await pay(IMAGE(origin))
    expect(bought.status).toBe(200)
    const receipt = extractReceiptFromResponse(bought)
    if (!receipt) throw new Error('there is no signed receipt')
    expect(await verifyReceiptSignatureJWS(receipt as never)).toMatchObject({
      payer: buyer.address,
      transaction: bought.headers.get('x-payment-receipt') as string,
    })
    expect(verifyReceiptMatchesOffer(receipt, offer, [buyer.address])).toBe(true)
    const [head, , signature] = receipt.signature.split('.')
    const [, other] = (offer.signedOffer as { signature: string }).signature.split('.')
    const forged = { ...receipt, signature: [head, other, signature].join('.') }
    expect(await verifyReceiptSignatureJWS(forged as never).catch(() => 'refused')).toBe('refused')
  }

  test('on EVM (contract 1.79, 1.80, 1.81)', async () => {
    const gateway = gatewayOf('devnet')
    const scheme = new ExactEvmScheme(privateKeyToAccount(gateway.buyer.private_key as `0x${string}`))
    const pay = wrapFetchWithPayment(fetch, new x402Client().register('eip155:*', scheme))
    await proven(gateway, pay)
  })

  test('on Solana (contract 1.79, 1.80, 1.81)', async () => {
    const gateway = gatewayOf('solana')
    const signer = await createKeyPairSignerFromBytes(getBase58Encoder().encode(gateway.buyer.private_key))
    const scheme = new ExactSvmScheme(signer, { rpcUrl: gateway.rpc_url })
    const pay = wrapFetchWithPayment(fetch, new x402Client().register('solana:*', scheme))
    await proven(gateway, pay)
  })
})
