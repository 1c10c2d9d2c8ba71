import type { Database } from 'bun:sqlite'
import { type Step, refuseStrangers } from '../steps.ts'

/**
 * How the database came to its present shape, in order. A step that has been released is never edited, only followed by another;
 * schema.ts describes the end of the list, and a test holds the two together.
 */
export const steps: readonly Step[] = [
  {
    name: 'calls, authorizations, leases and windows',
    sql: `
      CREATE TABLE calls (
        id TEXT PRIMARY KEY NOT NULL,
        gateway TEXT NOT NULL,
        endpoint TEXT NOT NULL,
        model TEXT,
        payer TEXT NOT NULL,
        asset TEXT NOT NULL,
        quote TEXT NOT NULL,
        authorization TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        work TEXT NOT NULL CHECK (work IN ('queued', 'in_progress', 'completed', 'failed')),
        money TEXT NOT NULL CHECK (money IN ('verified', 'settling', 'settled', 'refused', 'unresolved')),
        owner TEXT NOT NULL,
        until INTEGER NOT NULL,
        started_at INTEGER,
        ended_at INTEGER,
        settled_at INTEGER,
        expires_at INTEGER NOT NULL,
        fence INTEGER NOT NULL,
        claim_until INTEGER,
        claim_key TEXT,
        claim_fresh INTEGER NOT NULL,
        emptied INTEGER NOT NULL,
        offer TEXT NOT NULL,
        error TEXT,
        receipt TEXT,
        request TEXT,
        result TEXT,
        CHECK ((money = 'settled') = (receipt IS NOT NULL AND settled_at IS NOT NULL)),
        CHECK (money <> 'settling' OR claim_until IS NOT NULL)
      );
      CREATE INDEX calls_unfinished ON calls (until) WHERE work in ('queued', 'in_progress');
      CREATE INDEX calls_owned ON calls (owner, until) WHERE work in ('queued', 'in_progress');
      CREATE INDEX calls_settling ON calls (claim_until) WHERE money = 'settling';
      CREATE INDEX calls_paid ON calls (payer, asset, settled_at) WHERE money = 'settled';
      CREATE INDEX calls_aging ON calls (expires_at, id) WHERE emptied = 0;

      CREATE TABLE authorizations (
        key TEXT PRIMARY KEY NOT NULL,
        call TEXT NOT NULL REFERENCES calls (id),
        payer TEXT NOT NULL,
        place INTEGER NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('open', 'sent', 'dead', 'paid')),
        expires_at INTEGER NOT NULL,
        signed TEXT
      );
      CREATE UNIQUE INDEX authorizations_of_call ON authorizations (call, place);
      CREATE INDEX authorizations_spendable ON authorizations (payer, expires_at) WHERE state in ('open', 'sent');

      CREATE TABLE leases (name TEXT PRIMARY KEY NOT NULL, owner TEXT NOT NULL, until INTEGER NOT NULL);

      CREATE TABLE windows (key TEXT PRIMARY KEY NOT NULL, used INTEGER NOT NULL, reset_at INTEGER NOT NULL);
      CREATE INDEX windows_reset ON windows (reset_at);
    `,
  },
  {
    name: 'owned records',
    sql: `
      CREATE TABLE owned (
        kind TEXT NOT NULL,
        id TEXT NOT NULL,
        owner TEXT NOT NULL,
        expires_at INTEGER NOT NULL,
        data TEXT,
        PRIMARY KEY (kind, id)
      );
      CREATE INDEX owned_aging ON owned (expires_at);
    `,
  },
  {
    name: 'what was paid, and for how many tokens',
    sql: `
      ALTER TABLE calls ADD COLUMN usage TEXT;
      ALTER TABLE calls ADD COLUMN paid TEXT;
      DROP INDEX calls_paid;
      DROP INDEX calls_unfinished;
      DROP INDEX calls_settling;
      CREATE INDEX calls_unfinished ON calls (until, id) WHERE work in ('queued', 'in_progress');
      CREATE INDEX calls_settling ON calls (claim_until, id) WHERE money = 'settling';
      CREATE INDEX calls_spent ON calls (payer, settled_at, asset, gateway, endpoint, model, quote, paid, usage) WHERE money = 'settled';
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

/**
 * Brings a database to the end of `wanted`, one transaction per step. Throws, and changes nothing, when the database has had
 * steps that this binary does not know: an older binary must not write into a newer shape.
 */
export function migrate(database: Database, wanted: readonly Step[] = steps): void {
  database.run('CREATE TABLE IF NOT EXISTS migrations (step INTEGER PRIMARY KEY NOT NULL, name TEXT NOT NULL)')
  const readHad = database.query<{ step: number; name: string }, []>('SELECT step, name FROM migrations ORDER BY step')
  const record = database.query('INSERT INTO migrations (step, name) VALUES (?, ?)')
  // Another process may be migrating as well: what has been done is only known inside the write transaction.
  const next = database.transaction((): boolean => {
    const had = readHad.all()
    refuseStrangers(database.filename, had, wanted)
    const step = wanted[had.length]
    if (!step) return false
    database.run(step.sql)
    record.run(had.length + 1, step.name)
    return true
  })
  while (next.immediate());
}
