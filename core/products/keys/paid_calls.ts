/** The calls that a key has paid for, from the ledger. */
import type { FreeContext } from '../../endpoint/mod.ts'
import type { LedgerCursor, LedgerEntry } from '../../ports/mod.ts'
import { KEY_ERRORS } from './presented.ts'

/** The reports of a key's calls read the ledger, all within one limit. */
export const reportOfCalls = {
  tag: 'keys',
  limit: { requests: 10, windowMs: 60_000, bucket: 'keys.statement' },
  errors: [...KEY_ERRORS],
  hidden: true as const,
}

const PAGE = 500
const MAX_PAGES = 20

type PaidCalls = {
  readonly payer: string
  readonly channelId: string
  /** In milliseconds. */
  readonly since: number
  /** A child key, by its address: only its own calls. */
  readonly child?: string | undefined
}

/** The settled calls of a wallet that this channel has paid for, in pages, newest first; `more` after 10,000 calls. */
export async function* callsOf(
  { ledger, clock }: Pick<FreeContext, 'ledger' | 'clock'>,
  { payer, channelId, since, child }: PaidCalls,
): AsyncGenerator<readonly LedgerEntry[] | 'more'> {
  const part = child === undefined ? `/${channelId}/` : `/${channelId}/child/${child}/`
  const isPaid = ({ authorization, paymentStatus }: LedgerEntry): boolean =>
    paymentStatus === 'settled' && authorization.includes(part)
  let after: LedgerCursor | undefined
  for (let pages = 0; pages < MAX_PAGES; pages++) {
    const page = await ledger.listCalls({
      payer,
      since,
      until: clock.now() + 1,
      limit: PAGE,
      ...(after && { after }),
    })
    yield page.filter(isPaid)
    const last = page.at(-1)
    if (!last || page.length < PAGE) return
    after = { at: last.createdAt, id: last.id }
  }
  yield 'more'
}
