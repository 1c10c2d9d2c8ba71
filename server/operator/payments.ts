/** Listings of payments, one payment by any of its names, and what a wallet has paid. */
import { families, WALLET_FORM } from '../../adapters/chains/families.ts'
import { addressIn, type LedgerCursor, type LedgerEntry, type LedgerReads } from '../../core/ports/mod.ts'
import { print, usdc } from '../../core/x402/mod.ts'
import { iso, type Payment, type PaymentRow, paymentOf, rowOf, type Status, STATUSES, statusOf } from './payment.ts'

type Filter = {
  /** Milliseconds since 1970, the first inclusive and the second exclusive. */
  readonly since: number
  readonly until: number
  readonly payer?: string
  readonly model?: string
  readonly endpoint?: string
  readonly gateway?: string
  readonly status?: Status
  readonly limit: number
  readonly after?: LedgerCursor
}

export type Page = { readonly payments: readonly PaymentRow[]; readonly next: string | null }

/** A field that cannot be read: its name, its value and what is allowed. */
export type Mistake = { readonly path: string; readonly message: string }
type ReadFilter =
  | { readonly ok: true; readonly filter: Filter }
  | { readonly ok: false; readonly mistakes: readonly Mistake[] }

export const FILTERS = ['since', 'until', 'payer', 'model', 'endpoint', 'gateway', 'status', 'limit', 'next', 'format']
export const MAX_LIMIT = 1_000
const USUAL_LIMIT = 50
/** Entries that one page may look at, however few of them fit, and how many are read at a time. */
const MAX_SCANNED = 5_000
const BATCH = 250

/** Reads the filters of a query or of a command line. Every value is a text. */
export function readFilter(fields: Readonly<Record<string, string | undefined>>, now: number): ReadFilter {
  const mistakes: Mistake[] = []
  const wrong = (path: string, allowed: string) =>
    void mistakes.push({ path, message: `${JSON.stringify(fields[path])} is not allowed here; ${allowed}` })
  for (const name of Object.keys(fields))
    if (!FILTERS.includes(name)) wrong(name, `the filters are ${FILTERS.join(', ')}`)
  const time = (name: 'since' | 'until', otherwise: number) => {
    const at = fields[name] === undefined ? otherwise : timeOf(fields[name], now)
    if (at === undefined) wrong(name, 'write a date (2026-11-22), a time (2026-11-22T08:00:00Z) or a span (24h, 7d)')
    return at ?? otherwise
  }
  const { payer, model, endpoint, gateway, status, limit, next, format } = fields
  const [since, until] = [time('since', 0), time('until', now + 1)]
  if (fields.since !== undefined && since >= until) wrong('since', 'it must be before until')
  if (payer !== undefined && !isWallet(payer)) wrong('payer', `write ${WALLET_FORM}`)
  if (status !== undefined && !isStatus(status)) wrong('status', `write one of ${STATUSES.join(', ')}`)
  const wanted = limit === undefined ? USUAL_LIMIT : Number(limit)
  if (!Number.isInteger(wanted) || wanted < 1 || wanted > MAX_LIMIT)
    wrong('limit', `write a whole number from 1 to ${MAX_LIMIT}`)
  const after = next === undefined ? undefined : cursorOf(next)
  if (next !== undefined && !after) wrong('next', 'use `next` of the page before, unchanged')
  if (format !== undefined && format !== 'csv' && format !== 'json') wrong('format', 'write csv or json')
  if (mistakes.length > 0) return { ok: false, mistakes }
  const filter = {
    since,
    until,
    limit: wanted,
    ...(payer !== undefined && { payer: walletOf(payer) }),
    ...(model !== undefined && { model }),
    ...(endpoint !== undefined && { endpoint }),
    ...(gateway !== undefined && { gateway }),
    ...(status !== undefined && isStatus(status) && { status }),
    ...(after && { after }),
  }
  return { ok: true, filter }
}

/**
 * One page, newest first. It looks at a bounded number of entries, so a page may be short, or empty, while `next` leads
 * on.
 */
export async function listPayments(ledger: LedgerReads, filter: Filter): Promise<Page> {
  const { since, until, payer, limit } = filter
  const found: LedgerEntry[] = []
  let after = filter.after
  for (let scanned = 0; scanned < MAX_SCANNED; scanned += BATCH) {
    const entries = await ledger.listCalls({
      since,
      until,
      limit: BATCH,
      ...(payer !== undefined && { payer }),
      ...(after && { after }),
    })
    for (const entry of entries) {
      after = { at: entry.createdAt, id: entry.id }
      if (!fits(entry, filter)) continue
      found.push(entry)
      if (found.length === limit) return { payments: found.map(rowOf), next: nextOf(after) }
    }
    if (entries.length < BATCH) return { payments: found.map(rowOf), next: null }
  }
  return { payments: found.map(rowOf), next: after ? nextOf(after) : null }
}

/** Every payment with this call id, transaction, nonce or authorization key, newest first. */
export async function findPayments(ledger: LedgerReads, name: string): Promise<readonly Payment[]> {
  const isHex = /^0x[0-9a-f]+$/i.test(name)
  const entries = await ledger.findCalls(isHex ? name.toLowerCase() : name, MAX_FOUND)
  return await Promise.all(entries.map(async (entry) => paymentOf(entry, await ledger.listAuthorizations(entry.id))))
}

const MAX_FOUND = 100

