import type { CallOptions } from '../../lib/results.ts'
import type { Settlement } from '../../../../core/ports/mod.ts'
import type { Offer } from '../../../../core/x402/mod.ts'
import { aggregateCall, balanceCall, MULTICALL, findPayment, type ContractCall, transferCall } from '../node/token.ts'
import type { EvmFate, Reads } from '../node/reads.ts'
import type { GasMonitor } from '../node/gas.ts'
import type { OutgoingTransaction, Relayer, SendResult } from '../node/relayer.ts'
import { type Answer, hasCode, type Rpc } from '../../lib/json_rpc.ts'
import { type Exact, checkValue } from './payload.ts'
import { type Hex, lower, uintIn } from '../../lib/hex.ts'
import { unknownOnAbort } from '../../lib/in_flight.ts'
import { boundedMap } from '../../../../core/lib/mod.ts'
import { MAX_CONTRACT_REVERTS, payerRevertLimiter } from '../../lib/revert_limiter.ts'

export type SettleConfig = {
  readonly relayer: Hex
  /** Settlements per transaction. Default 50 (decision 20); 1 never batches. */
  readonly maxTogether?: number
  /** Concurrent transactions. Default 4; settlements that wait are sent together. */
  readonly maxInFlight?: number
  /** Gas limit of one transfer. Defaults: 120,000 for a plain account, 500,000 for a contract wallet. */
  readonly gas?: { readonly transfer?: bigint; readonly contract?: bigint }
  /** How many seconds the node may be behind when a payment is simulated. Default 4. */
  readonly lagSeconds?: number
}

export const TRANSFER_GAS = 120_000n

export type Settler = {
  settle(request: SettlementRequest, at: CallOptions): Promise<Settlement>
  /** Whether no settlement is under way. */
  isIdle(): boolean
  close(): void
}

/**
 * `id` is the digest of the authorization; concurrent settlements of one id share their outcome. `hadCode`: whether the
 * payer had code when last read.
 */
export type SettlementRequest = {
  readonly exact: Exact
  readonly offer: Offer
  readonly id: string
  readonly hadCode?: boolean
}

/** One settlement under way. It runs to its end whether or not a caller still waits. */
type SettlementJob = {
  readonly exact: Exact
  readonly offer: Offer
  readonly target: ContractCall
  readonly now: number
  readonly done: (settlement: Settlement) => void
  readonly promise: Promise<Settlement>
  /** Sent in a transaction of its own: a contract decides its cost, or it failed together with others. */
  isAlone: boolean
  /** The payer has code, which may behave differently in the block than in simulation. */
  isContract: boolean
  /** It moved nothing in a shared transaction; its own fault, if the next simulation fails too. */
  failedInBatch: boolean
  /** Callers that still wait. A settlement without callers is not started. */
  callers: number
  attempts: number
}

const MAX_ATTEMPTS = 3
/** Gas of a shared transaction beyond its transfers'. */
const SHARED_GAS = 60_000n
const MAX_REMEMBERED = 10_000

