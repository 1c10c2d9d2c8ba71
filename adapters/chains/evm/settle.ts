import type { Settlement } from '../../../core/ports/mod.ts'
import type { Offer } from '../../../core/x402/protocol.ts'
import { aggregateCall, balanceCall, MULTICALL, paidIn, type Target, transferCall } from './payload.ts'
import type { Found, Reads } from './reads.ts'
import type { GasWatch } from './gas.ts'
import type { Outgoing, Relayer, Sent } from './relayer.ts'
import { type Answer, hasCode, type Rpc } from './rpc.ts'
import { type Exact, judgeValue } from '../exact.ts'
import { type Hex, lower, uintIn } from './hex.ts'
import { outOfTime } from '../in_flight.ts'
import { lruCache } from '../lru_cache.ts'
import { MAX_CONTRACT_REVERTS, payerRevertLimiter } from './revert_limiter.ts'

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
  settle(order: Order, at: { now: number; signal: AbortSignal }): Promise<Settlement>
  /** Whether no settlement is under way. */
  isIdle(): boolean
  close(): void
}

/**
 * `id` is the digest of the authorization; concurrent settlements of one id share their outcome. `hadCode`: whether the
 * payer had code when last read.
 */
export type Order = { readonly exact: Exact; readonly offer: Offer; readonly id: string; readonly hadCode?: boolean }

/** One settlement under way. It runs to its end whether or not a caller still waits. */
type Job = {
  readonly exact: Exact
  readonly offer: Offer
  readonly target: Target
  readonly now: number
  readonly done: (settlement: Settlement) => void
  readonly promise: Promise<Settlement>
  /** Sent in a transaction of its own: a contract decides its cost, or it failed together with others. */
  alone: boolean
  /** The payer has code, which may behave differently in the block than in simulation. */
  isContract: boolean
  /** It moved nothing in a shared transaction; its own fault, if the next simulation fails too. */
  failedAmongOthers: boolean
  /** Callers that still wait. A settlement without callers is not started. */
  callers: number
  attempts: number
}

const ATTEMPTS = 3
/** Gas of a shared transaction beyond its transfers'. */
const GAS_TOGETHER = 60_000n
const REMEMBERED = 10_000

