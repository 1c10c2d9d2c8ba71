/**
 * Calls are looked up in tables of their own, apart from what changes in their life, so that no update of a living call
 * touches an index: columns in the condition of a partial index count as indexed. The small tables of calls that are
 * open or settled, and of authorizations that may still be spent, are kept by triggers: replicas of the first release,
 * which do not know them, keep them too.
 */
import { PART, paymentAt, settledSum, UNITS, workAt, workUpTo } from './baseline.ts'

/** The end of a transaction, by which payments are looked up. */
const TAIL = (receipt: string) => `substring(${receipt} from '"transaction":"[^"]*([^"]{16})"')`
const BLOCK = (receipt: string) => `(${receipt}::json ->> 'block')::numeric::bigint`
const isOpen = (call: string) =>
  `${call}.work_status IN ('queued', 'in_progress') OR ${call}.payment_status IN ('settling', 'unresolved')`
const isSpendable = (binding: string) => `${binding}.status IN ('open', 'sent')`
const hasEnded = (call: string) => `${call}.work_status IN ('completed', 'failed')`
const tokens = (call: string, kind: string) => `coalesce((${call}.usage::json ->> '${kind}')::numeric, 0)::bigint`

/** Adds to the sums of an hour and of a day. Almost always there is a row, and an update of one locks it once. */
const counting = (call: string, at: string, sum: Readonly<Record<'outcome' | 'upTo' | 'n' | 'div' | 'mod', string>>) =>
  UNITS.map(
    (unit) => `
    UPDATE call_totals SET calls = calls + ${sum.n}, billions = billions + ${sum.div}, rest = rest + ${sum.mod}
    WHERE unit = ${unit} AND at = ${at} - ${at} % ${unit} AND gateway = ${call}.gateway AND endpoint = ${call}.endpoint
      AND model = coalesce(':' || ${call}.model, '') AND outcome = ${sum.outcome} AND up_to_ms = ${sum.upTo}
      AND part = ${PART};
    IF NOT FOUND THEN
      INSERT INTO call_totals AS kept VALUES (${unit}, ${at} - ${at} % ${unit}, ${call}.gateway, ${call}.endpoint,
        coalesce(':' || ${call}.model, ''), ${sum.outcome}, ${sum.upTo}, ${PART}, ${sum.n}, ${sum.div}, ${sum.mod})
      ON CONFLICT (unit, at, gateway, endpoint, model, outcome, up_to_ms, part) DO UPDATE SET
        calls = kept.calls + excluded.calls, billions = kept.billions + excluded.billions,
        rest = kept.rest + excluded.rest;
    END IF;`,
  ).join('')

const countWork = (call: string, n: string) =>
  counting(call, `(${workAt(call)})`, {
    outcome: `${call}.work_status`,
    upTo: workUpTo(call),
    n,
    div: '0',
    mod: '0',
  })

const OF_WALLET = `payer = NEW.payer AND day = NEW.settled_at / 86400000 AND gateway = NEW.gateway
  AND endpoint = NEW.endpoint AND model = coalesce(':' || NEW.model, '') AND asset = NEW.asset AND part = 1`

const COUNT_SPENT = `
    UPDATE spend_totals SET calls = calls + 1,
      billions = billions + div(coalesce(NEW.paid, NEW.quote), 1000000000),
      rest = rest + mod(coalesce(NEW.paid, NEW.quote), 1000000000),
      input_tokens = input_tokens + ${tokens('NEW', 'input')}, output_tokens = output_tokens + ${tokens('NEW', 'output')},
      last_at = greatest(last_at, NEW.settled_at)
    WHERE ${OF_WALLET};
    IF NOT FOUND THEN
      INSERT INTO spend_totals AS kept VALUES (
        NEW.payer, NEW.settled_at / 86400000, NEW.gateway, NEW.endpoint, coalesce(':' || NEW.model, ''), NEW.asset, 1,
        1, div(coalesce(NEW.paid, NEW.quote), 1000000000), mod(coalesce(NEW.paid, NEW.quote), 1000000000),
        ${tokens('NEW', 'input')}, ${tokens('NEW', 'output')}, NEW.settled_at
      ) ON CONFLICT (payer, day, gateway, endpoint, model, asset, part) DO UPDATE SET
        calls = kept.calls + 1, billions = kept.billions + excluded.billions, rest = kept.rest + excluded.rest,
        input_tokens = kept.input_tokens + excluded.input_tokens,
        output_tokens = kept.output_tokens + excluded.output_tokens,
        last_at = greatest(kept.last_at, excluded.last_at);
    END IF;`

