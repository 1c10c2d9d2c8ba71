/**
 * Sums of calls by hour and day in SQLite: the migration that has them kept. What counts is in
 * core/payment/reports/call_totals.ts.
 */
import type { Migration } from '../migration.ts'

const BILLIONS = (paid: string) => `cast(substr(${paid}, 1, length(${paid}) - 9) AS INTEGER)`
const REST = (paid: string) => `cast(substr(${paid}, -9) AS INTEGER)`

/** The bounds of durations, as a released step must spell them. */
const boundOf = (ms: string) => {
  const bounds = [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 320_000]
  return `CASE ${bounds.map((bound) => `WHEN ${ms} <= ${bound} THEN ${bound}`).join(' ')} ELSE 86400000 END`
}

/** What a call counts for; `call` is NEW, OLD or a table. */
const workAt = (call: string) => `coalesce(${call}.ended_at, ${call}.created_at)`
const workUpTo = (call: string) =>
  `CASE ${call}.work_status WHEN 'failed' THEN 0 ELSE ${boundOf(`${workAt(call)} - ${call}.created_at`)} END`
const paymentAt = (call: string) => `coalesce(${call}.settled_at, ${call}.claim_expires_at, ${call}.created_at)`
const names = (call: string) => `${call}.gateway, ${call}.endpoint, coalesce(':' || ${call}.model, '')`
const isSettled = (call: string, sum: string) => `CASE ${call}.payment_status WHEN 'settled' THEN ${sum} ELSE 0 END`
const paidBy = (call: string) => `coalesce(${call}.paid, ${call}.quote)`

const UNITS = [3_600_000, 86_400_000]
const rowsOf = (call: string, at: string, rest: string) =>
  UNITS.map((unit) => `(${unit}, ${at} - ${at} % ${unit}, ${names(call)}, ${rest})`).join(', ')

const countWork = (call: string, calls: 1 | -1) => `
  INSERT INTO call_totals
    VALUES ${rowsOf(call, workAt(call), `${call}.work_status, ${workUpTo(call)}, 0, ${calls}, 0, 0`)}
  ON CONFLICT DO UPDATE SET calls = calls + excluded.calls;`

export const callTotalsStep: Migration = {
  // Kept by triggers, so that versions which do not know the sums keep them too.
  name: 'call totals',
  suitsOlder: true,
  sql: `
    CREATE TABLE call_totals (
      unit INTEGER NOT NULL,
      at INTEGER NOT NULL,
      gateway TEXT NOT NULL,
      endpoint TEXT NOT NULL,
      model TEXT NOT NULL,
      outcome TEXT NOT NULL,
      up_to_ms INTEGER NOT NULL,
      part INTEGER NOT NULL,
      calls INTEGER NOT NULL,
      billions INTEGER NOT NULL,
      rest INTEGER NOT NULL,
      PRIMARY KEY (unit, at, gateway, endpoint, model, outcome, up_to_ms, part)
    ) WITHOUT ROWID;
    CREATE INDEX spend_totals_by_day ON spend_totals (day, payer, gateway, endpoint, model);
    CREATE INDEX calls_in_doubt ON calls (created_at, id) WHERE payment_status in ('settling', 'unresolved');
    CREATE TRIGGER calls_total_again AFTER UPDATE OF work_status ON calls
      WHEN OLD.work_status IN ('completed', 'failed') AND NEW.work_status <> OLD.work_status
    BEGIN ${countWork('OLD', -1)} END;
    CREATE TRIGGER calls_total_work AFTER UPDATE OF work_status ON calls
      WHEN NEW.work_status IN ('completed', 'failed') AND NEW.work_status <> OLD.work_status
    BEGIN ${countWork('NEW', 1)} END;
    CREATE TRIGGER calls_total_payment AFTER UPDATE OF payment_status ON calls
      WHEN NEW.payment_status IN ('settled', 'refused', 'unresolved') AND NEW.payment_status <> OLD.payment_status
    BEGIN
      INSERT INTO call_totals VALUES ${rowsOf(
        'NEW',
        paymentAt('NEW'),
        `NEW.payment_status, 0, 0, 1, ${isSettled('NEW', BILLIONS(paidBy('NEW')))}, ${isSettled('NEW', REST(paidBy('NEW')))}`,
      )}
      ON CONFLICT DO UPDATE SET
        calls = calls + 1, billions = billions + excluded.billions, rest = rest + excluded.rest;
    END;
    ${UNITS.map(
      (unit) => `
    INSERT INTO call_totals
      SELECT ${unit}, ${workAt('calls')} - ${workAt('calls')} % ${unit}, ${names('calls')}, work_status,
        ${workUpTo('calls')}, 0, count(*), 0, 0
      FROM calls WHERE work_status IN ('completed', 'failed') GROUP BY 1, 2, 3, 4, 5, 6, 7;
    INSERT INTO call_totals
      SELECT ${unit}, ${paymentAt('calls')} - ${paymentAt('calls')} % ${unit}, ${names('calls')}, payment_status, 0,
        0, count(*), sum(${isSettled('calls', BILLIONS(paidBy('calls')))}),
        sum(${isSettled('calls', REST(paidBy('calls')))})
      FROM calls WHERE payment_status IN ('settled', 'refused', 'unresolved') GROUP BY 1, 2, 3, 4, 5, 6;`,
    ).join('')}
  `,
}