/** Settles through one relayer: waiting payments share a transaction, and each outcome is read from its own events. */
export function evmSettler(
  ports: { rpc: Rpc; reads: Reads; relayer: Relayer; gasMonitor: GasMonitor },
  config: SettleConfig,
): Settler {
  const { rpc, reads, relayer, gasMonitor } = ports
  const maxTogether = config.maxTogether ?? 50
  const maxInFlight = config.maxInFlight ?? 4
  const transferGas = config.gas?.transfer ?? TRANSFER_GAS
  const contractGas = config.gas?.contract ?? 500_000n
  const jobs = new Map<string, SettlementJob>()
  const waiting: SettlementJob[] = []
  const revertLimiter = payerRevertLimiter()
  /** Authorizations that a transaction of ours contained: if used, it may have been that one. */
  const sentKeys = boundedMap<true>(MAX_REMEMBERED)
  /** Transactions under way, by payer with code. */
  const contracts = new Map<Hex, number>()
  let activeTransactions = 0
  let closed = false

  async function settle(request: SettlementRequest, at: CallOptions): Promise<Settlement> {
    const { exact, offer, id } = request
    const bad = checkValue(exact, offer)
    if (bad) return { kind: 'refused', reason: bad.reason }
    if (at.signal.aborted || closed) return { kind: 'unknown', reason: 'no time left to settle' }
    if (at.now >= exact.expiresAt && !jobs.has(id))
      return settlementFrom(await reads.fate(exact, offer, at.signal), exact, 'the authorization is expired')
    const job = jobs.get(id) ?? begin(request, at.now)
    job.callers++
    try {
      return await Promise.race([job.promise, unknownOnAbort(at.signal, job.promise, 'no receipt in time')])
    } finally {
      job.callers--
    }
  }

  function begin({ exact, offer, id, hadCode = false }: SettlementRequest, now: number): SettlementJob {
    let done: (settlement: Settlement) => void = () => {}
    const promise = new Promise<Settlement>((resolve) => (done = resolve))
    const target = { to: lower(offer.asset), data: transferCall(exact) }
    const isContract = hadCode || exact.signature.length !== 132
    const job: SettlementJob = {
      exact,
      offer,
      target,
      now,
      done,
      promise,
      isAlone: isContract,
      isContract,
      failedInBatch: false,
      callers: 0,
      attempts: 0,
    }
    jobs.set(id, job)
    void promise.then(() => jobs.delete(id))
    enqueue(job)
    return job
  }

  function enqueue(job: SettlementJob): void {
    waiting.push(job)
    queueMicrotask(pump)
  }

  function pump(): void {
    while (!closed && activeTransactions < maxInFlight) {
      const batch = nextBatch()
      if (!batch) return
      const [first] = batch
      if (!first) continue
      const payer = first.isContract ? first.exact.from : undefined
      if (payer) contracts.set(payer, activeContractTransactions(payer) + 1)
      activeTransactions++
      void submit(batch).finally(() => {
        activeTransactions--
        if (payer) contracts.set(payer, activeContractTransactions(payer) - 1)
        if (payer && activeContractTransactions(payer) === 0) contracts.delete(payer)
        pump()
      })
    }
  }

  function activeContractTransactions(payer: Hex): number {
    return contracts.get(payer) ?? 0
  }

  /**
   * A payer with code may have no more transactions under way than it may still revert, or it could waste gas before
   * the first counts.
   */
  function isLimited({ isContract, exact, now }: SettlementJob): boolean {
    const active = isContract ? activeContractTransactions(exact.from) : 0
    return active > 0 && active + revertLimiter.count(exact.from, now) >= MAX_CONTRACT_REVERTS
  }

  /** The oldest settlement that may start, with all that may share its transaction; undefined when none may. */
  function nextBatch(): SettlementJob[] | undefined {
    const first = waiting.find((job) => !isLimited(job))
    if (!first) return undefined
    waiting.splice(waiting.indexOf(first), 1)
    if (first.callers === 0) {
      first.done({ kind: 'unknown', reason: 'no caller waits for it any more' })
      return []
    }
    if (first.isAlone || !reads.multicall()) return [first]
    const others = waiting.filter((job) => !job.isAlone && job.callers > 0).slice(0, maxTogether - 1)
    for (const job of others) waiting.splice(waiting.indexOf(job), 1)
    return [first, ...others]
  }

  async function submit(batch: readonly SettlementJob[]): Promise<void> {
    const open = batch.filter(isPayerAllowed)
    const ready = open.length > 0 ? await simulate(open) : []
    if (ready.length === 0) return
    const now = Math.max(...ready.map((job) => job.now))
    const sent = await relayer.send(buildTransaction(ready), now)
    if (sent.kind === 'rejected' && sent.isUnderfunded)
      return await submitAffordable(ready, { now, reason: sent.reason })
    if (sent.kind === 'rejected') {
      for (const job of ready) job.done({ kind: 'unknown', reason: `nothing was sent: ${sent.reason}` })
      return
    }
    for (const { exact } of ready) sentKeys.set(exact.key, true)
    await Promise.all(ready.map((job) => conclude(job, sent, ready.length > 1)))
  }

  /** Sends as many as the account can still pay for; the others end with nothing sent. */
  async function submitAffordable(
    batch: readonly SettlementJob[],
    { now, reason }: { now: number; reason: string },
  ): Promise<void> {
    await gasMonitor.readNow(now)
    const count = Math.min(gasMonitor.affordable(transferGas, SHARED_GAS), batch.length - 1)
    for (const { exact, done } of batch.slice(count)) {
      // An earlier transaction of ours that contained it may still be mined.
      const kind = sentKeys.get(exact.key) ? 'unknown' : 'unavailable'
      done({ kind, reason: `nothing was sent: ${reason}` })
    }
    if (count > 0) await submit(batch.slice(0, count))
  }

  /** Ends the settlement and returns false when too many transfers of its payer have reverted at our cost. */
  function isPayerAllowed(job: SettlementJob): boolean {
    const { exact, offer, isContract, now } = job
    const until = revertLimiter.blockedUntil(exact.from, isContract, now)
    if (until === undefined) return true
    const count = revertLimiter.count(exact.from, now)
    const pause = `nothing is sent for it until ${new Date(until).toISOString()}`
    const reason = `${count} transfers of ${exact.from} passed simulation and reverted on chain; ${pause}`
    void reads.fate(exact, offer).then((fate) => job.done(settlementFrom(fate, exact, reason)))
    return false
  }

  /**
   * Simulates settlements, so that no gas is spent on those that would fail, and returns those that would pay. A payer
   * with code decides the cost of its transfer, so it may not share a transaction: it could use the gas of all the
   * others. A single transfer is simulated with the caller, gas and price of the real one, because code can see all of
   * them.
   */
  async function simulate(batch: readonly SettlementJob[]): Promise<readonly SettlementJob[]> {
    const [first] = batch
    const fee = first?.isAlone ? await relayer.feeAt(first.now) : undefined
    const targets = batch.map((job) => job.target)
    const as = { lagSeconds: config.lagSeconds ?? 4, from: config.relayer }
    const [seen, codes] = await Promise.all([
      fee && 'kind' in fee
        ? fee
        : reads.view(targets, {
            ...as,
            ...(fee ? { gas: contractGas, fee, direct: true } : { gas: sharedGas(batch.length) }),
          }),
      Promise.all(
        batch.map((job) => (job.isContract ? undefined : rpc.request('eth_getCode', [job.exact.from, 'latest']))),
      ),
    ])
    const rest = batch.filter((job, i) => confirmPlain(job, codes[i]))
    if (rest.length < batch.length) return rest.length > 0 ? await simulate(rest) : []
    if (seen.kind === 'failure') {
      for (const job of batch) job.done({ kind: 'unknown', reason: `nothing was sent: ${seen.reason}` })
      return []
    }
    const judged = await Promise.all(batch.map((job, i) => seen.results[i]?.ok || refuse(job)))
    return batch.filter((_, i) => judged[i])
  }

  /**
   * A payer that turns out to have code ran it in the shared simulation, which is then void: it goes alone, the others
   * simulate again.
   */
  function confirmPlain(job: SettlementJob, code: Answer | undefined): boolean {
    if (!code || hasCode(code) === false) return true
    job.isAlone = true
    job.isContract = true
    enqueue(job)
    return false
  }

  function buildTransaction(ready: readonly SettlementJob[]): OutgoingTransaction {
    const [first] = ready
    if (first && ready.length === 1) return { ...first.target, gas: first.isAlone ? contractGas : transferGas }
    return { to: MULTICALL, data: aggregateCall(ready.map((job) => job.target)), gas: sharedGas(ready.length) }
  }

  function sharedGas(count: number): bigint {
    return SHARED_GAS + transferGas * BigInt(count)
  }

  /**
   * The outcome of one payment in a mined or lost transaction: by its own events, else by the state of the
   * authorization.
   */
  async function conclude(job: SettlementJob, sent: SendResult, wasShared: boolean): Promise<void> {
    const isMined = sent.kind === 'mined'
    const paid = isMined && findPayment(sent.receipt, job.exact, job.offer)
    if (paid) {
      reads.rememberTransaction(job.exact.key, sent.receipt.transactionHash)
      return job.done({ kind: 'settled', receipt: paid })
    }
    const fate = await reads.fate(job.exact, job.offer)
    const isWasted = isMined && (fate.kind === 'open' || fate.kind === 'dead')
    if (isWasted && (!wasShared || fate.kind === 'dead')) revertLimiter.recordRevert(job.exact.from, job.now)
    job.failedInBatch ||= isWasted && fate.kind === 'open'
    const canRetry = fate.kind === 'open' && (!isMined || wasShared) && ++job.attempts < MAX_ATTEMPTS
    if (canRetry) {
      job.isAlone = true
      return enqueue(job)
    }
    const mayLand = fate.kind === 'open' && (!isMined || sent.hasOtherNonces)
    if (mayLand) return job.done({ kind: 'unknown', reason: 'the transaction was lost, and may still be mined' })
    job.done(settlementFrom(fate, job.exact, 'the transfer reverted: nothing moved'))
  }

  async function refuse(job: SettlementJob): Promise<false> {
    const { exact, offer, target } = job
    const balanceOf = { to: target.to, data: balanceCall(exact.from) }
    const [fate, seen] = await Promise.all([reads.fate(exact, offer), reads.view([balanceOf], { lagSeconds: 0 })])
    const balance = seen.kind === 'seen' ? uintIn(seen.results[0]) : undefined
    if (job.failedInBatch && fate.kind !== 'paid') revertLimiter.recordRevert(exact.from, job.now)
    const lacksFunds = balance !== undefined && balance < exact.value
    job.done(
      settlementFrom(
        fate,
        exact,
        lacksFunds
          ? `the payer has ${balance} base units; the price is ${exact.value}`
          : 'transaction simulation failed',
      ),
    )
    return false
  }

  /** The outcome once no transaction of ours is under way. */
  function settlementFrom(fate: EvmFate, { key }: Exact, reason: string): Settlement {
    return settlementOf(fate, { kind: 'refused', reason }, sentKeys.get(key) === true)
  }

  return {
    settle,
    isIdle: () => jobs.size === 0,
    close() {
      closed = true
      for (const job of jobs.values()) job.done({ kind: 'unknown', reason: 'the relayer is closed' })
    },
  }
}

/**
 * Converts a fate to a settlement; `whileOpen` is returned for an open one. An authorization used for an unknown
 * purpose and never sent by us is refused, which is true (this call sent nothing): core then neither frees the
 * authorization nor gives its result away, as it does after unknown. If a third party paid us with it, the next
 * settlement that finds the event says so. If it was sent by us it is unknown: the transfer may be ours.
 */
export function settlementOf(
  fate: EvmFate,
  whileOpen: Extract<Settlement, { kind: 'refused' | 'unknown' }>,
  mayBeOurs: boolean,
): Settlement {
  if (fate.kind === 'paid') return { kind: 'settled', receipt: fate.receipt }
  if (fate.kind === 'dead') return { kind: 'refused', reason: 'the authorization is dead: used, canceled or expired' }
  if (fate.kind === 'open') return whileOpen
  if (mayBeOurs || !('isUsed' in fate)) return { kind: 'unknown', reason: fate.reason }
  return { kind: 'refused', reason: `nothing was sent: ${fate.reason}` }
}
