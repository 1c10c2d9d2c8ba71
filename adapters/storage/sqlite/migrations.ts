import { checkSteps, type Migration, minReaderOf, type TakenStep } from '../migration.ts'
import { callTotalsStep } from './call_totals.ts'
import type { SqliteDriver } from './driver.ts'

/**
 * The migrations, in order. A released step is never edited; a later step follows it. schema.ts describes the result of
 * all of them, and a test compares the two.
 */
export const migrations: readonly Migration[] = [
  {
    name: 'baseline',
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
        work_status TEXT NOT NULL CHECK (work_status IN ('queued', 'in_progress', 'completed', 'failed')),
        payment_status TEXT NOT NULL CHECK (payment_status IN ('verified', 'settling', 'settled', 'refused', 'unresolved')),
        worker_id TEXT NOT NULL,
        lease_expires_at INTEGER NOT NULL,
        started_at INTEGER,
        ended_at INTEGER,
        settled_at INTEGER,
        expires_at INTEGER NOT NULL,
        claim_token INTEGER NOT NULL,
        claim_expires_at INTEGER,
        claim_key TEXT,
        claim_fresh INTEGER NOT NULL,
        emptied INTEGER NOT NULL,
        usage TEXT,
        paid TEXT,
        offer TEXT NOT NULL,
        error TEXT,
        receipt TEXT,
        request TEXT,
        result TEXT,
        CHECK ((payment_status = 'settled') = (receipt IS NOT NULL AND settled_at IS NOT NULL)),
        CHECK (payment_status <> 'settling' OR claim_expires_at IS NOT NULL)
      );
      CREATE INDEX calls_unfinished ON calls (lease_expires_at, id) WHERE work_status in ('queued', 'in_progress');
      CREATE INDEX calls_by_worker ON calls (worker_id, gateway, id) WHERE work_status in ('queued', 'in_progress');
      CREATE INDEX calls_settling ON calls (claim_expires_at, id) WHERE payment_status = 'settling';
      CREATE INDEX calls_spent ON calls (payer, settled_at, asset, gateway, endpoint, model, quote, paid, usage) WHERE payment_status = 'settled';
      CREATE INDEX calls_expiring ON calls (expires_at, id) WHERE emptied = 0;

      CREATE TABLE authorizations (
        key TEXT PRIMARY KEY NOT NULL,
        call TEXT NOT NULL REFERENCES calls (id),
        payer TEXT NOT NULL,
        position INTEGER NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('open', 'sent', 'dead', 'paid')),
        expires_at INTEGER NOT NULL,
        signed TEXT
      );
      CREATE UNIQUE INDEX authorizations_of_call ON authorizations (call, position);
      CREATE INDEX authorizations_spendable ON authorizations (payer, expires_at) WHERE status in ('open', 'sent');

      CREATE TABLE records (
        kind TEXT NOT NULL,
        id TEXT NOT NULL,
        owner TEXT NOT NULL,
        expires_at INTEGER NOT NULL,
        data TEXT,
        PRIMARY KEY (kind, id)
      );
      CREATE INDEX records_expiring ON records (expires_at);
      CREATE INDEX records_by_owner ON records (owner, kind, expires_at);

      CREATE TABLE leases (name TEXT PRIMARY KEY NOT NULL, worker_id TEXT NOT NULL, expires_at INTEGER NOT NULL);

      CREATE TABLE rate_windows (key TEXT PRIMARY KEY NOT NULL, used INTEGER NOT NULL, reset_at INTEGER NOT NULL);
      CREATE INDEX rate_windows_reset ON rate_windows (reset_at);
    `,
  },
  {
    name: 'ledger retention',
    suitsOlder: true,
    sql: 'CREATE INDEX calls_emptied ON calls (settled_at, id) WHERE emptied = 1;',
  },
  {
    name: 'payments looked up',
    suitsOlder: true,
    sql: `
      ALTER TABLE calls ADD COLUMN quoted_at INTEGER;
      ALTER TABLE calls ADD COLUMN verified_at INTEGER;
      ALTER TABLE calls ADD COLUMN settling_at INTEGER;
      ALTER TABLE calls ADD COLUMN vendor_error TEXT;
      ALTER TABLE calls ADD COLUMN payment_error TEXT;
      ALTER TABLE calls ADD COLUMN payment_error_at INTEGER;
      ALTER TABLE calls ADD COLUMN settled_by TEXT;
      CREATE INDEX calls_by_time ON calls (created_at, id);
      CREATE INDEX calls_of_payer ON calls (payer, created_at, id);
      CREATE INDEX calls_settled ON calls (settled_at, id) WHERE payment_status = 'settled';
      CREATE INDEX calls_by_transaction ON calls (substr(receipt ->> 'transaction', -16)) WHERE receipt IS NOT NULL;
      CREATE INDEX authorizations_by_nonce ON authorizations (substr(key, -16));
    `,
  },
  {
    // Kept by triggers, so that versions which do not know the sums keep them too.
    name: 'spend totals',
    suitsOlder: true,
    sql: `
      CREATE TABLE spend_totals (
        payer TEXT NOT NULL,
        day INTEGER NOT NULL,
        gateway TEXT NOT NULL,
        endpoint TEXT NOT NULL,
        model TEXT NOT NULL,
        asset TEXT NOT NULL,
        part INTEGER NOT NULL,
        calls INTEGER NOT NULL,
        billions INTEGER NOT NULL,
        rest INTEGER NOT NULL,
        input_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        last_at INTEGER NOT NULL,
        PRIMARY KEY (payer, day, gateway, endpoint, model, asset, part)
      ) WITHOUT ROWID;
      CREATE TRIGGER calls_count_settled AFTER UPDATE OF payment_status ON calls
        WHEN NEW.payment_status = 'settled' AND OLD.payment_status <> 'settled'
      BEGIN
        INSERT INTO spend_totals VALUES (
          NEW.payer, NEW.settled_at / 86400000, NEW.gateway, NEW.endpoint, coalesce(':' || NEW.model, ''), NEW.asset, 1, 1,
          cast(substr(coalesce(NEW.paid, NEW.quote), 1, length(coalesce(NEW.paid, NEW.quote)) - 9) AS INTEGER),
          cast(substr(coalesce(NEW.paid, NEW.quote), -9) AS INTEGER),
          cast(coalesce(NEW.usage ->> 'input', 0) AS INTEGER), cast(coalesce(NEW.usage ->> 'output', 0) AS INTEGER), NEW.settled_at
        ) ON CONFLICT DO UPDATE SET
          calls = calls + 1, billions = billions + excluded.billions, rest = rest + excluded.rest,
          input_tokens = input_tokens + excluded.input_tokens, output_tokens = output_tokens + excluded.output_tokens,
          last_at = max(last_at, excluded.last_at);
      END;
      CREATE TRIGGER calls_count_usage AFTER UPDATE OF usage ON calls
        WHEN NEW.payment_status = 'settled' AND OLD.payment_status = 'settled' AND NEW.usage IS NOT OLD.usage
      BEGIN
        UPDATE spend_totals SET
          input_tokens = input_tokens + cast(coalesce(NEW.usage ->> 'input', 0) AS INTEGER) - cast(coalesce(OLD.usage ->> 'input', 0) AS INTEGER),
          output_tokens = output_tokens + cast(coalesce(NEW.usage ->> 'output', 0) AS INTEGER) - cast(coalesce(OLD.usage ->> 'output', 0) AS INTEGER)
        WHERE payer = NEW.payer AND day = NEW.settled_at / 86400000 AND gateway = NEW.gateway AND endpoint = NEW.endpoint AND model = coalesce(':' || NEW.model, '') AND asset = NEW.asset AND part = 1;
      END;
      CREATE TRIGGER calls_uncount_deleted AFTER DELETE ON calls WHEN OLD.payment_status = 'settled'
      BEGIN
        UPDATE spend_totals SET
          calls = calls - 1,
          billions = billions - cast(substr(coalesce(OLD.paid, OLD.quote), 1, length(coalesce(OLD.paid, OLD.quote)) - 9) AS INTEGER),
          rest = rest - cast(substr(coalesce(OLD.paid, OLD.quote), -9) AS INTEGER),
          input_tokens = input_tokens - cast(coalesce(OLD.usage ->> 'input', 0) AS INTEGER), output_tokens = output_tokens - cast(coalesce(OLD.usage ->> 'output', 0) AS INTEGER),
          last_at = CASE WHEN last_at > OLD.settled_at THEN last_at ELSE coalesce((
            SELECT max(settled_at) FROM calls WHERE payer = OLD.payer AND payment_status = 'settled'
              AND settled_at BETWEEN day * 86400000 AND day * 86400000 + 86399999 AND gateway = OLD.gateway
              AND endpoint = OLD.endpoint AND model IS OLD.model AND asset = OLD.asset
          ), 0) END
        WHERE payer = OLD.payer AND day = OLD.settled_at / 86400000 AND gateway = OLD.gateway AND endpoint = OLD.endpoint AND model = coalesce(':' || OLD.model, '') AND asset = OLD.asset AND part = 1;
        DELETE FROM spend_totals WHERE payer = OLD.payer AND day = OLD.settled_at / 86400000 AND gateway = OLD.gateway AND endpoint = OLD.endpoint AND model = coalesce(':' || OLD.model, '') AND asset = OLD.asset AND part = 1 AND calls = 0;
      END;
      INSERT INTO spend_totals
        SELECT payer, settled_at / 86400000, gateway, endpoint, coalesce(':' || model, ''), asset, 1, count(*),
          sum(cast(substr(coalesce(paid, quote), 1, length(coalesce(paid, quote)) - 9) AS INTEGER)),
          sum(cast(substr(coalesce(paid, quote), -9) AS INTEGER)),
          sum(cast(coalesce(usage ->> 'input', 0) AS INTEGER)), sum(cast(coalesce(usage ->> 'output', 0) AS INTEGER)), max(settled_at)
        FROM calls WHERE payment_status = 'settled' GROUP BY 1, 2, 3, 4, 5, 6;
    `,
  },
  {
    // A day first: a new call then touches the few pages of its day, and not one at random among those of all calls.
    name: 'indexes by day',
    suitsOlder: true,
    sql: `
      DROP INDEX calls_of_payer;
      DROP INDEX calls_by_transaction;
      DROP INDEX authorizations_by_nonce;
      CREATE INDEX calls_of_payer ON calls (created_at / 86400000, payer, created_at, id);
      CREATE INDEX calls_by_transaction ON calls (settled_at / 86400000, substr(receipt ->> 'transaction', -16)) WHERE payment_status = 'settled';
      CREATE INDEX authorizations_by_nonce ON authorizations (expires_at / 86400000, substr(key, -16));
    `,
  },
  callTotalsStep,
  {
    name: 'records listed by id',
    suitsOlder: true,
    sql: `
      CREATE INDEX records_of_owner ON records (owner, kind, id);
      DROP INDEX records_by_owner;
    `,
  },
]

/** Called before the first step that changes a database which has taken some before; throws to prevent it. */
export type BeforeUpgrade = (taken: number) => void

/**
 * Applies the steps of `wanted` that the database lacks, one transaction per step. Throws, and changes nothing, when
 * the database has taken steps that this binary neither knows nor suits.
 */
export function migrate(
  database: SqliteDriver,
  wanted: readonly Migration[] = migrations,
  beforeUpgrade: BeforeUpgrade = () => {},
): void {
  const before = readSteps(database) ?? []
  checkSteps(database.filename, before, wanted)
  if (before.length > 0 && before.length < wanted.length) beforeUpgrade(before.length)
  database.exec(
    'CREATE TABLE IF NOT EXISTS migrations (step INTEGER PRIMARY KEY NOT NULL, name TEXT NOT NULL, min_reader INTEGER NOT NULL DEFAULT 1)',
  )
  if (!hasMinReader(database)) database.exec('ALTER TABLE migrations ADD COLUMN min_reader INTEGER NOT NULL DEFAULT 1')
  const record = database.prepare('INSERT INTO migrations (step, name, min_reader) VALUES (?, ?, ?)')
  // Another process may be migrating as well: the steps taken are known only inside the write transaction.
  const next = (): boolean => {
    const taken = readSteps(database) ?? []
    checkSteps(database.filename, taken, wanted)
    const step = wanted[taken.length]
    if (!step) return false
    database.exec(step.sql)
    record.run(taken.length + 1, step.name, minReaderOf(step, taken))
    return true
  }
  while (database.transaction(next));
}

/** The steps that the database has taken, in order; undefined where it has no table of them. */
export function readSteps(database: SqliteDriver): readonly TakenStep[] | undefined {
  const table = database.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'migrations'")
  if (table.values().length === 0) return undefined
  const minReader = hasMinReader(database) ? 'min_reader' : '1'
  const rows = database.prepare(`SELECT name, ${minReader} FROM migrations ORDER BY step`).values()
  return rows.map(([name, reader]) => ({ name: String(name), minReader: Number(reader) }))
}

/** The first version of the table had no such column. */
function hasMinReader(database: SqliteDriver): boolean {
  return database.prepare("SELECT 1 FROM pragma_table_info('migrations') WHERE name = 'min_reader'").values().length > 0
}
