import { isBusy, isDamaged, type SqliteDriver } from './driver.ts'

/** Maximum steps that share one commit: bounds how long a commit blocks the event loop. */
const MAX_BATCH = 64
/** Maximum characters of results that share one commit: eight megabytes take 80 ms to write. */
const MAX_BATCH_CHARACTERS = 1 << 20
/** Attempts while another process has the lock: about five seconds with their pauses. */
const TRIES = 100

/** Commits that share one flush: bounds how long the first of them waits. */
const MAX_COMMITS = 4

type QueuedStep = {
  readonly step: () => unknown
  readonly weight: number
  readonly resolve: (value: never) => void
  readonly reject: (error: unknown) => void
}
type Committed = { readonly queued: QueuedStep; readonly answer: unknown }

/**
 * Runs each step inside a write transaction, together with those that arrive in the same turn of the event loop or
 * during the last flush, and resolves once it is on disk. A step may run more than once, so it must have no other
 * effects; one that throws fails alone.
 *
 * `flush` forces what has been committed onto the disk; absent where a commit does so itself. Once it fails, or SQLite
 * finds the file damaged, what the disk holds is unknown, so every later step and read is rejected with that error.
 */
export function writer(database: Pick<SqliteDriver, 'transaction'>, flush?: () => Promise<void>) {
  const state: Writing = { database, flush, waiting: [] }

  function requireUnbroken(): void {
    if (state.broken) throw state.broken.error
  }

  return {
    /** `weight` is about how many characters the step writes, where they are many. */
    write<T>(step: () => T, weight = 0): Promise<T> {
      return new Promise<T>((resolve, reject) => {
        state.waiting.push({ step, weight, resolve, reject })
        state.draining ??= drain(state)
      })
    },
    /**
     * Reads, and answers with what it found only when that is on disk: nobody is told of what a power loss could still
     * take back. What is absent needs no wait.
     */
    async read<T>(step: () => T): Promise<T> {
      requireUnbroken()
      const found = await retryWhileBusy(step).catch((error: unknown) => {
        if (isDamaged(error)) state.broken ??= { error }
        throw error
      })
      const isAbsent = found === undefined || (Array.isArray(found) && found.length === 0)
      if (!isAbsent) await state.unflushed?.promise
      if (!isAbsent) requireUnbroken()
      return found
    },
    /** The error after which nothing is written or read any more; undefined while all is well. */
    failure: (): unknown => state.broken?.error,
    /** Resolves when no step is waiting. */
    async settle(): Promise<void> {
      await state.draining
    },
  }
}

type Writing = {
  readonly database: Pick<SqliteDriver, 'transaction'>
  readonly flush: (() => Promise<void>) | undefined
  readonly waiting: QueuedStep[]
  draining?: Promise<void> | undefined
  /** Pending from a commit until it is on disk. */
  unflushed?: Deferred | undefined
  broken?: { readonly error: unknown }
}

async function commit(state: Writing, steps: readonly QueuedStep[]): Promise<readonly Committed[]> {
  try {
    const answers = await retryWhileBusy(() => {
      const made = state.database.transaction(() => steps.map((queued) => queued.step()))
      if (state.flush) state.unflushed ??= deferred()
      return made
    })
    return steps.map((queued, at) => ({ queued, answer: answers[at] }))
  } catch (error) {
    if (steps.length === 1 || isBusy(error) || isDamaged(error)) {
      for (const queued of steps) queued.reject(error)
      if (isDamaged(error)) throw error
      return []
    }
    const alone: Committed[] = []
    for (const queued of steps) alone.push(...(await commit(state, [queued])))
    return alone
  }
}

/** Takes the steps of the next commit: at least one, however heavy. Light steps overtake those that do not fit. */
function next(waiting: QueuedStep[]): readonly QueuedStep[] {
  let weight = 0
  const taken: QueuedStep[] = []
  const left: QueuedStep[] = []
  for (const queued of waiting) {
    const isTaken =
      taken.length < MAX_BATCH &&
      (weight === 0 || queued.weight === 0 || weight + queued.weight <= MAX_BATCH_CHARACTERS)
    if (isTaken) weight += queued.weight
    ;(isTaken ? taken : left).push(queued)
  }
  waiting.splice(0, waiting.length, ...left)
  return taken
}

/** One round: a few commits, a turn of the event loop before each, then one flush for all of them. */
async function commitWaiting(state: Writing): Promise<void> {
  const { waiting, flush } = state
  const committed: Committed[] = []
  try {
    for (let commits = 0; commits < MAX_COMMITS && waiting.length > 0; commits++) {
      await new Promise((turn) => setImmediate(turn))
      if (state.broken) throw state.broken.error
      committed.push(...(await commit(state, next(waiting))))
    }
    if (committed.length > 0) await flush?.()
    for (const { queued, answer } of committed) queued.resolve(answer as never)
  } catch (error) {
    state.broken = { error }
    for (const { reject } of [...committed.map(({ queued }) => queued), ...waiting.splice(0)]) reject(error)
  } finally {
    state.unflushed?.resolve()
    state.unflushed = undefined
  }
}

async function drain(state: Writing): Promise<void> {
  while (state.waiting.length > 0) await commitWaiting(state)
  state.draining = undefined
}

/** Retries, without blocking, while another process has the lock. */
export async function retryWhileBusy<T>(step: () => T): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return step()
    } catch (error) {
      if (tries === TRIES || !isBusy(error)) throw error
      await new Promise((turn) => setTimeout(turn, Math.min(tries, 50)))
    }
  }
}

type Deferred = { readonly promise: Promise<void>; resolve(): void; reject(error: unknown): void }

/** Promise.withResolvers, which Node 20 does not have. */
function deferred(): Deferred {
  let [resolve, reject]: [() => void, (error: unknown) => void] = [() => {}, () => {}]
  const promise = new Promise<void>((resolved, rejected) => {
    resolve = resolved
    reject = rejected
  })
  return { promise, resolve, reject }
}
