/**
 * Inputs of requests that were quoted a moment ago. A request comes twice, without and with its payment: the 67 KB of
 * an agent are not parsed, checked and counted again for the same bytes (decision 160).
 */
import type { QuotedInputs, QuotedRequest } from '../../endpoint/streamed.ts'
import { oncePer } from '../../lib/once_per.ts'
import { deadlinesOf } from '../../lib/timers.ts'

/** Time in which a program signs. */
const LIFE_MS = 10_000
/** In characters. A shorter request is read in the time that it takes to store one; a longer one has files. */
const SHORTEST = 8 << 10
const LONGEST = 256 << 10
/** Characters of all bodies together: those of sixty agents at once. */
const MOST = 4 << 20

/** `headers` are those that the check has read, with their values. */
type Stored = {
  readonly path: string
  readonly body: string
  readonly headers: ReadonlyMap<string, string | null>
  readonly input: unknown
  readonly cancelExpiry: () => void
}

/** Those of one gateway, by its facts. */
export const quotedInputs = oncePer<object, QuotedInputs>(() => {
  const stored: Stored[] = []
  let characters = 0

  function drop(entry: Stored): void {
    const at = stored.indexOf(entry)
    if (at < 0) return
    stored.splice(at, 1)
    characters -= entry.body.length
    entry.cancelExpiry()
  }

  function find({ requestContext: { path, request }, body }: QuotedRequest): Stored | undefined {
    return stored.find(
      (entry) =>
        entry.body.length === body.length &&
        entry.path === path &&
        entry.body === body &&
        [...entry.headers].every(([name, value]) => request.headers.get(name) === value),
    )
  }

  return {
    begin(quoted, clock) {
      const { requestContext, body } = quoted
      const { path, params, request } = requestContext
      const headers = new Map<string, string | null>()
      const header = (name: string) => {
        const value = request.headers.get(name)
        headers.set(name, value)
        return value
      }
      header('content-type')
      return {
        head: { params, header },
        store(input) {
          const isOfSize = body.length >= SHORTEST && body.length <= LONGEST
          if (typeof body !== 'string' || !isOfSize || find(quoted)) return
          for (let [oldest] = stored; oldest && characters + body.length > MOST; [oldest] = stored) drop(oldest)
          const cancelExpiry = deadlinesOf(clock).after(LIFE_MS, () => drop(entry))
          const entry: Stored = { path, body, headers, input, cancelExpiry }
          stored.push(entry)
          characters += body.length
        },
      }
    },

    take(request) {
      const entry = request.body.length < SHORTEST ? undefined : find(request)
      if (entry) drop(entry)
      return entry
    },
  }
})
