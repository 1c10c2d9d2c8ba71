/** A gateway behind node:http, and behind what is built on it: Connect, Express, Fastify. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Gateway } from '../../core/mod.ts'

/** Fields that Connect and Express add to a request. */
type HostRequest = IncomingMessage & {
  /** The URL as it arrived, where `url` is relative to a mount. */
  readonly originalUrl?: string
  /** Body as a body parser left it. */
  readonly body?: unknown
  /** The bytes of the body, where a parser keeps them. */
  readonly rawBody?: unknown
  /** The client's address and protocol, by the proxies that the host trusts. */
  readonly ip?: string | undefined
  readonly protocol?: string
}

/**
 * A listener for `createServer` of node:http, and a middleware for Express and Connect: with a third argument it calls
 * it for paths that are not the gateway's. Works behind body parsers too. The caller's signal aborts when the
 * connection closes before the reply ends.
 *
 * @example
 * const farebox = gateway({ ports: localPorts({ chain: memoryChain(), images }) })
 * const server = createServer(nodeListener(farebox)).listen(0, '127.0.0.1')
 * server.close()
 */
export function nodeListener(
  gateway: Pick<Gateway, 'fetch' | 'matches'>,
): (request: IncomingMessage, response: ServerResponse, next?: (error?: unknown) => void) => Promise<void> {
  return async (incoming: HostRequest, response, next) => {
    const { method = 'GET' } = incoming
    const [whole, relative] = [incoming.originalUrl ?? incoming.url ?? '/', incoming.url ?? '/']
    const isOurs = (url: string) => gateway.matches(method, pathOf(url))
    // A mount that the gateway was not told of has been taken off `url`.
    const url = isOurs(whole) ? whole : relative
    if (next && !isOurs(url)) return next()
    const request = requestOf(incoming, url)
    if (typeof request === 'string') return refuse(response, request)
    const gone = new AbortController()
    response.on('close', () => response.writableEnded || gone.abort())
    const ip = incoming.ip ?? incoming.socket.remoteAddress ?? ''
    const reply = await gateway.fetch(request, { ip, gone: gone.signal })
    response.writeHead(reply.status, Object.fromEntries(reply.headers))
    if (!reply.body) return void response.end()
    await pipeline(Readable.fromWeb(reply.body as Parameters<typeof Readable.fromWeb>[0]), response).catch(() => {})
  }
}

/** The part of Fastify's API that this file uses. */
type FastifyInstance = {
  removeAllContentTypeParsers(): void
  addContentTypeParser(type: string, parse: (request: never, payload: never, done: (error: null) => void) => void): void
  all(path: string, handler: (request: FastifyRequest, reply: FastifyReply) => void): void
}
type FastifyRequest = { readonly raw: IncomingMessage; readonly ip: string; readonly protocol: string }
type FastifyReply = { readonly raw: ServerResponse; hijack(): void; callNotFound(): void }

/**
 * A plugin for Fastify: `app.register(fastifyPlugin(farebox))`. Its routes read their bodies themselves, and the
 * parsers of the host stay as they are for its own. Paths that are not the gateway's get the host's 404.
 *
 * @example
 * const farebox = gateway({ ports: localPorts({ chain: memoryChain(), images }) })
 * const plugin = fastifyPlugin(farebox)
 */
export function fastifyPlugin(
  gateway: Pick<Gateway, 'fetch' | 'matches'>,
): (instance: FastifyInstance, options: unknown, done: () => void) => void {
  const listen = nodeListener(gateway)
  return (instance, _options, done) => {
    instance.removeAllContentTypeParsers()
    instance.addContentTypeParser('*', (_request, _payload, read) => read(null))
    instance.all('/*', (request, reply) => {
      const { raw, ip, protocol } = request
      if (!gateway.matches(raw.method ?? 'GET', pathOf(raw.url ?? '/'))) return reply.callNotFound()
      reply.hijack()
      void listen(Object.assign(raw, { ip, protocol }), reply.raw)
    })
    done()
  }
}

const pathOf = (url: string): string => url.split('?', 1)[0] ?? url

/** The request as the web has it; a text says why it cannot be one. */
function requestOf(incoming: HostRequest, url: string): Request | string {
  const { method = 'GET', headers, socket } = incoming
  const isRead = incoming.readableDidRead === true
  const body = bodyOf(incoming, { isRead })
  if (!body) return 'A body parser has read this body and left nothing of it: mount the gateway before the parser.'
  const protocol = incoming.protocol ?? ('encrypted' in socket && socket.encrypted ? 'https' : 'http')
  const host = headers.host ?? (headers[':authority'] as string | undefined) ?? 'localhost'
  try {
    return new Request(`${protocol}://${host}${url}`, {
      method,
      headers: pairs(headers, { isRead }),
      ...body,
    } as RequestInit)
  } catch {
    return 'The Host header and the path are no URL.'
  }
}

function bodyOf(incoming: HostRequest, { isRead }: { isRead: boolean }): object | undefined {
  if (incoming.method === 'GET' || incoming.method === 'HEAD') return {}
  if (isRead) return parsedBody(incoming)
  return { body: Readable.toWeb(incoming) as ReadableStream<Uint8Array>, duplex: 'half' }
}

/** A body that a parser has read: its bytes where it kept them, otherwise what it made of them, written again. */
function parsedBody({ rawBody, body, headers }: HostRequest): { body: string | Uint8Array } | undefined {
  for (const bytes of [rawBody, body]) {
    if (typeof bytes === 'string' || bytes instanceof Uint8Array) return { body: bytes }
  }
  if (body === undefined) return undefined
  const isForm = headers['content-type']?.startsWith('application/x-www-form-urlencoded')
  return { body: isForm ? String(new URLSearchParams(body as Record<string, string>)) : JSON.stringify(body) }
}

/** Of a body that is written again, neither the length nor the encoding is what it was. */
const OF_BODY = new Set(['content-length', 'content-encoding', 'transfer-encoding'])

function pairs(headers: IncomingMessage['headers'], { isRead }: { isRead: boolean }): [string, string][] {
  return Object.entries(headers).flatMap(([name, value]) =>
    value === undefined || name.startsWith(':') || (isRead && OF_BODY.has(name))
      ? []
      : [[name, String(value)] as [string, string]],
  )
}

function refuse(response: ServerResponse, message: string): void {
  response.writeHead(400, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ error: 'Bad request', message }))
}
