/** Spreads bursts over turns of the event loop. */

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
