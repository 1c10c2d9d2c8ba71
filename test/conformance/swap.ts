import { expect } from 'bun:test'
import type { SwapCall, SwapVendor } from '../../core/mod.ts'
import { never, turn } from './abort.ts'
import { law, portLaw, type Law } from './law.ts'

const PRICE: SwapCall = { method: 'GET', path: '/price', query: '?chainId=8453' }
const QUERY = '?chainId=8453&sellToken=0xA'
/** Every call that the passthrough makes (contract 11.1). */
const CALLS: readonly SwapCall[] = [
  ...[
    '/price',
    '/quote',
    '/gasless/price',
    '/gasless/quote',
    '/gasless/approval-tokens',
    '/gasless/chains',
    '/swap/chains',
    `/gasless/status/0x${'ab'.repeat(32)}`,
  ].map((path) => ({ method: 'GET' as const, path, query: QUERY })),
  ...['/trade-analytics/swap', '/trade-analytics/gasless'].map((path) => ({ method: 'GET' as const, path, query: '' })),
  { method: 'POST', path: '/gasless/submit', query: '', body: new TextEncoder().encode('{"chainId":8453}') },
]

export const swapVendorLaws: readonly Law<SwapVendor>[] = [
  portLaw('every call of the passthrough is answered with a status and JSON', async (vendor) => {
    for (const call of CALLS) {
      const { status, body, text } = await vendor.call(call, never())
      expect([
        call.path,
        Number.isInteger(status) && status >= 200 && status < 600,
        JSON.parse(text || '"nothing"'),
      ]).toEqual([call.path, true, body])
    }
  }),
  portLaw('a path that is no route is never called', async (vendor) => {
    for (const path of [
      '',
      '/',
      '/admin',
      '/price/',
      '/../admin',
      '/gasless/status/',
      '/gasless/status/a/b',
      '/gasless/status/..',
      '//evil.test',
      '@evil.test',
      '/price?x=1#',
    ]) {
      expect([path, await vendor.call({ ...PRICE, path }, never()).catch((error: unknown) => error)]).toEqual([
        path,
        expect.any(Error),
      ])
    }
    expect(await vendor.call({ ...PRICE, method: 'POST' }, never()).catch((error: unknown) => error)).toBeInstanceOf(
      Error,
    )
  }),
  law('the fee goes to an address', async (subject) => {
    expect((await subject.open()).feeRecipient).toMatch(/^0x[0-9a-fA-F]{40}$/)
  }),
  portLaw('calls at the same time do not mix', async (vendor) => {
    const queries = ['?a=1', '?a=2', '?a=3', '?a=4']
    const alone = []
    for (const query of queries) alone.push(await vendor.call({ ...PRICE, query }, never()))
    expect(new Set(alone.map((answer) => JSON.stringify(answer))).size).toBe(4)
    expect(await Promise.all(queries.map((query) => vendor.call({ ...PRICE, query }, never())))).toEqual(alone)
  }),
  portLaw('an aborted signal ends the call with its reason, before it begins and while it runs', async (vendor) => {
    const reason = new Error('out of time')
    expect(await vendor.call(PRICE, { signal: AbortSignal.abort(reason) }).catch((error: unknown) => error)).toBe(
      reason,
    )
    const controller = new AbortController()
    const work = vendor.call(PRICE, controller).then(
      () => 'answered',
      (error: unknown) => error,
    )
    await turn()
    controller.abort(reason)
    const timeouts = async () => {
      for (let turns = 0; turns < 20; turns++) await turn()
      return 'running'
    }
    expect([reason, 'answered']).toContain((await Promise.race([work, timeouts()])) as Error)
  }),
]
