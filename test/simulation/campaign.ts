/** Many runs, as fast as they go. */
// These modules are loaded on first use, which takes a turn of the event loop, and a run has none.
import '../../core/call/delivery/upstream_job.ts'
import '../../core/call/delivery/upstream_poll.ts'
import '../../core/call/refund_deposit.ts'
import '../../core/call/work/embedded_media.ts'
import '../../core/payment/prune.ts'
import '../../core/payment/reports/ledger_archive.ts'
import '../../core/payment/settlement/secondary_payment.ts'
import '../../core/products/chat/web_search/answer.ts'
import { seedOf } from './chance.ts'
import { explore, type Run } from './explore.ts'
import { type Rule, setup } from './setup.ts'

export type Plan = {
  /** The first seed, from which those of all runs are derived. */
  readonly seed: number
  readonly runs: number
  /** Runs of the same seed that somebody else makes. */
  readonly skip?: number
  /** End at the first violation. */
  readonly isFirst?: boolean
}

/** `steps`: of all runs together. */
export type Campaign<R = Run> = {
  readonly runs: number
  readonly steps: number
  readonly ms: number
  readonly found: readonly R[]
}

type AnyRun = { readonly steps: number; readonly violation: object | undefined }

/** Between two looks at the event loop. */
const TURN_MS = 250

export function campaign(rule: Rule, plan: Plan): Promise<Campaign> {
  return campaignOf(() => {
    const on = setup(rule)
    return (seed) => explore(on, seed)
  }, plan)
}

/** `prepare` and what it returns are called where microtasks can be drained. */
export async function campaignOf<R extends AnyRun>(
  prepare: () => (seed: number) => R,
  { seed, runs, skip = 0, isFirst = false }: Plan,
): Promise<Campaign<R>> {
  const started = performance.now()
  const explored = await alone(prepare)
  const found: R[] = []
  let made = 0
  let steps = 0
  while (made < runs && !(isFirst && found.length > 0)) {
    await alone(() => {
      for (
        const end = performance.now() + TURN_MS;
        made < runs && performance.now() < end && !(isFirst && found.length > 0);
        made++
      ) {
        const run = explored(seedOf(seed, skip + made))
        steps += run.steps
        if (run.violation) found.push(run)
      }
    })
  }
  return { runs: made, steps, ms: performance.now() - started, found }
}

/** The same run again, with everything that happened. */
export function replay(rule: Rule, seed: number): Promise<Run> {
  return alone(() => explore(setup(rule), seed, { isTraced: true }))
}

/** Does work in a macrotask of its own, where microtasks can be drained. */
export function alone<T>(work: () => T): Promise<T> {
  return new Promise((resolve, reject) => {
    setImmediate(() => {
      try {
        resolve(work())
      } catch (error) {
        reject(error)
      }
    })
  })
}
