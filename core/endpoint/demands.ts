/** The 402 of a call in its format: the challenge, the price and why it is asked for (contract 5.23). */
import type { Price } from './mod.ts'
import { listedRates } from './prices.ts'
import type { Charging } from './charging.ts'
import { paymentPage } from '../http/browser_402.ts'
import { type ErrorFormat, formatDemand } from '../http/error_formats.ts'
import { ApiError } from '../http/errors.ts'
import type { Reply } from '../http/reply.ts'
import type { Json } from '../lib/json.ts'
import { chargeSize } from '../mpp/challenge.ts'
import { type Problem, problemMembers } from '../mpp/problem.ts'
import type { PaymentCode } from '../ports/mod.ts'
import { challenge, type Resource } from '../x402/challenge.ts'
import { print, usdc } from '../x402/money.ts'
import { ascii, type Offer } from '../x402/protocol.ts'

export type Body = Readonly<Record<string, Json>>

export type Asking = {
  readonly offers: readonly Offer[]
  readonly resource: Resource
  readonly label: string
  readonly errorFormat: ErrorFormat
  /** Where the documents are, for the page that a person reads. */
  readonly origin?: string
  /** Where the way to pay is explained. */
  readonly help?: Body
  /** How it speaks of MPP, and why it is sent in the words of MPP; by default `payment-required`. */
  readonly charging?: Charging
  readonly problem?: Problem
  /** Headers of the 402 beside its challenge, and how many bytes of headers are added later. */
  readonly headers?: Readonly<Record<string, string>>
  readonly beside?: number
}

/** Turns the 402 into an HTML page for a person in a browser, with the protocol headers unchanged. */
export function demandPage({ toSign: _, ...reply }: Reply, { resource, label, origin }: Asking): Reply {
  const body = JSON.parse(reply.body as string) as Body
  const page = paymentPage({
    url: resource.url,
    summary: resource.description,
    network: label,
    body,
    ...(origin && { origin }),
  })
  return {
    ...reply,
    headers: {
      ...reply.headers,
      'content-type': 'text/html; charset=utf-8',
      vary: 'Accept',
      'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'",
    },
    body: page,
  }
}

/** The member `help` of a 402: the header that a payment is sent in, and the documents that this gateway serves. */
export const helpAt = (origin: string, { docs, llms }: { readonly docs: boolean; readonly llms: boolean }): Body => ({
  header: 'PAYMENT-SIGNATURE',
  ...(docs && { docs: `${origin}/docs` }),
  ...(llms && { llms: `${origin}/llms-full.txt` }),
})

/** A 402 with a complete, signable challenge; `why` comes first in its body. */
export function demand(
  { offers, resource, label, errorFormat, charging = NO_CHARGE, problem, help, headers = {}, beside = 0 }: Asking,
  why: Body,
  price: Body,
  also: Body = {},
): Reply {
  const paymentInfo = { network: label, asset: 'USDC', x402Version: 2 }
  const words = errorFormat === 'plain' ? why : formatDemand(why, errorFormat)
  const mirrored = errorFormat === 'market' ? { x402: { x402Version: 2, accepts: offers } } : {}
  const more = Object.entries(headers).reduce((sum, [name, value]) => sum + name.length + value.length + 4, beside)
  const { charge, hasX402 } = charging
  const members = charge && errorFormat !== 'messages' ? problemMembers(problem ?? 'payment-required', why.message) : {}
  const body = { ...words, ...members, price, ...also, ...mirrored, paymentInfo, ...(help && { help }) }
  const head = { beside: more, hasX402, ...(charge && { chargeSize: (offer: Offer) => chargeSize(offer, charge) }) }
  const made = challenge(offers, resource, body, head)
  const toSign = { offers: { url: resource.url, list: offers } }
  const toCharge = charge && { offers: made.charged, for: charge }
  return {
    status: 402,
    headers: { ...made.headers, ...headers },
    body: made.body,
    ...(offers.length > 0 && { toSign }),
    ...(toCharge && { toCharge }),
  }
}

/** The 402 without what a client would pay again by itself, for a payment that may have moved money. */
export function withoutChallenge({ toSign: _sign, toCharge: _charge, ...reply }: Reply): Reply {
  const headers = Object.entries(reply.headers).filter(([name]) => !CHALLENGES.has(name))
  const { accepts: _accepts, ...body } = JSON.parse(reply.body as string) as Body
  return { ...reply, headers: Object.fromEntries(headers), body: JSON.stringify(body) }
}

const CHALLENGES: ReadonlySet<string> = new Set(['payment-required', 'x-payment-required', 'www-authenticate'])
const NO_CHARGE: Charging = { hasX402: true }

export const publicPrice = (price: Price): Body => ({
  amount: print(price.amount),
  currency: 'USD',
  ...listedRates(price),
  ...price.publicPrice,
})
export const paymentRequired = (price: Price): Body => ({
  error: 'Payment Required',
  message: `This request costs ${print(price.amount)} USDC. Sign one of the offers and send it again with a payment header.`,
})

/** The body for a probe of a free endpoint: it costs nothing and needs no payment. */
export const freeOfCharge = (summary: string): Body => ({
  error: 'Payment Required (discovery)',
  message: `${summary}. This is free: send a plain request, without payment.`,
  free: true,
})

export const signToCollect: Body = {
  error: 'Payment Required',
  message: 'Sign with the wallet that submitted this job to collect it. It is charged once, when its result is ready.',
}

/** Begins with what helps: programs show people the first 150 characters. */
function messageOf(code: PaymentCode, reason: string): string {
  const uncharged = 'Nothing was charged by this request.'
  if (code !== 'PAYMENT_UNFUNDED' || !/insufficient_(?:bal|fun)/.test(reason)) return `${reason}. ${uncharged}`
  const [, ...amounts] = /(\d{1,30}) base units.* is (?:at most )?(\d{1,30})/.exec(reason) ?? []
  const [balance, price] = amounts.map((amount) => `${print(usdc(BigInt(amount)))} USDC`)
  const shortage = price ? `${balance}, and this costs ${price}` : 'too little USDC'
  return `The wallet has ${shortage}. Add USDC, then send the request again. ${uncharged} ${reason}.`
}

export function verificationFailed(code: PaymentCode, why: string): Body {
  const reason = ascii(why)
  return {
    error: 'Payment verification failed',
    code,
    message: messageOf(code, reason),
    details: reason,
  }
}

/** Reason given to a poll whose authorization proves nothing, because it is public (contract 1.41). */
export const SIGN_AFRESH =
  'the authorization was sent to the chain before, where everybody can read it, so it proves no wallet; use poll_url as it was given in the reply, or sign a fresh authorization, which is not spent when the call is paid'

/** 503 with Retry-After: the chain could not be reached (contract 1.27). */
export function cannotVerify(reason: string): ApiError {
  return new ApiError('PAYMENT_VERIFICATION_UNAVAILABLE', {
    message: 'The payment could not be verified just now. Nothing was charged; send the same signed request again.',
    details: reason,
    headers: { 'retry-after': '5' },
  })
}
