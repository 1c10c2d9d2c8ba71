/** Many runs, as fast as they go. */
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

export type Campaign = { readonly runs: number; readonly ms: number; readonly found: readonly Run[] }

/** Between two looks at the event loop. */
const TURN_MS = 250

export async function campaign(rule: Rule, { seed, runs, skip = 0, isFirst = false }: Plan): Promise<Campaign> {
  const started = performance.now()
  const on = await alone(() => setup(rule))
  const found: Run[] = []
  let made = 0
  while (made < runs && !(isFirst && found.length > 0)) {
    await alone(() => {
      for (
        const end = performance.now() + TURN_MS;
        made < runs && performance.now() < end && !(isFirst && found.length > 0);
        made++
      ) {
        const run = explore(on, seedOf(seed, skip + made))
        if (run.violation) found.push(run)
      }
    })
  }
  return { runs: made, ms: performance.now() - started, found }
}

/** The same run again, with everything that happened. */
export function replay(rule: Rule, seed: number): Promise<Run> {
  return alone(() => explore(setup(rule), seed, { isTraced: true }))
}

/** Does work in a macrotask of its own, where microtasks can be drained. */
function alone<T>(work: () => T): Promise<T> {
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
