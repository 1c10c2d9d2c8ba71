/** The clock interface: time is always injected (decision 2). */

export interface Clock {
  now(): number
  /** Resolves after `ms`, or at once when `signal` aborts. Never rejects. */
  wait(ms: number, signal?: AbortSignal): Promise<void>
}
