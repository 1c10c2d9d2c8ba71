import { boundedMap } from '../../../../core/lib/mod.ts'
import type { Settlement } from '../../../../core/ports/mod.ts'
import { type Hex, lower, uintIn } from '../../lib/hex.ts'
import { unknownOnAbort } from '../../lib/in_flight.ts'
import { type Answer, hasCode, type Rpc } from '../../lib/json_rpc.ts'
import type { CallOptions } from '../../lib/results.ts'
import { MAX_CONTRACT_REVERTS, payerRevertLimiter } from '../../lib/revert_limiter.ts'
import type { GasMonitor } from '../node/gas.ts'
import type { Reads } from '../node/reads.ts'
import type { Relayer, SendResult } from '../node/relayer.ts'
import { balanceCall, findPayment, transferCall } from '../node/token.ts'
import type { EvmFate, ExactFates } from './fate.ts'
import { checkValue, type Exact } from './payload.ts'
import {
  buildTransaction,
  type SettleConfig,
  type SettlementJob,
  type SettlementRequest,
  type SettlerParts,
  SHARED_GAS,
  sharedGas,
  TRANSFER_GAS,
} from './transaction.ts'

type Settler = {
  settle(request: SettlementRequest, at: CallOptions): Promise<Settlement>
  /** Whether no settlement is under way. */
  isIdle(): boolean
  close(): void
}

const MAX_ATTEMPTS = 3

const MAX_REMEMBERED = 10_000

/** Settles through one relayer: waiting payments share a transaction, and each outcome is read from its own events. */
export function evmSettler(
  ports: { rpc: Rpc; reads: Reads; fates: ExactFates; relayer: Relayer; gasMonitor: GasMonitor },
  config: SettleConfig,
): Settler {
  const { rpc, reads, fates, relayer, gasMonitor } = ports

  const jobs = new Map<string, SettlementJob>()

  const settler: SettlerParts = {
    config,
    rpc,
    reads,
    fates,
    relayer,
    gasMonitor,
    maxTogether: config.maxTogether ?? 50,
    maxInFlight: config.maxInFlight ?? 4,
    transferGas: config.gas?.transfer ?? TRANSFER_GAS,
    contractGas: config.gas?.contract ?? 500_000n,
    jobs,
    waiting: [],
    revertLimiter: payerRevertLimiter(),
    sentKeys: boundedMap<true>(MAX_REMEMBERED),
    contracts: new Map<Hex, number>(),
    activeTransactions: 0,
    closed: false,
  }
  return {
    settle: (...args) => settle(settler, ...args),
    isIdle: () => jobs.size === 0,
    close() {
      settler.closed = true
      for (const job of jobs.values()) job.done({ kind: 'unknown', reason: 'the relayer is closed' })
    },
  }
}

async function settle(settler: SettlerParts, request: SettlementRequest, at: CallOptions): Promise<Settlement> {
  const { exact, offer, id } = request
  const bad = checkValue(exact, offer)
  if (bad) return { kind: 'refused', reason: bad.reason }
  if (at.signal.aborted || settler.closed) return { kind: 'unknown', reason: 'no time left to settle' }
  if (at.now >= exact.expiresAt && !settler.jobs.has(id))
    return settlementFrom(
      settler,
      await settler.fates.fate(exact, offer, at.signal),
      exact,
      'the authorization is expired',
    )
  const job = settler.jobs.get(id) ?? begin(settler, request, at.now)
  job.callers++
  try {
    return await Promise.race([job.promise, unknownOnAbort(at.signal, job.promise, 'no receipt in time')])
  } finally {
    job.callers--
  }
}

function begin(
  settler: SettlerParts,
  { exact, offer, id, hadCode = false }: SettlementRequest,
  now: number,
): SettlementJob {
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
  settler.jobs.set(id, job)
  void promise.then(() => settler.jobs.delete(id))
  enqueue(settler, job)
  return job
}

function enqueue(settler: SettlerParts, job: SettlementJob): void {
  settler.waiting.push(job)
  queueMicrotask(() => pump(settler))
}

