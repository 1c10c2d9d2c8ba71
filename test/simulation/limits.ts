/**
 * Limits of a gateway, and what they promise: the operator's on what a wallet spends in a day, and the one of all
 * wallets together that have not paid yet.
 */
import { drainMicrotasks } from 'bun:jsc'
import { memoryStorage } from '../../adapters/storage/memory/mod.ts'
import type { Ports } from '../../core/mod.ts'
import { type Controls, controls } from '../../core/payment/control/controls.ts'
import { CONTROLS, NO_RULES } from '../../core/payment/control/rules.ts'
import { periodOf } from '../../core/payment/control/spending.ts'
import type { Call, Outcome } from '../../core/ports/mod.ts'
import { print, type Usdc, usdc } from '../../core/x402/money.ts'
import type { LawName } from './ledger.ts'
import type { Process } from './scheduler.ts'
import type { Actor } from './world.ts'

/** In base units. */
export type RunLimits = { readonly spentInDay: Usdc; readonly newWallets: Usdc }

/** Two or three pictures of a wallet in a day, and two of all new wallets at once. */
export const LIMITS: RunLimits = { spentInDay: usdc(120_000n), newWallets: usdc(90_000n) }

/** The setup of a gateway with these limits. They are there from the start, and what they count is in its storage. */
export function limited({ spentInDay, newWallets }: RunLimits, { storage, clock }: Pick<Ports, 'storage' | 'clock'>) {
  const rules = memoryStorage()
  const control: Controls = controls({
    storage: {
      ...storage,
      getRecord: (kind, ...of) => (kind === CONTROLS.kind ? rules : storage).getRecord(kind, ...of),
      putRecord: (...of) => rules.putRecord(...of),
      moveRecord: (...of) => rules.moveRecord(...of),
    },
    clock,
  })
  void control.change(() => ({ ...NO_RULES, wallet_limits: { '*': { usdc_per_day: print(spentInDay) } } }))
  drainMicrotasks()
  return { controls: control, newWallets: { gateway: newWallets, address: newWallets, streamed: newWallets } }
}

/** Closed by the operator: to wallets, and to everybody. */
export type Closing = { readonly blocked: readonly string[]; readonly isClosed: boolean }

export const OPEN: Closing = { blocked: [], isClosed: false }

/** Tells every gateway what is closed from now on. */
export function close(all: readonly Controls[], { blocked, isClosed }: Closing): void {
  for (const control of all)
    void control.change((rules) => {
      const { maintenance: _, ...rest } = rules
      return {
        ...rest,
        blocked: Object.fromEntries(blocked.map((wallet) => [wallet.toLowerCase(), {}])),
        ...(isClosed && { maintenance: {} }),
      }
    })
  drainMicrotasks()
}

type LimitLaws = {
  closed(closing: Closing): void
  opened(call: Call, actor: Actor | undefined): void
  finished(id: string, outcome: Outcome): void
  /** An order was taken: its work has started. */
  started(id: string): void
}

type Judging = {
  readonly limits: RunLimits | undefined
  /** Nothing is judged where storage loses answers: what it was asked for then counts, or not. */
  readonly isJudged: boolean
  now(): number
  step(): number
  row(id: string): Call | undefined
  violate(law: LawName, text: string): void
}

const HOUR_MS = 3_600_000

export function limitLaws({ limits, isJudged, now, step, row, violate }: Judging): LimitLaws {
  const openers = new Map<string, Process>()
  const settledAt = new Map<string, number>()
  /** Since which step a wallet is blocked, or everybody (`*`). */
  const closedSince = new Map<string, number>()
  /** Calls whose payment can no longer move money. */
  const over = new Set<string>()
  const started = new Set<string>()

  function isOpen(call: Call, at: number): boolean {
    const isEnded = call.workStatus === 'failed' || call.paymentStatus === 'settled' || over.has(call.id)
    return !isEnded && call.createdAt > at - HOUR_MS
  }

  /** Calls opened by this process count at once; calls settled by others count once an order comes after them. */
  function judgeDay(call: Call, actor: Actor): void {
    const { from } = periodOf('day', call.createdAt)
    let sum = 0n
    for (const [id, process] of openers) {
      const other = row(id)
      if (!other || other.payer !== call.payer) continue
      const isSettled = other.paymentStatus === 'settled' && (other.settledAt ?? 0) >= from
      const isOwn = process === actor.process
      const isEarlier = (settledAt.get(id) ?? Number.POSITIVE_INFINITY) < actor.began
      if ((isSettled && (isOwn || isEarlier)) || (isOwn && isOpen(other, call.createdAt))) sum += other.quote
    }
    if (limits && sum > limits.spentInDay)
      violate('withinLimits', `${call.payer} has ${sum} spent or under way, ${limits.spentInDay} are allowed in a day`)
  }

  function judgeNewWallets(): void {
    if (!limits) return
    const calls = [...openers.keys()].flatMap((id) => row(id) ?? [])
    const payers = new Set(calls.flatMap(({ payer, paymentStatus }) => (paymentStatus === 'settled' ? [payer] : [])))
    const unpaid = calls.filter(
      ({ id, payer, workStatus, paymentStatus, createdAt }) =>
        started.has(id) &&
        !payers.has(payer) &&
        workStatus !== 'failed' &&
        paymentStatus !== 'settled' &&
        createdAt > now() - HOUR_MS,
    )
    const sum = unpaid.reduce((all, { quote }) => all + quote, 0n)
    if (sum > limits.newWallets)
      violate('newWallets', `wallets that never paid have ${sum} open or unpaid, of ${limits.newWallets}`)
  }

  /** An order that began before may have passed the check. */
  function judgeClosed(call: Call, { began, name }: Actor): void {
    const [who] = [call.payer, '*'].filter((each) => (closedSince.get(each) ?? Number.POSITIVE_INFINITY) < began)
    if (who) violate('closed', `${name} opened a call that the operator has closed to ${who}`)
  }

  return {
    closed({ blocked, isClosed }) {
      const all = isClosed ? [...blocked, '*'] : blocked
      for (const each of closedSince.keys()) if (!all.includes(each)) closedSince.delete(each)
      for (const each of all) if (!closedSince.has(each)) closedSince.set(each, step())
    },
    opened(call, actor) {
      if (!actor) return
      judgeClosed(call, actor)
      openers.set(call.id, actor.process)
      if (isJudged) judgeDay(call, actor)
    },
    finished(id, { kind }) {
      if (kind === 'paid') settledAt.set(id, step())
      if (kind === 'refused' || kind === 'dead') over.add(id)
    },
    started(id) {
      started.add(id)
      if (isJudged) judgeNewWallets()
    },
  }
}