export const LOOKUP_TABLES = ['open_calls', 'settled_calls', 'spendable_authorizations'] as const

const TABLES = `
  CREATE TABLE open_calls (open_id text PRIMARY KEY);
  CREATE TABLE settled_calls (
    wallet text NOT NULL, paid_at bigint NOT NULL, settled_id text NOT NULL, tail text, block bigint
  );
  CREATE UNIQUE INDEX settled_calls_by_time ON settled_calls (paid_at, settled_id);
  CREATE INDEX settled_calls_of_wallet ON settled_calls (wallet, paid_at);
  CREATE INDEX settled_calls_by_tail ON settled_calls (tail);
  CREATE TABLE spendable_authorizations (
    wallet text NOT NULL, until bigint NOT NULL, spendable_of text NOT NULL, at bigint NOT NULL
  );
  CREATE INDEX spendable_of_wallet ON spendable_authorizations (wallet, until);`

/** Keeps the tables above and the sums when a call changes. */
const changedCall = (more: { readonly declared?: string; readonly done?: string } = {}) => `
  CREATE OR REPLACE FUNCTION changed_call() RETURNS trigger LANGUAGE plpgsql AS $$
  DECLARE
    was_open boolean := ${isOpen('OLD')};
    is_open boolean := ${isOpen('NEW')};${more.declared ?? ''}
  BEGIN
    IF was_open AND NOT is_open THEN
      DELETE FROM open_calls WHERE open_id = NEW.id;
    ELSIF is_open AND NOT was_open THEN
      INSERT INTO open_calls VALUES (NEW.id);
    END IF;
    IF NEW.payment_status <> OLD.payment_status THEN
      IF NEW.payment_status = 'settled' THEN
        INSERT INTO settled_calls VALUES (NEW.payer, NEW.settled_at, NEW.id, ${TAIL('NEW.receipt')}, ${BLOCK('NEW.receipt')});${COUNT_SPENT}
      END IF;
      IF NEW.payment_status IN ('settled', 'refused', 'unresolved') THEN${counting('NEW', `(${paymentAt('NEW')})`, {
        outcome: 'NEW.payment_status',
        upTo: '0',
        n: '1',
        div: settledSum('NEW', 'div'),
        mod: settledSum('NEW', 'mod'),
      })}
      END IF;
    ELSIF NEW.payment_status = 'settled' AND NEW.usage IS DISTINCT FROM OLD.usage THEN
      UPDATE spend_totals SET
        input_tokens = input_tokens + ${tokens('NEW', 'input')} - ${tokens('OLD', 'input')},
        output_tokens = output_tokens + ${tokens('NEW', 'output')} - ${tokens('OLD', 'output')}
      WHERE ${OF_WALLET};
    END IF;
    IF NEW.work_status <> OLD.work_status THEN
      IF ${hasEnded('OLD')} THEN${countWork('OLD', '-1')}
      END IF;
      IF ${hasEnded('NEW')} THEN${countWork('NEW', '1')}
      END IF;
    END IF;${more.done ?? ''}
    RETURN NULL;
  END $$;`

