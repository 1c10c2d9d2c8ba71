import type { ClientBase } from 'pg'
import { DatabaseError, sanitized } from '../database_error.ts'
import { checkSteps, type Migration, minReaderOf, type TakenStep } from '../migration.ts'
import { callTotalsSteps } from './call_totals.ts'

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
  {
    // Kept by triggers, so that replicas which do not know the sums keep them too.
    name: 'spend totals',
    suitsOlder: true,
    sql: `
      CREATE TABLE spend_totals (
        payer text NOT NULL,
        day bigint NOT NULL,
        gateway text NOT NULL,
        endpoint text NOT NULL,
        model text NOT NULL,
        asset text NOT NULL,
        part bigint NOT NULL,
        calls bigint NOT NULL,
        billions numeric(78,0) NOT NULL,
        rest numeric(78,0) NOT NULL,
        input_tokens bigint NOT NULL,
        output_tokens bigint NOT NULL,
        last_at bigint NOT NULL,
        PRIMARY KEY (payer, day, gateway, endpoint, model, asset, part)
      );
      CREATE FUNCTION count_settled() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        INSERT INTO spend_totals AS kept VALUES (
          NEW.payer, NEW.settled_at / 86400000, NEW.gateway, NEW.endpoint, coalesce(':' || NEW.model, ''), NEW.asset, 1, 1,
          div(coalesce(NEW.paid, NEW.quote), 1000000000), mod(coalesce(NEW.paid, NEW.quote), 1000000000),
          coalesce((NEW.usage::json ->> 'input')::numeric, 0)::bigint,
          coalesce((NEW.usage::json ->> 'output')::numeric, 0)::bigint, NEW.settled_at
        ) ON CONFLICT (payer, day, gateway, endpoint, model, asset, part) DO UPDATE SET
          calls = kept.calls + 1, billions = kept.billions + excluded.billions, rest = kept.rest + excluded.rest,
          input_tokens = kept.input_tokens + excluded.input_tokens,
          output_tokens = kept.output_tokens + excluded.output_tokens,
          last_at = greatest(kept.last_at, excluded.last_at);
        RETURN NULL;
      END $$;
      CREATE FUNCTION count_usage() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        UPDATE spend_totals SET
          input_tokens = input_tokens + coalesce((NEW.usage::json ->> 'input')::numeric, 0)::bigint - coalesce((OLD.usage::json ->> 'input')::numeric, 0)::bigint,
          output_tokens = output_tokens + coalesce((NEW.usage::json ->> 'output')::numeric, 0)::bigint - coalesce((OLD.usage::json ->> 'output')::numeric, 0)::bigint
        WHERE payer = NEW.payer AND day = NEW.settled_at / 86400000 AND gateway = NEW.gateway AND endpoint = NEW.endpoint AND model = coalesce(':' || NEW.model, '') AND asset = NEW.asset AND part = 1;
        RETURN NULL;
      END $$;
      CREATE FUNCTION uncount_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        INSERT INTO spend_totals AS kept VALUES (
          OLD.payer, OLD.settled_at / 86400000, OLD.gateway, OLD.endpoint, coalesce(':' || OLD.model, ''), OLD.asset, 1, -1,
          -div(coalesce(OLD.paid, OLD.quote), 1000000000), -mod(coalesce(OLD.paid, OLD.quote), 1000000000),
          -coalesce((OLD.usage::json ->> 'input')::numeric, 0)::bigint, -coalesce((OLD.usage::json ->> 'output')::numeric, 0)::bigint, 0
        ) ON CONFLICT (payer, day, gateway, endpoint, model, asset, part) DO UPDATE SET
          calls = kept.calls - 1, billions = kept.billions + excluded.billions, rest = kept.rest + excluded.rest,
          input_tokens = kept.input_tokens + excluded.input_tokens,
          output_tokens = kept.output_tokens + excluded.output_tokens;
        UPDATE spend_totals AS kept SET last_at = coalesce((
          SELECT max(settled_at) FROM calls WHERE payer = OLD.payer AND payment_status = 'settled'
            AND settled_at BETWEEN kept.day * 86400000 AND kept.day * 86400000 + 86399999 AND gateway = OLD.gateway
            AND endpoint = OLD.endpoint AND model IS NOT DISTINCT FROM OLD.model AND asset = OLD.asset
        ), 0)
        WHERE payer = OLD.payer AND day = OLD.settled_at / 86400000 AND gateway = OLD.gateway AND endpoint = OLD.endpoint
          AND model = coalesce(':' || OLD.model, '') AND asset = OLD.asset AND last_at <= OLD.settled_at;
        RETURN NULL;
      END $$;
      CREATE TRIGGER calls_count_settled AFTER UPDATE OF payment_status ON calls FOR EACH ROW
        WHEN (NEW.payment_status = 'settled' AND OLD.payment_status <> 'settled') EXECUTE FUNCTION count_settled();
      CREATE TRIGGER calls_count_usage AFTER UPDATE OF usage ON calls FOR EACH ROW
        WHEN (NEW.payment_status = 'settled' AND OLD.payment_status = 'settled' AND NEW.usage IS DISTINCT FROM OLD.usage)
        EXECUTE FUNCTION count_usage();
      CREATE TRIGGER calls_uncount_deleted AFTER DELETE ON calls FOR EACH ROW
        WHEN (OLD.payment_status = 'settled') EXECUTE FUNCTION uncount_deleted();
    `,
  },
  {
    // One statement, so one snapshot: everything that is settled, without what the triggers have counted so far. It
    // locks nothing that a sale writes.
    name: 'spend totals of the past',
    sql: `
      INSERT INTO spend_totals
        SELECT payer, day, gateway, endpoint, model, asset, 0, sum(calls), sum(billions), sum(rest), sum(input_tokens),
          sum(output_tokens), max(last_at)
        FROM (
          SELECT payer, settled_at / 86400000 AS day, gateway, endpoint, coalesce(':' || model, '') AS model, asset,
            1 AS calls, div(coalesce(paid, quote), 1000000000) AS billions,
            mod(coalesce(paid, quote), 1000000000) AS rest, coalesce((usage::json ->> 'input')::numeric, 0)::bigint AS input_tokens,
            coalesce((usage::json ->> 'output')::numeric, 0)::bigint AS output_tokens, settled_at AS last_at
          FROM calls WHERE payment_status = 'settled'
          UNION ALL
          SELECT payer, day, gateway, endpoint, model, asset, -calls, -billions, -rest, -input_tokens, -output_tokens, 0
          FROM spend_totals WHERE part = 1
        ) AS parts
        GROUP BY 1, 2, 3, 4, 5, 6 HAVING sum(calls) <> 0;
    `,
    suitsOlder: true,
  },
  {
    // The update of part 1 holds its lock, so no other deletion of these sums is between the sum and the deletion.
    name: 'spend totals of zero are deleted',
    suitsOlder: true,
    sql: `
      CREATE OR REPLACE FUNCTION uncount_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        INSERT INTO spend_totals AS kept VALUES (
          OLD.payer, OLD.settled_at / 86400000, OLD.gateway, OLD.endpoint, coalesce(':' || OLD.model, ''), OLD.asset, 1, -1,
          -div(coalesce(OLD.paid, OLD.quote), 1000000000), -mod(coalesce(OLD.paid, OLD.quote), 1000000000),
          -coalesce((OLD.usage::json ->> 'input')::numeric, 0)::bigint, -coalesce((OLD.usage::json ->> 'output')::numeric, 0)::bigint, 0
        ) ON CONFLICT (payer, day, gateway, endpoint, model, asset, part) DO UPDATE SET
          calls = kept.calls - 1, billions = kept.billions + excluded.billions, rest = kept.rest + excluded.rest,
          input_tokens = kept.input_tokens + excluded.input_tokens,
          output_tokens = kept.output_tokens + excluded.output_tokens;
        UPDATE spend_totals AS kept SET last_at = coalesce((
          SELECT max(settled_at) FROM calls WHERE payer = OLD.payer AND payment_status = 'settled'
            AND settled_at BETWEEN kept.day * 86400000 AND kept.day * 86400000 + 86399999 AND gateway = OLD.gateway
            AND endpoint = OLD.endpoint AND model IS NOT DISTINCT FROM OLD.model AND asset = OLD.asset
        ), 0)
        WHERE payer = OLD.payer AND day = OLD.settled_at / 86400000 AND gateway = OLD.gateway AND endpoint = OLD.endpoint
          AND model = coalesce(':' || OLD.model, '') AND asset = OLD.asset AND last_at <= OLD.settled_at;
        DELETE FROM spend_totals WHERE payer = OLD.payer AND day = OLD.settled_at / 86400000 AND gateway = OLD.gateway AND endpoint = OLD.endpoint
          AND model = coalesce(':' || OLD.model, '') AND asset = OLD.asset AND part IN (0, 1)
          AND (SELECT sum(calls) FROM spend_totals WHERE payer = OLD.payer AND day = OLD.settled_at / 86400000 AND gateway = OLD.gateway AND endpoint = OLD.endpoint
          AND model = coalesce(':' || OLD.model, '') AND asset = OLD.asset AND part IN (0, 1)) = 0;
        RETURN NULL;
      END $$;
    `,
  },
  ...callTotalsSteps,
  {
    name: 'records listed by id',
    suitsOlder: true,
    index: 'records_of_owner',
    sql: 'CREATE INDEX CONCURRENTLY records_of_owner ON records (owner, kind, id);',
  },
  { name: 'records no longer listed by their end', suitsOlder: true, sql: 'DROP INDEX records_by_owner;' },
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
