import { print, usdc } from '../../../core/x402/money.ts'
import type { Log } from '../../../core/ports/mod.ts'
import { type BatchedApi, PAGE, type Transfer } from './api.ts'
import { lower } from '../evm/hex.ts'
import { lruCache } from '../lru_cache.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** An authorization is over by then, and with it whatever may become of its transfer. */
const FORTNIGHT_MS = 14 * DAY_MS
const REMEMBERED = 10_000

export type BatchedWatch = {
  /** Looks once, one page of each kind at most. Never rejects; what cannot be asked is asked the next time, and said after an hour. */
  look(at: { now: number; timeoutMs: number }): Promise<void>
}

/**
 * What counted as paid when it was received, followed to its end: the API is asked for what failed, and for what is not completed after a
 * day. It keeps the list, so nothing is forgotten with a process; each transfer is told once by each. Paid stays paid, for its buyer has what
 * he bought: all that is left is to call a person.
 */
export function batchedWatch(
  api: Pick<BatchedApi, 'transfers'>,
  { payTo, alert }: { payTo: string; alert: Log['alert'] },
): BatchedWatch {
  const told = lruCache<true>(REMEMBERED)
  /** Since when nothing could be seen; never, once that was said. */
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
    alert('for an hour nobody could ask what became of batched payments', { reason })
  }

  function tell({ id, status, fromAddress, amount, sendingNetwork }: Transfer, found: number): void {
    if (told.get(`${id}/${status}`)) return
    told.set(`${id}/${status}`, true)
    const what =
      status === 'failed'
        ? 'has failed; its buyer has what he bought, and the money is not ours'
        : 'has not been completed for a day'
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
