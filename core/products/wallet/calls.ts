/** The calls of a wallet, for the wallet itself: it signs in, and pays nothing (contract 18.16). */
import { Type } from '@sinclair/typebox'
import { free } from '../../endpoint/mod.ts'
import { json } from '../../http/reply.ts'
import { refused } from '../../http/request_body.ts'
import { clip } from '../../lib/text.ts'
import type { LedgerCursor, LedgerEntry, LedgerReads } from '../../ports/mod.ts'
import { print } from '../../x402/money.ts'
import { signedIn } from '../lib/signed_in.ts'

const MINUTE_MS = 60_000
const DEFAULT_LIMIT = 20
const MAX_LIMIT = 100
/** Ledger rows that one request looks at: those of other gateways are passed over. */
const MAX_READ = 1_000

const walletCall = Type.Object({
  id: Type.String(),
  created_at: Type.String(),
  endpoint: Type.String(),
  model: Type.Union([Type.String(), Type.Null()]),
  status: Type.String({ description: 'queued, in_progress, completed or failed.' }),
  payment_status: Type.String({ description: 'verified (not yet charged), settling, settled, refused or unresolved.' }),
  price: Type.String({ description: 'The quote, in USDC, six decimals.' }),
  paid: Type.Union([Type.String(), Type.Null()], { description: 'What left the wallet; null while nothing has.' }),
  network: Type.String({ description: 'CAIP-2.' }),
  transaction: Type.Union([Type.String(), Type.Null()]),
  error: Type.Union([Type.String(), Type.Null()]),
  poll_url: Type.Union([Type.String(), Type.Null()], {
    description: 'Where the result is collected, with its key; null once it has been deleted.',
  }),
  expires_at: Type.Union([Type.String(), Type.Null()], { description: 'When the result is deleted.' }),
})

const calls = free({
  name: 'wallet.calls',
  path: '/api/v1/wallet/calls',
  summary: 'What a wallet has bought here, for the wallet itself',
  description:
    'Without a sign-in it answers 402 with nothing to pay and a challenge in `extensions.sign-in-with-x`: sign it with the wallet and send it in the header SIGN-IN-WITH-X. Newest first.',
  tag: 'wallet',
  limit: { requests: 60, windowMs: MINUTE_MS },
  signsIn: true,
  input: Type.Object({
    limit: Type.Optional(Type.String({ description: `1 to ${MAX_LIMIT}; ${DEFAULT_LIMIT} by default.` })),
    cursor: Type.Optional(Type.String({ description: 'The `next_cursor` of the page before.' })),
  }),
  errors: ['INVALID_BODY', 'NOT_READY', 'NOT_CONFIGURED'],
  output: Type.Object({
    object: Type.Literal('list'),
    wallet: Type.String(),
    data: Type.Array(walletCall),
    next_cursor: Type.Union([Type.String(), Type.Null()]),
  }),
  async answer(request, context) {
    const { clock, gateway, ledger, calls: own } = context
    const limit = limitOf(request.query.get('limit'))
    const after = cursorOf(request.query.get('cursor'))
    const signed = await signedIn(request, context, {
      name: 'wallet.calls',
      description: 'What a wallet has bought here',
      message: 'Sign the challenge with the wallet whose calls you want to see. It pays nothing.',
    })
    if ('reply' in signed) return signed.reply
    const now = clock.now()
    const page = await pageOf(ledger, { payer: signed.wallet, gateway: gateway.name, now, after, limit })
    const data = await Promise.all(
      page.entries.map(async (entry) => describe(entry, { now, pollUrl: await own.pollUrl(entry.id) })),
    )
    const body = { object: 'list', wallet: signed.wallet, data, next_cursor: page.next }
    return json(200, body, { 'cache-control': 'private, no-store' })
  },
})

export const walletCalls = [calls]

type Page = { readonly entries: readonly LedgerEntry[]; readonly next: string | null }
type Paging = {
  readonly payer: string
  readonly gateway: string
  readonly now: number
  readonly after: LedgerCursor | undefined
  readonly limit: number
}

async function pageOf(ledger: Pick<LedgerReads, 'listCalls'>, paging: Paging): Promise<Page> {
  const { payer, gateway, now, limit } = paging
  const entries: LedgerEntry[] = []
  let { after } = paging
  for (let read = 0; read < MAX_READ;) {
    const at = { payer, since: 0, until: now + 1, limit: limit + 1, ...(after && { after }) }
    const rows = await ledger.listCalls(at)
    read += rows.length
    for (const row of rows) {
      if (row.gateway === gateway) entries.push(row)
      if (entries.length === limit && row !== rows.at(-1)) return { entries, next: cursorText(row) }
      after = { at: row.createdAt, id: row.id }
    }
    if (rows.length <= limit) return { entries, next: null }
    if (entries.length >= limit) break
  }
  return { entries, next: after ? cursorText({ createdAt: after.at, id: after.id }) : null }
}

const cursorText = ({ createdAt, id }: Pick<LedgerEntry, 'createdAt' | 'id'>): string => `${createdAt}.${id}`

function cursorOf(given: string | null): LedgerCursor | undefined {
  if (given === null) return undefined
  const [, at = '', id = ''] = /^(\d{1,15})\.([\w-]{1,80})$/.exec(given) ?? []
  if (id === '') throw refused('cursor', `must be the next_cursor of a page, got ${clip(given)}`)
  return { at: Number(at), id }
}

function limitOf(given: string | null): number {
  if (given === null) return DEFAULT_LIMIT
  const limit = /^\d{1,3}$/.test(given) ? Number(given) : 0
  if (limit < 1 || limit > MAX_LIMIT)
    throw refused('limit', `must be a number from 1 to ${MAX_LIMIT}, got ${clip(given)}`)
  return limit
}

function describe(entry: LedgerEntry, { now, pollUrl }: { readonly now: number; readonly pollUrl: string }) {
  const { id, endpoint, model, workStatus, paymentStatus, quote, charge, receipt, offer, error } = entry
  const isThere = !entry.emptied && workStatus !== 'failed' && entry.expiresAt > now
  return {
    id,
    created_at: new Date(entry.createdAt).toISOString(),
    endpoint,
    model,
    status: workStatus,
    payment_status: paymentStatus,
    price: print(quote),
    paid: receipt ? print(charge ?? quote) : null,
    network: offer.network,
    transaction: receipt?.transaction || null,
    error,
    poll_url: isThere ? pollUrl : null,
    expires_at: isThere ? new Date(entry.expiresAt).toISOString() : null,
  }
}
