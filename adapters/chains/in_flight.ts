import type { Settlement } from '../../core/ports/mod.ts'

/** One settlement under way. It runs to its end whether or not a caller still waits. */
export type Job = {
  readonly promise: Promise<Settlement>
  /** Callers that still wait. */
  callers: number
  /** Set to false once the recipient has answered or failed to; a later caller may then have it sent again. */
  isOut: boolean
}

/** Settlements under way, one per id: callers with the same id share one settlement. */
export type InFlight = {
  has(id: string): boolean
  /**
   * Joins the settlement with this id, or starts it. Resolves with `unknown` when the signal aborts first. `send` must
   * not reject.
   */
  settle(id: string, carry: (job: Job) => Promise<Settlement>, signal: AbortSignal): Promise<Settlement>
}

export function inFlight(): InFlight {
  const jobs = new Map<string, Job>()

  async function wait(job: Job, signal: AbortSignal): Promise<Settlement> {
    job.callers++
    try {
      return await Promise.race([job.promise, outOfTime(signal, job.promise, 'no outcome in time')])
    } finally {
      job.callers--
    }
  }

  function begin(id: string, carry: (job: Job) => Promise<Settlement>): Job {
    const job: Job = { callers: 0, isOut: true, promise: Promise.resolve().then(() => carry(job)) }
    jobs.set(id, job)
    void job.promise.then(() => jobs.delete(id))
    return job
  }

  return {
    has: (id) => jobs.has(id),
    async settle(id, carry, signal) {
      const earlier = jobs.get(id)
      if (earlier && !earlier.isOut) {
        const end = await wait(earlier, signal)
        if (end.kind !== 'unknown' || signal.aborted) return end
      }
      return wait(jobs.get(id) ?? begin(id, carry), signal)
    },
  }
}

/** Resolves with `unknown` when the signal aborts, and removes its listener when `settled` resolves. */
export function outOfTime(signal: AbortSignal, over: Promise<unknown>, reason: string): Promise<Settlement> {
  return new Promise((resolve) => {
    const stop = () => resolve({ kind: 'unknown', reason })
    signal.addEventListener('abort', stop, { once: true })
    void over.then(() => signal.removeEventListener('abort', stop))
  })
}
