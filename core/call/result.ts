/** The reply that carries a result: paid with a receipt, free, or served although its settlement is unconfirmed. */
import type { Paid, Sold, Stored } from '../endpoint/mod.ts'
import * as replies from '../endpoint/replies.ts'
import type { Reply } from '../http/reply.ts'
import { gunzipJson } from '../lib/gzip_json.ts'
import type { Paying } from '../payment/settlement/paying.ts'
import type { Call } from '../ports/mod.ts'
import type { Engine } from '../engine.ts'
import type { OpenedCall } from './order.ts'
import type { RequestContext } from './request_context.ts'

/** Nothing is left to pay. */
export type IsPaid = Extract<Paying, { kind: 'settled' | 'free' }>
export const isPaid = (paying: Paying): paying is IsPaid => paying.kind === 'settled' || paying.kind === 'free'

type Answered = Pick<OpenedCall, 'endpoint' | 'call' | 'requestContext'>

export type Results = {
  result(answered: Answered, parts: { stored: Stored; raw?: readonly string[] }, paid: IsPaid): Reply
  servedUnsettled(answered: Answered & { readonly endpoint: Paid }, stored: Stored, why: string): Reply
  hrefOn(requestContext: RequestContext): (key: string) => string
}

export function results({ ports, gateway: { label } }: Pick<Engine, 'ports' | 'gateway'>): Results {
  return { result, servedUnsettled, hrefOn }

  function result(
    { endpoint, call, requestContext }: Pick<OpenedCall, 'endpoint' | 'call' | 'requestContext'>,
    { stored, raw }: { stored: Stored; raw?: readonly string[] },
    paid: IsPaid,
  ): Reply {
    const { receipt, now: isFirst } = paid.kind === 'settled' ? paid : { receipt: null, now: false }
    return replies.result(endpoint, call, {
      stored,
      receipt,
      label,
      href: hrefOn(requestContext),
      isFirst,
      ...(raw && { raw }),
    })
  }

  /** An inline result whose settlement is unconfirmed; `why` is the error class in its header. */
  function servedUnsettled(
    { endpoint, call, requestContext }: Pick<OpenedCall<Paid>, 'endpoint' | 'call' | 'requestContext'>,
    stored: Stored,
    why: string,
  ): Reply {
    return replies.bare(endpoint, call, {
      stored,
      href: hrefOn(requestContext),
      headers: replies.unsettledHeaders(why),
      settlement: { success: false, tx_hash: '', network: label },
    })
  }

  /**
   * The URL of a hosted object: the public address of its store, otherwise this gateway under the origin that was
   * called.
   */
  function hrefOn({ origin }: RequestContext): (key: string) => string {
    return (key) => ports.objects.url?.(key) ?? `${origin}/api/media/${key}`
  }
}

/** The result of a completed call, decompressed when it is passed through verbatim. */
export async function storedOf(endpoint: Sold, { result }: Pick<Call, 'result'>): Promise<Stored> {
  const stored = result as unknown as Stored
  return isVerbatim(endpoint) ? { ...stored, made: await gunzipJson(stored.made) } : stored
}

/** Whether the result is passed through verbatim. */
export const isVerbatim = (endpoint: Sold): boolean => endpoint.delivery === 'inline' && endpoint.verbatim === true
