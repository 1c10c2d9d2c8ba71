import type { ClientBase } from 'pg'
import { DatabaseError, sanitized } from '../database_error.ts'
import { BASELINE, checkSteps, countedSteps, type Migration, minReaderOf, type TakenStep } from '../migration.ts'
import { baseline } from './baseline.ts'
import { BUYERS } from './buyers.ts'
import { ARCHIVED_DATES, DUE, FAILED_CALLS, LOOKUPS, SETTLED } from './lookups.ts'

/** A row for each wallet and asset, which a step locks while it sums what the wallet has open. */
const PAYERS = `
  CREATE TABLE payers (payer text NOT NULL, asset text NOT NULL, PRIMARY KEY (payer, asset));`

/**
 * Ends a step that writes. Raises 40001 if what the step was decided on no longer holds, so that it is decided again,
 * and FB001 if the schema takes a Farebox that knows more migrations than `known`.
 */
const CHECK_STEP = `
  CREATE FUNCTION check_step(known bigint, holds boolean) RETURNS boolean LANGUAGE plpgsql AS $$
  BEGIN
    IF NOT holds THEN
      RAISE EXCEPTION 'decided on rows that have changed' USING ERRCODE = '40001';
    END IF;
    IF (SELECT max(min_reader) FROM migrations) > known THEN
      RAISE EXCEPTION 'the schema takes a newer version' USING ERRCODE = 'FB001';
    END IF;
    RETURN true;
  END $$;`

/** Rows that are settled keep the free space of their page for ever: at 50, a call of a long ledger took 2.5 KB. */
const DENSER = 'ALTER TABLE calls SET (fillfactor = 75)'

/**
 * The migrations, in order. A released step is never edited; a later step follows it, with an upgrade test from the
 * last release (test/adapters/storage/releases.ts). sql/schema.ts describes the result of all of them.
 */
export const migrations: readonly Migration[] = [
  { name: BASELINE, sql: baseline },
  { name: 'payers and checked steps', suitsOlder: true, sql: PAYERS + CHECK_STEP },
  { name: 'lookups apart from calls', suitsOlder: true, sql: LOOKUPS },
  { name: 'settled calls of the past', suitsOlder: true, sql: SETTLED },
  { name: 'calls by when they are due', suitsOlder: true, index: 'calls_due', sql: DUE },
  { name: 'buyers by day', suitsOlder: true, sql: BUYERS },
  { name: 'denser pages of calls', suitsOlder: true, sql: DENSER },
  { name: 'failed calls spend nothing', suitsOlder: true, sql: FAILED_CALLS },
  { name: 'the archive keeps its dates', suitsOlder: true, sql: ARCHIVED_DATES },
]

/** The steps of the last development version before the first release, which made what the baseline makes. */
const EARLIER = [
  'baseline',
  'ledger retention',
  'payments looked up',
  'spend totals',
  'spend totals of the past',
  'spend totals of zero are deleted',
  'call totals',
  'call totals of the past',
  'spend totals by day',
  'payments in doubt',
  'records listed by id',
  'records no longer listed by their end',
]

/** The key of the advisory lock that a replica holds while it migrates: "farebox" in ASCII. */
export const LOCK = '28817591579602808'

/** Milliseconds a migration may take. The statement timeout of requests does not apply to it. */
const MAX_MS = 3_600_000
/**
 * How long a statement that locks a table waits for it, in milliseconds: while it waits, everybody else who wants the
 * table waits behind it. Then it steps back and tries again.
 */
const LOCK_MS = 2_000
const PAUSE_MS = 50
/** Ten minutes: whoever keeps a table locked for longer is somebody for the operator to look at. */
const MAX_TRIES = 300

const TABLE =
  'CREATE TABLE migrations (step bigint PRIMARY KEY, name text NOT NULL, min_reader bigint NOT NULL DEFAULT 1)'

/** Sends one statement of a migration. Rejects with a DatabaseError. */
type Ask = (text: string, values?: unknown[]) => Promise<Record<string, unknown>[]>

/** `isPooled`: each transaction may have another session, so that nothing outlives one. */
type Through = { readonly isPooled?: boolean }

/**
 * Applies the steps of `wanted` that the database lacks, one transaction per step, while others use the database. Of
 * replicas that start together, one applies the steps and the others wait. Throws, and changes nothing, when the
 * database has taken steps that this binary neither knows nor suits.
 */
export async function migrate(
  client: ClientBase,
  wanted: readonly Migration[] = migrations,
  through: Through = {},
): Promise<void> {
  const ask: Ask = async (text, values = []) => {
    const query = { text, values, query_timeout: MAX_MS }
    const { rows } = await client.query<Record<string, unknown>>(query).catch(fail)
    return rows
  }
  while (!(await isDone(ask, wanted))) {
    const { steps, isEarlier } = await readSteps(ask)
    const step = isEarlier ? undefined : wanted[steps.length]
    if (await isQuick(ask, step)) await untilUnlocked(() => next(ask, wanted))
    else if (through.isPooled) throw new DatabaseError('failed', '', needsSession(step?.name ?? ''))
    else await nextIndex(ask, wanted)
  }
}

const needsSession = (name: string) =>
  `The migration "${name}" builds an index, which a pooler in transaction mode does not allow: start this version once ` +
  'with the URL of the database itself, without pooler=transaction.'

/** Whether a database that this binary can use has every step that it wants. */
async function isDone(ask: Ask, wanted: readonly Migration[]): Promise<boolean> {
  const { steps, isEarlier } = await readSteps(ask)
  checkSteps(DATABASE, steps, wanted)
  return !isEarlier && steps.length >= wanted.length
}

