/**
 * How a process stops: it first says so and serves on (the lame-duck phase), then accepts nothing new, finishes its
 * work, and ends the streams that are left.
 */
import type { Clock, Gateway, Log } from '../core/mod.ts'

export const DRAIN_PHASES = ['serving', 'lame_duck', 'draining', 'settling'] as const
export type DrainPhase = (typeof DRAIN_PHASES)[number]

export type Draining = {
  readonly gateways: readonly Pick<Gateway, 'leaveRotation' | 'drain'>[]
  readonly clock: Clock
  readonly log: Log
  /** How long requests are still accepted while `/readyz` answers 503, so that load balancers take notice. */
  readonly graceMs: number
  /** How long work in progress may take after that. */
  readonly drainMs: number
  /** Stops accepting connections, and closes those that are idle. */
  stopAccepting(): Promise<void>
  /** Resolves when every open request has its response. */
  answered(): Promise<void>
  /** Waits at most `ms` for background work, streams among it. Resolves with the number of unfinished pieces. */
  finishWork(ms: number): Promise<number>
  onPhase?(phase: DrainPhase): void
}

/** How long finished responses may take to be sent, and how often idleness is checked. */
const CLOSE_TIMEOUT_MS = 1_000
/** How long the settlements of streams that were ended may take: some blocks of the chain. */
export const SETTLE_MS = 8_000
/**
 * Idle seconds before a drain stops waiting for open requests. Work starts after verification, which takes less; one
 * that hangs is cut off, uncharged. Docker kills after 10 s.
 */
const IDLE_CHECKS = 6

/** Resolves when nothing is left to do, or when its time is up. Connections that are still open may be closed then. */
export async function drainProcess(options: Draining): Promise<void> {
  const { gateways, clock, log, graceMs, drainMs, stopAccepting, answered, finishWork, onPhase = () => {} } = options
  onPhase('lame_duck')
  for (const gateway of gateways) gateway.leaveRotation()
  if (graceMs > 0) await clock.wait(graceMs)
  onPhase('draining')
  const closed = stopAccepting()
  const deadline = clock.now() + drainMs
  await Promise.race([answered(), noWorkStarted(options), clock.wait(drainMs)])
  let left = await finishWork(Math.max(0, deadline - clock.now()))
  if (left > 0) {
    onPhase('settling')
    const ended = gateways.reduce((sum, gateway) => sum + gateway.drain(), 0)
    // Streams were served until now. Jobs had their time: another process, or their buyer, starts them again.
    left = await finishWork(ended > 0 ? SETTLE_MS : 0)
  }
  if (left > 0) log.warn('drain timed out: unfinished calls failed and were not charged', { left })
  // Lets responses leave, without waiting for connections that never finish their request.
  await Promise.race([closed, clock.wait(CLOSE_TIMEOUT_MS)])
}

/** Resolves when no work has run for a while: the requests still open then have not been read completely. */
async function noWorkStarted({ clock, finishWork }: Draining): Promise<void> {
  let idle = 0
  while (idle < IDLE_CHECKS) {
    await clock.wait(CLOSE_TIMEOUT_MS)
    idle = (await finishWork(0)) === 0 ? idle + 1 : 0
  }
}
