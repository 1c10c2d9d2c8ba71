/**
 * Signed offers and receipts: the extension `offer-receipt` as JSON Web Signatures, by a key that the gateway publishes
 * as a `did:web` document.
 */
import { toBase64 } from '../lib/base64.ts'
import { decodeObject, type Offer, type Receipt } from './protocol.ts'

export const OFFER_RECEIPT = 'offer-receipt'

/** A key as JSON (RFC 7517). A private one has `d`. */
export type Jwk = Readonly<Record<string, string>>

/** Signs offers and receipts; `offerSigner` of the adapters makes one. The key never moves money. */
export type OfferSigner = {
  readonly algorithm: 'EdDSA' | 'ES256'
  /** The public key, with its `alg`. */
  readonly publicKey: Jwk
  sign(bytes: Uint8Array): Promise<Uint8Array>
}

/** A signed offer or receipt as the extension carries it. */
type Artifact = { readonly format: 'jws'; readonly signature: string; readonly acceptIndex?: number }

/** The DID of an origin. A path on it comes before `/.well-known/did.json`, where the document is. */
function didOf(origin: string): string {
  const { host, pathname } = new URL(origin)
  const path = pathname.split('/').filter((part) => part !== '')
  return ['did:web', encodeURIComponent(host), ...(path.length > 0 ? [...path, '.well-known'] : [])].join(':')
}

/** The name of a key below its DID. It depends on the key, so a new key never takes the name of an old one. */
const keyIdOf = ({ publicKey }: OfferSigner, origin: string): string =>
  `${didOf(origin)}#key-${(publicKey.x as string).slice(0, 16)}`

/** The document that publishes the key of an origin. */
export function didDocument(signer: OfferSigner, origin: string): Readonly<Record<string, unknown>> {
  const id = didOf(origin)
  const keyId = keyIdOf(signer, origin)
  return {
    '@context': ['https://www.w3.org/ns/did/v1', 'https://w3id.org/security/suites/jws-2020/v1'],
    id,
    verificationMethod: [{ id: keyId, type: 'JsonWebKey2020', controller: id, publicKeyJwk: signer.publicKey }],
    assertionMethod: [keyId],
  }
}

/** Signed fields of an offer. `validUntil` is in unix seconds. */
export const offerFields = ({ scheme, network, asset, payTo, amount }: Offer, url: string, validUntil: number) => ({
  amount,
  asset,
  network,
  payTo,
  resourceUrl: url,
  scheme,
  validUntil,
  version: 1,
})

/** Signed fields of a receipt. `issuedAt` is in unix seconds. `transaction` is empty if nothing was charged. */
export const receiptFields = (
  { network, payer, transaction }: Pick<Receipt, 'network' | 'payer' | 'transaction'>,
  url: string,
  issuedAt: number,
) => ({ issuedAt, network, payer, resourceUrl: url, ...(transaction !== '' && { transaction }), version: 1 })

type Signable = ReturnType<typeof offerFields> | ReturnType<typeof receiptFields>

/** A compact JWS of the fields, whose names are in the order of canonical JSON (RFC 8785) as they are. */
export async function signFields(signer: OfferSigner, fields: Signable, origin: string): Promise<string> {
  const header = JSON.stringify({ alg: signer.algorithm, kid: keyIdOf(signer, origin) })
  const content = `${encoded(text(header))}.${encoded(text(JSON.stringify(fields)))}`
  return `${content}.${encoded(await signer.sign(text(content)))}`
}

/** The extension as JSON, for the body of a 402 and for PAYMENT-RESPONSE. */
export const declaredOffers = (offers: readonly Artifact[]) => ({
  info: { offers },
  schema: { type: 'object', properties: { offers: { type: 'array' } }, required: ['offers'] },
})
export const declaredReceipt = (receipt: Artifact) => ({
  info: { receipt },
  schema: { type: 'object', properties: { receipt: { type: 'object' } }, required: ['receipt'] },
})

/** Content of a JWS, read without verifying it. Undefined unless it is an offer or a receipt. */
export type SignedContent = {
  readonly kind: 'offer' | 'receipt'
  readonly algorithm: string
  readonly keyId: string
  readonly fields: Readonly<Record<string, unknown>>
}

/**
 * Reads a signed offer or receipt. Whether it is genuine is another question.
 *
 * @example
 * const content = readSigned('eyJhbGciOiJFZERTQSJ9.e30.AA')
 */
export function readSigned(jws: string): SignedContent | undefined {
  const [head = '', payload = '', signature, ...more] = jws.split('.')
  const header = decodeObject(head)
  const fields = decodeObject(payload)
  if (!header || !fields || signature === undefined || more.length > 0) return undefined
  if (!('payer' in fields || 'payTo' in fields)) return undefined
  const kind = 'payer' in fields ? 'receipt' : 'offer'
  if (typeof header.alg !== 'string' || typeof header.kid !== 'string') return undefined
  return { kind, algorithm: header.alg, keyId: header.kid, fields }
}

const text = (value: string) => new TextEncoder().encode(value)

const encoded = (bytes: Uint8Array): string =>
  toBase64(bytes).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
