/**
 * Many deadlines on one timer: a timer and two signals for each would cost more than the rest of a chat answer
 * (decision 48).
 */
import type { Clock } from './clock.ts'

type Deadlines = {
  /**
   * Calls `late` after `ms` unless the returned function is called first. Leaves no timer behind when nothing is
   * pending.
   */
  after(ms: number, late: () => void): () => void
}

type Pending = { readonly at: number; readonly late: () => void }

const byClock = new WeakMap<Clock, Deadlines>()

/** The deadlines that everything with this clock shares, so that a call needs one timer and not one for each wait. */
export function deadlinesOf(clock: Clock): Deadlines {
  const known = byClock.get(clock) ?? deadlines(clock)
  byClock.set(clock, known)
  return known
}

export function deadlines(clock: Clock): Deadlines {
  // An array of slots rather than a Set: a long-lived Set with many changes retains deleted entries for the
  // young-generation collector and triples its time.
  const slots: (Pending | undefined)[] = []
  const empty: number[] = []
  let sleeper: AbortController | undefined
  let wakesAt = Number.POSITIVE_INFINITY

  return {
    after(ms, late) {
      const entry = { at: clock.now() + ms, late }
      const slot = empty.pop() ?? slots.length
      slots[slot] = entry
      if (entry.at < wakesAt) sleep(entry.at)
      return () => {
        if (slots[slot] !== entry) return
        clear(slot)
        if (empty.length === slots.length) rest()
      }
    },
  }

  function clear(slot: number): void {
    slots[slot] = undefined
    empty.push(slot)
  }

  function sleep(at: number): void {
    rest()
    const own = new AbortController()
    sleeper = own
    wakesAt = at
    void clock.wait(Math.max(0, at - clock.now()), own.signal).then(() => sleeper === own && wake())
  }

  function rest(): void {
    wakesAt = Number.POSITIVE_INFINITY
    sleeper?.abort('nothing is awaited')
    sleeper = undefined
  }

  function wake(): void {
    // A timer may fire slightly early; what it was set for is due all the same.
    const now = Math.max(clock.now(), wakesAt)
    rest()
    const due: Pending[] = []
    let next = Number.POSITIVE_INFINITY
    for (const [slot, entry] of slots.entries()) {
      if (entry && entry.at <= now) due.push(entry)
      if (entry && entry.at <= now) clear(slot)
      if (entry && entry.at > now) next = Math.min(next, entry.at)
    }
    if (next < Number.POSITIVE_INFINITY) sleep(next)
    for (const { late } of due.sort((a, b) => a.at - b.at)) late()
  }
}

/**
 * Deadlines of one length that are nearly always met, such as the arrival of a small body. They are checked together:
 * each may fire up to `everyMs` late, and none has a timer of its own.
 */
export function sharedDeadlines(
  clock: Clock,
  { ms, everyMs }: { readonly ms: number; readonly everyMs: number },
): (late: () => void) => () => void {
  const slots: (Pending | undefined)[] = []
  const empty: number[] = []
  let isChecking = false

  return (late) => {
    const entry = { at: clock.now() + ms, late }
    const slot = empty.pop() ?? slots.length
    slots[slot] = entry
    if (!isChecking) void check()
    return () => {
      if (slots[slot] === entry) clear(slot)
    }
  }

  function clear(slot: number): void {
    slots[slot] = undefined
    empty.push(slot)
  }

  async function check(): Promise<void> {
    isChecking = true
    while (empty.length < slots.length) {
      await clock.wait(everyMs)
      const now = clock.now()
      for (const [slot, entry] of slots.entries()) {
        if (!entry || entry.at > now) continue
        clear(slot)
        entry.late()
      }
    }
    isChecking = false
  }
}

/**
 * Runs `work` under a deadline. When time is up, its signal aborts and the returned promise rejects, even if `work`
 * continues.
 */
export function within<T>(clock: Clock, ms: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const deadline = new AbortController()
  return new Promise((resolve, reject) => {
    const cancelDeadline = deadlinesOf(clock).after(ms, () => {
      const error = Object.assign(new Error(`no answer within ${ms} ms`), { name: 'TimeoutError' })
      deadline.abort(error)
      reject(error)
    })
    const fail = (error: unknown) => {
      cancelDeadline()
      reject(error)
    }
    try {
      work(deadline.signal).then((value) => {
        cancelDeadline()
        resolve(value)
      }, fail)
    } catch (error) {
      fail(error)
    }
  })
}
