/** A gateway behind node:http and the middlewares of its frameworks. */
import { afterEach, describe, expect, test } from 'bun:test'
import { createServer, type IncomingMessage, request as send, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { nodeListener } from '../../../adapters/mod.ts'

type Seen = { readonly url: string; readonly body: string; readonly length: string | null; readonly ip: string }
type Step = (incoming: IncomingMessage & Record<string, unknown>) => Promise<void> | void

let server: Server | undefined
afterEach(() => void server?.close())

/** A gateway under /ai that says what it was given. */
const gateway = {
  matches: (_method: string, path: string) => path.startsWith('/ai/'),
  async fetch(request: Request, { ip = '' }: { ip?: string } = {}) {
    const body = await request.text()
    const length = request.headers.get('content-length')
    return Response.json({ url: request.url, body, length, ip } satisfies Seen)
  },
}

/** Starts a server whose `parse` has the request first, as a body parser does. */
async function listening(parse: Step = () => {}): Promise<string> {
  const listen = nodeListener(gateway)
  server = createServer(async (incoming, response: ServerResponse) => {
    await parse(incoming as IncomingMessage & Record<string, unknown>)
    await listen(incoming, response, () => response.end('next'))
  })
  await new Promise<void>((resolve) => server?.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function read(incoming: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = []
  for await (const piece of incoming) pieces.push(piece as Buffer)
  return Buffer.concat(pieces)
}

const post = (body: string, type = 'application/json') => ({ method: 'POST', body, headers: { 'content-type': type } })

describe('a body', () => {
  test('that no parser has read is streamed to the gateway', async () => {
    const url = await listening()
    const seen = (await (await fetch(`${url}/ai/x?a=1`, post('{"a": 1}'))).json()) as Seen
    expect(seen).toEqual({ url: `${url}/ai/x?a=1`, body: '{"a": 1}', length: '8', ip: '127.0.0.1' })
  })

  test('that a JSON parser has read is serialized again, without its old length', async () => {
    const url = await listening(async (incoming) => {
      incoming.body = JSON.parse(String(await read(incoming)))
    })
    const seen = (await (await fetch(`${url}/ai/x`, post('{ "a":  1 }'))).json()) as Seen
    expect([seen.body, seen.length]).toEqual(['{"a":1}', null])
  })

  test('whose bytes a parser kept is passed on as these bytes', async () => {
    for (const name of ['rawBody', 'body']) {
      const url = await listening(async (incoming) => {
        incoming[name] = await read(incoming)
      })
      const seen = (await (await fetch(`${url}/ai/x`, post('{ "a":  1 }'))).json()) as Seen
      expect([name, seen.body]).toEqual([name, '{ "a":  1 }'])
    }
  })

  test('that was a form is serialized as a form', async () => {
    const url = await listening(async (incoming) => {
      incoming.body = Object.fromEntries(new URLSearchParams(String(await read(incoming))))
    })
    const form = post('text=two+words&n=1', 'application/x-www-form-urlencoded')
    const seen = (await (await fetch(`${url}/ai/x`, form)).json()) as Seen
    expect(seen.body).toBe('text=two+words&n=1')
  })

  test('that a parser has discarded is 400, with advice on where to mount the gateway', async () => {
    const url = await listening(async (incoming) => void (await read(incoming)))
    const reply = await fetch(`${url}/ai/x`, post('{}'))
    expect([reply.status, await reply.text()]).toEqual([
      400,
      expect.stringContaining('mount the gateway before the parser'),
    ])
  })
})

test('a path that is not of the gateway goes to the next listener, and is 200 from it', async () => {
  const url = await listening()
  for (const path of ['/', '/hello', '/ai']) expect(await (await fetch(url + path)).text()).toBe('next')
})

test('uses the whole URL under a mount, and the address and protocol that the host trusts', async () => {
  const url = await listening((incoming) => {
    Object.assign(incoming, {
      originalUrl: incoming.url,
      url: incoming.url?.slice(3),
      ip: '203.0.113.7',
      protocol: 'https',
    })
  })
  const seen = (await (await fetch(`${url}/ai/x`)).json()) as Seen
  expect([seen.url, seen.ip]).toEqual([`${url.replace('http:', 'https:')}/ai/x`, '203.0.113.7'])
})

test('a Host header that is none is 400', async () => {
  const { hostname, port } = new URL(await listening())
  const status = await new Promise((resolve) => {
    send({ hostname, port, path: '/ai/x', headers: { host: 'a b' } }, ({ statusCode }) => resolve(statusCode)).end()
  })
  expect(status).toBe(400)
})
