/**
 * Replies to `tools/list`, stored as they were sent until the tools are other ones. Every client asks for them when it
 * connects, for free, and the library takes milliseconds to check and write them.
 */
import { fieldsOf } from '../../core/lib/mod.ts'
import type { Reply } from '../../core/mod.ts'
import type { Operations } from './tools.ts'

/** `key` has all that the reply depends on beside the tools: what the library reads of the request, but its id. */
type ListRequest = {
  readonly message: Readonly<Record<string, unknown>>
  readonly id: string | number
  readonly key: string
}

/** In characters. Longer requests are answered by the library each time. */
const MAX_KEY = 2_048
const MAX_REPLIES = 16
/** Stands for the id of a request in a reply that is stored. */
const ANY_ID = 'id-of-the-request'

/** Undefined for any other message. */
export function listRequest(message: unknown, headers: Headers): ListRequest | undefined {
  if (Array.isArray(message)) return undefined
  const { id, ...rest } = fieldsOf(message)
  if (rest.method !== 'tools/list' || (typeof id !== 'string' && typeof id !== 'number')) return undefined
  const read = [...headers].filter(([name]) => name.startsWith('mcp-') || name === 'accept' || name === 'content-type')
  const key = JSON.stringify([rest, read])
  return key.length > MAX_KEY ? undefined : { message: rest, id, key }
}

/** Body of a reply before and after the id. */
type StoredReply = { readonly before: string; readonly after: string; readonly headers: [string, string][] }

/** A status, headers and a body, such as a Response. */
type Sent = { readonly status: number; readonly headers: Iterable<[string, string]>; readonly body: Reply['body'] }

/** Answers each request as `respond` answered the first one like it. */
export function toolLists() {
  const stored = new Map<string, StoredReply>()
  let listed: Operations | undefined

  return async function reply(
    { message, id, key }: ListRequest,
    { tools, respond }: { readonly tools: Operations; respond(message: unknown): Promise<Response> },
  ): Promise<Sent> {
    if (tools !== listed) stored.clear()
    listed = tools
    const known = stored.get(key)
    if (known) return sent(known, id)
    const response = await respond({ ...message, id: ANY_ID })
    const parts = response.status === 200 ? (await response.clone().text()).split(JSON.stringify(ANY_ID)) : []
    const [before, after, ...more] = parts
    if (before === undefined || after === undefined || more.length > 0) return await respond({ ...message, id })
    const headers = [...response.headers].filter(([name]) => name !== 'content-length')
    const fresh = { before, after, headers }
    const [oldest] = stored.keys()
    if (stored.size >= MAX_REPLIES && oldest !== undefined) stored.delete(oldest)
    if (tools === listed) stored.set(key, fresh)
    return sent(fresh, id)
  }
}

const sent = ({ before, after, headers }: StoredReply, id: string | number): Sent => ({
  status: 200,
  headers,
  body: before + JSON.stringify(id) + after,
})