/** Settles through one relayer: waiting payments share a transaction, and each outcome is read from its own events. */
export function evmSettler(
  ports: { rpc: Rpc; reads: Reads; relayer: Relayer; gasWatch: GasWatch },
  config: SettleConfig,
): Settler {
  const { rpc, reads, relayer, gasWatch } = ports
  const maxTogether = config.maxTogether ?? 50
  const maxInFlight = config.maxInFlight ?? 4
  const transferGas = config.gas?.transfer ?? TRANSFER_GAS
  const contractGas = config.gas?.contract ?? 500_000n
  const jobs = new Map<string, Job>()
  const waiting: Job[] = []
  const revertLimiter = payerRevertLimiter()
  /** Authorizations that a transaction of ours contained: if used, it may have been that one. */
  const carried = lruCache<true>(REMEMBERED)
  /** Transactions under way, by payer with code. */
  const contracts = new Map<Hex, number>()
  let flying = 0
  let closed = false

  async function settle(order: Order, at: { now: number; signal: AbortSignal }): Promise<Settlement> {
    const { exact, offer, id } = order
    const bad = judgeValue(exact, offer)
    if (bad) return { kind: 'refused', reason: bad.reason }
    if (at.signal.aborted || closed) return { kind: 'unknown', reason: 'no time left to settle' }
    if (at.now >= exact.expiresAt && !jobs.has(id))
      return ended(await reads.fate(exact, offer, at.signal), exact, 'the authorization is expired')
    const job = jobs.get(id) ?? begin(order, at.now)
    job.callers++
    try {
      return await Promise.race([job.promise, outOfTime(at.signal, job.promise, 'no receipt in time')])
    } finally {
      job.callers--
    }
  }

  function begin({ exact, offer, id, hadCode = false }: Order, now: number): Job {
    let done: (settlement: Settlement) => void = () => {}
    const promise = new Promise<Settlement>((resolve) => (done = resolve))
    const target = { to: lower(offer.asset), data: transferCall(exact) }
    const isContract = hadCode || exact.signature.length !== 132
    const job: Job = {
      exact,
      offer,
      target,
      now,
      done,
      promise,
      alone: isContract,
      isContract,
      failedAmongOthers: false,
      callers: 0,
      attempts: 0,
    }
    jobs.set(id, job)
    void promise.then(() => jobs.delete(id))
    enqueue(job)
    return job
  }

  function enqueue(job: Job): void {
    waiting.push(job)
    queueMicrotask(pump)
  }

  function pump(): void {
    while (!closed && flying < maxInFlight) {
      const group = nextGroup()
      if (!group) return
      const [first] = group
      if (!first) continue
      const payer = first.isContract ? first.exact.from : undefined
      if (payer) contracts.set(payer, underWay(payer) + 1)
      flying++
      void carry(group).finally(() => {
        flying--
        if (payer) contracts.set(payer, underWay(payer) - 1)
        if (payer && underWay(payer) === 0) contracts.delete(payer)
        pump()
      })
    }
  }

  function underWay(payer: Hex): number {
    return contracts.get(payer) ?? 0
  }

  /**
   * A payer with code may have no more transactions under way than it may still revert, or it could waste gas before
   * the first counts.
   */
  function mustWait({ isContract, exact, now }: Job): boolean {
    const flown = isContract ? underWay(exact.from) : 0
    return flown > 0 && flown + revertLimiter.count(exact.from, now) >= MAX_CONTRACT_REVERTS
  }

  /** The oldest settlement that may start, with all that may share its transaction; undefined when none may. */
  function nextGroup(): Job[] | undefined {
    const first = waiting.find((job) => !mustWait(job))
    if (!first) return undefined
    waiting.splice(waiting.indexOf(first), 1)
    if (first.callers === 0) {
      first.done({ kind: 'unknown', reason: 'no caller waits for it any more' })
      return []
    }
    if (first.alone || !reads.multicall()) return [first]
    const others = waiting.filter((job) => !job.alone && job.callers > 0).slice(0, maxTogether - 1)
    for (const job of others) waiting.splice(waiting.indexOf(job), 1)
    return [first, ...others]
  }

  async function carry(group: readonly Job[]): Promise<void> {
    const open = group.filter(mayStillPay)
    const ready = open.length > 0 ? await rehearse(open) : []
    if (ready.length === 0) return
    const now = Math.max(...ready.map((job) => job.now))
    const sent = await relayer.send(outgoing(ready), now)
    if (sent.kind === 'rejected' && sent.isDry) return await carryWithLittle(ready, { now, reason: sent.reason })
    if (sent.kind === 'rejected') {
      for (const job of ready) job.done({ kind: 'unknown', reason: `nothing was sent: ${sent.reason}` })
      return
    }
    for (const { exact } of ready) carried.set(exact.key, true)
    await Promise.all(ready.map((job) => conclude(job, sent, ready.length > 1)))
  }

  /** Sends as many as the account can still pay for; the others end with nothing sent. */
  async function carryWithLittle(
    group: readonly Job[],
    { now, reason }: { now: number; reason: string },
  ): Promise<void> {
    await gasWatch.read(now)
    const count = Math.min(gasWatch.affordable(transferGas, GAS_TOGETHER), group.length - 1)
    for (const { exact, done } of group.slice(count)) {
      // An earlier transaction of ours that contained it may still be mined.
      const kind = carried.get(exact.key) ? 'unknown' : 'unavailable'
      done({ kind, reason: `nothing was sent: ${reason}` })
    }
    if (count > 0) await carry(group.slice(0, count))
  }

  /** Ends the settlement and returns false when too many transfers of its payer have reverted at our cost. */
  function mayStillPay(job: Job): boolean {
    const { exact, offer, isContract, now } = job
    const until = revertLimiter.blockedUntil(exact.from, isContract, now)
    if (until === undefined) return true
    const count = revertLimiter.count(exact.from, now)
    const reason = `${count} transfers of ${exact.from} passed simulation and reverted on chain; nothing is sent for it until ${new Date(until).toISOString()}`
    void reads.fate(exact, offer).then((fate) => job.done(ended(fate, exact, reason)))
    return false
  }

  /**
   * Simulates settlements, so that no gas is spent on those that would fail, and returns those that would pay. A payer
   * with code decides the cost of its transfer, so it may not share a transaction: it could use the gas of all the
   * others. A single transfer is simulated with the caller, gas and price of the real one, because code can see all of
   * them.
   */
  async function rehearse(group: readonly Job[]): Promise<readonly Job[]> {
    const [first] = group
    const fee = first?.alone ? await relayer.feeAt(first.now) : undefined
    const targets = group.map((job) => job.target)
    const as = { lagSeconds: config.lagSeconds ?? 4, from: config.relayer }
    const [seen, codes] = await Promise.all([
      fee && 'kind' in fee
        ? fee
        : reads.view(targets, {
            ...as,
            ...(fee ? { gas: contractGas, fee, direct: true } : { gas: gasTogether(group.length) }),
          }),
      Promise.all(
        group.map((job) => (job.isContract ? undefined : rpc.ask('eth_getCode', [job.exact.from, 'latest']))),
      ),
    ])
    const rest = group.filter((job, i) => isPlain(job, codes[i]))
    if (rest.length < group.length) return rest.length > 0 ? await rehearse(rest) : []
    if (seen.kind === 'trouble') {
      for (const job of group) job.done({ kind: 'unknown', reason: `nothing was sent: ${seen.reason}` })
      return []
    }
    const judged = await Promise.all(group.map((job, i) => seen.results[i]?.ok || refuse(job)))
    return group.filter((_, i) => judged[i])
  }

  /**
   * A payer that turns out to have code ran it in the shared simulation, which is then void: it goes alone, the others
   * simulate again.
   */
  function isPlain(job: Job, code: Answer | undefined): boolean {
    if (!code || hasCode(code) === false) return true
    job.alone = true
    job.isContract = true
    enqueue(job)
    return false
  }

  function outgoing(ready: readonly Job[]): Outgoing {
    const [first] = ready
    if (first && ready.length === 1) return { ...first.target, gas: first.alone ? contractGas : transferGas }
    return { to: MULTICALL, data: aggregateCall(ready.map((job) => job.target)), gas: gasTogether(ready.length) }
  }

  function gasTogether(count: number): bigint {
    return GAS_TOGETHER + transferGas * BigInt(count)
  }

  /**
   * The outcome of one payment in a mined or lost transaction: by its own events, else by the state of the
   * authorization.
   */
  async function conclude(job: Job, sent: Sent, wasTogether: boolean): Promise<void> {
    const isMined = sent.kind === 'mined'
    const paid = isMined && paidIn(sent.receipt, job.exact, job.offer)
    if (paid) {
      reads.hint(job.exact.key, sent.receipt.transactionHash)
      return job.done({ kind: 'settled', receipt: paid })
    }
    const fate = await reads.fate(job.exact, job.offer)
    const isWasted = isMined && (fate.kind === 'open' || fate.kind === 'dead')
    if (isWasted && (!wasTogether || fate.kind === 'dead')) revertLimiter.note(job.exact.from, job.now)
    job.failedAmongOthers ||= isWasted && fate.kind === 'open'
    const isWorthAnother = fate.kind === 'open' && (!isMined || wasTogether) && ++job.attempts < ATTEMPTS
    if (isWorthAnother) {
      job.alone = true
      return enqueue(job)
    }
    const mayLand = fate.kind === 'open' && (!isMined || sent.strays)
    if (mayLand) return job.done({ kind: 'unknown', reason: 'the transaction was lost, and may still be mined' })
    job.done(ended(fate, job.exact, 'the transfer reverted: nothing moved'))
  }

  async function refuse(job: Job): Promise<false> {
    const { exact, offer, target } = job
    const balanceOf = { to: target.to, data: balanceCall(exact.from) }
    const [fate, seen] = await Promise.all([reads.fate(exact, offer), reads.view([balanceOf], { lagSeconds: 0 })])
    const balance = seen.kind === 'seen' ? uintIn(seen.results[0]) : undefined
    if (job.failedAmongOthers && fate.kind !== 'paid') revertLimiter.note(exact.from, job.now)
    const isPoor = balance !== undefined && balance < exact.value
    job.done(
      ended(
        fate,
        exact,
        isPoor ? `the payer has ${balance} base units, the price is ${exact.value}` : 'transaction simulation failed',
      ),
    )
    return false
  }

  /** The outcome once no transaction of ours is under way. */
  function ended(fate: Found, { key }: Exact, reason: string): Settlement {
    return settlementOf(fate, { kind: 'refused', reason }, carried.get(key) === true)
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
  fate: Found,
  whileOpen: Extract<Settlement, { kind: 'refused' | 'unknown' }>,
  mayBeOurs: boolean,
): Settlement {
  if (fate.kind === 'paid') return { kind: 'settled', receipt: fate.receipt }
  if (fate.kind === 'dead') return { kind: 'refused', reason: 'the authorization is dead: used, canceled or expired' }
  if (fate.kind === 'open') return whileOpen
  if (mayBeOurs || !('isUsed' in fate)) return { kind: 'unknown', reason: fate.reason }
  return { kind: 'refused', reason: `nothing was sent: ${fate.reason}` }
}
