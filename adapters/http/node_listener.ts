import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Gateway } from '../../core/mod.ts'

/**
 * A listener for `createServer` of node:http. The caller's signal aborts when the connection closes before the reply
 * ends.
 *
 * @example
 * createServer(nodeListener(gateway)).listen(8402)
 */
export function nodeListener(
  gateway: Pick<Gateway, 'fetch'>,
): (request: IncomingMessage, response: ServerResponse) => Promise<void> {
  return async (incoming, response) => {
    const { method = 'GET', url = '/', headers, socket } = incoming
    const hasBody = method !== 'GET' && method !== 'HEAD'
    const body = hasBody ? { body: Readable.toWeb(incoming) as ReadableStream<Uint8Array>, duplex: 'half' } : {}
    const request = new Request(`http://${headers.host ?? 'localhost'}${url}`, {
      method,
      headers: pairs(headers),
      ...body,
    } as RequestInit)
    const gone = new AbortController()
    response.on('close', () => response.writableEnded || gone.abort())
    const reply = await gateway.fetch(request, { ip: socket.remoteAddress ?? '', gone: gone.signal })
    response.writeHead(reply.status, Object.fromEntries(reply.headers))
    if (!reply.body) return void response.end()
    await pipeline(Readable.fromWeb(reply.body as Parameters<typeof Readable.fromWeb>[0]), response).catch(() => {})
  }
}

function pairs(headers: IncomingMessage['headers']): [string, string][] {
  return Object.entries(headers).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)] as [string, string]],
  )
}
