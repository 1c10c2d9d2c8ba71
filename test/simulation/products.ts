/** Products that buyers of the model buy, and their requests. */
import { drainMicrotasks } from 'bun:jsc'
import { peek } from 'bun'
import { pollKey } from '../../core/identity/poll_urls.ts'
import type { Reply } from '../../core/http/reply.ts'
import type { Gateway, Offer } from '../../core/mod.ts'

/**
 * The products: `fast` answers inline where it can, `slow` is always a job; `talk` and `stream` are answered before
 * their money has moved.
 */
export type Product = {
  readonly name: 'fast' | 'slow' | 'talk' | 'stream'
  readonly path: string
  readonly body: string
  readonly offer: Offer
}
export const isLive = ({ name }: Product): boolean => name === 'talk' || name === 'stream'

/** Signs poll URLs; in a database the key would be one more write that is asked for in every run. */
export const POLL_SECRET = '5e'.repeat(32)
/** Where a buyer polls, as a reply would tell. */
export const pollUrl = (id: string, path: string = POSTED): string =>
  `${path}/${id}?key=${pollKey(Buffer.from(POLL_SECRET, 'hex'), id)}`

/** The same without its key, which only the buyer was told. */
export const strangerPollUrl = (id: string, path: string = POSTED): string => `${path}/${id}`

const POSTED = '/api/v1/images/generations'
const COMPLETIONS = '/api/v1/chat/completions'

const NEVER = new AbortController().signal

const picture = (model: string, prompt = 'a red fox') => ({ path: POSTED, body: JSON.stringify({ model, prompt }) })
const answer = (stream: boolean, maxTokens = MAX_TOKENS) => ({
  path: COMPLETIONS,
  body: JSON.stringify({
    model: 'vendor-h/chat-4',
    messages: [{ role: 'user', content: 'Why?' }],
    max_tokens: maxTokens,
    stream,
  }),
})

/** Pictures; with chat, whole and streamed, where `isHarsh`. */
export function productsOf(gateway: Gateway, { isHarsh }: { readonly isHarsh: boolean }): readonly Product[] {
  const pictures = [
    productOf('fast', picture('vendor-a/image-1'), gateway),
    productOf('slow', picture('vendor-e/image-pro'), gateway),
  ]
  return isHarsh
    ? [...pictures, productOf('talk', answer(false), gateway), productOf('stream', answer(true), gateway)]
    : pictures
}

const MAX_TRIES = 12

/** Whole answers by their quote: whoever orders chooses `max_tokens`, and so the price. */
export function pricesOf(gateway: Gateway): (amount: bigint) => Product | undefined {
  const known = new Map<bigint, Product | undefined>()
  const search = (amount: bigint): Product | undefined => {
    let maxTokens = Math.round((Number(amount) * 64_000) / 8_684)
    for (let tries = 0; tries < MAX_TRIES && maxTokens > 0 && maxTokens <= MAX_TOKENS; tries++) {
      const product = productOf('talk', answer(false, maxTokens), gateway)
      const missing = Number(amount - BigInt(product.offer.amount))
      if (missing === 0) return product
      maxTokens += Math.sign(missing) * Math.max(1, Math.round(Math.abs(missing) * 7.37))
    }
    return undefined
  }
  return (amount) => {
    if (!known.has(amount)) known.set(amount, search(amount))
    return known.get(amount)
  }
}

/** A tenth of so many tokens is quoted: 0.0087 USDC. */
const MAX_TOKENS = 64_000

/** The offer is read off a real 402. */
function productOf(name: Product['name'], { path, body }: Pick<Product, 'path' | 'body'>, gateway: Gateway): Product {
  const pending = gateway.handle(requestOf('POST', path, { body }), { ip: '', gone: NEVER })
  drainMicrotasks()
  const reply = peek(pending) as Reply
  const { accepts } = JSON.parse(String(reply.body)) as { accepts: [Offer] }
  return { name, path, body, offer: accepts[0] }
}

/** The same product, asked for something that nobody asked for before. */
export function anotherOf(product: Product): Product {
  return { ...product, ...picture('vendor-a/image-1', 'a blue fox') }
}

/** As much of a Request as core reads; a real one brings streams, and streams bring the event loop. */
export function requestOf(method: string, path: string, { body, header }: { body?: string; header?: string }): Request {
  const headers = new Map<string, string>()
  if (header !== undefined) headers.set('payment-signature', header)
  if (body !== undefined) headers.set('content-type', 'application/json').set('content-length', String(body.length))
  const read = { get: (name: string) => headers.get(name) ?? null, has: (name: string) => headers.has(name) }
  return {
    method,
    url: `http://model.test${path}`,
    headers: read,
    body: body === undefined ? null : {},
    text: async () => body ?? '',
  } as unknown as Request
}
