import { sql } from 'drizzle-orm'
import { bigint, boolean, customType, index, pgTable, primaryKey, uniqueIndex } from 'drizzle-orm/pg-core'
import type { BindingStatus } from '../../../core/payment/exposure.ts'
import { type Usdc, usdc } from '../../../core/x402/money.ts'
import type { Authorization, PaymentStatus, SettledBy, Usage, WorkStatus } from '../../../core/ports/mod.ts'
import type { Json } from '../../../core/lib/json.ts'
import type { Offer, Receipt } from '../../../core/x402/protocol.ts'

/** Money as an exact integer, as wide as an EVM word. A report may SUM it. */
const amount = customType<{ data: Usdc; driverData: string | null }>({
  dataType: () => 'numeric(78,0)',
  toDriver: (value: Usdc | null) => (value === null ? null : value.toString()),
  fromDriver: (digits) => usdc(BigInt(digits as string)),
})

/** JSON as text, because jsonb reorders keys and rejects U+0000. JSON null is stored as NULL. */
const json = customType<{ data: unknown; driverData: string | null }>({
  dataType: () => 'text',
  toDriver: (value) => (value === null ? null : JSON.stringify(value)),
  fromDriver: (written) => (written === null ? null : JSON.parse(written)),
})

/** Text of any characters. Postgres has no U+0000: it is stored as U+E000 0, and the private-use U+E000 as U+E000 1. */
const text = customType<{ data: string; driverData: string | null }>({
  dataType: () => 'text',
  toDriver: (value) => (value === null ? null : value.replaceAll('\uE000', '\uE0001').replaceAll('\0', '\uE0000')),
  fromDriver: (written) => (written ?? '').replaceAll('\uE0000', '\0').replaceAll('\uE0001', '\uE000'),
})

/** Milliseconds since 1970, and counters: integers up to 2^53. */
const integer = (name?: string) => (name === undefined ? bigint({ mode: 'number' }) : bigint(name, { mode: 'number' }))

/**
 * The tables of ../sqlite/schema.ts, field by field, as Postgres spells them. Wide columns are stored out of line and
 * not loaded unless read.
 */
export const calls = pgTable(
  'calls',
  {
    id: text().primaryKey(),
    gateway: text().notNull(),
    endpoint: text().notNull(),
    model: text(),
    payer: text().notNull(),
    asset: text().notNull(),
    quote: amount().notNull(),
    authorization: text().notNull(),
    fingerprint: text().notNull(),
    createdAt: integer('created_at').notNull(),
    workStatus: text('work_status').$type<WorkStatus>().notNull(),
    paymentStatus: text('payment_status').$type<PaymentStatus>().notNull(),
    workerId: text('worker_id').notNull(),
    leaseExpiresAt: integer('lease_expires_at').notNull(),
    startedAt: integer('started_at'),
    endedAt: integer('ended_at'),
    settledAt: integer('settled_at'),
    expiresAt: integer('expires_at').notNull(),
    claimToken: integer('claim_token').notNull(),
    claimExpiresAt: integer('claim_expires_at'),
    claimKey: text('claim_key'),
    claimFresh: boolean('claim_fresh').notNull(),
    emptied: boolean().notNull(),
    usage: json().$type<Usage>(),
    charge: amount('paid'),
    offer: json().$type<Offer>().notNull(),
    error: text(),
    receipt: json().$type<Receipt>(),
    request: json().$type<Json>(),
    result: json().$type<Json>(),
    quotedAt: integer('quoted_at'),
    verifiedAt: integer('verified_at'),
    settlingAt: integer('settling_at'),
    vendorError: text('vendor_error'),
    paymentError: text('payment_error'),
    paymentErrorAt: integer('payment_error_at'),
    settledBy: text('settled_by').$type<SettledBy>(),
  },
  (call) => [
    index('calls_by_time').on(call.createdAt, call.id),
    index('calls_of_payer').on(call.payer, call.createdAt, call.id),
    index('calls_settled')
      .on(call.settledAt, call.id)
      .where(sql`payment_status = 'settled'`),
    index('calls_by_transaction')
      .on(sql`substring(receipt from '"transaction":"[^"]*([^"]{16})"')`)
      .where(sql`receipt IS NOT NULL`),
    index('calls_unfinished')
      .on(call.leaseExpiresAt, call.id)
      .where(sql`work_status in ('queued', 'in_progress')`),
    index('calls_by_worker')
      .on(call.workerId, call.gateway, call.id)
      .where(sql`work_status in ('queued', 'in_progress')`),
    index('calls_settling')
      .on(call.claimExpiresAt, call.id)
      .where(sql`payment_status = 'settling'`),
    index('calls_spent')
      .on(call.payer, call.settledAt)
      .where(sql`payment_status = 'settled'`),
    index('calls_in_doubt')
      .on(call.createdAt, call.id)
      .where(sql`payment_status in ('settling', 'unresolved')`),
    index('calls_expiring')
      .on(call.expiresAt, call.id)
      .where(sql`not emptied`),
    index('calls_emptied')
      .on(call.settledAt, call.id)
      .where(sql`emptied`),
  ],
)

