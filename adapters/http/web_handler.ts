import type { Gateway } from '../../core/mod.ts'

/** Second argument that Bun and Deno pass to a handler. */
type Host = {
  requestIP?(request: Request): { readonly address: string } | null
  readonly remoteAddr?: { readonly hostname?: string }
}

/**
 * A handler for hosts that speak the web's `Request` and `Response`: `Bun.serve`, `Deno.serve`, and routes of
 * frameworks like Next. On Bun and Deno it knows the client's address, by which free requests are limited; elsewhere
 * pass it yourself: `farebox.fetch(request, { ip })`.
 *
 * @example
 * const farebox = gateway({ ports: localPorts({ chain: memoryChain(), images }) })
 * const handler = webHandler(farebox)
 * const reply = await handler(new Request('http://localhost/api/health'))
 */
export function webHandler(gateway: Pick<Gateway, 'fetch'>): (request: Request, host?: unknown) => Promise<Response> {
  return (request, host) => {
    const { requestIP, remoteAddr } = (host ?? {}) as Host
    const ip = requestIP?.call(host, request)?.address ?? remoteAddr?.hostname ?? ''
    return gateway.fetch(request, { ip })
  }
}
