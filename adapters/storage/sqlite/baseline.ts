/**
 * The schema of the first release in SQLite. Sums of what wallets paid, and of calls by hour and day, were kept by
 * triggers; sums.ts has taken the place of most of them.
 */

const BILLIONS = (paid: string) => `cast(substr(${paid}, 1, length(${paid}) - 9) AS INTEGER)`
const REST = (paid: string) => `cast(substr(${paid}, -9) AS INTEGER)`

/** The bounds of durations, as a released step must spell them. */
const boundOf = (ms: string) => {
  const bounds = [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 320_000]
  return `CASE ${bounds.map((bound) => `WHEN ${ms} <= ${bound} THEN ${bound}`).join(' ')} ELSE 86400000 END`
}

/** Sums that a call counts for. `call` is NEW, OLD or a table. */
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

const TABLES = `
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
    quoted_at INTEGER,
    verified_at INTEGER,
    settling_at INTEGER,
    vendor_error TEXT,
    payment_error TEXT,
    payment_error_at INTEGER,
    settled_by TEXT,
    CHECK ((payment_status = 'settled') = (receipt IS NOT NULL AND settled_at IS NOT NULL)),
    CHECK (payment_status <> 'settling' OR claim_expires_at IS NOT NULL)
  );
  CREATE INDEX calls_unfinished ON calls (lease_expires_at, id) WHERE work_status in ('queued', 'in_progress');
  CREATE INDEX calls_by_worker ON calls (worker_id, gateway, id) WHERE work_status in ('queued', 'in_progress');
  CREATE INDEX calls_settling ON calls (claim_expires_at, id) WHERE payment_status = 'settling';
  CREATE INDEX calls_spent ON calls (payer, settled_at, asset, gateway, endpoint, model, quote, paid, usage) WHERE payment_status = 'settled';
  CREATE INDEX calls_expiring ON calls (expires_at, id) WHERE emptied = 0;
  CREATE INDEX calls_emptied ON calls (settled_at, id) WHERE emptied = 1;
  CREATE INDEX calls_by_time ON calls (created_at, id);
  CREATE INDEX calls_settled ON calls (settled_at, id) WHERE payment_status = 'settled';
  CREATE INDEX calls_in_doubt ON calls (created_at, id) WHERE payment_status in ('settling', 'unresolved');
  -- A day first: a new call then touches the few pages of its day, and not one at random among those of all calls.
  CREATE INDEX calls_of_payer ON calls (created_at / 86400000, payer, created_at, id);
  CREATE INDEX calls_by_transaction ON calls (settled_at / 86400000, substr(receipt ->> 'transaction', -16)) WHERE payment_status = 'settled';

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
  CREATE INDEX authorizations_by_nonce ON authorizations (expires_at / 86400000, substr(key, -16));

  CREATE TABLE records (
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    owner TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    data TEXT,
    PRIMARY KEY (kind, id)
  );
  CREATE INDEX records_expiring ON records (expires_at);
  CREATE INDEX records_of_owner ON records (owner, kind, id);

  CREATE TABLE leases (name TEXT PRIMARY KEY NOT NULL, worker_id TEXT NOT NULL, expires_at INTEGER NOT NULL);

  CREATE TABLE rate_windows (key TEXT PRIMARY KEY NOT NULL, used INTEGER NOT NULL, reset_at INTEGER NOT NULL);
  CREATE INDEX rate_windows_reset ON rate_windows (reset_at);`

const SPEND_TOTALS = `
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
  CREATE INDEX spend_totals_by_day ON spend_totals (day, payer, gateway, endpoint, model);
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
  END;`

const CALL_TOTALS = `
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
  END;`

export const baseline = TABLES + SPEND_TOTALS + CALL_TOTALS
