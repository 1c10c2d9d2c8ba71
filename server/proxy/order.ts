/** An order of a program: read from its request, and sent to the seller with or without a payment. */
import { fieldsOf } from '../../core/lib/mod.ts'
import { Refused } from './errors.ts'
import { sellerHeaders, targetOf } from './forward.ts'
import type { Sent } from './unanswered.ts'

export type Order = {
  readonly method: string
  readonly path: string
  readonly url: string
  readonly headers: Headers
  readonly body: Uint8Array<ArrayBuffer>
  readonly model: string | undefined
  readonly gone: AbortSignal
}

/** The largest request that is passed on, in bytes. */
export const MAX_REQUEST = 64 * 1024 * 1024

/** The request of a program, with its headers as they are passed on. */
export async function readOrder(request: Request, to: string): Promise<Order> {
  const { method, headers } = request
  const { pathname, search } = new URL(request.url)
  if (Number(headers.get('content-length') ?? 0) > MAX_REQUEST) throw new Refused(413, 'The request is too large.')
  const body = new Uint8Array(await request.arrayBuffer())
  const url = targetOf(to, { pathname, search })
  const model = modelOf(pathname, { body, type: headers.get('content-type') ?? '' })
  return { method, path: pathname, url, headers: sellerHeaders(headers), body, model, gone: request.signal }
}

/** Sends to the seller. A redirect is not followed: it could lead a payment elsewhere. */
export async function send({ method, url, headers: own, body, gone }: Order, sent?: Sent): Promise<Response> {
  const headers = new Headers(own)
  if (sent) headers.set(sent.header, sent.payment)
  const isBare = method === 'GET' || method === 'HEAD' || body.length === 0
  // Bun gives up after five minutes otherwise, and a video takes longer.
  const init = { method, headers, redirect: 'manual', signal: gone, timeout: false, ...(!isBare && { body }) } as const
  const reply = await fetch(url, init as RequestInit).catch((error: Error) => {
    if (gone.aborted) throw error
    throw new Refused(502, `farebox proxy: ${new URL(url).origin} does not answer.`)
  })
  if (reply.status < 300 || reply.status > 399 || reply.status === 304) return reply
  await reply.body?.cancel()
  throw new Refused(502, 'farebox proxy: the seller answers with a redirect, which is not followed.')
}

/** The model of a request: in the path for Gemini, in the body elsewhere. */
function modelOf(
  path: string,
  { body, type }: { readonly body: Uint8Array; readonly type: string },
): string | undefined {
  const named = /\/v1beta\/models\/([^:]+):/.exec(path)?.[1]
  if (named !== undefined) return decodeURIComponent(named)
  const text = body.length === 0 ? '' : new TextDecoder().decode(body)
  if (type.includes('multipart/')) return /name="model"\r\n\r\n([^\r\n]+)/.exec(text)?.[1]
  try {
    const { model } = fieldsOf(JSON.parse(text))
    return typeof model === 'string' ? model : undefined
  } catch {
    return undefined
  }
}
