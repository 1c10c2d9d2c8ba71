/** Lets so many through at a time. */

/** Everybody may wait. */
const ENDLESS = { most: Number.POSITIVE_INFINITY, full: () => new Error('nobody is turned away') }

export type ConcurrencyLimiter = <T>(work: () => Promise<T>, signal?: AbortSignal) => Promise<T>

/**
 * Lets `atOnce` through at a time, in the order in which they came; who gives up by `signal` leaves the queue. Past
 * `most` waiting, the next one is not let in, and what `full` makes is thrown.
 */
export function concurrencyLimiter(
  atOnce: number,
  { most, full }: { most: number; full(): Error } = ENDLESS,
): ConcurrencyLimiter {
  const waiting: (() => void)[] = []
  let inside = 0
  return async (work, signal) => {
    if (inside >= atOnce && waiting.length >= most) throw full()
    if (inside >= atOnce) await queued(signal)
    else inside++
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next) next()
      else inside--
    }
  }

  function queued(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const enter = () => {
        signal?.removeEventListener('abort', leave)
        resolve()
      }
      const leave = () => {
        waiting.splice(waiting.indexOf(enter), 1)
        reject(signal?.reason)
      }
      signal?.addEventListener('abort', leave, { once: true })
      waiting.push(enter)
    })
  }
}
