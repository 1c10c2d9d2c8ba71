/** Timers: say that this process is alive, fail what others lost, find out about money in doubt, forget what is past its life. */
import type { Clock, Gateway, Log, Storage } from '../core/mod.ts'

export type SweepOptions = {
  readonly gateways: readonly Gateway[]
  readonly storage: Storage
  readonly clock: Clock
  readonly log: Log
  readonly workerId: string
  /** Milliseconds between two rounds; a third of the work lease at most. */
  readonly everyMs?: number
}

const PRUNE_EVERY_MS = 3_600_000

/** Starts sweeping; `stop` resolves when the round under way has ended. A failed round is logged, and the next one is tried. */
export function sweep({ gateways, storage, clock, log, workerId, everyMs = 5_000 }: SweepOptions): {
  stop(): Promise<void>
} {
  const stopped = new AbortController()
  let prunedAt = 0

  async function prune(): Promise<void> {
    const now = clock.now()
    if (now - prunedAt < PRUNE_EVERY_MS) return
    prunedAt = now
    if (await storage.lease('prune', workerId, { now, until: now + 60_000 })) await storage.prune(now)
  }

  async function renew(): Promise<void> {
    for (const gateway of gateways) await gateway.renew()
  }

  /** A person is told of the first failure in a row: those that follow say nothing new. */
  async function repeat(step: () => Promise<void>): Promise<void> {
    let failures = 0
    while (!stopped.signal.aborted) {
      try {
        await step()
        failures = 0
      } catch (error) {
        const tell = failures++ === 0 ? log.alert : log.warn
        tell('a sweep failed', { error: (error as Error).message, failures })
      }
      await clock.wait(everyMs, stopped.signal)
    }
  }

  /** A loop of its own for each: a slow chain keeps neither this process from saying that it is alive, nor other gateways from their money. */
  const running = Promise.all([
    repeat(renew),
    repeat(prune),
    ...gateways.map((gateway) => repeat(() => gateway.maintain())),
  ])

  return {
    async stop() {
      stopped.abort()
      await running
    },
  }
}
