/** Media of a result in the reply itself, for clients that ask for base64 in place of URLs. */
import type { Hosted } from '../../endpoint/mod.ts'
import { decodeDataUri, toBase64 } from '../../lib/base64.ts'
import type { Clock } from '../../lib/clock.ts'
import { concurrencyLimiter } from '../../lib/limiter.ts'
import { within } from '../../lib/timers.ts'
import type { Objects } from '../../ports/objects.ts'
import type { Log } from '../../ports/log.ts'

/** Most bytes of media in one reply; what is beyond has its URL alone. */
const MAX_EMBEDDED = 24 * 1024 * 1024
/**
 * Most bytes in replies to later reads of paid results, in a while: whoever has paid once may read again and again, and
 * a client that reads slowly keeps each reply in memory until its connection ends.
 */
const MAX_READ_AGAIN = 256 * 1024 * 1024
const WHILE_MS = 300_000
/** Longest wait for the files of one reply: a store that hangs must not hold back a reply that is paid for. */
const READ_MS = 20_000
/** Replies that are filled at once: each has all of its media in memory. */
const turn = concurrencyLimiter(2)

/**
 * Base64 of each file, in order: of what the vendor sent inline, else of what is stored. Undefined for a file that
 * cannot be read: it is paid for, and has its URL. Never rejects.
 */
export function embeddedMedia(
  ports: Ports,
  media: readonly Hosted[],
  { raw = [], isFirst }: { readonly raw?: readonly string[] | undefined; readonly isFirst: boolean },
): Promise<readonly (string | undefined)[]> {
  return turn(async () => {
    const embedded: (string | undefined)[] = []
    const budget = isFirst ? undefined : budgetOf(ports)
    const most = Math.min(MAX_EMBEDDED, budget?.left ?? MAX_EMBEDDED)
    const endsAt = ports.clock.now() + READ_MS
    let left = most
    for (const [index, { key, url }] of media.entries()) {
      const inline = decodeDataUri(raw[index] ?? url ?? '')
      const bytes = inline?.bytes ?? (key === null ? undefined : await bytesOf(ports, key, { most: left, endsAt }))
      const fits = bytes !== undefined && bytes.length <= left
      if (fits) left -= bytes.length
      embedded.push(fits ? toBase64(bytes) : undefined)
    }
    if (budget) budget.left -= most - left
    return embedded
  })
}

type Ports = { readonly objects: Objects; readonly log: Log; readonly clock: Clock }

type Budget = { left: number; readonly endsAt: number }
const budgets = new WeakMap<Objects, Budget>()

function budgetOf({ objects, clock }: Ports): Budget {
  const now = clock.now()
  const known = budgets.get(objects)
  if (known && now < known.endsAt) return known
  const budget = { left: MAX_READ_AGAIN, endsAt: now + WHILE_MS }
  budgets.set(objects, budget)
  return budget
}

async function bytesOf(
  { objects, log, clock }: Ports,
  key: string,
  { most, endsAt }: { readonly most: number; readonly endsAt: number },
): Promise<Uint8Array | undefined> {
  try {
    return await within(clock, Math.max(1, endsAt - clock.now()), async () => {
      const found = await objects.get(key)
      if (!found) return undefined
      const { body, size } = found
      if (size <= most)
        return body instanceof Uint8Array ? body : new Uint8Array(await new Response(body).arrayBuffer())
      if (!(body instanceof Uint8Array)) await body.cancel()
      return undefined
    })
  } catch (error) {
    log.warn('media could not be read for a reply; it has its URL', { error: (error as Error).message })
  }
  return undefined
}
