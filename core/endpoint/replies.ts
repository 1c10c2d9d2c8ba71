/** Replies of a call in the plain format: results, envelopes, jobs and refusals (contract 5.23). Makes no decisions. */
import { formatDemand } from '../http/error_formats.ts'
import type { Paid, Settled, Showing, Sold, Stored } from './mod.ts'
import { json, type Reply } from '../http/reply.ts'
import { exactJson } from '../lib/decimal_json.ts'
import { parseAtomic, print, type Usdc } from '../x402/money.ts'
import type { Call } from '../ports/mod.ts'
import type { Body } from './demands.ts'
import type { Json } from '../lib/json.ts'
import { chargesUse } from '../x402/offer.ts'
import { ascii, type Receipt, receiptHeaders, refusalHeaders } from '../x402/protocol.ts'

const PRIVATE = { 'cache-control': 'private, no-store' }
/** Clients poll every 2 to 5 seconds (contract 2.16). */
const POLL_AGAIN = { 'cache-control': 'no-store', 'retry-after': '3' }

export const priceOf = (call: Call, amount = call.quote): Body => ({ amount: print(amount), currency: 'USD' })

/** Headers with the quote and the charge in USDC, for a call that is charged by use; empty for other calls. */
export function chargeHeaders({ offer, quote }: Call, receipt: Receipt): Readonly<Record<string, string>> {
  const charged = chargesUse(offer) ? parseAtomic(receipt.amount) : undefined
  if (charged === undefined) return {}
  const { available } = receipt.extra ?? {}
  const balance = typeof available === 'string' ? parseAtomic(available) : undefined
  return {
    'x-payment-quoted': print(quote),
    'x-payment-charged': print(charged),
    ...(balance !== undefined && { 'x-payment-balance': print(balance) }),
  }
}

/** Amount due for a result: its charge if it is charged by use, otherwise the quote. */
export const dueOf = ({ charge, quote }: Call): Usdc => charge || quote

/** The fields by which a replayed payment finds its call, with the poll key for callers who may have it. */
export function recovery(endpoint: Sold, call: Call, key?: string): Body {
  return { job_id: call.id, poll_url: pollUrl(endpoint, call, key), recoverable: true }
}

/** Who may read the result of a call, for the documents. */
export const READS =
  'With the key that poll_url has in its query, any payment header of the wallet that ordered reads the result, the one that paid included. Without the key the header must be a signature that was never sent to the chain, because what was sent there is public; it is not spent when the call is paid.'

/**
 * 200 without a receipt: the outcome of the settlement was not known in time, and the buyer does not have to wait for
 * it (decision 16).
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

type Collected = {
  readonly stored: Stored
  readonly receipt: Receipt | null
  readonly label: string
  readonly href: Showing['href']
  readonly isFirst: boolean
  readonly raw?: readonly string[]
}

/**
 * 200 with the result, its price and, unless it was free, its receipt. `isFirst` tells the charge from a repetition.
 */
export function result(endpoint: Sold, call: Call, { stored, receipt, label, href, isFirst, raw }: Collected): Reply {
  if (!receipt) return free(endpoint, call, { stored, label, href, ...(raw && { raw }) })
  const payment = { status: isFirst ? 'settled' : 'already_settled', tx_hash: receipt.transaction, network: label }
  if (endpoint.delivery === 'stream') {
    const reply = answered(stored.made as unknown as StoredAnswer, {
      'x-payment-status': payment.status,
      ...receiptHeaders(receipt),
      ...chargeHeaders(call, receipt),
    })
    return { ...reply, ...orderedAt(endpoint) }
  }
  const settlement = { success: true, tx_hash: receipt.transaction, network: label }
  if (endpoint.delivery === 'inline') {
    const reply = bare(endpoint, call, {
      stored,
      href,
      headers: { 'x-payment-status': payment.status, ...receiptHeaders(receipt), ...chargeHeaders(call, receipt) },
      settlement,
    })
    return { ...reply, ...orderedAt(endpoint) }
  }
  const fields = resultFields(endpoint, call, { stored, href, settlement, ...(raw && { raw }) })
  const reply = json(
    200,
    { id: call.id, ...fields, price: priceOf(call), payment },
    { ...PRIVATE, ...receiptHeaders(receipt), ...chargeHeaders(call, receipt), ...effectHeaders(endpoint, stored) },
  )
  return { ...reply, ...orderedAt(endpoint) }
}

/** A receipt is for what was ordered, although its job is collected elsewhere. */
const orderedAt = ({ path }: Sold): Pick<Reply, 'toSign'> => (path.includes('{') ? {} : { toSign: { path } })

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

