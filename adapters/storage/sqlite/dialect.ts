/** SQL as SQLite spells it. A write transaction locks the whole file, so rows need no locks. */
import { usdc } from '../../../core/x402/mod.ts'
import type { Dialect } from '../sql/statement.ts'

export const sqliteDialect = {
  isShared: false,
  placeholder: () => '?',
  encode(value) {
    if (typeof value === 'bigint') return value.toString()
    return Array.isArray(value) ? JSON.stringify(value) : value
  },
  decode: {
    // SQLite's INTEGER ends at 2^63, below the 20 digits that x402 allows, and SUM overflows or turns into floats. So
    // amounts are decimal text.
    amount: (digits: string) => usdc(BigInt(digits)),
    json: (text: string) => JSON.parse(text),
    flag: (stored: number) => Number(stored) === 1,
  },
  lock: '',
  lockInOrder: '',
  lockCalls: '',
  lockUnlocked: '',
  among: (column) => `${column} in (select value from json_each(@ids))`,
  deleteSome: (table, condition) =>
    `delete from ${table} where rowid in (select rowid from ${table} where ${condition} limit @limit)`,
  is: (flag, value) => `${flag} = ${Number(value)}`,
  number: (column, key) => `${column} ->> '${key}'`,
  total: (of) => `total(${of})`,
  billions: (of) => `cast(substr(${of}, 1, length(${of}) - 9) as integer)`,
  rest: (of) => `cast(substr(${of}, -9) as integer)`,
  greater: (one, other) => `max(${one}, ${other})`,
  lookups: {
    open: 'calls',
    settled: 'calls',
    wallet: 'payer',
    settledAt: 'settled_at',
    settledId: 'id',
    missing: '',
    spendable: 'authorizations join calls on calls.id = authorizations.call',
    spender: 'authorizations.payer',
    spendableUntil: 'authorizations.expires_at',
    dueAt: 'expires_at',
    inserted: {},
    expiring: '',
    postponed: 'expires_at = expires_at',
  },
  // These indexes have a day first: a new call then touches the few pages of its day, and not one at random among
  // those of all calls. So each day that there is is looked up.
  nonceEndsInTail: `authorizations.key in (
    with recursive days(day) as (
      select min(expires_at / 86400000) from authorizations
      union all
      select (select min(expires_at / 86400000) from authorizations where expires_at / 86400000 > day)
      from days where day is not null
    )
    select key from days cross join authorizations
    where expires_at / 86400000 = day and substr(key, -16) = @tail
  )`,
  transactionEndsInTail: `id in (
    with recursive days(day) as (
      select min(settled_at / 86400000) from calls where payment_status = 'settled'
      union all
      select (
        select min(settled_at / 86400000) from calls where payment_status = 'settled' and settled_at / 86400000 > day
      ) from days where day is not null
    )
    select id from days cross join calls
    where payment_status = 'settled' and settled_at / 86400000 = day
      and substr(receipt ->> 'transaction', -16) = @tail
  )`,
} satisfies Dialect
