/** Calls that are answered without the library: as by it, and everything else is left to it. */
import { describe, expect, test } from 'bun:test'
import { plainCall, plainReply } from '../../../server/mcp/plain_call.ts'
import { mcpEndpoint } from '../../../server/mcp/mod.ts'
import { kit, ORIGIN } from '../../kit.ts'

const FOX = { model: 'vendor-a/image-1', prompt: 'a red fox in the snow' }
const HEADERS = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
/** Sends a call to the library; to a server without sessions it means nothing. */
const FOR_THE_LIBRARY = { 'mcp-session-id': 'none' }
const call = (params: object, more: object = {}) => ({ jsonrpc: '2.0', id: 7, method: 'tools/call', params, ...more })
const order = call({ name: 'images_generations', arguments: FOX })

describe('a call of a tool', () => {
  const calls: readonly (readonly [string, object])[] = [
    ['unpaid', order],
    ['with an id that is text', { ...order, id: 'a "quoted" id' }],
    ['with an empty _meta', call({ name: 'images_generations', arguments: FOX, _meta: {} })],
    ['with a payment that is none', call({ name: 'images_generations', arguments: FOX, _meta: { 'x402/payment': 5 } })],
    ['with arguments that are refused', call({ name: 'images_generations', arguments: { model: 'nobody/none' } })],
    ['without arguments', call({ name: 'images_generations' })],
    ['of a free tool', call({ name: 'models' })],
    ['that polls nothing', call({ name: 'collect_result', arguments: { poll_url: 'https://elsewhere/x' } })],
    ['of no tool', call({ name: 'no_such_tool', arguments: {} })],
  ]
  test.each([...calls])('%s is answered as by the library', async (_, message) => {
    const answer = async (headers: object) => {
      const endpoint = mcpEndpoint(kit().gateway, { version: '1' })
      const request = new Request(`${ORIGIN}/mcp`, {
        method: 'POST',
        headers: { ...HEADERS, ...headers },
        body: JSON.stringify(message),
      })
      const { status, headers: sent, body } = await endpoint(request, { ip: '192.0.2.1', origin: ORIGIN })
      return { isStream: body instanceof ReadableStream, status, sent, text: await new Response(body as never).text() }
    }
    const [plain, whole] = [await answer({}), await answer(FOR_THE_LIBRARY)]
    expect([plain.isStream, whole.isStream]).toEqual([false, true])
    // The library writes the members of a result in another order.
    const parts = (text: string) => [text.split('data: ')[0], JSON.parse(text.split('data: ')[1] ?? '')]
    expect(parts(plain.text)).toEqual(parts(whole.text))
    expect(plain.text).toEndWith('\n\n')
    expect({ status: plain.status, ...plain.sent }).toMatchObject({ status: whole.status, ...whole.sent })
  })
})

describe('is left to the library', () => {
  const cases: readonly (readonly [string, unknown, object])[] = [
    ['a batch', [order], {}],
    ['another method', { ...order, method: 'tools/list' }, {}],
    ['a notification', { jsonrpc: '2.0', method: 'tools/call', params: order.params }, {}],
    ['another version of JSON-RPC', { ...order, jsonrpc: '1.0' }, {}],
    ['an id that is no whole number', { ...order, id: 1.5 }, {}],
    ['a call without a name', call({ arguments: FOX }), {}],
    ['arguments that are a list', call({ name: 'images_generations', arguments: [] }), {}],
    ['a member that is unknown', call({ name: 'images_generations', task: { ttl: 5 } }), {}],
    ['a request for progress', call({ name: 'images_generations', _meta: { progressToken: 1 } }), {}],
    [
      'an envelope of a newer revision',
      call({ name: 'images_generations', _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' } }),
      {},
    ],
    ['a _meta that is text', call({ name: 'images_generations', _meta: 'x' }), {}],
    ['a client that takes no stream', order, { accept: 'application/json' }],
    ['a body of another type', order, { 'content-type': 'text/plain' }],
    ['a revision that is unknown', order, { 'mcp-protocol-version': '1999-01-01' }],
    ['a session', order, FOR_THE_LIBRARY],
  ]
  test.each([...cases])('%s', (_, message, headers) => {
    expect(plainCall(message, new Headers({ ...HEADERS, ...headers } as Record<string, string>), ['2025-06-18'])).toBe(
      undefined,
    )
    const version = new Headers({ ...HEADERS, 'mcp-protocol-version': '2025-06-18' })
    expect(plainCall(order, version, ['2025-06-18'])).toMatchObject({ id: 7, name: 'images_generations', args: FOX })
  })
})

test('an answer that is late is a stream of comments until it comes', async () => {
  const { promise, resolve } = Promise.withResolvers<{ result: object }>()
  const { signal } = new AbortController()
  const reply = await plainReply(1, promise, { heartbeatMs: 1, signal })
  const reader = (reply.body as ReadableStream<Uint8Array>).getReader()
  const next = async () => new TextDecoder().decode((await reader.read()).value)
  expect([await next(), await next()]).toEqual([': keepalive\n\n', ': keepalive\n\n'])
  resolve({ result: {} })
  let text = ''
  while (!text.startsWith('event')) text = await next()
  expect(text).toBe('event: message\ndata: {"result":{},"jsonrpc":"2.0","id":1}\n\n')
  expect((await reader.read()).done).toBe(true)
})
