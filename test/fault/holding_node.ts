/** The node, behind a wire that can hold transactions: the node has them, and their sender learns nothing. */
export function holdingNode(upstream: string) {
  let isHolding = false
  let firstSent = Promise.withResolvers<void>()
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      const question = await request.text()
      const headers = { 'content-type': 'application/json' }
      const answer = await (await fetch(upstream, { method: 'POST', headers, body: question })).text()
      if (isHolding && question.includes('eth_sendRawTransaction')) {
        firstSent.resolve()
        await new Promise<never>(() => {})
      }
      return new Response(answer, { headers })
    },
  })
  return {
    url: server.url.href,
    /** Resolves when the first transaction is held. */
    hold() {
      firstSent = Promise.withResolvers()
      isHolding = true
      return firstSent.promise
    },
    release: () => void (isHolding = false),
    stop: () => server.stop(true),
  }
}
