/** Adds signed offers to the 402s of a gateway, and signed receipts to its receipts (contract 1.79; decision 130). */
import { boundedMap } from '../lib/bounded_map.ts'
import type { Clock } from '../lib/clock.ts'
import {
  declaredOffers,
  declaredReceipt,
  OFFER_RECEIPT,
  offerFields,
  type OfferSigner,
  receiptFields,
  signFields,
} from '../x402/offer_receipt.ts'
import { decodeObject, encodeHeader, type Offer, type Receipt } from '../x402/protocol.ts'
import type { Log } from '../ports/log.ts'
import type { Reply } from './reply.ts'

/** Where a reply goes out: the origin with the path of the host's mount, and the path below it. */
type At = { readonly origin: string; readonly path: string }

export type SignedReplies = {
  /** Signs what the reply offers or attests. At once where it did so before. */
  reply(reply: Reply, at: () => At): Reply | Promise<Reply>
  /** Signs the receipt among these headers, if there is one. */
  headers<Some extends Headers>(headers: Some, url: string, origin: string): Promise<Some>
}

type Headers = Readonly<Record<string, string>>

/** How many signatures are remembered, about 1 KB each. */
const MAX_SIGNED = 4_000
const MINUTE = 60

/**
 * Where signing fails, the reply goes out unsigned: nobody loses a result for want of a signature.
 */
export function signedReplies(signer: OfferSigner, { clock, log }: { clock: Clock; log: Log }): SignedReplies {
  const signatures = boundedMap<Promise<string>>(MAX_SIGNED)
  /** Replies that were signed, while they are kept by those who made them. */
  const replies = new WeakMap<Reply, { readonly minute: number; readonly signed: Promise<Reply>; reply?: Reply }>()
  return { reply, headers }

  function reply(plain: Reply, at: () => At): Reply | Promise<Reply> {
    if (plain.toSign?.offers && typeof plain.body === 'string') return withOffers(plain, plain.toSign.offers, at)
    if (plain.toSign?.isReceipt === false) return plain
    return PAYMENT_RESPONSE in plain.headers ? withReceipt(plain, at()) : plain
  }

  function withOffers(plain: Reply, offers: Offers, at: () => At): Reply | Promise<Reply> {
    const minute = Math.floor(clock.now() / 1000 / MINUTE)
    const before = replies.get(plain)
    if (before?.minute === minute) return before.reply ?? before.signed
    const signed = offersAdded(plain, offers, { minute, origin: at().origin })
    const entry: { minute: number; signed: Promise<Reply>; reply?: Reply } = { minute, signed }
    replies.set(plain, entry)
    void signed.then((reply) => void (entry.reply = reply))
    return signed
  }

  async function offersAdded(
    plain: Reply,
    { url, list }: Offers,
    { minute, origin }: { readonly minute: number; readonly origin: string },
  ): Promise<Reply> {
    const artifacts = await Promise.all(
      list.map(async (offer, acceptIndex) => ({
        format: 'jws' as const,
        acceptIndex,
        signature: await signature(offer, { url, minute, origin }),
      })),
    ).catch(unsigned)
    if (!artifacts) return plain
    const body = plain.body as string
    const from = body.indexOf(EXTENSIONS) + EXTENSIONS.length
    const added = `${JSON.stringify(OFFER_RECEIPT)}:${JSON.stringify(declaredOffers(artifacts))},`
    return { ...plain, body: `${body.slice(0, from)}${added}${body.slice(from)}` }
  }

  /** An offer is valid for the time that its payment may take, from the end of this minute. */
  function signature(
    offer: Offer,
    { url, minute, origin }: { readonly url: string; readonly minute: number; readonly origin: string },
  ): Promise<string> {
    const fields = offerFields(offer, url, (minute + 1) * MINUTE + offer.maxTimeoutSeconds)
    const key = `${origin} ${JSON.stringify(fields)}`
    const known = signatures.get(key)
    if (known) return known
    const made = signFields(signer, fields, origin)
    signatures.set(key, made)
    made.catch(() => signatures.delete(key))
    return made
  }

  async function withReceipt(plain: Reply, { origin, path }: At): Promise<Reply> {
    const url = `${origin}${plain.toSign?.path ?? path}`
    return { ...plain, headers: await headers(plain.headers, url, origin) }
  }

  async function headers<Some extends Headers>(plain: Some, url: string, origin: string): Promise<Some> {
    const settled = decodeObject(plain[PAYMENT_RESPONSE] ?? '') as Settled | undefined
    if (settled?.success !== true) return plain
    const fields = receiptFields(settled, url, Math.floor(clock.now() / 1000))
    const signature = await signFields(signer, fields, origin).catch(unsigned)
    if (signature === undefined) return plain
    const receipt = { format: 'jws' as const, signature }
    const extensions = { ...settled.extensions, [OFFER_RECEIPT]: declaredReceipt(receipt) }
    return { ...plain, [PAYMENT_RESPONSE]: encodeHeader({ ...settled, extensions }) }
  }

  function unsigned(error: Error): undefined {
    log.warn('an offer or a receipt could not be signed', { error: error.message })
  }
}

type Offers = NonNullable<NonNullable<Reply['toSign']>['offers']>
type Settled = Receipt & { readonly success: boolean; readonly extensions?: Readonly<Record<string, unknown>> }

const PAYMENT_RESPONSE = 'payment-response'
/** Where the extensions of a 402 begin. */
const EXTENSIONS = '"extensions":{'
