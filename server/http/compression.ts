/** Compresses the documents of a gateway, which are long, are read by browsers and agents, and change seldom. */
import type { Reply } from '../../core/mod.ts'

/**
 * Paths of documents that are compressed. A paid answer is not: its length would reveal its content (the BREACH
 * attack).
 */
const DOCUMENTS: ReadonlySet<string> = new Set([
  '/openapi.json',
  '/docs',
  '/llms-full.txt',
  '/.well-known/x402',
  '/api/pricing',
  '/api/v1/models',
])

type Known = { readonly text: string; readonly bytes: Uint8Array }

/** Compresses a document for a client that reads gzip. Each is compressed once while it stays the same. */
export function documentCompression(): (request: Request, path: string, reply: Reply) => Reply {
  const known = new Map<string, Known>()
  return (request, path, reply) => {
    const { body, headers, status } = reply
    if (!DOCUMENTS.has(path) || status !== 200 || typeof body !== 'string') return reply
    const varying = { ...headers, vary: headers.vary ? `${headers.vary}, Accept-Encoding` : 'Accept-Encoding' }
    if (!/\bgzip\b/.test(request.headers.get('accept-encoding') ?? '')) return { ...reply, headers: varying }
    // Every origin has its own text, so the newest one of each path is kept.
    const before = known.get(path)
    const { bytes } = before?.text === body ? before : { bytes: Bun.gzipSync(new TextEncoder().encode(body)) }
    known.set(path, { text: body, bytes })
    return { status, headers: { ...varying, 'content-encoding': 'gzip' }, body: bytes }
  }
}

/** Whether a path is one of the documents. */
export const isDocument = (path: string): boolean => DOCUMENTS.has(path)
