/** Long work in slices, so that it does not hold the event loop. */
import { setImmediate as nextTurn } from 'node:timers/promises'

/**
 * Counts work, and yields to timers and other requests once `limit` units have been done since the last time: await
 * what it returns before each piece. The usual limit is about 5 ms of work on pixels.
 */
export function pacer(limit = 1 << 17): (units: number) => Promise<void> | undefined {
  let done = 0
  return (units) => {
    done += units
    if (done < limit) return undefined
    done = 0
    return nextTurn()
  }
}
