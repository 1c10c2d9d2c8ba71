import { print, usdc } from '../../../../core/x402/mod.ts'
import type { Log } from '../../../../core/ports/mod.ts'
import { type BatchedApi, PAGE, type Transfer } from './api.ts'
import { lower } from '../../lib/hex.ts'
import { boundedMap } from '../../../../core/lib/mod.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** By then an authorization has expired, and its transfer cannot change any more. */
const LOOKBACK_MS = 14 * DAY_MS
const MAX_REMEMBERED = 10_000

export type TransferMonitor = {
  /** Checks once, at most one page per status. Never rejects; after an hour without answers it alerts. */
  poll(at: { now: number; timeoutMs: number }): Promise<void>
}

/**
 * Follows transfers that counted as paid when received: it lists those that failed, and those not completed after a
 * day. The API keeps the list, so a restart loses nothing; each process reports a transfer once. A payment stays paid,
 * because its buyer has the result: the operator has to act.
 */
export function transferMonitor(
  api: Pick<BatchedApi, 'transfers'>,
  { payTo, alert }: { payTo: string; alert: Log['alert'] },
): TransferMonitor {
  const reported = boundedMap<true>(MAX_REMEMBERED)
  /** Since when no answer came; infinity once that was reported. */
  let outageSince: number | undefined

  async function poll({ now, timeoutMs }: { now: number; timeoutMs: number }): Promise<void> {
    for (const status of ['failed', 'received', 'batched', 'confirmed']) {
      const end = status === 'failed' ? now : now - DAY_MS
      const dates = { startDate: toIso(now - LOOKBACK_MS), endDate: toIso(end) }
      const response = await api.transfers({ to: payTo, status, ...dates }, { now, timeoutMs })
      if (response.kind === 'failure') return reportOutage(response.reason, now)
      const { list } = response.value
      for (const transfer of list)
        if (
          transfer.status === status &&
          lower(transfer.toAddress) === lower(payTo) &&
          Date.parse(transfer.createdAt) <= end
        )
          report(transfer, list.length)
    }
    outageSince = undefined
  }

  function reportOutage(reason: string, now: number): void {
    outageSince ??= now
    if (now - outageSince < HOUR_MS) return
    outageSince = Number.POSITIVE_INFINITY
    alert('the status of batched payments could not be read for an hour', { reason })
  }

  function report({ id, status, fromAddress, amount, sendingNetwork }: Transfer, found: number): void {
    if (reported.get(`${id}/${status}`)) return
    reported.set(`${id}/${status}`, true)
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

  return { poll }
}

function toIso(ms: number): string {
  return new Date(ms).toISOString()
}