/** 200 with nothing but the result, its numbers in full precision; the payment outcome is in the headers. */
export function bare(endpoint: Paid, call: Pick<Call, 'request' | 'quote'>, { headers, ...showing }: Bare): Reply {
  const { text, headers: own = {} } = endpoint.verbatim
    ? passed(showing.stored.made)
    : { text: exactJson(resultFields(endpoint, call, showing)) }
  return { status: 200, headers: { ...PRIVATE, 'content-type': 'application/json', ...own, ...headers }, body: text }
}

/** A verbatim result and the headers that name its source. */
function passed(made: Json): { readonly text: string; readonly headers?: Readonly<Record<string, string>> } {
  return typeof made === 'string' ? { text: made } : (made as { text: string; headers: Record<string, string> })
}

/** Stored answer: a JSON body, or the events of a stream. */
export type StoredAnswer = {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly usage: Json
}

/** 200 with an answer in its chat format, with the payment outcome in the headers. */
export function answered({ headers, body }: StoredAnswer, paymentHeaders: Readonly<Record<string, string>>): Reply {
  return { status: 200, headers: { ...PRIVATE, ...headers, ...paymentHeaders }, body }
}

/** For an answer that was served before it was settled, or although settlement failed (contract 6.49). */
export const unsettledHeaders = (why: string) => ({ 'x-payment-settled': 'false', 'x-payment-settle-error-class': why })

const effectHeaders = ({ effects }: Paid, { made }: Stored): Readonly<Record<string, string>> =>
  effects?.headers?.(made) ?? {}

function resultFields(
  endpoint: Paid,
  call: Pick<Call, 'request' | 'quote'>,
  { stored, href, raw, settlement }: Pick<Collected, 'stored' | 'href' | 'raw'> & Pick<Showing, 'settlement'>,
): Body {
  const { request, quote } = call
  return endpoint.show(stored, { request, quote, href, ...(raw && { raw }), ...(settlement && { settlement }) })
}

/** 202 to the POST, with the job's envelope. */
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

/** 202 to a poll. A completed call whose settlement is not yet confirmed is reported as in progress. */
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

/** 200 to a poll of a failed call, which costs nothing. */
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

/** The sentence that says that our own payment was not charged. */
const chargedNothing = (endpoint?: Sold): string =>
  (endpoint && endpoint.delivery !== 'stream' && endpoint.effects?.failed) || 'Nothing was charged.'

/** The body for a refused settlement, in the reply or on a poll. */
export const settlementFailed = (reason: string, endpoint?: Sold): Body => ({
  error: 'Payment settlement failed',
  details: ascii(reason),
  note: `The result is ready and kept for you. GET poll_url with a payment of the same wallet; sign again if the authorization has expired. ${chargedNothing(endpoint)}`,
})

/**
 * A refused settlement in the reply to the order: the result is withheld and can still be collected (contract 1.34).
 */
export function inlineRefusal(endpoint: Sold, call: Call, { reason, key }: { reason: string; key: string }): Reply {
  const headers = {
    'cache-control': 'no-store',
    ...refusalHeaders({ reason, network: call.offer.network, payer: call.payer }),
  }
  const why = { ...settlementFailed(reason, endpoint), ...recovery(endpoint, call, key) }
  return json(402, endpoint.delivery === 'stream' ? formatDemand(why, endpoint.errorFormat) : why, headers)
}

/**
 * The poll URL of a job. With the key, any authorization of the wallet reads it; without, only a fresh one. A signed
 * URL is made and stored with the call. Because it reveals what was ordered, strangers get the generic path instead.
 */
export function pollUrl({ job }: Sold, { id, request }: Call, key?: string): string {
  const stored = (request as { readonly _poll?: unknown } | null)?._poll
  if (typeof stored !== 'string') return keyed(job.poll.replace('{id}', id), key)
  return key === undefined ? anyCallUrl(id, { basePath: job.basePath }) : keyed(stored, key)
}

/** The generic poll URL of any call. */
export function anyCallUrl(
  id: string,
  { key, basePath = '' }: { readonly key?: string | undefined; readonly basePath?: string | undefined } = {},
): string {
  return keyed(`${basePath}/api/v1/calls/${id}`, key)
}

function keyed(url: string, key: string | undefined): string {
  return key === undefined ? url : `${url}${url.includes('?') ? '&' : '?'}${KEY}=${key}`
}

/** The stored request fields without our internal ones. */
function publicFields(request: Json): Body {
  return Object.fromEntries(Object.entries(request as Body).filter(([name]) => !name.startsWith('_')))
}

/** The query parameter that carries the poll key. */
export const KEY = 'key'
