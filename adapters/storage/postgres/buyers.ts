/**
 * How many wallets paid on each day, remembered once the day is over and counted: to count those of a year of
 * 10,000,000 calls takes seconds. Days that ended lately are counted each time, so no sale writes here.
 *
 * Whoever adds or deletes a wallet of an earlier day (the archive, retention, a late settlement) forgets its counts, by
 * a trigger, which replicas of the first release have too. Whoever counts keeps such changes out until the count is
 * stored; those that were under way have then ended, and are counted.
 */

/** Days since 1970 that have ended by the clock of the database. A sale takes less than a day: it forgets nothing. */
const ENDED = 'extract(epoch from now()) / 86400 - 1'

export const BUYERS = `
  CREATE TABLE buyers_by_day (
    names text NOT NULL, day bigint NOT NULL, buyers bigint NOT NULL, PRIMARY KEY (names, day)
  );
  CREATE INDEX buyers_of_day ON buyers_by_day (day);
  CREATE FUNCTION forget_buyers() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    -- First the lock, then a statement that sees what was counted meanwhile.
    LOCK TABLE buyers_by_day IN ROW EXCLUSIVE MODE;
    DELETE FROM buyers_by_day WHERE day = CASE TG_OP WHEN 'INSERT' THEN NEW.day ELSE OLD.day END;
    RETURN NULL;
  END $$;
  CREATE TRIGGER spend_totals_added AFTER INSERT ON spend_totals FOR EACH ROW
    WHEN (NEW.day < ${ENDED}) EXECUTE FUNCTION forget_buyers();
  CREATE TRIGGER spend_totals_deleted AFTER DELETE ON spend_totals FOR EACH ROW
    WHEN (OLD.day < ${ENDED}) EXECUTE FUNCTION forget_buyers();`