function pump(settler: SettlerParts): void {
  while (!settler.closed && settler.activeTransactions < settler.maxInFlight) {
    const batch = nextBatch(settler)
    if (!batch) return
    const [first] = batch
    if (!first) continue
    const payer = first.isContract ? first.exact.from : undefined
    if (payer) settler.contracts.set(payer, activeContractTransactions(settler, payer) + 1)
    settler.activeTransactions++
    void submit(settler, batch).finally(() => {
      settler.activeTransactions--
      if (payer) settler.contracts.set(payer, activeContractTransactions(settler, payer) - 1)
      if (payer && activeContractTransactions(settler, payer) === 0) settler.contracts.delete(payer)
      pump(settler)
    })
  }
}

function activeContractTransactions(settler: SettlerParts, payer: Hex): number {
  return settler.contracts.get(payer) ?? 0
}

/**
 * A payer with code may have no more transactions under way than it may still revert, or it could waste gas before
 * the first counts.
 */
function isLimited(settler: SettlerParts, { isContract, exact, now }: SettlementJob): boolean {
  const active = isContract ? activeContractTransactions(settler, exact.from) : 0
  return active > 0 && active + settler.revertLimiter.count(exact.from, now) >= MAX_CONTRACT_REVERTS
}

/** The oldest settlement that may start, with all that may share its transaction; undefined when none may. */
function nextBatch(settler: SettlerParts): SettlementJob[] | undefined {
  const first = settler.waiting.find((job) => !isLimited(settler, job))
  if (!first) return undefined
  settler.waiting.splice(settler.waiting.indexOf(first), 1)
  if (first.callers === 0) {
    first.done({ kind: 'unknown', reason: 'no caller waits for it any more' })
    return []
  }
  if (first.isAlone || !settler.reads.multicall()) return [first]
  const others = settler.waiting.filter((job) => !job.isAlone && job.callers > 0).slice(0, settler.maxTogether - 1)
  for (const job of others) settler.waiting.splice(settler.waiting.indexOf(job), 1)
  return [first, ...others]
}

async function submit(settler: SettlerParts, batch: readonly SettlementJob[]): Promise<void> {
  const open = batch.filter((job) => isPayerAllowed(settler, job))
  const ready = open.length > 0 ? await simulate(settler, open) : []
  if (ready.length === 0) return
  const now = Math.max(...ready.map((job) => job.now))
  const sent = await settler.relayer.send(buildTransaction(settler, ready), now)
  if (sent.kind === 'rejected' && sent.isUnderfunded)
    return await submitAffordable(settler, ready, { now, reason: sent.reason })
  if (sent.kind === 'rejected') {
    for (const job of ready) job.done({ kind: 'unknown', reason: `nothing was sent: ${sent.reason}` })
    return
  }
  for (const { exact } of ready) settler.sentKeys.set(exact.key, true)
  await Promise.all(ready.map((job) => conclude(settler, job, sent, ready.length > 1)))
}

/** Sends as many as the account can still pay for; the others end with nothing sent. */
async function submitAffordable(
  settler: SettlerParts,
  batch: readonly SettlementJob[],
  { now, reason }: { now: number; reason: string },
): Promise<void> {
  await settler.gasMonitor.readNow(now)
  const count = Math.min(settler.gasMonitor.affordable(settler.transferGas, SHARED_GAS), batch.length - 1)
  for (const { exact, done } of batch.slice(count)) {
    // An earlier transaction of ours that contained it may still be mined.
    const kind = settler.sentKeys.get(exact.key) ? 'unknown' : 'unavailable'
    done({ kind, reason: `nothing was sent: ${reason}` })
  }
  if (count > 0) await submit(settler, batch.slice(0, count))
}

/** Ends the settlement and returns false when too many transfers of its payer have reverted at our cost. */
function isPayerAllowed(settler: SettlerParts, job: SettlementJob): boolean {
  const { exact, offer, isContract, now } = job
  const until = settler.revertLimiter.blockedUntil(exact.from, isContract, now)
  if (until === undefined) return true
  const count = settler.revertLimiter.count(exact.from, now)
  const pause = `nothing is sent for it until ${new Date(until).toISOString()}`
  const reason = `${count} transfers of ${exact.from} passed simulation and reverted on chain; ${pause}`
  void settler.fates.fate(exact, offer).then((fate) => job.done(settlementFrom(settler, fate, exact, reason)))
  return false
}

/**
 * Simulates settlements, so that no gas is spent on those that would fail, and returns those that would pay. A payer
 * with code decides the cost of its transfer, so it may not share a transaction: it could use the gas of all the
 * others. A single transfer is simulated with the caller, gas and price of the real one, because code can see all of
 * them.
 */
