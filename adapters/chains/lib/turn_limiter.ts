/** Spreads bursts over turns of the event loop. */

/**
 * Lets `perTurn` callers proceed in each turn of the event loop, in order of arrival. Hundreds of requests may arrive
 * in one turn, and would otherwise block all others.
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
