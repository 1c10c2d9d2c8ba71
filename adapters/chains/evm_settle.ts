import type { Fate, Settlement } from '../../core/ports.ts'
import type { Offer } from '../../core/x402.ts'
import { aggregateCall, balanceCall, MULTICALL, paidIn, type Target, transferCall } from './evm_payload.ts'
import type { Reads } from './evm_reads.ts'
import type { Outgoing, Relayer, Sent } from './evm_relayer.ts'
import { type Answer, hasCode, type Rpc } from './evm_rpc.ts'
import { type Exact, judgeValue } from './exact.ts'
import { type Hex, lower, uintIn } from './hex.ts'

export type SettleConfig = {
  readonly relayer: Hex
  /** Settlements in one transaction, 50 unless told (house decision 9); 1 never batches. */
  readonly maxTogether?: number
  /** Transactions under way at a time, 4 unless told; what waits meanwhile goes together. */
  readonly maxInFlight?: number
  /** Gas allowed for one transfer (a key's, a contract wallet's); 120,000 and 500,000 unless told. */
  readonly gas?: { readonly transfer?: bigint; readonly contract?: bigint }
  /** How far the node may be behind when it is asked whether a payment would still go through; 4 s unless told. */
  readonly lagSeconds?: number
}

export type Settler = {
  settle(order: Order, at: { now: number; signal: AbortSignal }): Promise<Settlement>
  close(): void
}

/** `id` names the authorization in every detail (its digest): one under way is joined, never sent beside itself. */
export type Order = { readonly exact: Exact; readonly offer: Offer; readonly id: string }

/** One authorization on its way. It is finished whether or not the caller still waits. */
type Job = {
  readonly exact: Exact
  readonly offer: Offer
  readonly target: Target
  readonly now: number
  readonly done: (settlement: Settlement) => void
  readonly promise: Promise<Settlement>
  /** Goes in a transaction of its own: a contract decides what this one costs, or it has failed among others. */
  alone: boolean
  /** Callers still waiting; a job that nobody waits for is not begun. */
  callers: number
  attempts: number
}

const ATTEMPTS = 3

