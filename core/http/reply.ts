/** A reply that any host can send. */
import type { ChargeFor } from '../mpp/challenge.ts'
import type { Offer } from '../x402/protocol.ts'

export type Reply = {
  readonly status: number
  /** Frozen when replies share them, so that a host may cache what it derives from them. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array | ReadableStream<Uint8Array> | null
  /**
   * Parts of this reply that a gateway with a signing key signs: the offers of a 402 for a URL, or the receipt, with
   * the path that it names if that differs from the called one. `isReceipt` false: the header reports a refund, not a
   * purchase. Hosts ignore it.
   */
  readonly toSign?: {
    readonly offers?: { readonly url: string; readonly list: readonly Offer[] }
    readonly path?: string
    readonly isReceipt?: false
  }
  /**
   * How `headers` differ from frozen ones that other replies share, so that a host may cache what it derives from
   * those: in the header `name`. Holds only while `headers` are `of`.
   */
  readonly variant?: {
    readonly of: Reply['headers']
    readonly shared: Reply['headers']
    readonly name: string
  }
  /** Offers of a 402 that get a fresh challenge of MPP each, and what it is bound to. Hosts ignore it. */
  readonly toCharge?: { readonly offers: readonly Offer[]; readonly for: ChargeFor }
}

/** Whether a step has ended in a reply. Orders have no status. */
export const isReply = (result: object): result is Reply => 'status' in result

/**
 * A JSON reply.
 *
 * @example
 * const reply = json(200, { hello: 'world' }, { 'cache-control': 'no-store' })
 */
export function json(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): Reply {
  return { status, headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) }
}

/** The reply to HEAD. */
export async function withoutBody(reply: Reply): Promise<Reply> {
  if (reply.body instanceof ReadableStream) await reply.body.cancel()
  if (typeof reply.body !== 'string') return { ...reply, body: null }
  // The Content-Length that GET would have; otherwise the server would send 0 (RFC 9110, 8.6).
  return {
    ...reply,
    headers: { ...reply.headers, 'content-length': String(new TextEncoder().encode(reply.body).length) },
    body: null,
  }
}
