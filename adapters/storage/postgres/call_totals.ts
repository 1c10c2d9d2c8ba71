/**
 * Sums of calls by hour and day in Postgres: the migrations that have them kept. What counts is
 * in core/payment/reports/call_totals.ts.
 */
import type { Migration } from '../migration.ts'

/** The bounds of durations, as a released step must spell them. */
const boundOf = (ms: string) => {
  const bounds = [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 320_000]
  return `CASE ${bounds.map((bound) => `WHEN ${ms} <= ${bound} THEN ${bound}`).join(' ')} ELSE 86400000 END`
}

const workAt = (call: string) => `coalesce(${call}.ended_at, ${call}.created_at)`
const workUpTo = (call: string) =>
  `CASE ${call}.work_status WHEN 'failed' THEN 0 ELSE ${boundOf(`${workAt(call)} - ${call}.created_at`)} END`
const paymentAt = (call: string) => `coalesce(${call}.settled_at, ${call}.claim_expires_at, ${call}.created_at)`
const names = (call: string) => `${call}.gateway, ${call}.endpoint, coalesce(':' || ${call}.model, '')`
const settledSum = (call: string, of: 'div' | 'mod') =>
  `CASE ${call}.payment_status WHEN 'settled' THEN ${of}(coalesce(${call}.paid, ${call}.quote), 1000000000) ELSE 0 END`

const UNITS = [3_600_000, 86_400_000]
/** Parts of a sum, by connection: calls that settle at the same time seldom wait for each other. */
const PART = 'pg_backend_pid() % 16'

const counting = (call: string, at: string, rest: string) => `
  INSERT INTO call_totals AS kept VALUES
    ${UNITS.map((unit) => `(${unit}, ${at} - ${at} % ${unit}, ${names(call)}, ${rest})`).join(', ')}
  ON CONFLICT (unit, at, gateway, endpoint, model, outcome, up_to_ms, part) DO UPDATE SET
    calls = kept.calls + excluded.calls, billions = kept.billions + excluded.billions,
    rest = kept.rest + excluded.rest;`

const countWork = (call: string, count: 1 | -1) =>
  counting(call, workAt(call), `${call}.work_status, ${workUpTo(call)}, ${PART}, ${count}, 0, 0`)

const UNION = UNITS.map(
  (unit) => `
    SELECT ${unit} AS unit, ${workAt('calls')} - ${workAt('calls')} % ${unit} AS at, gateway, endpoint,
      coalesce(':' || model, '') AS model, work_status AS outcome, ${workUpTo('calls')} AS up_to_ms,
      1 AS calls, 0 AS billions, 0 AS rest
    FROM calls WHERE work_status IN ('completed', 'failed')
    UNION ALL
    SELECT ${unit}, ${paymentAt('calls')} - ${paymentAt('calls')} % ${unit}, ${names('calls')}, payment_status, 0, 1,
      ${settledSum('calls', 'div')}, ${settledSum('calls', 'mod')}
    FROM calls WHERE payment_status IN ('settled', 'refused', 'unresolved')`,
).join(' UNION ALL ')

export const callTotalsSteps: readonly Migration[] = [
  {
    // Kept by triggers, so that replicas which do not know the sums keep them too.
    name: 'call totals',
    suitsOlder: true,
    sql: `
      CREATE TABLE call_totals (
        unit bigint NOT NULL,
        at bigint NOT NULL,
        gateway text NOT NULL,
        endpoint text NOT NULL,
        model text NOT NULL,
        outcome text NOT NULL,
        up_to_ms bigint NOT NULL,
        part bigint NOT NULL,
        calls bigint NOT NULL,
        billions numeric(78,0) NOT NULL,
        rest numeric(78,0) NOT NULL,
        PRIMARY KEY (unit, at, gateway, endpoint, model, outcome, up_to_ms, part)
      );
      CREATE FUNCTION total_again() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN ${countWork('OLD', -1)} RETURN NULL; END $$;
      CREATE FUNCTION total_work() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN ${countWork('NEW', 1)} RETURN NULL; END $$;
      CREATE FUNCTION total_payment() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN ${counting(
        'NEW',
        paymentAt('NEW'),
        `NEW.payment_status, 0, ${PART}, 1, ${settledSum('NEW', 'div')}, ${settledSum('NEW', 'mod')}`,
      )} RETURN NULL; END $$;
      CREATE TRIGGER calls_total_again AFTER UPDATE OF work_status ON calls FOR EACH ROW
        WHEN (OLD.work_status IN ('completed', 'failed') AND NEW.work_status <> OLD.work_status)
        EXECUTE FUNCTION total_again();
      CREATE TRIGGER calls_total_work AFTER UPDATE OF work_status ON calls FOR EACH ROW
        WHEN (NEW.work_status IN ('completed', 'failed') AND NEW.work_status <> OLD.work_status)
        EXECUTE FUNCTION total_work();
      CREATE TRIGGER calls_total_payment AFTER UPDATE OF payment_status ON calls FOR EACH ROW
        WHEN (NEW.payment_status IN ('settled', 'refused', 'unresolved')
          AND NEW.payment_status <> OLD.payment_status) EXECUTE FUNCTION total_payment();
    `,
  },
  {
    // One statement, so one snapshot: all calls, without what the triggers have counted so far, in parts 0 to 15.
    name: 'call totals of the past',
    suitsOlder: true,
    sql: `
      INSERT INTO call_totals
        SELECT unit, at, gateway, endpoint, model, outcome, up_to_ms, -1, sum(calls), sum(billions), sum(rest)
        FROM (${UNION}
          UNION ALL
          SELECT unit, at, gateway, endpoint, model, outcome, up_to_ms, -calls, -billions, -rest FROM call_totals
        ) AS parts
        GROUP BY 1, 2, 3, 4, 5, 6, 7 HAVING sum(calls) <> 0 OR sum(billions) <> 0 OR sum(rest) <> 0;
    `,
  },
  {
    name: 'spend totals by day',
    suitsOlder: true,
    index: 'spend_totals_by_day',
    sql: 'CREATE INDEX CONCURRENTLY spend_totals_by_day ON spend_totals (day, payer, gateway, endpoint, model);',
  },
  {
    name: 'payments in doubt',
    suitsOlder: true,
    index: 'calls_in_doubt',
    sql: "CREATE INDEX CONCURRENTLY calls_in_doubt ON calls (created_at, id) WHERE payment_status in ('settling', 'unresolved');",
  },
]