export type WalletReport = {
  readonly wallet: string
  readonly answer: string
  readonly charged_usdc: string
  readonly charged_calls: number
  readonly last_charged_at: string | null
  readonly by_model: readonly {
    readonly gateway: string
    readonly endpoint: string
    readonly model: string | null
    readonly network: string
    readonly calls: number
    readonly charged_usdc: string
  }[]
  /** Results that are ready and unpaid, and payments whose outcome is not known, among the last calls. */
  readonly uncollected: readonly PaymentRow[]
  readonly in_doubt: readonly PaymentRow[]
  readonly last_calls: readonly PaymentRow[]
}

const LAST_CALLS = 20

export async function walletReport(ledger: LedgerReads, address: string, now: number): Promise<WalletReport> {
  const wallet = walletOf(address)
  const [spends, last, uncollected, settling, unresolved] = await Promise.all([
    ledger.spendByModel(wallet, 0),
    ...([undefined, 'uncollected', 'settling', 'unresolved'] as const).map((status) =>
      listPayments(ledger, {
        since: 0,
        until: now + 1,
        payer: wallet,
        limit: LAST_CALLS,
        ...(status && { status }),
      }),
    ),
  ] as const)
  const spent = usdc(spends.reduce((sum, each) => sum + each.spent, 0n))
  const calls = spends.reduce((sum, each) => sum + each.calls, 0)
  const lastAt = Math.max(0, ...spends.map((each) => each.lastAt))
  const inDoubt = [...(settling?.payments ?? []), ...(unresolved?.payments ?? [])]
  const waiting = uncollected?.payments ?? []
  return {
    wallet,
    answer: walletAnswer({
      wallet,
      calls,
      spent: print(spent),
      lastAt,
      waiting: waiting.length,
      inDoubt: inDoubt.length,
    }),
    charged_usdc: print(spent),
    charged_calls: calls,
    last_charged_at: lastAt === 0 ? null : iso(lastAt),
    by_model: spends.map(({ gateway, endpoint, model, asset, ...each }) => ({
      gateway,
      endpoint,
      model,
      network: asset.split('/', 1)[0] ?? '',
      calls: each.calls,
      charged_usdc: print(each.spent),
    })),
    uncollected: waiting,
    in_doubt: inDoubt,
    last_calls: last?.payments ?? [],
  }
}

type Totals = { wallet: string; calls: number; spent: string; lastAt: number; waiting: number; inDoubt: number }

function walletAnswer({ wallet, calls, spent, lastAt, waiting, inDoubt }: Totals): string {
  const charged =
    calls === 0
      ? `No. ${wallet} was never charged here, as far as this ledger reaches.`
      : `Yes. ${wallet} was charged ${spent} USDC for ${calls} ${calls === 1 ? 'call' : 'calls'}, last at ${iso(lastAt)}.`
  const open = [
    waiting > 0 ? `${waiting} ${waiting === 1 ? 'result waits' : 'results wait'} to be collected.` : '',
    inDoubt > 0 ? `${inDoubt} ${inDoubt === 1 ? 'payment is' : 'payments are'} in doubt.` : '',
  ]
  return [charged, ...open].filter(Boolean).join(' ')
}

/** The wallet in the spelling of the ledger, such as with its checksum; others unchanged. */
const walletOf = (address: string): string => addressIn(families, lowerPrefix(address)) ?? address

/** Whether a name is a wallet of any family of chains. */
export const isWallet = (name: string): boolean => addressIn(families, lowerPrefix(name)) !== undefined

/** Some tools write addresses in capitals, prefix included. */
const lowerPrefix = (text: string): string => text.replace(/^0X/, '0x')

// ── CSV ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

const COLUMNS = [
  'created_at',
  'id',
  'status',
  'charged',
  'gateway',
  'endpoint',
  'model',
  'payer',
  'network',
  'quoted_usdc',
  'charged_usdc',
  'settled_at',
  'transaction',
  'block',
  'error',
  'vendor_error',
  'payment_error',
] as const satisfies readonly (keyof PaymentRow)[]

/** RFC 4180, with a line of names first. */
export function csvOf(payments: readonly PaymentRow[]): string {
  const lines = payments.map((payment) => COLUMNS.map((column) => csvCell(payment[column])).join(','))
  return [COLUMNS.join(','), ...lines, ''].join('\r\n')
}

/** A text that a spreadsheet would take for a formula begins with an apostrophe. */
function csvCell(value: string | number | boolean | null): string {
  const text = value === null ? '' : String(value)
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

// ── filters ─────────────────────────────────────────────────────────────────────────────────────────────────────────

function fits(entry: LedgerEntry, { model, endpoint, gateway, status }: Filter): boolean {
  return (
    (model === undefined || entry.model === model) &&
    (endpoint === undefined || entry.endpoint === endpoint) &&
    (gateway === undefined || entry.gateway === gateway) &&
    (status === undefined || statusOf(entry) === status)
  )
}

const isStatus = (text: string): text is Status => (STATUSES as readonly string[]).includes(text)

const SPANS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 7 * 86_400_000 }

/** A date in UTC, a time, or a span before now. */
export function timeOf(text: string, now: number): number | undefined {
  const [, count, unit = ''] = /^(\d{1,6})([mhdw])$/.exec(text) ?? []
  if (count !== undefined) return now - Number(count) * (SPANS[unit] ?? 0)
  if (!/^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:\d{2}))?$/.test(text)) return undefined
  const at = Date.parse(text)
  return Number.isNaN(at) ? undefined : at
}

const nextOf = ({ at, id }: LedgerCursor): string => `${at}.${id}`

function cursorOf(next: string): LedgerCursor | undefined {
  const [, at, id] = /^(\d{1,15})\.(.+)$/.exec(next) ?? []
  return at === undefined || id === undefined ? undefined : { at: Number(at), id }
}
