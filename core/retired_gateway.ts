/** A gateway that no longer serves: whoever still calls it is told so, and nothing is sold (contract 21.6). */
import { json } from './endpoint/mod.ts'
import type { Gateway } from './gateway.ts'

export function retiredGateway(name: string): Gateway {
  const nothing = async (): Promise<void> => {}
  const handle = async () =>
    json(404, { error: 'Not found', message: 'This gateway is retired and serves no requests. Nothing was charged.' })
  return {
    name,
    endpoints: [],
    handle,
    async fetch() {
      const { status, headers, body } = await handle()
      return new Response(body as string, { status, headers })
    },
    renew: nothing,
    maintain: nothing,
    takeOver: async () => 0,
    drain() {},
  }
}
