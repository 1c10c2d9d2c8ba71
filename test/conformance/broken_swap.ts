import type { SwapCall, SwapVendor } from '../../core/mod.ts'
import { breaking, type Broken } from './law.ts'

const turns = async (count: number) => {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve))
}

const ROUTE =
  /^(GET \/(gasless\/)?(price|quote|chains|approval-tokens)|GET \/swap\/chains|GET \/gasless\/status\/\w+|GET \/trade-analytics\/(swap|gasless)|POST \/gasless\/submit)$/
function echo({ method, path, query }: SwapCall) {
  const body = { method, path, query }
  return { status: 200, body, text: JSON.stringify(body) }
}

/** Keeps every law: answers with what it was asked, after a few turns. */
export function echoVendor(): SwapVendor {
  return {
    feeRecipient: `0x${'11'.repeat(20)}`,
    async call(call, { signal }) {
      if (!ROUTE.test(`${call.method} ${call.path}`)) throw new RangeError('no such route')
      for (let turn = 0; turn < 6; turn++) {
        signal.throwIfAborted()
        await turns(1)
      }
      return echo(call)
    },
  }
}

const broken = breaking<SwapVendor>(echoVendor)

export const brokenSwapVendors: readonly Broken<SwapVendor>[] = [
  broken('every call of the passthrough is answered with a status and JSON', 'knows no gasless swaps', (good) => ({
    call: (call, at) =>
      call.path.startsWith('/gasless/q') ? Promise.reject(new RangeError('no such route')) : good.call(call, at),
  })),
  broken(
    'every call of the passthrough is answered with a status and JSON',
    'parses, and forgets the text',
    (good) => ({
      call: async (call, at) => ({ ...(await good.call(call, at)), text: '' }),
    }),
  ),
  broken('a path that is no route is never called', 'calls whatever path it is given', (good) => ({
    call: (call, at) => (ROUTE.test(`${call.method} ${call.path}`) ? good.call(call, at) : Promise.resolve(echo(call))),
  })),
  broken('the fee goes to an address', 'forgets who gets the fee', () => ({ feeRecipient: '' })),
  broken('calls at the same time do not mix', 'makes the newest call for all', (good) => {
    let newest: SwapCall | undefined
    return {
      async call(call, at) {
        newest = call
        await turns(1)
        return await good.call(newest, at)
      },
    }
  }),
  broken(
    'an aborted signal ends the call with its reason, before it begins and while it runs',
    'does not look up from its work',
    () => ({
      async call(call) {
        if (!ROUTE.test(`${call.method} ${call.path}`)) throw new RangeError('no such route')
        await turns(40)
        return echo(call)
      },
    }),
  ),
]
