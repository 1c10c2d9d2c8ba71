/** One payment as the operator reads it: its status, its timeline, and whether its wallet was charged. */
import { isUnfinished } from '../../core/payment/mod.ts'
import type { LedgerAuthorization, LedgerEntry } from '../../core/ports/mod.ts'
import { parseAtomic, print, type Usdc } from '../../core/x402/mod.ts'

export const STATUSES = [
  'working',
  'failed',
  'uncollected',
  'free',
  'settling',
  'settled',
  'refused',
  'unresolved',
] as const
export type Status = (typeof STATUSES)[number]

/** Meaning of each status, for documents and help texts. */
export const STATUS_WORDS: Readonly<Record<Status, string>> = {
  working: 'paid for by a verified authorization, and still at work; nothing was charged',
  failed: 'the work failed; nothing was charged',
  uncollected: 'the result is ready and unpaid; it is charged when its wallet collects it',
  free: 'the price was 0; nothing is charged',
  settling: 'the payment was handed to the chain or its outcome is not known yet',
  settled: 'charged',
  refused: 'the payment was refused after the work; nothing was charged so far',
  unresolved: 'the outcome could not be found out in time; look it up on the chain',
}

type TimelineEvent = {
  readonly at: string
  readonly event:
    | 'quoted'
    | 'verified'
    | 'opened'
    | 'started'
    | 'completed'
    | 'failed'
    | 'settling'
    | 'not_settled'
    | 'settled'
    | 'collected'
  readonly text: string
}

/** A row of a listing. Amounts are USDC as decimals; times are ISO 8601. */
export type PaymentRow = {
  readonly id: string
  readonly status: Status
  readonly charged: boolean | null
  readonly gateway: string
  readonly endpoint: string
  readonly model: string | null
  readonly payer: string
  readonly network: string
  readonly quoted_usdc: string
  readonly charged_usdc: string | null
  readonly transaction: string | null
  readonly block: number | null
  readonly created_at: string
  readonly settled_at: string | null
  readonly error: string | null
  readonly vendor_error: string | null
  readonly payment_error: string | null
}

export type Payment = PaymentRow & {
  /** The answer to "was this wallet charged?" in a sentence or two. */
  readonly answer: string
  readonly timeline: readonly TimelineEvent[]
  readonly authorizations: readonly {
    readonly key: string
    readonly status: LedgerAuthorization['status']
    readonly expires_at: string
  }[]
  readonly tokens: { readonly input: number; readonly output: number } | null
  readonly pay_to: string
  readonly asset: string
  readonly expires_at: string
}

export function statusOf(entry: Pick<LedgerEntry, 'workStatus' | 'paymentStatus' | 'quote'>): Status {
  const { workStatus, paymentStatus, quote } = entry
  if (paymentStatus !== 'verified') return paymentStatus
  if (isUnfinished(workStatus)) return 'working'
  if (workStatus === 'failed') return 'failed'
  return quote === 0n ? 'free' : 'uncollected'
}

export function rowOf(entry: LedgerEntry): PaymentRow {
  const { id, gateway, endpoint, model, payer, offer, quote, receipt, createdAt, settledAt } = entry
  const status = statusOf(entry)
  return {
    id,
    status,
    charged: chargedIn(status),
    gateway,
    endpoint,
    model,
    payer,
    network: offer.network,
    quoted_usdc: print(quote),
    charged_usdc: receipt && print(paidIn(entry)),
    transaction: receipt?.transaction || null,
    block: receipt?.block ?? null,
    created_at: iso(createdAt),
    settled_at: settledAt === null ? null : iso(settledAt),
    error: entry.error,
    vendor_error: entry.vendorError,
    payment_error: entry.paymentError,
  }
}

export function paymentOf(entry: LedgerEntry, authorizations: readonly LedgerAuthorization[]): Payment {
  return {
    ...rowOf(entry),
    answer: answerOf(entry, authorizations),
    timeline: timelineOf(entry),
    authorizations: authorizations.map(({ key, status, expiresAt }) => ({ key, status, expires_at: iso(expiresAt) })),
    tokens: entry.usage,
    pay_to: entry.offer.payTo,
    asset: entry.offer.asset,
    expires_at: iso(entry.expiresAt),
  }
}

