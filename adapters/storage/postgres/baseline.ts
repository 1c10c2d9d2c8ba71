/**
 * The schema of the first release in Postgres. Sums of what wallets paid, and of calls by hour and day, are kept by
 * triggers, so that replicas which do not know them keep them too. What counts is in
 * core/payment/reports/call_totals.ts.
 */

/** The bounds of durations, as a released step must spell them. */
const boundOf = (ms: string) => {
  const bounds = [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 320_000]
  return `CASE ${bounds.map((bound) => `WHEN ${ms} <= ${bound} THEN ${bound}`).join(' ')} ELSE 86400000 END`
}

export const workAt = (call: string) => `coalesce(${call}.ended_at, ${call}.created_at)`
export const workUpTo = (call: string) =>
  `CASE ${call}.work_status WHEN 'failed' THEN 0 ELSE ${boundOf(`${workAt(call)} - ${call}.created_at`)} END`
export const paymentAt = (call: string) => `coalesce(${call}.settled_at, ${call}.claim_expires_at, ${call}.created_at)`
const names = (call: string) => `${call}.gateway, ${call}.endpoint, coalesce(':' || ${call}.model, '')`
export const settledSum = (call: string, of: 'div' | 'mod') =>
  `CASE ${call}.payment_status WHEN 'settled' THEN ${of}(coalesce(${call}.paid, ${call}.quote), 1000000000) ELSE 0 END`

export const UNITS = [3_600_000, 86_400_000]
/** Parts of a sum, by connection: calls that settle at the same time seldom wait for each other. */
export const PART = 'pg_backend_pid() % 16'

const counting = (call: string, at: string, rest: string) => `
  INSERT INTO call_totals AS kept VALUES
    ${UNITS.map((unit) => `(${unit}, ${at} - ${at} % ${unit}, ${names(call)}, ${rest})`).join(', ')}
  ON CONFLICT (unit, at, gateway, endpoint, model, outcome, up_to_ms, part) DO UPDATE SET
    calls = kept.calls + excluded.calls, billions = kept.billions + excluded.billions,
    rest = kept.rest + excluded.rest;`

const countWork = (call: string, count: 1 | -1) =>
  counting(call, workAt(call), `${call}.work_status, ${workUpTo(call)}, ${PART}, ${count}, 0, 0`)

const TABLES = `
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
    quoted_at bigint,
    verified_at bigint,
    settling_at bigint,
    vendor_error text,
    payment_error text,
    payment_error_at bigint,
    settled_by text,
    CHECK ((payment_status = 'settled') = (receipt IS NOT NULL AND settled_at IS NOT NULL)),
    CHECK (payment_status <> 'settling' OR claim_expires_at IS NOT NULL)
  );
  CREATE INDEX calls_unfinished ON calls (lease_expires_at, id) WHERE work_status in ('queued', 'in_progress');
  CREATE INDEX calls_by_worker ON calls (worker_id, gateway, id) WHERE work_status in ('queued', 'in_progress');
  CREATE INDEX calls_settling ON calls (claim_expires_at, id) WHERE payment_status = 'settling';
  CREATE INDEX calls_spent ON calls (payer, settled_at) WHERE payment_status = 'settled';
  CREATE INDEX calls_expiring ON calls (expires_at, id) WHERE not emptied;
  CREATE INDEX calls_emptied ON calls (settled_at, id) WHERE emptied;
  CREATE INDEX calls_by_time ON calls (created_at, id);
  CREATE INDEX calls_of_payer ON calls (payer, created_at, id);
  CREATE INDEX calls_settled ON calls (settled_at, id) WHERE payment_status = 'settled';
  CREATE INDEX calls_in_doubt ON calls (created_at, id) WHERE payment_status in ('settling', 'unresolved');
  CREATE INDEX calls_by_transaction ON calls (substring(receipt from '"transaction":"[^"]*([^"]{16})"')) WHERE receipt IS NOT NULL;

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
  CREATE INDEX authorizations_by_nonce ON authorizations (right(key, 16));

  CREATE TABLE records (
    kind text NOT NULL,
    id text NOT NULL,
    owner text NOT NULL,
    expires_at bigint NOT NULL,
    data text,
    PRIMARY KEY (kind, id)
  );
  CREATE INDEX records_expiring ON records (expires_at);
  CREATE INDEX records_of_owner ON records (owner, kind, id);

  CREATE TABLE leases (name text PRIMARY KEY, worker_id text NOT NULL, expires_at bigint NOT NULL);

  CREATE TABLE rate_windows (key text PRIMARY KEY, used bigint NOT NULL, reset_at bigint NOT NULL);
  CREATE INDEX rate_windows_reset ON rate_windows (reset_at);`

const SPEND_TOTALS = `
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
  CREATE INDEX spend_totals_by_day ON spend_totals (day, payer, gateway, endpoint, model);
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
  -- The update of part 1 holds its lock, so no other deletion of these sums is between the sum and the deletion.
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
    DELETE FROM spend_totals WHERE payer = OLD.payer AND day = OLD.settled_at / 86400000 AND gateway = OLD.gateway AND endpoint = OLD.endpoint
      AND model = coalesce(':' || OLD.model, '') AND asset = OLD.asset AND part IN (0, 1)
      AND (SELECT sum(calls) FROM spend_totals WHERE payer = OLD.payer AND day = OLD.settled_at / 86400000 AND gateway = OLD.gateway AND endpoint = OLD.endpoint
      AND model = coalesce(':' || OLD.model, '') AND asset = OLD.asset AND part IN (0, 1)) = 0;
    RETURN NULL;
  END $$;
  CREATE TRIGGER calls_count_settled AFTER UPDATE OF payment_status ON calls FOR EACH ROW
    WHEN (NEW.payment_status = 'settled' AND OLD.payment_status <> 'settled') EXECUTE FUNCTION count_settled();
  CREATE TRIGGER calls_count_usage AFTER UPDATE OF usage ON calls FOR EACH ROW
    WHEN (NEW.payment_status = 'settled' AND OLD.payment_status = 'settled' AND NEW.usage IS DISTINCT FROM OLD.usage)
    EXECUTE FUNCTION count_usage();
  CREATE TRIGGER calls_uncount_deleted AFTER DELETE ON calls FOR EACH ROW
    WHEN (OLD.payment_status = 'settled') EXECUTE FUNCTION uncount_deleted();`

const CALL_TOTALS = `
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
      AND NEW.payment_status <> OLD.payment_status) EXECUTE FUNCTION total_payment();`

export const baseline = TABLES + SPEND_TOTALS + CALL_TOTALS
