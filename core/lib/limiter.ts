/** FIFO concurrency limiter. */

/** No limit on the queue. */
const ENDLESS = { most: Number.POSITIVE_INFINITY, full: () => new Error('the queue is unbounded') }

export type ConcurrencyLimiter = <T>(work: () => Promise<T>, signal?: AbortSignal) => Promise<T>

/**
 * Runs at most `atOnce` at a time, in order of arrival; aborting `signal` leaves the queue. When more than `most` are
 * waiting, throws the error that `full` creates.
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
        signal?.removeEventListener('abort', cancel)
        resolve()
      }
      const cancel = () => {
        waiting.splice(waiting.indexOf(enter), 1)
        reject(signal?.reason)
      }
      signal?.addEventListener('abort', cancel, { once: true })
      waiting.push(enter)
    })
  }
}