async function simulate(settler: SettlerParts, batch: readonly SettlementJob[]): Promise<readonly SettlementJob[]> {
  const [first] = batch
  const fee = first?.isAlone ? await settler.relayer.feeAt(first.now) : undefined
  const targets = batch.map((job) => job.target)
  const as = { lagSeconds: settler.config.lagSeconds ?? 4, from: settler.config.relayer }
  const [seen, codes] = await Promise.all([
    fee && 'kind' in fee
      ? fee
      : settler.reads.view(targets, {
          ...as,
          ...(fee ? { gas: settler.contractGas, fee, direct: true } : { gas: sharedGas(settler, batch.length) }),
        }),
    Promise.all(
      batch.map((job) => (job.isContract ? undefined : settler.rpc.request('eth_getCode', [job.exact.from, 'latest']))),
    ),
  ])
  const rest = batch.filter((job, i) => confirmPlain(settler, job, codes[i]))
  if (rest.length < batch.length) return rest.length > 0 ? await simulate(settler, rest) : []
  if (seen.kind === 'failure') {
    for (const job of batch) job.done({ kind: 'unknown', reason: `nothing was sent: ${seen.reason}` })
    return []
  }
  const judged = await Promise.all(batch.map((job, i) => seen.results[i]?.ok || refuse(settler, job)))
  return batch.filter((_, i) => judged[i])
}

/**
 * A payer that turns out to have code ran it in the shared simulation, which is then void: it goes alone, the others
 * simulate again.
 */
function confirmPlain(settler: SettlerParts, job: SettlementJob, code: Answer | undefined): boolean {
  if (!code || hasCode(code) === false) return true
  job.isAlone = true
  job.isContract = true
  enqueue(settler, job)
  return false
}

/**
 * The outcome of one payment in a mined or lost transaction: by its own events, else by the state of the
 * authorization.
 */
async function conclude(
  settler: SettlerParts,
  job: SettlementJob,
  sent: SendResult,
  wasShared: boolean,
): Promise<void> {
  const isMined = sent.kind === 'mined'
  const paid = isMined && findPayment(sent.receipt, job.exact, job.offer)
  if (paid) {
    settler.fates.rememberTransaction(job.exact.key, sent.receipt.transactionHash)
    return job.done({ kind: 'settled', receipt: paid })
  }
  const fate = await settler.fates.fate(job.exact, job.offer)
  const isWasted = isMined && (fate.kind === 'open' || fate.kind === 'dead')
  if (isWasted && (!wasShared || fate.kind === 'dead')) settler.revertLimiter.recordRevert(job.exact.from, job.now)
  job.failedInBatch ||= isWasted && fate.kind === 'open'
  const canRetry = fate.kind === 'open' && (!isMined || wasShared) && ++job.attempts < MAX_ATTEMPTS
  if (canRetry) {
    job.isAlone = true
    return enqueue(settler, job)
  }
  const mayLand = fate.kind === 'open' && (!isMined || sent.hasOtherNonces)
  if (mayLand) return job.done({ kind: 'unknown', reason: 'the transaction was lost, and may still be mined' })
  job.done(settlementFrom(settler, fate, job.exact, 'the transfer reverted: nothing moved'))
}

async function refuse(settler: SettlerParts, job: SettlementJob): Promise<false> {
  const { exact, offer, target } = job
  const balanceOf = { to: target.to, data: balanceCall(exact.from) }
  const [fate, seen] = await Promise.all([
    settler.fates.fate(exact, offer),
    settler.reads.view([balanceOf], { lagSeconds: 0 }),
  ])
  const balance = seen.kind === 'seen' ? uintIn(seen.results[0]) : undefined
  if (job.failedInBatch && fate.kind !== 'paid') settler.revertLimiter.recordRevert(exact.from, job.now)
  const lacksFunds = balance !== undefined && balance < exact.value
  job.done(
    settlementFrom(
      settler,
      fate,
      exact,
      lacksFunds ? `the payer has ${balance} base units; the price is ${exact.value}` : 'transaction simulation failed',
    ),
  )
  return false
}

/** The outcome once no transaction of ours is under way. */
function settlementFrom(settler: SettlerParts, fate: EvmFate, { key }: Exact, reason: string): Settlement {
  return settlementOf(fate, { kind: 'refused', reason }, settler.sentKeys.get(key) === true)
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
