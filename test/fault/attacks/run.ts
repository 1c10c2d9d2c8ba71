/**
 * Attacks a gateway as a person would: `bun run attacks [WORD...]`, each on a process with a chain of its own. Prints
 * what was tried, held and lost; the exit code is 1 when something was lost or could not be tried. Words choose attacks
 * by family or name. `FAREBOX_TREE=DIR` attacks the program of another checkout (test/scope.ts).
 * `--replicas N` attacks as many behind a balancer, with one Postgres, and with `--pooler` behind PgBouncer in
 * transaction mode; attacks on the files of SQLite are then left out.
 */
import { parseArgs } from 'node:util'
import type { Attack, Outcome } from './attack.ts'
import { attacks as flooding } from './claims.ts'
import { attacks as closing } from './closing.ts'
import { attacks as deleting } from './deletion.ts'
import { attacks as draining } from './drain.ts'
import { attacks as hanging } from './hang.ts'
import { attacks as impersonating } from './impersonate.ts'
import { attacks as takingByKey } from './keys.ts'
import { attacks as chargingByMpp } from './mpp.ts'
import { attacks as reading } from './read.ts'
import { attacks as recovering } from './recovery.ts'
import { attacks as repeating } from './repeats.ts'
import { attacks as stalling } from './overload.ts'
import { attacks as taking } from './take.ts'
import { type Fleet, fleet } from './ledgers.ts'
import { startTarget } from './target.ts'

export const ATTACKS: readonly Attack[] = [
  ...reading,
  ...taking,
  ...draining,
  ...stalling,
  ...hanging,
  ...impersonating,
  ...flooding,
  ...deleting,
  ...takingByKey,
  ...chargingByMpp,
  ...closing,
  ...recovering,
  ...repeating,
]
/** An attack that takes longer was not refused, and is lost. */
const LIMIT_MS = 90_000

type Row = Outcome & Pick<Attack, 'family' | 'name'> & { readonly seconds: number }

export const lostIn = ({ tried, refused }: Outcome): number => tried - refused

/** One attack on a gateway of its own. */
export async function attempt({ family, name, at, run }: Attack, replicas?: Fleet): Promise<Row> {
  const startedAt = performance.now()
  const target = await startTarget(at, replicas)
  const limit = Promise.withResolvers<Outcome>()
  const timer = setTimeout(() => limit.resolve({ tried: 1, refused: 0, note: 'no end within 90 seconds' }), LIMIT_MS)
  try {
    const outcome = await Promise.race([run(target), limit.promise])
    return { family, name, ...outcome, seconds: (performance.now() - startedAt) / 1000 }
  } catch (error) {
    throw new Error(`${family}: ${name}: ${error}\n${target.process.printed().slice(-2_000)}`, { cause: error })
  } finally {
    clearTimeout(timer)
    await target.stop()
  }
}

/** An attack that ended in an error has shown nothing. */
const failed = ({ family, name }: Attack, { message }: Error): Row => ({
  family,
  name,
  tried: 0,
  refused: 0,
  note: `not tried: ${message.split('\n')[0]}`,
  seconds: 0,
})

function print({ family, name, tried, refused, note, seconds }: Row): void {
  const figures = [tried, refused, tried - refused].map((count) => String(count).padStart(6)).join('')
  console.log(`${family.padEnd(12)}${figures}${seconds.toFixed(1).padStart(7)} s  ${name}\n${' '.repeat(39)}${note}`)
}

if (import.meta.main) {
  const { positionals: words, values } = parseArgs({
    options: { replicas: { type: 'string' }, pooler: { type: 'boolean' } },
    allowPositionals: true,
  })
  const { replicas: size, pooler: isPooled = false } = values
  const replicas = size === undefined ? undefined : await fleet(Number(size), { isPooled })
  const chosen = ATTACKS.filter(
    ({ family, name }) =>
      words.every((word) => `${family}: ${name}`.includes(word)) && !(replicas && family === 'deletion'),
  )
  console.log(
    `${'family'.padEnd(12)}${['tried', 'held', 'lost'].map((head) => head.padStart(6)).join('')}${'time'.padStart(9)}  attack`,
  )
  const rows: Row[] = []
  for (const attack of chosen) {
    const row = await attempt(attack, replicas).catch((error: Error) => failed(attack, error))
    print(row)
    rows.push(row)
  }
  const lost = rows.filter((row) => lostIn(row) > 0).length
  await replicas?.stop()
  const untried = rows.filter((row) => row.tried === 0).length
  console.log(`${rows.length} attacks, ${rows.length - lost - untried} held, ${lost} lost, ${untried} not tried`)
  process.exit(lost + untried > 0 || rows.length === 0 ? 1 : 0)
}
