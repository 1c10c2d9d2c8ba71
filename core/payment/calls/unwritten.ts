/**
 * Writes that storage refused: the end of work, or of a settlement. Each is a compare-and-set, so repeating it is safe.
 */
import type { Clock } from '../../lib/clock.ts'
import type { Log } from '../../ports/mod.ts'

type Write = { readonly id: string; readonly weight: number; readonly since: number; write(): Promise<unknown> }

export type Unwritten = { readonly writes: Map<string, Write>; characters: number }

/** Bounds on the number, size and age of queued writes. Work beyond them is lost and uncharged. */
const MAX_WRITES = 10_000
const MAX_CHARACTERS = 1 << 25
const MAX_AGE_MS = 3_600_000

export const nothingUnwritten = (): Unwritten => ({ writes: new Map(), characters: 0 })

/** Only the first end of a call counts; later ones are consequences of the outage. */
export function queueWrite(
  queue: Unwritten,
  { id, result, since, write }: Pick<Write, 'id' | 'since' | 'write'> & { readonly result: unknown },
): void {
  if (queue.writes.has(id)) return
  const weight = weightOf(result)
  if (queue.writes.size >= MAX_WRITES || queue.characters + weight > MAX_CHARACTERS) return
  queue.characters += weight
  queue.writes.set(id, { id, weight, since, write })
}

/** Retries one by one and stops at the first failure, so that a round stays short. */
export async function retryWrites(queue: Unwritten, { clock, log }: { clock: Clock; log: Log }): Promise<void> {
  const { writes } = queue
  for (const each of Array.from(writes.values())) {
    const drop = () => void (writes.delete(each.id) && (queue.characters -= each.weight))
    try {
      await each.write()
      drop()
    } catch (error) {
      // Move to the end of the queue, in case storage refuses only this write.
      drop()
      if (clock.now() - each.since >= MAX_AGE_MS) {
        log.alert('the end of a call could not be written for an hour', {
          call: each.id,
          error: (error as Error).message,
        })
        continue
      }
      queue.characters += each.weight
      writes.set(each.id, each)
      return
    }
  }
}

function weightOf(value: unknown): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 1
  return Object.values(value).reduce((sum: number, each: unknown) => sum + weightOf(each), 0)
}
