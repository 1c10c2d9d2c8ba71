import type { CallOptions } from '../../lib/results.ts'
import type { Fate, Settlement } from '../../../../core/ports/mod.ts'
import { unknownOnAbort } from '../../lib/in_flight.ts'
import type { TransactionFinder, SolanaFates } from './fate.ts'
import type { SolanaExact } from './payload.ts'
import type { SolanaReads } from '../node/reads.ts'
import { FEE_UNPAID, type SolanaVerifier } from './verify.ts'
import { serializeTransaction } from '../node/transaction.ts'
import { payerRevertLimiter } from '../../lib/revert_limiter.ts'

export type SettleConfig = {
  /** First pause between two polls for a transaction. Default 250 ms; four times as long after two seconds. */
  readonly pollMs?: number
  /**
   * Resends this often while the transaction is not seen. Default 2 s; leaders drop transactions that they have no room
   * for.
   */
  readonly resendMs?: number
  /** Waits, or returns early when the signal aborts. Default: a timer. */
  readonly wait?: (ms: number, signal: AbortSignal) => Promise<void>
}

export type SolanaSettler = {
  settle(exact: SolanaExact, at: CallOptions): Promise<Settlement>
  close(): void
}

type Ports = {
  readonly reads: SolanaReads
  readonly find: TransactionFinder
  readonly fates: SolanaFates
  readonly verifier: SolanaVerifier
  /** Signs the message as fee payer. */
  readonly sign: (exact: SolanaExact) => Promise<Uint8Array>
  /** Called for each payment that is sent. */
  readonly onSent?: (exact: SolanaExact) => void
}

/** One payment under way, followed while a caller waits for it. */
type SettlementJob = { readonly promise: Promise<Settlement>; readonly stop: AbortController; callers: number }

/** By then the blockhash has expired, and a caller that still waits should ask for the fate. */
const MAX_WAIT_MS = 120_000

/** Signs as fee payer and resends the same transaction until it is confirmed; it can run only once. */
export function solanaSettler(ports: Ports, config: SettleConfig): SolanaSettler {
  const { reads, find, fates, verifier, sign, onSent } = ports
  const pollMs = config.pollMs ?? 250
  const resendMs = config.resendMs ?? 2_000
  const wait = config.wait ?? sleep
  const jobs = new Map<string, SettlementJob>()
  const revertLimiter = payerRevertLimiter()
  let closed = false

  async function settle(exact: SolanaExact, { now, signal }: CallOptions): Promise<Settlement> {
    const { key } = exact
    fates.firstSeenAt(key, now)
    const final = fates.finalFate(key)
    if (final) return settlementOf(final)
    if (signal.aborted || closed) return unknown('no time left to settle')
    const job = jobs.get(key) ?? begin(exact, now)
    job.callers++
    try {
      return await Promise.race([job.promise, unknownOnAbort(signal, job.promise, 'no outcome in time')])
    } finally {
      job.callers--
      if (job.callers === 0) stopJob(key, job)
    }
  }

  function begin(exact: SolanaExact, now: number): SettlementJob {
    const stop = new AbortController()
    const promise = submit(exact, { now, signal: stop.signal }).catch(() =>
      unknown('its outcome could not be determined'),
    )
    const job: SettlementJob = { promise, stop, callers: 0 }
    jobs.set(exact.key, job)
    return job
  }

  function stopJob(key: string, job: SettlementJob): void {
    job.stop.abort()
    if (jobs.get(key) === job) jobs.delete(key)
  }

  /** Checks whether it already ran and whether it still would: no fee is spent on a payment that cannot succeed. */
  async function submit(exact: SolanaExact, at: CallOptions): Promise<Settlement> {
    const search = find(exact, at)
    const [found, verdict] = await Promise.all([search, verifier.verify(exact, { ...at, search })])
    const final = fates.conclude(exact, found)
    if (final) return settlementOf(final)
    if (found.kind === 'failure') return unknown(`nothing was sent: ${found.reason}`)
    if (found.kind === 'pending') return follow(exact, at)
    if (verdict.kind === 'unavailable' && verdict.reason === FEE_UNPAID)
      return { kind: 'unavailable', reason: `nothing was sent: ${verdict.reason}` }
    if (verdict.kind === 'unavailable') return unknown(`nothing was sent: ${verdict.reason}`)
    if (verdict.kind === 'refused' && verdict.code !== 'PAYMENT_REPLAY') return refuse(exact, verdict, at)
    const until = revertLimiter.blockedUntil(exact.payer, false, at.now)
    if (until === undefined) return follow(exact, at)
    return refused(
      `${revertLimiter.count(exact.payer, at.now)} transfers of ${exact.payer} passed simulation ` +
        `and failed on chain; nothing is sent for it until ${new Date(until).toISOString()}`,
    )
  }

  /** Nothing was sent. With an expired blockhash it may be dead, unless it was paid. */
  async function refuse(
    exact: SolanaExact,
    { code, reason }: { code: string; reason: string },
    at: CallOptions,
  ): Promise<Settlement> {
    if (code !== 'PAYMENT_BLOCKHASH_STALE') return refused(reason)
    const fate = await fates.fate(exact, at)
    return fate.kind === 'paid' ? settlementOf(fate) : { kind: 'refused', reason, code: 'PAYMENT_BLOCKHASH_STALE' }
  }

  async function follow(exact: SolanaExact, { now, signal }: CallOptions): Promise<Settlement> {
    const signed = serializeTransaction(exact.tx, await sign(exact))
    let [waitedMs, nextSendMs] = [0, 0]
    for (;;) {
      const isDue = waitedMs >= nextSendMs
      if (isDue) {
        const isFirst = nextSendMs === 0
        if (isFirst) onSent?.(exact)
        nextSendMs = waitedMs + resendMs
        const sent = await reads.send(signed, signal)
        if (sent.kind === 'rejected' && isFirst) return refused(`nothing was sent: ${sent.reason}`)
      }
      const found = await find(exact, { signal })
      const final =
        fates.conclude(exact, found) ??
        (isDue && waitedMs > 0 ? finalFateOf(await fates.fate(exact, { now: now + waitedMs, signal })) : undefined)
      if (final) {
        if (found.kind === 'failed') revertLimiter.recordRevert(exact.payer, now)
        return settlementOf(final)
      }
      if (signal.aborted || closed || waitedMs >= MAX_WAIT_MS) return unknown('it was sent, and is not confirmed yet')
      const next = waitedMs < 2_000 ? pollMs : 4 * pollMs
      await wait(next, signal)
      waitedMs += next
    }
  }

  return {
    settle,
    close() {
      closed = true
      for (const [key, job] of jobs) stopJob(key, job)
    },
  }
}

function finalFateOf(fate: Fate): Extract<Fate, { kind: 'paid' | 'dead' }> | undefined {
  return fate.kind === 'paid' || fate.kind === 'dead' ? fate : undefined
}

/** The settlement that a final fate means. */
export function settlementOf(final: Extract<Fate, { kind: 'paid' | 'dead' }>): Settlement {
  if (final.kind === 'paid') return { kind: 'settled', receipt: final.receipt }
  if (final.code)
    return {
      kind: 'refused',
      reason: 'the blockhash of the transaction has expired, and it never ran',
      code: final.code,
    }
  return refused('invalid_exact_svm_transaction_failed: the transaction failed on chain and moved nothing')
}

const refused = (reason: string): Settlement => ({ kind: 'refused', reason })
const unknown = (reason: string): Settlement => ({ kind: 'unknown', reason })

export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    signal.addEventListener('abort', end, { once: true })
    if (signal.aborted) end()
  })
}
