/** The part of `bun run fault` for a scene of weather. */
import type { SceneFigures } from './storm.ts'
import type { Task } from './tasks.ts'

export function heardBy(tasks: readonly Task[]): ReadonlyMap<string, number> {
  const heard = new Map<string, number>()
  for (const [what, count] of tasks.flatMap(({ answers }) => [...answers]))
    heard.set(what, (heard.get(what) ?? 0) + count)
  return heard
}

/** Output of the command for a scene. */
export function reportLines({
  name,
  seconds,
  counts,
  paid,
  given,
  capped,
  taken,
  alerts,
  heard,
  violations,
}: SceneFigures): readonly string[] {
  const { tasks, whole, part, refused, answers, transfers, partsUnpaid } = counts
  const kinds = new Map<string, number>()
  for (const { invariant } of violations) kinds.set(invariant, (kinds.get(invariant) ?? 0) + 1)
  const list = (entries: Iterable<readonly [string, number]>) => [...entries].map(([what, count]) => `${what} ${count}`)
  const broken = kinds.size > 0 ? ` (${list(kinds).join(', ')})` : ''
  const ends = `${tasks} tasks: ${whole} whole, ${part} paid in part, ${refused} refused`
  const gifts = `given away ${counts.given} worth ${given}; within the cap ${counts.capped} worth ${capped}; taken by payers ${counts.taken} worth ${taken}`
  return [
    `${seconds.toFixed(1).padStart(6)} s  ${name}`,
    ...[
      `${ends}; ${answers} answers, ${transfers} transfers of ${paid} micro-USDC`,
      `${gifts}; ${counts.inDoubt} of drained wallets in doubt; ${partsUnpaid} parts unpaid; ${alerts} alerts; ${violations.length} violations${broken}`,
      `heard: ${list([...heard].toSorted(([, one], [, other]) => other - one)).join(', ')}`,
      ...violations.slice(0, MAX_PRINTED).map(({ invariant, text }) => `VIOLATION ${invariant}: ${text.slice(0, 400)}`),
    ].map((line) => `          ${line}`),
  ]
}

const MAX_PRINTED = 8
