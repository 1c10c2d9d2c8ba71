/** How a call reads on the wire: results, envelopes, jobs and refusals (contract 5.23). No decision is made here. */
import { formatDemand, type ErrorFormat } from '../http/error_formats.ts'
import type { Paid, Price, Settled, Showing, Sold, Stored } from './mod.ts'
import { json, type Reply } from '../http/reply.ts'
import { ApiError } from '../http/errors.ts'
import { exactJson } from '../lib/decimal_json.ts'
import { print } from '../x402/money.ts'
import { paymentPage } from '../http/browser_402.ts'
import type { Call, PaymentCode } from '../ports/mod.ts'
import type { Json } from '../lib/json.ts'
import {
  ascii,
  challenge,
  type Offer,
  type Receipt,
  receiptHeaders,
  refusalHeaders,
  type Resource,
} from '../x402/protocol.ts'

export type Body = Readonly<Record<string, Json>>

const PRIVATE = { 'cache-control': 'private, no-store' }
/** A client polls every 2 to 5 seconds (contract 2.16). */
const POLL_AGAIN = { 'cache-control': 'no-store', 'retry-after': '3' }

export type Asking = {
  readonly offers: readonly Offer[]
  readonly resource: Resource
  readonly label: string
  readonly errorFormat: ErrorFormat
  /** What the 402 carries beside its challenge, and how many bytes of headers are added to it later. */
  readonly headers?: Readonly<Record<string, string>>
  readonly beside?: number
}