const DATABASE = 'The Postgres database'

/** Why a process that knows `schema` must not use a database of this `minReader`; undefined when it may. */
export function readingProblem(minReader: number, schema: readonly Migration[]): string | undefined {
  if (minReader <= schema.length) return undefined
  return `${DATABASE} was upgraded by a newer Farebox, and this version cannot use it any more: update this replica.`
}

async function readSteps(ask: Ask): Promise<ReturnType<typeof countedSteps>> {
  // Checked first: a role without CREATE can start once the table exists.
  const stored = (await hasTable(ask)) ? await ask('SELECT * FROM migrations ORDER BY step') : []
  const taken = stored.map(({ name, min_reader: reader }) => ({ name: String(name), minReader: Number(reader ?? 1) }))
  return countedSteps(DATABASE, taken, EARLIER)
}

/**
 * Asks the catalog: `to_regclass` may answer as of the start of the transaction, before the lock, and would not find
 * the table that another replica has made since.
 */
async function hasTable(ask: Ask): Promise<boolean> {
  const found = await ask(
    "SELECT oid FROM pg_catalog.pg_class WHERE relname = 'migrations' AND pg_catalog.pg_table_is_visible(oid)",
  )
  return found.length > 0
}

/** Takes one step, if no other replica is migrating. */
async function next(ask: Ask, wanted: readonly Migration[]): Promise<void> {
  await ask(`BEGIN; SET LOCAL lock_timeout = ${LOCK_MS}; SET LOCAL statement_timeout = ${MAX_MS}`)
  try {
    // Without waiting: an index that is built while others write waits for every older snapshot, and a replica that
    // waited for a lock would have one.
    const [lock] = await ask(`SELECT pg_try_advisory_xact_lock(${LOCK}) AS mine`)
    const isTaken = lock?.mine === true && (await take(ask, wanted))
    await ask(isTaken ? 'COMMIT' : 'ROLLBACK')
    if (!lock?.mine) await pause()
  } catch (error) {
    await ask('ROLLBACK').catch(() => undefined)
    throw error
  }
}

/** In a transaction that has the lock. False, and nothing is changed, where the next step takes long. */
async function take(ask: Ask, wanted: readonly Migration[]): Promise<boolean> {
  const { steps: taken, isEarlier } = await readSteps(ask)
  if (isEarlier) {
    await ask(`DELETE FROM migrations; INSERT INTO migrations (step, name) VALUES (1, '${BASELINE}')`)
    return true
  }
  const step = wanted[taken.length]
  if (!step || !(await isQuick(ask, step))) return false
  if (!(await hasTable(ask))) await ask(TABLE)
  await ask(step.index === undefined ? step.sql : atOnce(step.index, step.sql))
  await record(ask, step, taken)
  return true
}

async function record(ask: Ask, step: Migration, taken: readonly TakenStep[]): Promise<void> {
  const values = [taken.length + 1, step.name, minReaderOf(step, taken)]
  await ask('INSERT INTO migrations (step, name, min_reader) VALUES ($1, $2, $3)', values)
}

/** Takes one step that builds an index, which no transaction may do: the session holds the lock. */
async function nextIndex(ask: Ask, wanted: readonly Migration[]): Promise<void> {
  const [usual] = await ask("SELECT current_setting('statement_timeout') AS ms")
  await ask(`SET statement_timeout = ${MAX_MS}`)
  try {
    while (!(await ask(`SELECT pg_try_advisory_lock(${LOCK}) AS mine`))[0]?.mine) await pause()
    try {
      const { steps: taken } = await readSteps(ask)
      const step = wanted[taken.length]
      if (step?.index === undefined) return
      await buildIndex(ask, step.index, step.sql)
      await record(ask, step, taken)
    } finally {
      await ask(`SELECT pg_advisory_unlock(${LOCK})`)
    }
  } finally {
    await ask("SELECT set_config('statement_timeout', $1, false)", [usual?.ms])
  }
}

/** Builds an index while others write. One that an interrupted attempt has left is not valid, and is dropped. */
async function buildIndex(ask: Ask, index: string, sql: string): Promise<void> {
  const [found] = await ask('SELECT indisvalid AS valid FROM pg_index WHERE indexrelid = to_regclass($1)', [index])
  if (found?.valid) return
  if (found) await ask(`DROP INDEX CONCURRENTLY ${index}`)
  await ask(sql)
}

/**
 * False of an index of a table that is not small, which is built while others write. In a small one it is built in the
 * transaction of its step: no lock of a session then stays behind in a pooler that nobody has told of.
 */
async function isQuick(ask: Ask, step: Migration | undefined): Promise<boolean> {
  if (step?.index === undefined) return true
  const [found] = await ask('SELECT pg_table_size(to_regclass($1)) AS bytes', [/ ON (\w+)/.exec(step.sql)?.[1]])
  return Number(found?.bytes ?? 0) <= SMALL_BYTES
}

/** Indexed in less than a tenth of a second. */
const SMALL_BYTES = 4_000_000

const atOnce = (index: string, sql: string) => `DROP INDEX IF EXISTS ${index}; ${sql.replace(' CONCURRENTLY', '')}`

async function untilUnlocked(step: () => Promise<void>): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await step()
    } catch (error) {
      const isLocked = error instanceof DatabaseError && error.code === LOCK_NOT_AVAILABLE
      if (!isLocked || tries === MAX_TRIES) throw error
      await pause()
    }
  }
}

const LOCK_NOT_AVAILABLE = '55P03'

function pause(): Promise<void> {
  return new Promise((turn) => setTimeout(turn, PAUSE_MS))
}

function fail(error: unknown): never {
  throw sanitized(error)
}
