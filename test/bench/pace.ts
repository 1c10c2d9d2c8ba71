/** How much each part of the bench does, so that a busy machine leaves none of them out. */

export type Pace = {
  /** Fewer and shorter rounds. */
  readonly isQuick: boolean
  /** Whether its time is over. No further round begins then; the first is always played. */
  isOver(): boolean
  /** After so much it is given up. */
  readonly limitMs: number
}

/** A part that was named has all its time. */
export const unhurried = (isQuick: boolean, limitMs: number): Pace => ({ isQuick, limitMs, isOver: () => false })

/** A part that is late may take so many times its share before it is given up. */
const MAX_SHARES = 1.5
const SPUN_MS = 100

/**
 * The share of the first of `seconds`, which all parts that are left take on a machine that does nothing else.
 * `slowness` says how many times longer this one takes.
 */
export function paceOf(
  seconds: readonly number[],
  { leftMs, slowness, now = () => performance.now() }: { leftMs: number; slowness: number; now?: () => number },
): Pace {
  const whole = seconds.reduce((sum, each) => sum + each, 0)
  const isQuick = whole * 1_000 * slowness > leftMs
  const shareMs = isQuick ? (leftMs * (seconds[0] ?? 0)) / whole : leftMs
  const until = now() + shareMs
  return { isQuick, limitMs: Math.min(leftMs, shareMs * MAX_SHARES), isOver: () => now() >= until }
}

/** Time on the wall for time of the CPU: 1 where nobody else works. */
export function slownessNow(): number {
  const [startedAt, before] = [performance.now(), process.cpuUsage()]
  const spentMs = () => {
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1_000
  }
  while (spentMs() < SPUN_MS);
  return Math.max(1, (performance.now() - startedAt) / spentMs())
}
