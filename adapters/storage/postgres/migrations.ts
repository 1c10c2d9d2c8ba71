import type { ClientBase } from 'pg'
import { DatabaseError, sanitized } from '../database_error.ts'
import { checkSteps, type Migration, minReaderOf, type TakenStep } from '../migration.ts'

/**
 * The migrations, in order. A released step is never edited; a later step follows it. schema.ts describes the result of
 * all of them, and a test compares the two.
 */
export const migrations: readonly Migration[] = [
  {
    name: 'baseline',
    sql: `
      CREATE TABLE calls (
        id text PRIMARY KEY,
        gateway text NOT NULL,
        endpoint text NOT NULL,
        model text,
        payer text NOT NULL,
        asset text NOT NULL,
        quote numeric(78,0) NOT NULL,
        "authorization" text NOT NULL,
        fingerprint text NOT NULL,
        created_at bigint NOT NULL,
        work_status text NOT NULL CHECK (work_status IN ('queued', 'in_progress', 'completed', 'failed')),
        payment_status text NOT NULL CHECK (payment_status IN ('verified', 'settling', 'settled', 'refused', 'unresolved')),
        worker_id text NOT NULL,
        lease_expires_at bigint NOT NULL,
        started_at bigint,
        ended_at bigint,
        settled_at bigint,
        expires_at bigint NOT NULL,
        claim_token bigint NOT NULL,
        claim_expires_at bigint,
        claim_key text,
        claim_fresh boolean NOT NULL,
        emptied boolean NOT NULL,
        usage text,
        paid numeric(78,0),
        offer text NOT NULL,
        error text,
        receipt text,
        request text,
        result text,
        CHECK ((payment_status = 'settled') = (receipt IS NOT NULL AND settled_at IS NOT NULL)),
        CHECK (payment_status <> 'settling' OR claim_expires_at IS NOT NULL)
      );
      CREATE INDEX calls_unfinished ON calls (lease_expires_at, id) WHERE work_status in ('queued', 'in_progress');
      CREATE INDEX calls_by_worker ON calls (worker_id, gateway, id) WHERE work_status in ('queued', 'in_progress');
      CREATE INDEX calls_settling ON calls (claim_expires_at, id) WHERE payment_status = 'settling';
      CREATE INDEX calls_spent ON calls (payer, settled_at) WHERE payment_status = 'settled';
      CREATE INDEX calls_expiring ON calls (expires_at, id) WHERE not emptied;

      CREATE TABLE authorizations (
        key text PRIMARY KEY,
        call text NOT NULL REFERENCES calls (id),
        payer text NOT NULL,
        position bigint NOT NULL,
        status text NOT NULL CHECK (status IN ('open', 'sent', 'dead', 'paid')),
        expires_at bigint NOT NULL,
        signed text
      );
      CREATE UNIQUE INDEX authorizations_of_call ON authorizations (call, position);
      CREATE INDEX authorizations_spendable ON authorizations (payer, expires_at) WHERE status in ('open', 'sent');

      CREATE TABLE records (
        kind text NOT NULL,
        id text NOT NULL,
        owner text NOT NULL,
        expires_at bigint NOT NULL,
        data text,
        PRIMARY KEY (kind, id)
      );
      CREATE INDEX records_expiring ON records (expires_at);
      CREATE INDEX records_by_owner ON records (owner, kind, expires_at);

      CREATE TABLE leases (name text PRIMARY KEY, worker_id text NOT NULL, expires_at bigint NOT NULL);

      CREATE TABLE rate_windows (key text PRIMARY KEY, used bigint NOT NULL, reset_at bigint NOT NULL);
      CREATE INDEX rate_windows_reset ON rate_windows (reset_at);
    `,
  },
  {
    name: 'ledger retention',
    suitsOlder: true,
    sql: 'CREATE INDEX calls_emptied ON calls (settled_at, id) WHERE emptied;',
  },
  {
    name: 'payments looked up',
    suitsOlder: true,
    sql: `
      ALTER TABLE calls
        ADD COLUMN quoted_at bigint,
        ADD COLUMN verified_at bigint,
        ADD COLUMN settling_at bigint,
        ADD COLUMN vendor_error text,
        ADD COLUMN payment_error text,
        ADD COLUMN payment_error_at bigint,
        ADD COLUMN settled_by text;
      CREATE INDEX calls_by_time ON calls (created_at, id);
      CREATE INDEX calls_of_payer ON calls (payer, created_at, id);
      CREATE INDEX calls_settled ON calls (settled_at, id) WHERE payment_status = 'settled';
      CREATE INDEX calls_by_transaction ON calls (substring(receipt from '"transaction":"[^"]*([^"]{16})"')) WHERE receipt IS NOT NULL;
      CREATE INDEX authorizations_by_nonce ON authorizations (right(key, 16));
    `,
  },
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

/**
 * Applies the steps of `wanted` that the database lacks, one transaction per step, while others use the database. Of
 * replicas that start together, one applies the steps and the others wait. Throws, and changes nothing, when the
 * database has taken steps that this binary neither knows nor suits.
 */
export async function migrate(client: ClientBase, wanted: readonly Migration[] = migrations): Promise<void> {
  const ask: Ask = async (text, values = []) => {
    const query = { text, values, query_timeout: MAX_MS }
    const { rows } = await client.query<Record<string, unknown>>(query).catch(fail)
    return rows
  }
  if (await isDone(ask, wanted)) return
  const [usual] = await ask("SELECT current_setting('statement_timeout') AS ms")
  await ask(`SET statement_timeout = ${MAX_MS}`)
  try {
    // Held by the session and asked for without waiting: an index that is built while others write waits for every
    // older snapshot, and a replica that waited for a lock would have one.
    while (!(await ask(`SELECT pg_try_advisory_lock(${LOCK}) AS mine`))[0]?.mine) await pause()
    try {
      while (!(await isDone(ask, wanted))) await next(ask, wanted)
    } finally {
      await ask(`SELECT pg_advisory_unlock(${LOCK})`)
    }
  } finally {
    await ask("SELECT set_config('statement_timeout', $1, false)", [usual?.ms])
  }
}

/** Whether a database that this binary can use has every step that it wants. */
async function isDone(ask: Ask, wanted: readonly Migration[]): Promise<boolean> {
  const taken = await readSteps(ask)
  checkSteps(DATABASE, taken, wanted)
  return taken.length >= wanted.length
}

const DATABASE = 'The Postgres database'

/** Why a process that knows `schema` must not use a database of this `minReader`; undefined when it may. */
export function readingProblem(minReader: number, schema: readonly Migration[]): string | undefined {
  if (minReader <= schema.length) return undefined
  return `${DATABASE} was upgraded by a newer Farebox, and this version cannot use it any more: update this replica.`
}

async function readSteps(ask: Ask): Promise<readonly TakenStep[]> {
  // Checked first: a role without CREATE can start once the table exists.
  const [found] = await ask(`SELECT to_regclass('migrations') AS at, EXISTS (
    SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass('migrations') AND attname = 'min_reader') AS known`)
  if (!found?.at) return []
  const minReader = found.known ? 'min_reader::int' : '1'
  return (await ask(`SELECT name, ${minReader} AS "minReader" FROM migrations ORDER BY step`)) as TakenStep[]
}

/** Takes one step; the lock is held. */
async function next(ask: Ask, wanted: readonly Migration[]): Promise<void> {
  const taken = await readSteps(ask)
  const step = wanted[taken.length]
  if (!step) return
  const record = () =>
    ask('INSERT INTO migrations (step, name, min_reader) VALUES ($1, $2, $3)', [
      taken.length + 1,
      step.name,
      minReaderOf(step, taken),
    ])
  if (step.index !== undefined) {
    await buildIndex(ask, step.index, step.sql)
    await record()
    return
  }
  await untilUnlocked(async () => {
    await ask(`BEGIN; SET LOCAL lock_timeout = ${LOCK_MS}`)
    try {
      const [table] = await ask("SELECT to_regclass('migrations') AS at")
      if (!table?.at) await ask(TABLE)
      // The first version of the table had no such column.
      if (table?.at) await ask('ALTER TABLE migrations ADD COLUMN IF NOT EXISTS min_reader bigint NOT NULL DEFAULT 1')
      await ask(step.sql)
      await record()
      await ask('COMMIT')
    } catch (error) {
      await ask('ROLLBACK').catch(() => undefined)
      throw error
    }
  })
}

/** Builds an index while others write. One that an interrupted attempt has left is not valid, and is dropped. */
async function buildIndex(ask: Ask, index: string, sql: string): Promise<void> {
  const [found] = await ask('SELECT indisvalid AS valid FROM pg_index WHERE indexrelid = to_regclass($1)', [index])
  if (found?.valid) return
  if (found) await ask(`DROP INDEX CONCURRENTLY ${index}`)
  await ask(sql)
}

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