/** As the first release has it, by the calls that are settled. `which` bounds the sums whose last date it looks up. */
const uncountDeleted = (
  which: string,
) => `  CREATE OR REPLACE FUNCTION uncount_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO spend_totals AS kept VALUES (
      OLD.payer, OLD.settled_at / 86400000, OLD.gateway, OLD.endpoint, coalesce(':' || OLD.model, ''), OLD.asset, 1, -1,
      -div(coalesce(OLD.paid, OLD.quote), 1000000000), -mod(coalesce(OLD.paid, OLD.quote), 1000000000),
      -${tokens('OLD', 'input')}, -${tokens('OLD', 'output')}, 0
    ) ON CONFLICT (payer, day, gateway, endpoint, model, asset, part) DO UPDATE SET
      calls = kept.calls - 1, billions = kept.billions + excluded.billions, rest = kept.rest + excluded.rest,
      input_tokens = kept.input_tokens + excluded.input_tokens,
      output_tokens = kept.output_tokens + excluded.output_tokens;
    UPDATE spend_totals AS kept SET last_at = coalesce((
      SELECT max(settled_at) FROM settled_calls JOIN calls ON calls.id = settled_id WHERE wallet = OLD.payer
        AND paid_at BETWEEN kept.day * 86400000 AND kept.day * 86400000 + 86399999 AND gateway = OLD.gateway
        AND endpoint = OLD.endpoint AND model IS NOT DISTINCT FROM OLD.model AND asset = OLD.asset
    ), 0)
    WHERE payer = OLD.payer AND day = OLD.settled_at / 86400000 AND gateway = OLD.gateway AND endpoint = OLD.endpoint
      AND model = coalesce(':' || OLD.model, '') AND asset = OLD.asset${which} AND last_at <= OLD.settled_at;
    DELETE FROM spend_totals WHERE payer = OLD.payer AND day = OLD.settled_at / 86400000 AND gateway = OLD.gateway
      AND endpoint = OLD.endpoint AND model = coalesce(':' || OLD.model, '') AND asset = OLD.asset AND part IN (0, 1)
      AND (SELECT sum(calls) FROM spend_totals WHERE payer = OLD.payer AND day = OLD.settled_at / 86400000
        AND gateway = OLD.gateway AND endpoint = OLD.endpoint AND model = coalesce(':' || OLD.model, '')
        AND asset = OLD.asset AND part IN (0, 1)) = 0;
    RETURN NULL;
  END $$;`

const FUNCTIONS = `
  CREATE FUNCTION opened_call() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF ${isOpen('NEW')} THEN INSERT INTO open_calls VALUES (NEW.id); END IF;
    RETURN NULL;
  END $$;${changedCall()}
  CREATE FUNCTION deleted_call() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF ${isOpen('OLD')} THEN DELETE FROM open_calls WHERE open_id = OLD.id; END IF;
    IF OLD.payment_status = 'settled' THEN
      DELETE FROM settled_calls WHERE paid_at = OLD.settled_at AND settled_id = OLD.id;
    END IF;
    RETURN NULL;
  END $$;
  CREATE FUNCTION changed_authorization() RETURNS trigger LANGUAGE plpgsql AS $$
  DECLARE
    was_spendable boolean := TG_OP <> 'INSERT' AND ${isSpendable('OLD')};
    is_spendable boolean := TG_OP <> 'DELETE' AND ${isSpendable('NEW')};
  BEGIN
    IF was_spendable AND is_spendable AND (NEW.payer, NEW.expires_at, NEW.call, NEW.position)
      = (OLD.payer, OLD.expires_at, OLD.call, OLD.position) THEN RETURN NULL; END IF;
    IF was_spendable THEN
      DELETE FROM spendable_authorizations
      WHERE wallet = OLD.payer AND until = OLD.expires_at AND spendable_of = OLD.call AND at = OLD.position;
    END IF;
    IF is_spendable THEN
      INSERT INTO spendable_authorizations VALUES (NEW.payer, NEW.expires_at, NEW.call, NEW.position);
    END IF;
    RETURN NULL;
  END $$;
${uncountDeleted('')}`

/** A trigger for each kind of change, as each costs a statement its start. */
const TRIGGERS = `
  DROP TRIGGER calls_count_settled ON calls;
  DROP TRIGGER calls_count_usage ON calls;
  DROP TRIGGER calls_total_again ON calls;
  DROP TRIGGER calls_total_work ON calls;
  DROP TRIGGER calls_total_payment ON calls;
  DROP FUNCTION count_settled(), count_usage(), total_again(), total_work(), total_payment();
  CREATE TRIGGER calls_opened AFTER INSERT ON calls FOR EACH ROW EXECUTE FUNCTION opened_call();
  CREATE TRIGGER calls_changed AFTER UPDATE OF work_status, payment_status, usage ON calls
    FOR EACH ROW EXECUTE FUNCTION changed_call();
  CREATE TRIGGER calls_deleted AFTER DELETE ON calls FOR EACH ROW EXECUTE FUNCTION deleted_call();
  CREATE TRIGGER authorizations_changed AFTER INSERT OR DELETE OR
    UPDATE OF status, call, payer, position, expires_at ON authorizations
    FOR EACH ROW EXECUTE FUNCTION changed_authorization();`

/**
 * `due_at` is when retention looks at a call: a day after it was opened, earlier if it expires earlier, later once that
 * was seen to be too early, and at once (0) for rows of the first release. So it seldom changes while a call is
 * settled. Free space on each page keeps the next versions of a row there. A row that exceeds 2,000 bytes is cut to
 * 1,400: a result moves out, and the update that settles does not write it again.
 */
