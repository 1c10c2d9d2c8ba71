import type { ClientBase } from 'pg'
import { sanitized } from '../database_error.ts'
import { type Migration, refuseUnknownSteps } from '../migration.ts'

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
    sql: 'CREATE INDEX calls_emptied ON calls (settled_at, id) WHERE emptied;',
  },
  {
    name: 'payments looked up',
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
 * Applies the steps of `wanted` that the database lacks, one transaction per step. Of replicas that start together, one
 * applies a step and the others wait. Throws, and changes nothing, when the database has taken steps that this binary
 * does not know.
 */
export async function migrate(client: ClientBase, wanted: readonly Migration[] = migrations): Promise<void> {
  while (await next(client, wanted));
}

async function next(client: ClientBase, wanted: readonly Migration[]): Promise<boolean> {
  const ask = async (text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> => {
    const query = { text, values, query_timeout: MAX_MS }
    const { rows } = await client.query<Record<string, unknown>>(query).catch(fail)
    return rows
  }
  await ask(`BEGIN; SET LOCAL statement_timeout = ${MAX_MS}`)
  try {
    // The steps that other replicas have taken are known only while the lock is held.
    await ask(`SELECT pg_advisory_xact_lock(${LOCK})`)
    // Checked first: a role without CREATE can start once the table exists.
    const [table] = await ask("SELECT to_regclass('migrations') AS at")
    if (!table?.at) await ask('CREATE TABLE migrations (step bigint PRIMARY KEY, name text NOT NULL)')
    const taken = (await ask('SELECT name FROM migrations ORDER BY step')) as { name: string }[]
    refuseUnknownSteps('The Postgres database', taken, wanted)
    const step = wanted[taken.length]
    if (step) {
      await ask(step.sql)
      await ask('INSERT INTO migrations (step, name) VALUES ($1, $2)', [taken.length + 1, step.name])
    }
    await ask('COMMIT')
    return step !== undefined
  } catch (error) {
    await ask('ROLLBACK').catch(() => undefined)
    throw error
  }
}

function fail(error: unknown): never {
  throw sanitized(error)
}
