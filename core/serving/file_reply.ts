/** The file of a result as the reply itself, for clients that ask for it so: OpenAI's SDKs do at /audio/speech. */
import type { Objects } from '../ports/objects.ts'
import type { Reply } from '../http/reply.ts'
import { fieldsOf, objectsOf } from '../lib/json.ts'

/** Whether the client accepts a file of this kind, such as `audio`, and no JSON. */
export function acceptsFile(headers: Headers, kind: string): boolean {
  const accept = headers.get('accept')?.toLowerCase() ?? ''
  if (/\*\/\*|application\/(json|\*)/.test(accept)) return false
  return accept.includes('application/octet-stream') || accept.includes(`${kind}/`)
}

/**
 * The reply with the hosted file in place of the JSON that says where it is. What cannot be read leaves the reply as it
 * is: it is paid for, and has the URL.
 */
export async function fileReply(reply: Reply, objects: Objects, folder: string): Promise<Reply> {
  if (reply.status !== 200 || typeof reply.body !== 'string') return reply
  const key = keyIn(reply.body, folder)
  const found = key === undefined ? undefined : await objects.get(key).catch(() => undefined)
  if (!found) return reply
  const { type, size, body } = found
  return { ...reply, headers: { ...reply.headers, 'content-type': type, 'content-length': String(size) }, body }
}

/** The key of the first file that a result names. Every URL of a stored file ends with its key. */
function keyIn(body: string, folder: string): string | undefined {
  const [first] = objectsOf(fieldsOf(JSON.parse(body) as unknown).data)
  const url = typeof first?.url === 'string' ? first.url : ''
  const at = url.lastIndexOf(`/${folder}/`)
  return at < 0 ? undefined : url.slice(at + 1)
}