/** Amount charged: that of the receipt, or the quote if the receipt states none. */
export function paidIn({ receipt, quote }: Pick<LedgerEntry, 'receipt' | 'quote'>): Usdc {
  return parseAtomic(receipt?.amount) ?? quote
}

/** Null where it is not known. */
function chargedIn(status: Status): boolean | null {
  if (status === 'settling' || status === 'unresolved') return null
  return status === 'settled'
}

function answerOf(entry: LedgerEntry, authorizations: readonly LedgerAuthorization[]): string {
  const { payer, quote, charge, receipt, settledAt, expiresAt, error, paymentError } = entry
  const price = `${print(charge ?? quote)} USDC`
  switch (statusOf(entry)) {
    case 'settled': {
      const transaction = receipt?.transaction ? ` by transaction ${receipt.transaction}` : ''
      return `Yes. ${payer} paid ${print(paidIn(entry))} USDC${transaction}, recorded at ${iso(settledAt ?? 0)}.`
    }
    case 'failed':
      return `No. The work failed, so nothing was charged: ${error ?? 'no reason was recorded'}`
    case 'working':
      return `No. The work goes on; ${price} will be charged when there is a result.`
    case 'uncollected':
      return `No. The result is ready, and nobody has paid for it. Its wallet can collect it for ${price} until ${iso(expiresAt)}.`
    case 'free':
      return 'No. The price was 0: the signature proved the wallet and moved nothing.'
    case 'refused':
      return `No. The work was done, and the payment was refused: ${paymentError ?? 'no reason was recorded'}. The result waits for a payment until ${iso(expiresAt)}.`
    case 'settling':
      return `Not known yet. The payment of ${price} was handed over, and its outcome is being looked up${paymentError === null ? '' : `: ${paymentError}`}.`
    case 'unresolved': {
      const keys = authorizations.filter(({ status }) => status === 'sent').map(({ key }) => key)
      return `Not known. The outcome could not be found out in time; look on the chain for ${keys.join(' or ') || 'its authorization'}.`
    }
  }
}

const COLLECTED = {
  reply: 'The reply to the order carried the result.',
  poll: 'A poll of the wallet settled the payment and carried the result.',
  maintenance: undefined,
} as const

function timelineOf(entry: LedgerEntry): readonly TimelineEvent[] {
  const { createdAt, endpoint, model, offer, quote, receipt, settledAt, settledBy, workStatus } = entry
  const what = model === null ? endpoint : `${endpoint}, ${model}`
  const vendor = entry.vendorError === null ? '' : ` Vendor: ${entry.vendorError}.`
  const by = { reply: '', poll: ' by a poll', maintenance: ' by maintenance, after its reply' }[settledBy ?? 'reply']
  const events: readonly [number | null, TimelineEvent['event'], string | undefined][] = [
    [entry.quotedAt, 'quoted', `${print(quote)} USDC for ${what}.`],
    [entry.verifiedAt, 'verified', `The payment of ${entry.payer} on ${offer.network} verified.`],
    [createdAt, 'opened', `The call was opened on gateway ${entry.gateway}.`],
    [entry.startedAt, 'started', 'The work went on as a job.'],
    [entry.endedAt, workStatus === 'failed' ? 'failed' : 'completed', endOf(entry, vendor)],
    [entry.settlingAt, 'settling', 'The payment was handed over to be settled.'],
    [
      entry.paymentErrorAt,
      'not_settled',
      `An attempt to settle moved no money, or its outcome was not known: ${entry.paymentError ?? ''}.`,
    ],
    [settledAt, 'settled', `${print(paidIn(entry))} USDC moved${by}. ${receipt?.transaction || ''}`.trim()],
    [settledAt, 'collected', settledBy === null ? undefined : COLLECTED[settledBy]],
  ]
  return events
    .flatMap(([at, event, text]) => (at === null || text === undefined ? [] : [{ at, event, text }]))
    .toSorted((one, other) => one.at - other.at)
    .map(({ at, ...event }) => ({ at: iso(at), ...event }))
}

function endOf({ workStatus, error }: LedgerEntry, vendor: string): string | undefined {
  if (workStatus === 'completed') return 'The work was done and its result was stored.'
  return workStatus === 'failed' ? `${error ?? 'The work failed.'}${vendor}` : undefined
}

export const iso = (at: number): string => new Date(at).toISOString()
