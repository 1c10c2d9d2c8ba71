/** Purchases of a wallet, and their sums. */
import { getAs, type SignedIn } from '../wallets/sign_in.ts'

export const CALLS = '/api/v1/wallet/calls'

/** A call of `GET /api/v1/wallet/calls`. Amounts are in USDC, with six decimals. */
export type WalletCall = {
  readonly id: string
  readonly created_at: string
  readonly endpoint: string
  readonly model: string | null
  readonly status: 'queued' | 'in_progress' | 'completed' | 'failed'
  readonly payment_status: string
  readonly price: string
  readonly paid: string | null
  readonly network: string
  readonly transaction: string | null
  readonly error: string | null
  readonly poll_url: string | null
  readonly expires_at: string | null
}

type Page = { readonly data: readonly WalletCall[]; readonly next_cursor: string | null }

/** A page of a hundred calls. The wallet is asked for a signature. */
export async function readCalls(signedIn: SignedIn, cursor?: string): Promise<Page> {
  const query = cursor === undefined ? '' : `&cursor=${encodeURIComponent(cursor)}`
  const reply = await getAs(signedIn, `${CALLS}?limit=100${query}`)
  const body = (await reply.json()) as Page & { readonly details?: unknown; readonly message?: string }
  if (reply.ok) return body
  throw new Error(typeof body.details === 'string' ? body.details : (body.message ?? 'The list could not be read.'))
}

/** A sum of payments. `total` is in millionths of a USDC. */
export type Sum = { readonly name: string; readonly calls: number; readonly total: bigint }

/** Sums payments by day, newest first, or by model, most expensive first. */
export function sumsBy(calls: readonly WalletCall[], by: 'day' | 'model'): readonly Sum[] {
  const sums = new Map<string, Sum>()
  for (const call of calls) {
    if (call.paid === null) continue
    const name = by === 'day' ? call.created_at.slice(0, 10) : (call.model ?? call.endpoint)
    const before = sums.get(name) ?? { name, calls: 0, total: 0n }
    sums.set(name, { name, calls: before.calls + 1, total: before.total + BigInt(call.paid.replace('.', '')) })
  }
  const all = [...sums.values()]
  return by === 'day'
    ? all.toSorted((a, b) => b.name.localeCompare(a.name))
    : all.toSorted((a, b) => Number(b.total - a.total))
}

const COLUMNS = [
  'created_at',
  'id',
  'endpoint',
  'model',
  'status',
  'payment_status',
  'price',
  'paid',
  'network',
  'transaction',
] as const

/** As CSV (RFC 4180). A field that a spreadsheet would read as a formula begins with an apostrophe. */
export function csvOf(calls: readonly WalletCall[]): string {
  const field = (value: string | null) => {
    const text = /^[=+\-@\t\r]/.test(value ?? '') ? `'${value}` : (value ?? '')
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
  }
  const rows = calls.map((call) => COLUMNS.map((name) => field(call[name])).join(','))
  return `${[COLUMNS.join(','), ...rows].join('\r\n')}\r\n`
}