/** Settles through one relayer: what waits at the same time goes in one transaction, and each outcome is read from its own events. */
export function evmSettler(ports: { rpc: Rpc; reads: Reads; relayer: Relayer }, config: SettleConfig): Settler {
  const { rpc, reads, relayer } = ports
  const maxTogether = config.maxTogether ?? 50
  const maxInFlight = config.maxInFlight ?? 4
  const transferGas = config.gas?.transfer ?? 120_000n
  const contractGas = config.gas?.contract ?? 500_000n
  const jobs = new Map<string, Job>()
  const waiting: Job[] = []
  let flying = 0
  let closed = false

  async function settle(order: Order, at: { now: number; signal: AbortSignal }): Promise<Settlement> {
    const { exact, offer, id } = order
    const bad = judgeValue(exact, offer)
    if (bad) return { kind: 'refused', reason: bad.reason }
    if (at.signal.aborted || closed) return { kind: 'unknown', reason: 'no time was left to settle' }
    if (at.now >= exact.expiresAt && !jobs.has(id)) return settlementOf(await reads.fate(exact, offer, at.signal), 'the authorization is expired')
    const job = jobs.get(id) ?? begin(order, at.now)
    job.callers++
    try {
      return await Promise.race([job.promise, outOfTime(at.signal, job.promise)])
    } finally {
      job.callers--
    }
  }

  function begin({ exact, offer, id }: Order, now: number): Job {
    let done: (settlement: Settlement) => void = () => {}
    const promise = new Promise<Settlement>((resolve) => (done = resolve))
    const target = { to: lower(offer.asset), data: transferCall(exact) }
    const alone = exact.signature.length !== 132
    const job: Job = { exact, offer, target, now, done, promise, alone, callers: 0, attempts: 0 }
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
    while (!closed && waiting.length > 0 && flying < maxInFlight) {
      const group = nextGroup()
      if (group.length === 0) continue
      flying++
      void carry(group).finally(() => {
        flying--
        pump()
      })
    }
  }

  /** The oldest that waits, and with it all those that may share its transaction. */
  function nextGroup(): Job[] {
    const first = waiting.shift()
    if (!first) return []
    if (first.callers === 0) {
      first.done({ kind: 'unknown', reason: 'nobody waited for it any more' })
      return []
    }
    if (first.alone || !reads.multicall()) return [first]
    const others = waiting.filter((job) => !job.alone && job.callers > 0).slice(0, maxTogether - 1)
    for (const job of others) waiting.splice(waiting.indexOf(job), 1)
    return [first, ...others]
  }

  async function carry(group: readonly Job[]): Promise<void> {
    const ready = await rehearse(group)
    if (ready.length === 0) return
    const sent = await relayer.send(outgoing(ready), Math.max(...ready.map((job) => job.now)))
    if (sent.kind === 'rejected') {
      for (const job of ready) job.done({ kind: 'unknown', reason: `nothing was sent: ${sent.reason}` })
      return
    }
    await Promise.all(ready.map((job) => conclude(job, sent, ready.length > 1)))
  }

  /**
   * Asks the chain what would happen, so that no gas is spent on the dead. Those that would pay come back. A payer with code decides
   * what its transfer costs, so it may not share a transaction: it could burn the gas of all the others.
   */
  async function rehearse(group: readonly Job[]): Promise<readonly Job[]> {
    const lagSeconds = config.lagSeconds ?? 4
    const gas = group[0]?.alone ? contractGas : undefined
    const [seen, codes] = await Promise.all([
      reads.view(group.map((job) => job.target), { lagSeconds, from: config.relayer, ...(gas ? { gas } : {}) }),
      Promise.all(group.map((job) => (job.alone ? undefined : rpc.ask('eth_getCode', [job.exact.from, 'latest'])))),
    ])
    if (seen.kind === 'trouble') {
      for (const job of group) job.done({ kind: 'unknown', reason: `nothing was sent: ${seen.reason}` })
      return []
    }
    const judged = await Promise.all(group.map((job, i) => (seen.results[i]?.ok ? staysIn(job, codes[i]) : refuse(job))))
    return group.filter((_, i) => judged[i])
  }

  function staysIn(job: Job, code: Answer | undefined): boolean {
    if (!code || hasCode(code) === false) return true
    job.alone = true
    enqueue(job)
    return false
  }

  function outgoing(ready: readonly Job[]): Outgoing {
    const [first] = ready
    if (first && ready.length === 1) return { ...first.target, gas: first.alone ? contractGas : transferGas }
    return { to: MULTICALL, data: aggregateCall(ready.map((job) => job.target)), gas: 60_000n + transferGas * BigInt(ready.length) }
  }

  /** What became of one payment in a transaction that is over, by its own events; failing those, by the state of the authorization. */
  async function conclude(job: Job, sent: Sent, wasTogether: boolean): Promise<void> {
    const isMined = sent.kind === 'mined'
    const paid = isMined && paidIn(sent.receipt, job.exact, job.offer)
    if (paid) {
      reads.hint(job.exact.key, sent.receipt.transactionHash)
      return job.done({ kind: 'settled', receipt: paid })
    }
    const fate = await reads.fate(job.exact, job.offer)
    const isWorthAnother = fate.kind === 'open' && (!isMined || wasTogether) && ++job.attempts < ATTEMPTS
    if (isWorthAnother) {
      job.alone = true
      return enqueue(job)
    }
    const mayLand = fate.kind === 'open' && (!isMined || sent.strays)
    if (mayLand) return job.done({ kind: 'unknown', reason: 'the transaction was lost, and may still be mined' })
    job.done(settlementOf(fate, 'the transfer reverted: nothing moved'))
  }

  async function refuse(job: Job): Promise<false> {
    const { exact, offer, target } = job
    const balanceOf = { to: target.to, data: balanceCall(exact.from) }
    const [fate, seen] = await Promise.all([reads.fate(exact, offer), reads.view([balanceOf], { lagSeconds: 0 })])
    const balance = seen.kind === 'seen' ? uintIn(seen.results[0]) : undefined
    const isPoor = balance !== undefined && balance < exact.value
    job.done(settlementOf(fate, isPoor ? `the payer has ${balance} base units, the price is ${exact.value}` : 'transaction simulation failed'))
    return false
  }

  return {
    settle,
    close() {
      closed = true
      for (const job of jobs.values()) job.done({ kind: 'unknown', reason: 'the relayer is closed' })
    },
  }
}

/** Nothing of ours is under way any more: an open authorization was not spent by this call. */
function settlementOf(fate: Fate, reason: string): Settlement {
  if (fate.kind === 'paid') return { kind: 'settled', receipt: fate.receipt }
  if (fate.kind === 'unknown') return fate
  return { kind: 'refused', reason: fate.kind === 'dead' ? 'the authorization is dead: used, canceled or expired' : reason }
}

function outOfTime(signal: AbortSignal, over: Promise<unknown>): Promise<Settlement> {
  return new Promise((resolve) => {
    const stop = () => resolve({ kind: 'unknown', reason: 'no receipt in time' })
    signal.addEventListener('abort', stop, { once: true })
    void over.then(() => signal.removeEventListener('abort', stop))
  })
}
