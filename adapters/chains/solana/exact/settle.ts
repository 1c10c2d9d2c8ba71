import { pause } from '../../../machine.ts'
import type { CallOptions } from '../../lib/results.ts'
import type { Fate, Settlement } from '../../../../core/ports/mod.ts'
import { unknownOnAbort } from '../../lib/in_flight.ts'
import type { TransactionFinder, SolanaFates } from './fate.ts'
import type { SolanaExact } from './payload.ts'
import type { SolanaReads } from '../node/reads.ts'
import { FEE_UNPAID, type SolanaVerifier } from './verify.ts'
import { serializeTransaction } from '../node/transaction.ts'
import { payerRevertLimiter, type RevertLimiter } from '../../lib/revert_limiter.ts'

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

/** State of `solanaSettler`. */
type SettlerParts = {
  readonly reads: SolanaReads
  readonly find: TransactionFinder
  readonly fates: SolanaFates
  readonly verifier: SolanaVerifier
  readonly sign: (exact: SolanaExact) => Promise<Uint8Array>
  readonly onSent: ((exact: SolanaExact) => void) | undefined
  readonly pollMs: number
  readonly resendMs: number
  readonly wait: (ms: number, signal: AbortSignal) => Promise<void>
  readonly jobs: Map<string, SettlementJob>
  readonly revertLimiter: RevertLimiter
  closed: boolean
}

/** Signs as fee payer and resends the same transaction until it is confirmed; it can run only once. */
export function solanaSettler(ports: Ports, config: SettleConfig): SolanaSettler {
  const { reads, find, fates, verifier, sign, onSent } = ports

  const jobs = new Map<string, SettlementJob>()

  const settler: SettlerParts = {
    reads,
    find,
    fates,
    verifier,
    sign,
    onSent,
    pollMs: config.pollMs ?? 250,
    resendMs: config.resendMs ?? 2_000,
    wait: config.wait ?? pause,
    jobs,
    revertLimiter: payerRevertLimiter(),
    closed: false,
  }
  return {
    settle: (...args) => settle(settler, ...args),
    close() {
      settler.closed = true
      for (const [key, job] of jobs) stopJob(settler, key, job)
    },
  }
}

async function settle(settler: SettlerParts, exact: SolanaExact, { now, signal }: CallOptions): Promise<Settlement> {
  const { key } = exact
  settler.fates.firstSeenAt(key, now)
  const final = settler.fates.finalFate(key)
  if (final) return settlementOf(final)
  if (signal.aborted || settler.closed) return unknown('no time left to settle')
  const job = settler.jobs.get(key) ?? begin(settler, exact, now)
  job.callers++
  try {
    return await Promise.race([job.promise, unknownOnAbort(signal, job.promise, 'no outcome in time')])
  } finally {
    job.callers--
    if (job.callers === 0) stopJob(settler, key, job)
  }
}

function begin(settler: SettlerParts, exact: SolanaExact, now: number): SettlementJob {
  const stop = new AbortController()
  const promise = submit(settler, exact, { now, signal: stop.signal }).catch(() =>
    unknown('its outcome could not be determined'),
  )
  const job: SettlementJob = { promise, stop, callers: 0 }
  settler.jobs.set(exact.key, job)
  return job
}

function stopJob(settler: SettlerParts, key: string, job: SettlementJob): void {
  job.stop.abort()
  if (settler.jobs.get(key) === job) settler.jobs.delete(key)
}

/** Checks whether it already ran and whether it still would: no fee is spent on a payment that cannot succeed. */
async function submit(settler: SettlerParts, exact: SolanaExact, at: CallOptions): Promise<Settlement> {
  const search = settler.find(exact, at)
  const [found, verdict] = await Promise.all([search, settler.verifier.verify(exact, { ...at, search })])
  const final = settler.fates.conclude(exact, found)
  if (final) return settlementOf(final)
  if (found.kind === 'failure') return unknown(`nothing was sent: ${found.reason}`)
  if (found.kind === 'pending') return follow(settler, exact, at)
  if (verdict.kind === 'unavailable' && verdict.reason === FEE_UNPAID)
    return { kind: 'unavailable', reason: `nothing was sent: ${verdict.reason}` }
  if (verdict.kind === 'unavailable') return unknown(`nothing was sent: ${verdict.reason}`)
  if (verdict.kind === 'refused' && verdict.code !== 'PAYMENT_REPLAY') return refuse(settler, exact, verdict, at)
  const until = settler.revertLimiter.blockedUntil(exact.payer, false, at.now)
  if (until === undefined) return follow(settler, exact, at)
  return refused(
    `${settler.revertLimiter.count(exact.payer, at.now)} transfers of ${exact.payer} passed simulation ` +
      `and failed on chain; nothing is sent for it until ${new Date(until).toISOString()}`,
  )
}

/** Nothing was sent. With an expired blockhash it may be dead, unless it was paid. */
async function refuse(
  settler: SettlerParts,
  exact: SolanaExact,
  { code, reason }: { code: string; reason: string },
  at: CallOptions,
): Promise<Settlement> {
  if (code !== 'PAYMENT_BLOCKHASH_STALE') return refused(reason)
  const fate = await settler.fates.fate(exact, at)
  return fate.kind === 'paid' ? settlementOf(fate) : { kind: 'refused', reason, code: 'PAYMENT_BLOCKHASH_STALE' }
}

async function follow(settler: SettlerParts, exact: SolanaExact, { now, signal }: CallOptions): Promise<Settlement> {
  const signed = serializeTransaction(exact.tx, await settler.sign(exact))
  let [waitedMs, nextSendMs] = [0, 0]
  for (;;) {
    const isDue = waitedMs >= nextSendMs
    if (isDue) {
      const isFirst = nextSendMs === 0
      if (isFirst) settler.onSent?.(exact)
      nextSendMs = waitedMs + settler.resendMs
      const sent = await settler.reads.send(signed, signal)
      if (sent.kind === 'rejected' && isFirst) return refused(`nothing was sent: ${sent.reason}`)
    }
    const found = await settler.find(exact, { signal })
    const final =
      settler.fates.conclude(exact, found) ??
      (isDue && waitedMs > 0
        ? finalFateOf(await settler.fates.fate(exact, { now: now + waitedMs, signal }))
        : undefined)
    if (final) {
      if (found.kind === 'failed') settler.revertLimiter.recordRevert(exact.payer, now)
      return settlementOf(final)
    }
    if (signal.aborted || settler.closed || waitedMs >= MAX_WAIT_MS)
      return unknown('it was sent, and is not confirmed yet')
    const next = waitedMs < 2_000 ? settler.pollMs : 4 * settler.pollMs
    await settler.wait(next, signal)
    waitedMs += next
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
