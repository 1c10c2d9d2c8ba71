/** SQL as Postgres spells it. Several replicas write at the same time, so what is changed is locked first. */
import { usdc } from '../../../core/x402/mod.ts'
import type { Dialect } from '../sql/statement.ts'

/** Postgres has no U+0000: it is stored as U+E000 0, and the private-use U+E000 as U+E000 1. */
const written = (text: string) => text.replaceAll('\uE000', '\uE0001').replaceAll('\0', '\uE0000')
const read = (text: string) => text.replaceAll('\uE0000', '\0').replaceAll('\uE0001', '\uE000')

export const postgresDialect = {
  isShared: true,
  placeholder: (position) => `$${position}`,
  encode(value) {
    if (typeof value === 'string') return written(value)
    return Array.isArray(value) ? value.map((each) => written(String(each))) : value
  },
  decode: {
    text: read,
    // Milliseconds since 1970, and counters, up to 2^53.
    integer: Number,
    amount: (digits: string) => usdc(BigInt(digits)),
    json: (text: string) => JSON.parse(text),
  },
  lock: 'for no key update',
  lockInOrder: 'order by id for no key update',
  lockCalls: 'for no key update of calls',
  lockUnlocked: 'for no key update of calls skip locked',
  among: (column) => `${column} = any(@ids::text[])`,
  // Through an array, so that the rows are selected and locked once.
  deleteSome: (table, condition) =>
    `delete from ${table} where ctid = any(array(
      select ctid from ${table} where ${condition} limit @limit for update skip locked
    ))`,
  is: (flag, value) => (value ? flag : `not ${flag}`),
  number: (column, key) => `(${column}::json ->> '${key}')::numeric`,
  total: (of) => `coalesce(sum(${of}), 0)`,
  billions: (of) => `div(${of}, 1000000000)`,
  rest: (of) => `mod(${of}, 1000000000)`,
  greater: (one, other) => `greatest(${one}, ${other})`,
  lookups: {
    open: 'open_calls join calls on calls.id = open_id',
    settled: 'settled_calls join calls on calls.id = settled_id',
    wallet: 'wallet',
    settledAt: 'paid_at',
    settledId: 'settled_id',
    missing: 'and (block is null or block > coalesce(@block::bigint, -1))',
    spendable: `spendable_authorizations
      join authorizations on authorizations.call = spendable_of and authorizations.position = at
      join calls on calls.id = spendable_of`,
    spender: 'wallet',
    spendableUntil: 'until',
    dueAt: 'due_at',
    inserted: { due_at: 'least(@expiresAt::bigint, @createdAt::bigint + 86400000)' },
    expiring: ', due_at = least(due_at, @expiresAt)',
    postponed: 'due_at = expires_at',
  },
  nonceEndsInTail: 'right(authorizations.key, 16) = @tail',
  transactionEndsInTail: 'tail = @tail',
} satisfies Dialect
