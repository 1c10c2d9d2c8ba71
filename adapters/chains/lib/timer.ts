/** Resolves after `ms`, or at once when `signal` aborts, and leaves no timer behind. Never rejects. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve()
    const timer = setTimeout(end, ms)
    signal?.addEventListener('abort', end, { once: true })
    function end(): void {
      clearTimeout(timer)
      signal?.removeEventListener('abort', end)
      resolve()
    }
  })
}