/**
 * The call that an authorization serves. `signed` is NULL once a settled call has been emptied; the key stays bound.
 */
export const authorizations = pgTable(
  'authorizations',
  {
    key: text().primaryKey(),
    call: text()
      .notNull()
      .references(() => calls.id),
    payer: text().notNull(),
    position: integer('position').notNull(),
    status: text('status').$type<BindingStatus>().notNull(),
    expiresAt: integer('expires_at').notNull(),
    signed: json().$type<Authorization>(),
  },
  (binding) => [
    uniqueIndex('authorizations_of_call').on(binding.call, binding.position),
    index('authorizations_by_nonce').on(sql`right(key, 16)`),
    index('authorizations_spendable')
      .on(binding.payer, binding.expiresAt)
      .where(sql`status in ('open', 'sent')`),
  ],
)

/** Small records beside the calls, each of one wallet. */
export const records = pgTable(
  'records',
  {
    kind: text().notNull(),
    id: text().notNull(),
    owner: text().notNull(),
    expiresAt: integer('expires_at').notNull(),
    data: json().$type<Json>(),
  },
  (record) => [
    primaryKey({ columns: [record.kind, record.id] }),
    index('records_expiring').on(record.expiresAt),
    index('records_of_owner').on(record.owner, record.kind, record.id),
  ],
)

export const leases = pgTable('leases', {
  name: text().primaryKey(),
  workerId: text('worker_id').notNull(),
  expiresAt: integer('expires_at').notNull(),
})

export const rateWindows = pgTable(
  'rate_windows',
  {
    key: text().primaryKey(),
    used: integer().notNull(),
    resetAt: integer('reset_at').notNull(),
  },
  (window) => [index('rate_windows_reset').on(window.resetAt)],
)

/** The sums of ../sqlite/schema.ts. */
export const spendTotals = pgTable(
  'spend_totals',
  {
    payer: text().notNull(),
    day: integer().notNull(),
    gateway: text().notNull(),
    endpoint: text().notNull(),
    model: text().notNull(),
    asset: text().notNull(),
    part: integer().notNull(),
    calls: integer().notNull(),
    billions: amount().notNull(),
    rest: amount().notNull(),
    inputTokens: integer('input_tokens').notNull(),
    outputTokens: integer('output_tokens').notNull(),
    lastAt: integer('last_at').notNull(),
  },
  (total) => [
    primaryKey({
      columns: [total.payer, total.day, total.gateway, total.endpoint, total.model, total.asset, total.part],
    }),
    index('spend_totals_by_day').on(total.day, total.payer, total.gateway, total.endpoint, total.model),
  ],
)

/** Sums as in ../sqlite/schema.ts, each in parts by connection, which are added when they are read. */
export const callTotals = pgTable(
  'call_totals',
  {
    unit: integer().notNull(),
    at: integer().notNull(),
    gateway: text().notNull(),
    endpoint: text().notNull(),
    model: text().notNull(),
    outcome: text().notNull(),
    upToMs: integer('up_to_ms').notNull(),
    part: integer().notNull(),
    calls: integer().notNull(),
    billions: amount().notNull(),
    rest: amount().notNull(),
  },
  (total) => [
    primaryKey({
      columns: [
        total.unit,
        total.at,
        total.gateway,
        total.endpoint,
        total.model,
        total.outcome,
        total.upToMs,
        total.part,
      ],
    }),
  ],
)

/** The steps of migrations.ts that this database has taken. */
export const migrations = pgTable('migrations', {
  step: integer().primaryKey(),
  name: text().notNull(),
  minReader: integer('min_reader').notNull(),
})
