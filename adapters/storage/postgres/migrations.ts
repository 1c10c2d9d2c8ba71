import type { ClientBase } from 'pg'
import { washed } from '../database_error.ts'
import { type Step, refuseStrangers } from '../steps.ts'

/** As in migrations.ts: a released step is never edited. schema_postgres.ts describes the end of the list, and a test holds them together. */
export const steps: readonly Step[] = [
  {
    name: 'calls, authorizations, leases and windows',
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
        work text NOT NULL CHECK (work IN ('queued', 'in_progress', 'completed', 'failed')),
        money text NOT NULL CHECK (money IN ('verified', 'settling', 'settled', 'refused', 'unresolved')),
        owner text NOT NULL,
        until bigint NOT NULL,
        started_at bigint,
        ended_at bigint,
        settled_at bigint,
        expires_at bigint NOT NULL,
        fence bigint NOT NULL,
        claim_until bigint,
        claim_key text,
        claim_fresh boolean NOT NULL,
        emptied boolean NOT NULL,
        offer text NOT NULL,
        error text,
        receipt text,
        request text,
        result text,
        CHECK ((money = 'settled') = (receipt IS NOT NULL AND settled_at IS NOT NULL)),
        CHECK (money <> 'settling' OR claim_until IS NOT NULL)
      );
      CREATE INDEX calls_unfinished ON calls (until) WHERE work in ('queued', 'in_progress');
      CREATE INDEX calls_owned ON calls (owner, until) WHERE work in ('queued', 'in_progress');
      CREATE INDEX calls_settling ON calls (claim_until) WHERE money = 'settling';
      CREATE INDEX calls_paid ON calls (payer, asset, settled_at) WHERE money = 'settled';
      CREATE INDEX calls_aging ON calls (expires_at, id) WHERE not emptied;

      CREATE TABLE authorizations (
        key text PRIMARY KEY,
        call text NOT NULL REFERENCES calls (id),
        payer text NOT NULL,
        place bigint NOT NULL,
        state text NOT NULL CHECK (state IN ('open', 'sent', 'dead', 'paid')),
        expires_at bigint NOT NULL,
        signed text
      );
      CREATE UNIQUE INDEX authorizations_of_call ON authorizations (call, place);
      CREATE INDEX authorizations_spendable ON authorizations (payer, expires_at) WHERE state in ('open', 'sent');

      CREATE TABLE leases (name text PRIMARY KEY, owner text NOT NULL, until bigint NOT NULL);

      CREATE TABLE windows (key text PRIMARY KEY, used bigint NOT NULL, reset_at bigint NOT NULL);
      CREATE INDEX windows_reset ON windows (reset_at);
    `,
  },
  {
    name: 'owned records',
    sql: `
      CREATE TABLE owned (
        kind text NOT NULL,
        id text NOT NULL,
        owner text NOT NULL,
        expires_at bigint NOT NULL,
        data text,
        PRIMARY KEY (kind, id)
      );
      CREATE INDEX owned_aging ON owned (expires_at);
    `,
  },
  {
    name: 'what was paid, and for how many tokens',
    sql: `
      ALTER TABLE calls ADD COLUMN usage text;
      ALTER TABLE calls ADD COLUMN paid numeric(78,0);
      DROP INDEX calls_paid;
      DROP INDEX calls_unfinished;
      DROP INDEX calls_settling;
      CREATE INDEX calls_unfinished ON calls (until, id) WHERE work in ('queued', 'in_progress');
      CREATE INDEX calls_settling ON calls (claim_until, id) WHERE money = 'settling';
      CREATE INDEX calls_spent ON calls (payer, settled_at) WHERE money = 'settled';
    `,
  },
  {
    name: 'the records of an owner',
    sql: 'CREATE INDEX owned_by ON owned (owner, kind, expires_at);',
  },
  {
    name: 'the unfinished calls of an owner, by gateway',
    sql: `
      DROP INDEX calls_owned;
      CREATE INDEX calls_owned ON calls (owner, gateway, id) WHERE work in ('queued', 'in_progress');
    `,
  },
]

/** "farebox" in ASCII: what a replica locks while it migrates. */
export const LOCK = '28817591579602808'

/** The limits of a served request are not those of a migration. */
const MAX_MS = 3_600_000

/**
 * Brings a database to the end of `wanted`, one transaction per step; of replicas that start at once, one takes a step and the others
 * wait. Throws, and changes nothing, when the database has had steps that this binary does not know.
 */
export async function migrate(client: ClientBase, wanted: readonly Step[] = steps): Promise<void> {
  while (await next(client, wanted));
}

async function next(client: ClientBase, wanted: readonly Step[]): Promise<boolean> {
  const ask = async (text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> => {
    const query = { text, values, query_timeout: MAX_MS }
    const { rows } = await client.query<Record<string, unknown>>(query).catch(fail)
    return rows
  }
  await ask(`BEGIN; SET LOCAL statement_timeout = ${MAX_MS}`)
  try {
    // What others have done is only known behind the lock.
    await ask(`SELECT pg_advisory_xact_lock(${LOCK})`)
    // Asked first: a role that may not create has no need to, once everything is there.
    const [table] = await ask("SELECT to_regclass('migrations') AS at")
    if (!table?.at) await ask('CREATE TABLE migrations (step bigint PRIMARY KEY, name text NOT NULL)')
    const had = (await ask('SELECT name FROM migrations ORDER BY step')) as { name: string }[]
    refuseStrangers('The Postgres database', had, wanted)
    const step = wanted[had.length]
    if (step) {
      await ask(step.sql)
      await ask('INSERT INTO migrations (step, name) VALUES ($1, $2)', [had.length + 1, step.name])
    }
    await ask('COMMIT')
    return step !== undefined
  } catch (error) {
    await ask('ROLLBACK').catch(() => undefined)
    throw error
  }
}

function fail(error: unknown): never {
  throw washed(error)
}
