/** Keeps heavy work from holding the event loop: long work yields between slices, and bursts are spread over turns. */
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

/**
 * Lets `perTurn` callers through in each turn of the event loop, in the order in which they came. Hundreds of requests
 * may arrive in one turn, and would otherwise be worked on before anybody else is heard.
 */
export function turnLimiter(perTurn: number): () => Promise<void> | undefined {
  const waiting: (() => void)[] = []
  let taken = 0
  let isScheduled = false

  function schedule(): void {
    if (isScheduled) return
    isScheduled = true
    setImmediate(next)
  }

  function next(): void {
    isScheduled = false
    const admitted = waiting.splice(0, perTurn)
    taken = admitted.length
    if (taken > 0) schedule()
    for (const enter of admitted) enter()
  }

  return () => {
    schedule()
    if (taken < perTurn) {
      taken++
      return undefined
    }
    return new Promise((resolve) => void waiting.push(resolve))
  }
}