const SHAPES = `
  ALTER TABLE calls ADD COLUMN due_at bigint NOT NULL DEFAULT 0;
  ALTER TABLE calls SET (fillfactor = 50, toast_tuple_target = 1400);
  ALTER TABLE calls ALTER COLUMN "authorization" SET STORAGE MAIN, ALTER COLUMN claim_key SET STORAGE MAIN,
    ALTER COLUMN offer SET STORAGE MAIN, ALTER COLUMN receipt SET STORAGE MAIN;
  ALTER TABLE authorizations SET (fillfactor = 70);
  ALTER TABLE authorizations ALTER COLUMN key SET STORAGE MAIN, ALTER COLUMN signed SET STORAGE MAIN;
  ALTER TABLE open_calls SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
  ALTER TABLE spendable_authorizations SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);`

/** Of the few calls that are open: nobody writes meanwhile. */
const FILL_OPEN = `
  INSERT INTO open_calls SELECT id FROM calls WHERE work_status IN ('queued', 'in_progress')
    UNION SELECT id FROM calls WHERE payment_status IN ('settling', 'unresolved');
  INSERT INTO spendable_authorizations
    SELECT payer, expires_at, call, position FROM authorizations WHERE status IN ('open', 'sent');`

/**
 * Authorizations of a call that has failed uncharged are not found among those that may be spent, unless it comes back
 * to life: each call that their wallet opens would read them all until they expire.
 */
const FAILED = (call: string) => `${call}.work_status = 'failed' AND ${call}.payment_status = 'verified'`
const SPENDABLE_ROW = `wallet = authorizations.payer AND until = authorizations.expires_at AND spendable_of = call
  AND at = position`

export const FAILED_CALLS = `
  -- No call may come back to life between the last statement and the end of the step.
  LOCK TABLE calls IN SHARE ROW EXCLUSIVE MODE;${changedCall({
    declared: `
    had_failed boolean := ${FAILED('OLD')};
    has_failed boolean := ${FAILED('NEW')};`,
    done: `
    IF has_failed AND NOT had_failed THEN
      DELETE FROM spendable_authorizations USING authorizations WHERE call = NEW.id AND ${SPENDABLE_ROW};
    ELSIF had_failed AND NOT has_failed THEN
      INSERT INTO spendable_authorizations SELECT payer, expires_at, call, position FROM authorizations
      WHERE call = NEW.id AND ${isSpendable('authorizations')}
        AND NOT EXISTS (SELECT 1 FROM spendable_authorizations WHERE ${SPENDABLE_ROW});
    END IF;`,
  })}
  DELETE FROM spendable_authorizations USING authorizations, calls
    WHERE ${SPENDABLE_ROW} AND calls.id = call AND ${FAILED('calls')};`

/**
 * The archive files what it takes under the first day of a month, and knows when each wallet last paid: no deletion of
 * a call of that day looks that up again. Where that had found nothing, all payments were of that day.
 */
export const ARCHIVED_DATES = `${uncountDeleted(' AND part IN (0, 1)')}
  UPDATE spend_totals SET last_at = day * 86400000 WHERE part = 2 AND last_at = 0;`

export const LOOKUPS = TABLES + FUNCTIONS + TRIGGERS + SHAPES + FILL_OPEN

/** While others sell: a call that settles meanwhile is inserted by its trigger. */
export const SETTLED = `
  INSERT INTO settled_calls SELECT payer, settled_at, id, ${TAIL('receipt')}, ${BLOCK('receipt')} FROM calls
    WHERE payment_status = 'settled'
      AND NOT EXISTS (SELECT 1 FROM settled_calls WHERE paid_at = calls.settled_at AND settled_id = calls.id)
    ON CONFLICT DO NOTHING;`

export const DUE = 'CREATE INDEX CONCURRENTLY calls_due ON calls (due_at, id) WHERE NOT emptied'

/** Indexes that only replicas of the first release look calls up by: each change of a call has to touch them. */
export const SUPERSEDED = [
  'calls_unfinished',
  'calls_by_worker',
  'calls_settling',
  'calls_spent',
  'calls_expiring',
  'calls_emptied',
  'calls_settled',
  'calls_in_doubt',
  'calls_by_transaction',
  'authorizations_spendable',
]
