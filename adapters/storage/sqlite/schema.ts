import { sql } from 'drizzle-orm'
import { customType, index, integer, primaryKey, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import type { BindingStatus } from '../../../core/payment/exposure.ts'
import { type Usdc, usdc } from '../../../core/x402/money.ts'
import type { Authorization, PaymentStatus, SettledBy, Usage, WorkStatus } from '../../../core/ports/mod.ts'
import type { Json } from '../../../core/lib/json.ts'
import type { Offer, Receipt } from '../../../core/x402/protocol.ts'

/**
 * Money as decimal text. SQLite's INTEGER ends at 2^63, below the 20 digits that x402 allows, and SUM overflows or
 * turns into floats. So amounts are text, and core adds them as bigint, singly or as partial sums.
 */
const money = customType<{ data: Usdc; driverData: string | null }>({
  dataType: () => 'text',
  toDriver: (amount: Usdc | null) => (amount === null ? null : amount.toString()),
  fromDriver: (digits) => usdc(BigInt(digits as string)),
})

/** JSON as text. JSON null is stored as NULL. */
const json = customType<{ data: unknown; driverData: string | null }>({
  dataType: () => 'text',
  toDriver: (value) => (value === null ? null : JSON.stringify(value)),
  fromDriver: (written) => (written === null ? null : JSON.parse(written)),
})

/**
 * Every paid call: its work, its payment and the claim to settle it. Wide columns come last, so that statements that
 * read only the others never load them. What a wallet spent is read from `calls_spent` alone, which holds every column
 * that the sum needs.
 */
export const calls = sqliteTable(
  'calls',
  {
    id: text().primaryKey(),
    gateway: text().notNull(),
    endpoint: text().notNull(),
    model: text(),
    payer: text().notNull(),
    asset: text().notNull(),
    quote: money().notNull(),
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
    claimFresh: integer('claim_fresh', { mode: 'boolean' }).notNull(),
    emptied: integer({ mode: 'boolean' }).notNull(),
    usage: json().$type<Usage>(),
    charge: money('paid'),
    offer: json().$type<Offer>().notNull(),
    error: text(),
    receipt: json().$type<Receipt>(),
    request: json().$type<Json>(),
    result: json().$type<Json>(),
    // Behind the wide columns, because a later migration added them; only the operator's listings read them.
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
    index('calls_of_payer').on(sql`created_at / 86400000`, call.payer, call.createdAt, call.id),
    index('calls_settled')
      .on(call.settledAt, call.id)
      .where(sql`payment_status = 'settled'`),
    index('calls_by_transaction')
      .on(sql`settled_at / 86400000`, sql`substr(receipt ->> 'transaction', -16)`)
      .where(sql`payment_status = 'settled'`),
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
      .on(
        call.payer,
        call.settledAt,
        call.asset,
        call.gateway,
        call.endpoint,
        call.model,
        call.quote,
        call.charge,
        call.usage,
      )
      .where(sql`payment_status = 'settled'`),
    index('calls_in_doubt')
      .on(call.createdAt, call.id)
      .where(sql`payment_status in ('settling', 'unresolved')`),
    index('calls_expiring')
      .on(call.expiresAt, call.id)
      .where(sql`emptied = 0`),
    index('calls_emptied')
      .on(call.settledAt, call.id)
      .where(sql`emptied = 1`),
  ],
)

/**
 * The call that an authorization serves. `signed` is NULL once a settled call has been emptied; the key stays bound.
 */
export const authorizations = sqliteTable(
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
    index('authorizations_by_nonce').on(sql`expires_at / 86400000`, sql`substr(key, -16)`),
    index('authorizations_spendable')
      .on(binding.payer, binding.expiresAt)
      .where(sql`status in ('open', 'sent')`),
  ],
)

/** Small records beside the calls, each of one wallet. */
export const records = sqliteTable(
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

export const leases = sqliteTable('leases', {
  name: text().primaryKey(),
  workerId: text('worker_id').notNull(),
  expiresAt: integer('expires_at').notNull(),
})

export const rateWindows = sqliteTable(
  'rate_windows',
  {
    key: text().primaryKey(),
    used: integer().notNull(),
    resetAt: integer('reset_at').notNull(),
  },
  (window) => [index('rate_windows_reset').on(window.resetAt)],
)

/**
 * What each wallet paid, by day of settlement (days since 1970): kept by triggers, so that reports need not read every
 * call. `model` has a colon before it, or is empty where there is none. Amounts are two sums, of whole billions and of
 * the rest. Parts: 1 is kept by the triggers, 0 is what was settled before there were any.
 */
export const spendTotals = sqliteTable(
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
    billions: integer().notNull(),
    rest: integer().notNull(),
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

/**
 * Sums of calls by hour and by day, which begins at `at`; `unit` is its length in milliseconds. Kept by triggers.
 * `model` and amounts are as in spend_totals; `part` is always 0 here.
 */
export const callTotals = sqliteTable(
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
    billions: integer().notNull(),
    rest: integer().notNull(),
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
export const migrations = sqliteTable('migrations', {
  step: integer().primaryKey(),
  name: text().notNull(),
  minReader: integer('min_reader').notNull(),
})
