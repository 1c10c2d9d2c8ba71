import { describe, expect, test } from 'bun:test'
import {
  decodeSignedOffers,
  extractOffersFromPaymentRequired,
  extractReceiptFromResponse,
  findAcceptsObjectFromSignedOffer,
  verifyOfferSignatureJWS,
  verifyReceiptMatchesOffer,
  verifyReceiptSignatureJWS,
} from '@x402/extensions/offer-receipt'
import { isSignedBy, offerSigner } from '../../../adapters/offer_signer.ts'
import { customGateway, endpoints, readSigned } from '../../../core/mod.ts'
import { FOX, GENERATIONS, kit, ORIGIN } from '../../kit.ts'
import { COMPLETIONS, STREAM, table } from './stream_kit.ts'

const pair = async (algorithm: 'Ed25519' | { name: string; namedCurve: string }) => {
  const { privateKey } = (await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])) as CryptoKeyPair
  return (await crypto.subtle.exportKey('jwk', privateKey)) as Readonly<Record<string, string>>
}
const ed25519 = await pair('Ed25519')
const p256 = await pair({ name: 'ECDSA', namedCurve: 'P-256' })
const signer = offerSigner(ed25519)

const did = async ({ gateway }: Pick<ReturnType<typeof kit>, 'gateway'>) =>
  (await (await gateway.fetch(new Request(`${ORIGIN}/.well-known/did.json`))).json()) as any

/** The text with one letter of its middle part changed. */
const tampered = (jws: string) => {
  const [head, payload = '', signature] = jws.split('.')
  return [head, `${payload.slice(0, 40)}${payload[40] === 'A' ? 'B' : 'A'}${payload.slice(41)}`, signature].join('.')
}

describe('signed offers', () => {
  for (const [name, key] of [
    ['EdDSA', ed25519],
    ['ES256', p256],
  ] as const)
    test(`are in the body of a 402, one for each offer, and the official library verifies them by ${name} (contract 1.79)`, async () => {
      const subject = kit({ signer: offerSigner(key) })
      const { body } = await subject.buyer().ask(FOX)
      const signed = extractOffersFromPaymentRequired(body)
      const document = await did(subject)
      const [method] = document.verificationMethod
      expect(signed.length).toBe(body.accepts.length)
      for (const offer of decodeSignedOffers(signed)) {
        const content = await verifyOfferSignatureJWS(offer.signedOffer as never, method.publicKeyJwk)
        expect(content).toMatchObject({ version: 1, resourceUrl: `${ORIGIN}${GENERATIONS}` })
        expect(findAcceptsObjectFromSignedOffer(offer, body.accepts)).toEqual(body.accepts[0])
        expect(readSigned(offer.signedOffer.signature)).toMatchObject({ kind: 'offer', keyId: method.id })
        expect(await isSignedBy(offer.signedOffer.signature, method.publicKeyJwk)).toBe(true)
      }
      expect([document.id, document.assertionMethod]).toEqual(['did:web:farebox.test', [method.id]])
      expect(JSON.stringify(document)).not.toContain(key.d as string)
    })

  test('that were tampered with, or signed by another key, do not verify (contract 1.79)', async () => {
    const { body } = await kit({ signer }).buyer().ask(FOX)
    const [offer] = extractOffersFromPaymentRequired(body) as any[]
    const forged = { ...offer, signature: tampered(offer.signature) }
    expect(await isSignedBy(forged.signature, signer.publicKey)).toBe(false)
    expect(await isSignedBy(offer.signature, offerSigner(p256).publicKey)).toBe(false)
    const stranger = offerSigner(await pair('Ed25519')).publicKey
    expect(await isSignedBy(offer.signature, stranger)).toBe(false)
    for (const [artifact, key] of [
      [forged, signer.publicKey],
      [offer, stranger],
    ] as const)
      expect(await verifyOfferSignatureJWS(artifact, key as never).catch(() => 'refused')).toBe('refused')
  })

  test('are signed once a minute and price, and hold for the time that a payment may take (contract 1.79)', async () => {
    let signatures = 0
    const counted = {
      ...signer,
      sign(bytes: Uint8Array) {
        signatures += 1
        return signer.sign(bytes)
      },
    }
    const subject = kit({ signer: counted })
    const alice = subject.buyer()
    const offered = async () => (extractOffersFromPaymentRequired((await alice.ask(FOX)).body) as any[])[0].signature
    const first = await offered()
    for (let times = 0; times < 5; times += 1) expect(await offered()).toBe(first)
    const [{ maxTimeoutSeconds }] = (await alice.ask(FOX)).body.accepts
    const now = subject.clock.now() / 1000
    const validUntil = readSigned(first)?.fields.validUntil as number
    expect([signatures, validUntil - maxTimeoutSeconds > now]).toEqual([1, true])
    await subject.clock.advance(60_000)
    expect([(await offered()) === first, signatures]).toEqual([false, 2])
  })

  test('are not in the headers, which stay as they are without a key (contract 1.79)', async () => {
    const [with_, without] = [await kit({ signer }).buyer().ask(FOX), await kit().buyer().ask(FOX)]
    for (const name of ['payment-required', 'x-payment-required', 'www-authenticate'])
      expect(with_.headers.get(name)).toBe(without.headers.get(name) as string)
    expect(without.body.extensions['offer-receipt']).toBeUndefined()
  })
})

