import { print, usdc } from '../../../core/x402/money.ts'
import type { Log } from '../../../core/ports/mod.ts'
import { type BatchedApi, PAGE, type Transfer } from './api.ts'
import { lower } from '../evm/hex.ts'
import { lruCache } from '../lru_cache.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** By then an authorization has expired, and its transfer cannot change any more. */
const FORTNIGHT_MS = 14 * DAY_MS
const REMEMBERED = 10_000

export type BatchedWatch = {
  /** Checks once, at most one page per status. Never rejects; after an hour without answers it alerts. */
  look(at: { now: number; timeoutMs: number }): Promise<void>
}

/**
 * Follows transfers that counted as paid when received: it lists those that failed, and those not completed after a
 * day. The API keeps the list, so a restart loses nothing; each process reports a transfer once. A payment stays paid,
 * because its buyer has the result: the operator has to act.
 */
export function batchedWatch(
  api: Pick<BatchedApi, 'transfers'>,
  { payTo, alert }: { payTo: string; alert: Log['alert'] },
): BatchedWatch {
  const told = lruCache<true>(REMEMBERED)
  /** Since when no answer came; infinity once that was reported. */
  let blindSince: number | undefined

  async function look({ now, timeoutMs }: { now: number; timeoutMs: number }): Promise<void> {
    for (const status of ['failed', 'received', 'batched', 'confirmed']) {
      const end = status === 'failed' ? now : now - DAY_MS
      const dates = { startDate: isoOf(now - FORTNIGHT_MS), endDate: isoOf(end) }
      const said = await api.transfers({ to: payTo, status, ...dates }, { now, timeoutMs })
      if (said.kind === 'trouble') return missed(said.reason, now)
      const { list } = said.value
      for (const each of list)
        if (each.status === status && lower(each.toAddress) === lower(payTo) && Date.parse(each.createdAt) <= end)
          tell(each, list.length)
    }
    blindSince = undefined
  }

  function missed(reason: string, now: number): void {
    blindSince ??= now
    if (now - blindSince < HOUR_MS) return
    blindSince = Number.POSITIVE_INFINITY
    alert('the status of batched payments could not be read for an hour', { reason })
  }

  function tell({ id, status, fromAddress, amount, sendingNetwork }: Transfer, found: number): void {
    if (told.get(`${id}/${status}`)) return
    told.set(`${id}/${status}`, true)
    const what =
      status === 'failed'
        ? 'has failed; the result was delivered, and the money was not received'
        : 'is not completed after a day'
    alert(`a batched payment that counted as paid ${what}`, {
      transfer: id,
      status,
      payer: fromAddress,
      amount: print(usdc(BigInt(amount))),
      network: sendingNetwork,
      ...(found >= PAGE && { more: true }),
    })
  }

  return { look }
}

function isoOf(ms: number): string {
  return new Date(ms).toISOString()
}
