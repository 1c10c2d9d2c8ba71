/** Timers and randomness of the machine, for adapters and for the ports that `local.ts` makes of it. */

/** Longest delay of a timer, 2^31 - 1 milliseconds (about 24 days); a longer one would fire at once. */
const MAX_TIMER = 2_147_483_647

/** Resolves after `ms`, or at once when `signal` aborts, and leaves no timer behind. Never rejects. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve()
    const timer = setTimeout(end, Math.min(ms, MAX_TIMER))
    signal?.addEventListener('abort', end, { once: true })
    function end(): void {
      clearTimeout(timer)
      signal?.removeEventListener('abort', end)
      resolve()
    }
  })
}

/**
 * Returns strong random bytes.
 *
 * @example
 * const key = randomBytes(32)
 */
export const randomBytes = (count: number): Uint8Array<ArrayBuffer> => crypto.getRandomValues(new Uint8Array(count))