describe('signed receipts', () => {
  test('are in PAYMENT-RESPONSE of what was paid, with the transaction, and match the signed offer (contract 1.80)', async () => {
    const subject = kit({ signer })
    const alice = subject.buyer()
    const challenge = await alice.ask(FOX)
    const bought = await alice.buy(FOX, { payment: alice.sign(challenge) })
    const receipt = extractReceiptFromResponse(new Response(null, { headers: bought.headers })) as any
    const [offer] = decodeSignedOffers(extractOffersFromPaymentRequired(challenge.body)) as any[]
    const content = await verifyReceiptSignatureJWS(receipt, signer.publicKey as never)
    expect(content).toMatchObject({
      payer: alice.wallet,
      network: offer.network,
      resourceUrl: offer.resourceUrl,
      transaction: bought.headers.get('x-payment-receipt') as string,
      issuedAt: Math.floor(subject.clock.now() / 1000),
    })
    expect(verifyReceiptMatchesOffer(receipt, offer, [alice.wallet], Number.MAX_SAFE_INTEGER)).toBe(true)
    const forged = { ...receipt, signature: tampered(receipt.signature) }
    expect(await verifyReceiptSignatureJWS(forged, signer.publicKey as never).catch(() => 'refused')).toBe('refused')
  })

  test('of a job that was collected name what was ordered (contract 1.80)', async () => {
    const subject = kit({ signer, inlineMs: 0 })
    const alice = subject.buyer()
    const payment = alice.sign(await alice.ask(FOX))
    const opened = await alice.buy(FOX, { payment })
    await subject.idle()
    const collected = await alice.poll(opened.body.poll_url, payment)
    const receipt = extractReceiptFromResponse(new Response(null, { headers: collected.headers })) as any
    expect(collected.status).toBe(200)
    expect(readSigned(receipt.signature)?.fields).toMatchObject({ resourceUrl: `${ORIGIN}${GENERATIONS}` })
  })

  test('of a stream come with its receipt, after the answer (contract 1.80)', async () => {
    const { post, signed: signedFor, alice } = await table(undefined, { signer })
    const text = await (await post(STREAM, { payment: await signedFor(STREAM) })).text()
    const comment = /^: payment-response (\S+)$/m.exec(text)?.[1] as string
    const receipt = extractReceiptFromResponse(new Response(null, { headers: { 'payment-response': comment } })) as any
    expect(await verifyReceiptSignatureJWS(receipt, signer.publicKey as never)).toMatchObject({
      payer: alice.wallet,
      resourceUrl: `${ORIGIN}${COMPLETIONS}`,
    })
  })

  test('are not made for a payment that was refused (contract 1.80)', async () => {
    const subject = kit({ signer })
    const alice = subject.buyer()
    const payment = alice.sign(await alice.ask(FOX))
    const spoiled = { ...payment, payload: { ...payment.payload, signature: '0x00' } }
    const refused = await alice.buy(FOX, { payment: spoiled })
    expect([refused.status, refused.headers.get('payment-response') ?? '']).not.toContain('offer-receipt')
    expect(refused.status).toBe(402)
  })

  test('that cannot be signed lose nobody a result (contract 1.80)', async () => {
    const broken = { ...signer, sign: () => Promise.reject(new Error('no key')) }
    const subject = kit({ signer: broken })
    const bought = await subject.buyer().buy(FOX)
    expect([bought.status, bought.headers.get('x-payment-receipt') !== null]).toEqual([200, true])
    expect(extractReceiptFromResponse(new Response(null, { headers: bought.headers }))).toBeUndefined()
  })
})

test('without a key there is no document of one (contract 1.81)', async () => {
  const reply = await kit().gateway.fetch(new Request(`${ORIGIN}/.well-known/did.json`))
  expect(reply.status).toBe(404)
})

test('under a path of the host the document is where its name points (contract 1.81)', async () => {
  const { ports } = kit()
  const farebox = customGateway({ ports, endpoints, signer, basePath: '/ai' })
  const reply = await farebox.fetch(new Request(`${ORIGIN}/ai/.well-known/did.json`))
  const { id } = (await reply.json()) as { id: string }
  expect(id).toBe('did:web:farebox.test:ai:.well-known')
})

test('a key that signs nothing is refused without being shown', () => {
  for (const key of [{}, signer.publicKey, { ...ed25519, crv: 'secp256k1' }, { ...ed25519, x: 'short' }]) {
    const refused = (() => {
      try {
        return offerSigner(key) && 'taken'
      } catch (error) {
        return (error as Error).message
      }
    })()
    expect(refused).toContain('Ed25519 or P-256')
    expect(refused).not.toContain(ed25519.d as string)
  }
})
