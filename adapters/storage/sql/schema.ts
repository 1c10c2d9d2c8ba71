/**
 * The tables that every SQL database of Farebox has, in the order of their columns. Each database spells them in its
 * migrations, with its indexes; tests compare the two.
 */
import type { BindingStatus, Row as CallRow } from '../../../core/payment/mod.ts'
import type { Authorization, CallTotal, PaymentStatus, SettledBy, Usage, WorkStatus } from '../../../core/ports/mod.ts'
import type { Json } from '../../../core/lib/mod.ts'
import type { Offer, Receipt, Usdc } from '../../../core/x402/mod.ts'

/**
 * How a value is stored. amount: an exact integer of any size. json: text, because jsonb reorders keys and rejects
 * U+0000; JSON null is NULL. flag: true or false.
 */
export type Kind = 'text' | 'integer' | 'amount' | 'json' | 'flag'

/** A column, or an expression that is read as one. `sql` is its text in a statement. */
export type Column<T = unknown> = {
  readonly sql: string
  readonly kind: Kind
  readonly isNullable: boolean
  /** Only a type: what is read from the column. */
  readonly value?: T
}

export type Fields = Readonly<Record<string, Column>>
/** A row as it is read: an object by the names of the fields. */
export type RowOf<F extends Fields> = { [Name in keyof F]: F[Name] extends Column<infer T> ? T : never }

export type Table<F extends Fields = Fields> = {
  readonly name: string
  readonly fields: F
  /** The fields of its primary key. */
  readonly key: readonly string[]
}

/** An expression that is read as a column of this kind is. */
export function expression<T>(sql: string, kind: Kind): Column<T> {
  return { sql, kind, isNullable: true }
}

const column = <T>(kind: Kind): Column<T> => ({ sql: '', kind, isNullable: false })
const text = <T extends string = string>() => column<T>('text')
const integer = column<number>('integer')
const amount = column<Usdc>('amount')
const flag = column<boolean>('flag')
const json = <T>() => column<T>('json')
const nullable = <T>(of: Column<T>): Column<T | null> => ({ ...of, isNullable: true })
const called = <T>(name: string, of: Column<T>): Column<T> => ({ ...of, sql: name })

const snakeCase = (field: string) => field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** A column is named as its field, in snake case, unless it has a name. */
function table<F extends Fields>(name: string, key: readonly (keyof F & string)[], fields: F): Table<F> {
  const named = Object.entries(fields).map(([field, of]) => [
    field,
    { ...of, sql: `${name}."${of.sql || snakeCase(field)}"` },
  ])
  return { name, key, fields: Object.fromEntries(named) as F }
}

/** Every paid call: its work, its payment and the claim to settle it. */
export const calls = table('calls', ['id'], {
  id: text(),
  gateway: text(),
  endpoint: text(),
  model: nullable(text()),
  payer: text(),
  asset: text(),
  quote: amount,
  authorization: text(),
  fingerprint: text(),
  createdAt: integer,
  workStatus: text<WorkStatus>(),
  paymentStatus: text<PaymentStatus>(),
  workerId: text(),
  leaseExpiresAt: integer,
  startedAt: nullable(integer),
  endedAt: nullable(integer),
  settledAt: nullable(integer),
  expiresAt: integer,
  claimToken: integer,
  claimExpiresAt: nullable(integer),
  claimKey: nullable(text()),
  claimFresh: flag,
  emptied: flag,
  usage: nullable(json<Usage>()),
  charge: called('paid', nullable(amount)),
  // Wide columns come last, so that statements that read only the others never load them.
  offer: json<Offer>(),
  error: nullable(text()),
  receipt: nullable(json<Receipt>()),
  request: nullable(json<Json>()),
  result: nullable(json<Json>()),
  // Only the listings of the operator read these.
  quotedAt: nullable(integer),
  verifiedAt: nullable(integer),
  settlingAt: nullable(integer),
  vendorError: nullable(text()),
  paymentError: nullable(text()),
  paymentErrorAt: nullable(integer),
  settledBy: nullable(text<SettledBy>()),
} satisfies { readonly [Field in keyof CallRow]: Column<CallRow[Field]> })

/**
 * The call that an authorization serves. `signed` is NULL once a settled call has been emptied; the key stays bound.
 */
export const authorizations = table('authorizations', ['key'], {
  key: text(),
  call: text(),
  payer: text(),
  position: integer,
  status: text<BindingStatus>(),
  expiresAt: integer,
  signed: nullable(json<Authorization>()),
})

/** Small records beside the calls, each of one owner. */
export const records = table('records', ['kind', 'id'], {
  kind: text(),
  id: text(),
  owner: text(),
  expiresAt: integer,
  data: nullable(json<Json>()),
})

export const leases = table('leases', ['name'], { name: text(), workerId: text(), expiresAt: integer })

export const rateWindows = table('rate_windows', ['key'], { key: text(), used: integer, resetAt: integer })

/**
 * Payments of each wallet by day of settlement (days since 1970): kept as calls settle, so that reports need not read
 * every call. `model` has a colon before it, or is empty where there is none. Amounts are two sums, of whole billions
 * and of the rest. Parts: 1 is kept as calls settle, 2 is what was archived, 0 is what was settled before there were
 * any.
 */
export const spendTotals = table('spend_totals', ['payer', 'day', 'gateway', 'endpoint', 'model', 'asset', 'part'], {
  payer: text(),
  day: integer,
  gateway: text(),
  endpoint: text(),
  model: text(),
  asset: text(),
  part: integer,
  calls: integer,
  billions: amount,
  rest: amount,
  inputTokens: integer,
  outputTokens: integer,
  lastAt: integer,
})

/**
 * Sums of calls by hour and by day, which begins at `at`; `unit` is its length in milliseconds. Kept as calls end.
 * `model` and amounts are as in spend_totals; the parts of one sum are added when they are read.
 */
export const callTotals = table(
  'call_totals',
  ['unit', 'at', 'gateway', 'endpoint', 'model', 'outcome', 'upToMs', 'part'],
  {
    unit: integer,
    at: integer,
    gateway: text(),
    endpoint: text(),
    model: text(),
    outcome: text<CallTotal['outcome']>(),
    upToMs: integer,
    part: integer,
    calls: integer,
    billions: amount,
    rest: amount,
  },
)

/** The migrations that this database has taken. */
const migrations = table('migrations', ['step'], { step: integer, name: text(), minReader: integer })

export const tables = [calls, authorizations, records, leases, rateWindows, spendTotals, callTotals, migrations]

/** Fields whose values are stored as JSON, in any table. */
export const JSON_FIELDS: ReadonlySet<string> = new Set(
  tables.flatMap(({ fields }) =>
    Object.entries(fields as Fields).flatMap(([field, { kind }]) => (kind === 'json' ? [field] : [])),
  ),
)