/** The same 402 as a page, for a person in a browser; its headers stay those of the protocol. */
export function demandPage(reply: Reply, { resource, label }: Asking): Reply {
  const body = JSON.parse(reply.body as string) as Body
  const page = paymentPage({ url: resource.url, summary: resource.description, network: label, body })
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

/** A 402 with a complete, signable challenge; `why` leads its body. */
export function demand(
  { offers, resource, label, errorFormat, headers = {}, beside = 0 }: Asking,
  why: Body,
  price: Body,
  also: Body = {},
): Reply {
  const paymentInfo = { network: label, asset: 'USDC', x402Version: 2 }
  const words = errorFormat === 'plain' ? why : formatDemand(why, errorFormat)
  const mirrored = errorFormat === 'market' ? { x402: { x402Version: 2, accepts: offers } } : {}
  const more = Object.entries(headers).reduce((sum, [name, value]) => sum + name.length + value.length + 4, beside)
  const made = challenge(offers, resource, { ...words, price, ...also, ...mirrored, paymentInfo }, more)
  return { status: 402, headers: { ...made.headers, ...headers }, body: made.body }
}

export const publicPrice = (price: Price): Body => ({
  amount: print(price.amount),
  currency: 'USD',
  ...price.publicPrice,
})
export const priceOf = (call: Call): Body => ({ amount: print(call.quote), currency: 'USD' })

export const paymentRequired = (price: Price): Body => ({
  error: 'Payment Required',
  message: `This request costs ${print(price.amount)} USDC. Sign one of the offers and send it again with a payment header.`,
})

/** What a look at something free is told: it costs nothing, and needs no payment. */
export const freeOfCharge = (summary: string): Body => ({
  error: 'Payment Required (discovery)',
  message: `${summary}. This is free: send a plain request, without payment.`,
  free: true,
})

export const signToCollect: Body = {
  error: 'Payment Required',
  message: 'Sign with the wallet that submitted this job to collect it. It is charged once, when its result is ready.',
}

export function verificationFailed(code: PaymentCode, why: string): Body {
  const reason = ascii(why)
  return {
    error: 'Payment verification failed',
    code,
    message: `${reason}. Nothing was charged by this request.`,
    details: reason,
  }
}

/** The members by which a replayed payment finds its call; with its key for those who may have it. */
export function recovery(endpoint: Sold, call: Call, key?: string): Body {
  return { job_id: call.id, poll_url: pollUrl(endpoint, call, key), recoverable: true }
}

/** Who may read what a call has made, for the documents. */
export const READS =
  'With the key that poll_url has in its query, any payment header of the wallet that ordered reads the result, the one that paid included. Without the key the header must be a signature that was never sent to the chain, because what was sent there is public; it is not spent when the call is paid.'

/** What a poll is told whose authorization proves nothing, because anybody may have read it (contract 1.41). */
export const SIGN_AFRESH =
  'the authorization was sent to the chain before, where everybody can read it, so it proves no wallet; use poll_url as it was given in the reply, or sign a fresh authorization, which is not spent when the call is paid'

/**
 * 200 without a receipt: the fate of the payment could not be found out in time, and the buyer is not to suffer for it
 * (decision 16).
 */
export function unsettled(
  endpoint: Sold,
  call: Call,
  { stored, label, href }: Omit<Collected, 'receipt' | 'isFirst'>,
): Reply {
  const payment = { status: 'unresolved', tx_hash: '', network: label }
  const headers = { ...PRIVATE, ...unsettledHeaders('unresolved') }
  if (endpoint.delivery === 'stream') return answered(stored.made as unknown as StoredAnswer, headers)
  const settlement = { success: false, tx_hash: '', network: label }
  if (endpoint.delivery === 'inline') return bare(endpoint, call, { stored, href, headers, settlement })
  return json(
    200,
    { id: call.id, ...resultFields(endpoint, call, { stored, href, settlement }), price: priceOf(call), payment },
    { ...headers, ...effectHeaders(endpoint, stored) },
  )
}

export type Collected = {
  readonly stored: Stored
  readonly receipt: Receipt | null
  readonly label: string
  readonly href: Showing['href']
  readonly isFirst: boolean
  readonly raw?: readonly string[]
}

/**
 * 200: the result, its price and its receipt, where it cost anything. `isFirst` tells the charge from its repetition.
 */
export function result(endpoint: Sold, call: Call, { stored, receipt, label, href, isFirst, raw }: Collected): Reply {
  if (!receipt) return free(endpoint, call, { stored, label, href, ...(raw && { raw }) })
  const payment = { status: isFirst ? 'settled' : 'already_settled', tx_hash: receipt.transaction, network: label }
  if (endpoint.delivery === 'stream')
    return answered(stored.made as unknown as StoredAnswer, {
      'x-payment-status': payment.status,
      ...receiptHeaders(receipt),
    })
  const settlement = { success: true, tx_hash: receipt.transaction, network: label }
  if (endpoint.delivery === 'inline')
    return bare(endpoint, call, {
      stored,
      href,
      headers: { 'x-payment-status': payment.status, ...receiptHeaders(receipt) },
      settlement,
    })
  const fields = resultFields(endpoint, call, { stored, href, settlement, ...(raw && { raw }) })
  return json(
    200,
    { id: call.id, ...fields, price: priceOf(call), payment },
    { ...PRIVATE, ...receiptHeaders(receipt), ...effectHeaders(endpoint, stored) },
  )
}

const NOT_CHARGED = { 'x-payment-status': 'not_charged' }

function free(endpoint: Sold, call: Call, { stored, label, href, raw }: Omit<Collected, 'receipt' | 'isFirst'>): Reply {
  if (endpoint.delivery === 'stream') return answered(stored.made as unknown as StoredAnswer, NOT_CHARGED)
  if (endpoint.delivery === 'inline') return bare(endpoint, call, { stored, href, headers: NOT_CHARGED })
  const payment = { status: 'not_charged', tx_hash: '', network: label }
  return json(
    200,
    {
      id: call.id,
      ...resultFields(endpoint, call, { stored, href, ...(raw && { raw }) }),
      price: priceOf(call),
      payment,
    },
    { ...PRIVATE, ...NOT_CHARGED },
  )
}

type Bare = Pick<Collected, 'stored' | 'href'> & {
  readonly headers: Readonly<Record<string, string>>
  readonly settlement?: Settled
}

/**
 * 200: the result and nothing else, its numbers as exact as they were made; what became of its payment is in the
 * headers.
 */
export function bare(endpoint: Paid, call: Pick<Call, 'request'>, { headers, ...showing }: Bare): Reply {
  const { text, headers: own = {} } = endpoint.verbatim
    ? passed(showing.stored.made)
    : { text: exactJson(resultFields(endpoint, call, showing)) }
  return { status: 200, headers: { ...PRIVATE, 'content-type': 'application/json', ...own, ...headers }, body: text }
}

/** What was passed on, and the headers that say where it is from. */
function passed(made: Json): { readonly text: string; readonly headers?: Readonly<Record<string, string>> } {
  return typeof made === 'string' ? { text: made } : (made as { text: string; headers: Record<string, string> })
}

/** What storage keeps of an answer: a JSON body, or the events of a stream. */
export type StoredAnswer = {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly usage: Json
}

/** 200: an answer as its surface writes it, with what became of its payment in the headers. */
export function answered({ headers, body }: StoredAnswer, paymentHeaders: Readonly<Record<string, string>>): Reply {
  return { status: 200, headers: { ...PRIVATE, ...headers, ...paymentHeaders }, body }
}

/** An answer that was served before its money moved, or although it did not (contract 6.49). */
export const unsettledHeaders = (why: string) => ({ 'x-payment-settled': 'false', 'x-payment-settle-error-class': why })

const effectHeaders = ({ effects }: Paid, { made }: Stored): Readonly<Record<string, string>> =>
  effects?.headers?.(made) ?? {}

function resultFields(
  endpoint: Paid,
  call: Pick<Call, 'request'>,
  { stored, href, raw, settlement }: Pick<Collected, 'stored' | 'href' | 'raw'> & Pick<Showing, 'settlement'>,
): Body {
  return endpoint.show(stored, { request: call.request, href, ...(raw && { raw }), ...(settlement && { settlement }) })
}

/** 202 from the POST: the job's envelope. */
export function envelope(
  endpoint: Sold,
  call: Call,
  { key, status = 'queued' }: { key: string; status?: 'queued' | 'in_progress' },
): Reply {
  const url = pollUrl(endpoint, call, key)
  const body = {
    id: call.id,
    object: endpoint.job.object,
    status,
    ...publicFields(call.request),
    price: priceOf(call),
    payment_status: 'verified',
    created: Math.floor(call.createdAt / 1000),
    poll_url: url,
    poll_instructions: endpoint.job.instructions,
  }
  return json(202, body, { ...POLL_AGAIN, location: url })
}

/** 202 from a poll. A completed call whose settlement is not yet known reads as in progress. */
export function running(
  endpoint: Sold,
  call: Call,
  { note = endpoint.job.running, ...more }: Body & { readonly note?: string } = {},
): Reply {
  const status = call.workStatus === 'queued' ? 'queued' : 'in_progress'
  const { object } = endpoint.job
  return json(
    202,
    { id: call.id, object, status, model: call.model, payment_status: 'verified', ...more, note },
    POLL_AGAIN,
  )
}

export const CHAIN_AWAY =
  'The chain is temporarily unreachable. This poll charged nothing. Poll again with the same authorization.'
export const CONFIRMING =
  'The result is ready; its settlement is being confirmed. Poll again with the same authorization.'

/** 200 from a poll: failed, and free. */
export function failed(endpoint: Sold, call: Call, more: Body = {}): Reply {
  const note = chargedNothing(endpoint)
  const { object } = endpoint.job
  const body = {
    id: call.id,
    object,
    status: 'failed',
    model: call.model,
    error: call.error,
    ...more,
    payment_status: 'not_charged',
    note,
  }
  return json(200, body, { 'cache-control': 'no-store' })
}

/** What is said where our own payment came to nothing. */
const chargedNothing = (endpoint?: Sold): string =>
  (endpoint && endpoint.delivery !== 'stream' && endpoint.effects?.failed) || 'Nothing was charged.'

/** The body of a refused settlement, inline or on a poll. */
export const settlementFailed = (reason: string, endpoint?: Sold): Body => ({
  error: 'Payment settlement failed',
  details: ascii(reason),
  note: `The result is ready and kept for you. GET poll_url with a payment of the same wallet; sign again if the authorization has expired. ${chargedNothing(endpoint)}`,
})

/** An inline settlement that was refused: the result is withheld, and can still be collected (contract 1.34). */
export function inlineRefusal(endpoint: Sold, call: Call, { reason, key }: { reason: string; key: string }): Reply {
  const headers = {
    'cache-control': 'no-store',
    ...refusalHeaders({ reason, network: call.offer.network, payer: call.payer }),
  }
  const why = { ...settlementFailed(reason, endpoint), ...recovery(endpoint, call, key) }
  return json(402, endpoint.delivery === 'stream' ? formatDemand(why, endpoint.errorFormat) : why, headers)
}

/** 503 with Retry-After: the chain could not be asked (contract 1.27). */
export function cannotVerify(reason: string): ApiError {
  return new ApiError('PAYMENT_VERIFICATION_UNAVAILABLE', {
    message: 'The payment could not be verified just now. Nothing was charged; send the same signed request again.',
    details: reason,
    headers: { 'retry-after': '5' },
  })
}

/**
 * Where a job is polled. With its key it is read by any authorization of its wallet, without by a fresh one only. A
 * signed URL was made with the call, and is kept with it; it tells what was ordered, so a stranger is shown the path of
 * any call instead.
 */
export function pollUrl({ job }: Sold, { id, request }: Call, key?: string): string {
  const stored = (request as { readonly _poll?: unknown } | null)?._poll
  if (typeof stored !== 'string') return keyed(job.poll.replace('{id}', id), key)
  return key === undefined ? anyCallUrl(id) : keyed(stored, key)
}

/** Where any call is polled, whatever was bought by it. */
export const anyCallUrl = (id: string, key?: string): string => keyed(`/api/v1/calls/${id}`, key)

function keyed(url: string, key: string | undefined): string {
  return key === undefined ? url : `${url}${url.includes('?') ? '&' : '?'}${KEY}=${key}`
}

/** What is remembered of a request, without what we remember for ourselves. */
function publicFields(request: Json): Body {
  return Object.fromEntries(Object.entries(request as Body).filter(([name]) => !name.startsWith('_')))
}

/** The query parameter of a poll URL that carries the key of its call. */
export const KEY = 'key'
