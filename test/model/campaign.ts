/** Many runs, as fast as they go. */
import { seedOf } from './chance.ts'
import { explore, type Run } from './explore.ts'
import { type Rule, stage } from './stage.ts'

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
  const on = await quickly(() => stage(rule))
  const found: Run[] = []
  let made = 0
  while (made < runs && !(isFirst && found.length > 0)) {
    await quickly(() => {
      for (const end = performance.now() + TURN_MS; made < runs && performance.now() < end && !(isFirst && found.length > 0); made++) {
        const run = explore(on, seedOf(seed, skip + made))
        if (run.violation) found.push(run)
      }
    })
  }
  return { runs: made, ms: performance.now() - started, found }
}

/** The same run again, with everything that happened. */
export function replay(rule: Rule, seed: number): Promise<Run> {
  return quickly(() => explore(stage(rule), seed, { isTraced: true }))
}

/**
 * Does work in a macrotask of its own, where microtasks can be drained, and lends it a faster `structuredClone`: half the time of a
 * run would be copying what the storage holds.
 */
function quickly<T>(work: () => T): Promise<T> {
  return new Promise((resolve, reject) => {
    setImmediate(() => {
      const { structuredClone } = globalThis
      try {
        globalThis.structuredClone = plainCopy as typeof structuredClone
        resolve(work())
      } catch (error) {
        reject(error)
      } finally {
        globalThis.structuredClone = structuredClone
      }
    })
  })
}

/** A deep copy of plain data. */
export function plainCopy<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(plainCopy) as T
  if (Object.getPrototypeOf(value) !== Object.prototype) throw new TypeError('this is not plain data')
  const copy: Record<string, unknown> = {}
  for (const key in value) copy[key] = plainCopy(value[key])
  return copy as T
}

