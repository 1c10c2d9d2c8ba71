/** The HTML page for a person who opens a paid route in a browser. Programs never get it. */
import type { Json } from '../lib/json.ts'

/** A browser asks for HTML and calls itself Mozilla (decision 71); a program that accepts anything does not. */
export function isBrowser(headers: Headers): boolean {
  return (headers.get('accept') ?? '').includes('text/html') && (headers.get('user-agent') ?? '').includes('Mozilla')
}

export type Page = {
  /** Where the documents are; by default the origin of the page. */
  readonly origin?: string
  readonly url: string
  readonly summary: string
  readonly network: string
  readonly body: Readonly<Record<string, Json>>
}

/** A code example for the call: from the body's `example` when that is a GET, otherwise from the URL of the page. */
function callOf({ url, body }: Page): string {
  const { method, path } = (body.example ?? {}) as { method?: Json; path?: Json }
  const isGet = method === 'GET' && typeof path === 'string'
  const called = isGet && URL.canParse(path, url) ? new URL(path, url).href : url
  const address = escape(JSON.stringify(called))
  if (isGet) return `const reply = await pay(${address})   // a GET`
  return `const reply = await pay(${address}, {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(order),
})`
}

/** Explains what is sold, the price and how to pay. No scripts, no external resources; every value is escaped. */
export function paymentPage(page: Page): string {
  const { summary, network, body, origin = '' } = page
  const { amount = '' } = (body.price ?? {}) as { amount?: string }
  const isFree = Number(amount) === 0
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escape(summary)}</title>
<style>
  body { font: 17px/1.6 system-ui, sans-serif; max-width: 38rem; margin: 12vh auto; padding: 0 1.5rem; color: #3b3350; background: #f6edda }
  h1 { font-size: 1.6rem; line-height: 1.25 } strong { font-size: 1.4rem } code, pre { font: 14px/1.5 ui-monospace, monospace }
  pre { padding: 1rem; overflow-x: auto; background: #fffaf0; border: 1px solid #dccfb4; border-radius: .5rem }
</style>
<h1>${escape(summary)}</h1>
<p><strong>${escape(amount)} USDC</strong> per call${isFree ? '' : ', margin and fee included, as the example request costs it'}.</p>
<p>This is an API that programs pay for by the call, with USDC on ${escape(network)} through <code>x402</code>. Nothing was charged for this page,
and a call that brings no result costs nothing.</p>
<pre>const pay = wrapFetchWithPayment(fetch, client)   // @x402/fetch
${callOf(page)}</pre>
<p>Every route, field and price: <a href="${escape(origin)}/docs">the reference</a>, or for programs <a href="${escape(origin)}/openapi.json">openapi.json</a>.</p>
</html>
`
}

function escape(text: string): string {
  const entities: Readonly<Record<string, string>> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
    "'": '&#39;',
  }
  return text.replace(/[&<>"']/g, (char) => entities[char] ?? char)
}
