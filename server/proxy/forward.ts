/** Headers and addresses between a program and a seller: neither the token nor a cookie reaches the seller. */
import { KEY_HEADERS } from './admission.ts'

const HOP_BY_HOP = [
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]
const NOT_TO_SELLER = new Set([
  ...HOP_BY_HOP,
  ...KEY_HEADERS,
  'accept-encoding',
  'content-length',
  'cookie',
  'host',
  'payment-authorization',
  'payment-signature',
  'referer',
  'x-payment',
])
/** Fields by which a seller would speak to a browser about this proxy, and those that no longer fit the body. */
const NOT_TO_PROGRAM = new Set([
  ...HOP_BY_HOP,
  'alt-svc',
  'clear-site-data',
  'content-encoding',
  'content-length',
  'location',
  'set-cookie',
])

export function sellerHeaders(headers: Headers): Headers {
  const sent = filtered(headers, (name) => !NOT_TO_SELLER.has(name))
  // A compressed stream would wait for a full block.
  sent.set('accept-encoding', 'identity')
  return sent
}

export const replyHeaders = (headers: Headers): Headers =>
  filtered(headers, (name) => !NOT_TO_PROGRAM.has(name) && !name.startsWith('access-control-'))

function filtered(headers: Headers, isPassed: (name: string) => boolean): Headers {
  return new Headers([...headers].filter(([name]) => isPassed(name.toLowerCase())))
}

/** The address at the seller. `/api` stands in some base URLs and in some paths; it is not doubled. */
export function targetOf(
  to: string,
  { pathname, search }: { readonly pathname: string; readonly search: string },
): string {
  const base = new URL(to)
  const prefix = base.pathname.replace(/\/$/, '')
  const path = prefix.endsWith('/api') && pathname.startsWith('/api/') ? pathname.slice('/api'.length) : pathname
  return `${base.origin}${prefix}${path}${withoutKey(search)}`
}

/** Google's format allows the key in the query. */
function withoutKey(search: string): string {
  const query = new URLSearchParams(search)
  if (!query.has('key')) return search
  query.delete('key')
  return query.size > 0 ? `?${query}` : ''
}
