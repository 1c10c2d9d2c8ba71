/**
 * The world of one run: a storage, a chain with weather, and a scheduler that decides in which order everything is done
 * and answered. Nothing here waits for anything: `drainMicrotasks` runs the gateways until they have nothing left to do
 * but ask.
 */
import { drainMicrotasks } from 'bun:jsc'
import { peek } from 'bun'
import { type MemoryChain, memoryChain } from '../../adapters/chains/memory.ts'
import { parseExact } from '../../adapters/chains/exact.ts'
import { memoryStorage } from '../../adapters/storage/memory.ts'
import type { Reply } from '../../core/http/reply.ts'
import type { Gateway, Offer, Payment, Storage } from '../../core/mod.ts'
import type { Call, Chain, Identity, Settlement } from '../../core/ports/mod.ts'
import { type Ledger, ledgerRows } from './ledger.ts'
import { type Chance, chance } from './chance.ts'
import type { Product } from './products.ts'
import type { ChainFacts, Setup } from './setup.ts'

export const START = Date.UTC(2026, 10, 20)

/** How the process of a gateway calls itself in its calls. */
export const ownerOf = (index: number): string => `p${index}`

export type Buyer = { readonly name: string; readonly wallet: string }

/** A signed authorization. */
export type Signed = {
  readonly name: string
  readonly key: string
  readonly payment: Payment
  readonly header: string
  readonly buyer: Buyer
  readonly product: Product
  readonly identity: Identity
  readonly expiresAt: number
  isCancelled: boolean
  /** A gateway has seen it. */
  isPresented: boolean
}

/** `skewMs`: how far its clock is ahead. */
export type Process = {
  readonly index: number
  readonly gateway: Gateway
  isAlive: boolean
  isMaintaining: boolean
  isFrozen: boolean
  skewMs: number
}

/** One thing that goes on in a process: a request, a round of tending. */
export type Actor = {
  readonly name: string
  readonly kind: 'post' | 'poll' | 'maintain' | 'start'
  readonly process: Process
  /** What it pays with, and the call that it polls. */
  readonly signed?: Signed
  readonly call?: string
  readonly gone: AbortController
  /** Step at which it began. */
  readonly began: number
  /** Authorizations that it put on the wire. */
  readonly sent: Set<string>
  reply: Reply | undefined
  /** Step until which the scheduler leaves it alone: it is slow for a while. */
  asleepUntil: number
}

type Question<T> = { readonly label: string; readonly isStorage: boolean; readonly run: () => Promise<T> }

type Item = Question<unknown> & {
  readonly actor: Actor
  readonly resolve: (value: unknown) => void
  readonly reject: (error: Error) => void
  /** Done, but the answer is still on its way. */
  answer: { readonly value: unknown } | { readonly error: Error } | undefined
}

type Wait = {
  readonly due: number
  readonly actor: Actor
  readonly signal: AbortSignal | undefined
  readonly resolve: () => void
}

export type World = {
  readonly chance: Chance
  readonly setup: Setup
  readonly storage: Storage
  readonly cash: MemoryChain
  /** The cash chain under the weather of this run, as processes see it. */
  readonly chain: Chain
  readonly ledgerRows: Ledger
  readonly buyers: readonly Buyer[]
  readonly processes: Process[]
  readonly signed: Signed[]
  /** Broadcast, not mined, not forgotten. */
  readonly mempool: Signed[]
  /** One process at a time, which takes over from the one before; else two may run on one storage. */
  readonly isSingle: boolean
  /** The storage loses a question or an answer now and then. */
  readonly isFlaky: boolean
  readonly lines: string[]
  now: number
  step: number
  /** Whose code runs. */
  active: Actor | undefined
  /** Everything is done at once, and well. */
  isCalm: boolean
  isDown: boolean
  /** The storage answers nobody. */
  isStorageAway: boolean
  /** Share of questions to the node that are answered 429. */
  limited: number
  say(text: () => string): void
  ask<T>(process: Process, question: Question<T>): Promise<T>
  wait(ms: number, signal: AbortSignal | undefined): Promise<void>
  /** Whether the vendor fails this time. */
  fails(): boolean
  /** Runs `work` as a new actor until it has nothing left to do but wait. */
  start(
    actor: Pick<Actor, 'name' | 'kind' | 'process' | 'signed' | 'call'>,
    work: (actor: Actor) => Promise<Reply | undefined>,
  ): Actor
  /** What can go on. */
  ready(): readonly (Item | Wait)[]
  release(which: Item | Wait): void
  /** The earliest moment for which anybody waits. */
  nextWait(): number | undefined
  crash(process: Process): void
  boot(): Process
  hangUp(actor: Actor): void
  /** Time passes; processes that are well have said so in the meantime. */
  pass(ms: number): void
  sign(buyer: Buyer, product: Product, lifeSeconds: number): Signed
  signedIn(payment: Payment): Signed
  byKey(key: string): Signed | undefined
  /** Whether the chain would still take it. */
  isSpendable(signed: Signed): boolean
  /** Lands an authorization, if the chain takes it, and books what it moved. */
  land(by: 'gateway' | 'payer', signed: Signed): void
}

export function createWorld(setup: Setup, seed: number, { isTraced }: { isTraced: boolean }): World {
  const dice = chance(seed)
  const cash = memoryChain()
  const items: Item[] = []
  let waits: Wait[] = []
  const byKey = new Map<string, Signed>()
  const bySignature = new Map<unknown, Signed>()
  const often = (...shares: readonly number[]) => dice.pick(shares)
  /**
   * Shares of what is answered without anybody coming between, done now but answered later, lost; and of the weather.
   */
  const climate = {
    atOnce: often(0.2, 0.5, 0.7, 0.85),
    lateAnswers: often(0, 0.1, 0.25),
    lost: often(0, 0, 0, 0, 0.05),
    vendorFailures: often(0, 0, 0.1, 0.4),
    refused: setup.rule.isHarsh ? 0 : often(0, 0.1, 0.3),
    landed: often(0, 0.2, 0.4),
    late: often(0, 0.2, 0.4),
    dropped: often(0, 0.1, 0.3),
  }

  const weathered: Chain = {
    terms: (now) => cash.terms(now),
    identify: async (payment) => world.signedIn(payment).identity,
    verify: async (payment, offer, at) =>
      isLimited() ? { kind: 'unavailable', reason: TOO_MANY } : await cash.verify(payment, offer, at),
    fate: async (payment, offer, at) =>
      isLimited() ? { kind: 'unknown', reason: TOO_MANY } : await cash.fate(payment, offer, at),
    settle,
  }

  const isLimited = () => world.limited > 0 && !world.isCalm && dice.isLucky(world.limited)

  /** Whatever is put on the wire is booked before it can land. */
  async function settle(payment: Payment, offer: Offer, at: { now: number; signal: AbortSignal }): Promise<Settlement> {
    const signed = world.signedIn(payment)
    if (isLimited()) return { kind: 'unknown', reason: TOO_MANY }
    const isFunded =
      signed.product.offer.amount === offer.amount && cash.balanceOf(signed.buyer.wallet) >= BigInt(offer.amount)
    if (world.isDown || at.signal.aborted || !world.isSpendable(signed) || !isFunded)
      return await cash.settle(payment, offer, at)
    const weather = world.isCalm ? 'normal' : drawOutcome()
    world.say(() => `   the weather for ${signed.name} is ${weather}`)
    if (weather === 'refused') return { kind: 'refused', reason: 'the node refuses' }
    world.ledgerRows.sending(world.active, payment, signed)
    if (weather === 'late') world.mempool.push(signed)
    if (weather === 'late' || weather === 'dropped') return { kind: 'unknown', reason: 'no receipt in time' }
    world.land('gateway', signed)
    return weather === 'landed'
      ? { kind: 'unknown', reason: 'no receipt in time' }
      : await cash.settle(payment, offer, at)
  }

  function drawOutcome(): 'normal' | 'refused' | 'landed' | 'late' | 'dropped' {
    const { refused, landed, late, dropped } = climate
    const drawn = dice.next() * Math.max(1, 0.2 + refused + landed + late + dropped)
    if (drawn < refused) return 'refused'
    if (drawn < refused + landed) return 'landed'
    if (drawn < refused + landed + late) return 'late'
    return drawn < refused + landed + late + dropped ? 'dropped' : 'normal'
  }

  /** Done and answered in one go, or done now and answered later, or lost before or after it was done. */
  function perform(item: Item): void {
    const gone = new Error('the database went away')
    if (item.isStorage && (world.isStorageAway || dice.isLucky(climate.lost))) {
      world.say(() => '   it fails before it is done')
      return item.reject(gone)
    }
    const isLost = item.isStorage && dice.isLucky(climate.lost)
    if (!isLost && !dice.isLucky(climate.lateAnswers)) return void item.run().then(item.resolve, item.reject)
    const store = (answer: Item['answer']) => {
      item.answer = isLost ? { error: gone } : answer
      items.push(item)
    }
    item.run().then(
      (value) => store({ value }),
      (error: Error) => store({ error }),
    )
  }

  function answer({ answer: given, resolve, reject }: Item): void {
    if (!given) return
    if ('error' in given) return reject(given.error)
    resolve(given.value)
  }

  /** Nobody hears what a dead process has asked for. */
  function performUnheard(item: Item): void {
    world.say(() => `${item.actor.name}: ${item.label} is done, but nobody hears`)
    world.active = item.actor
    item.run().catch(() => {})
    drainMicrotasks()
  }

  const isOver = ({ signal, actor }: Wait) => signal?.aborted === true || !actor.process.isAlive

  const world: World = {
    chance: dice,
    setup,
    storage: setup.rule.storage ? setup.rule.storage() : memoryStorage(),
    cash,
    chain: weathered,
    ledgerRows: undefined as unknown as Ledger,
    buyers: ['alice', 'bob'].map((name) => ({ name, wallet: walletOf(name, cash) })),
    processes: [],
    signed: [],
    mempool: [],
    isSingle: dice.isLucky(0.3),
    isFlaky: climate.lost > 0 || setup.rule.isHarsh === true,
    lines: [],
    now: START,
    step: 0,
    active: undefined,
    isCalm: false,
    isDown: false,
    isStorageAway: false,
    limited: 0,

    say(text) {
      if (isTraced)
        world.lines.push(`${String(world.step).padStart(3)} +${((world.now - START) / 1000).toFixed(1)}s  ${text()}`)
    },

    ask<T>(process: Process, question: Question<T>): Promise<T> {
      const { active: actor } = world
      if (!actor || !process.isAlive) return new Promise(() => {})
      const isAway = question.isStorage && world.isStorageAway
      if (!isAway && !process.isFrozen && (world.isCalm || dice.isLucky(climate.atOnce))) {
        world.say(() => `${actor.name}: ${question.label}, at once`)
        return question.run()
      }
      return new Promise<T>((resolve, reject) => {
        items.push({ ...question, actor, resolve: resolve as Item['resolve'], reject, answer: undefined })
      })
    },

    wait(ms, signal) {
      const { active: actor } = world
      if (signal?.aborted || !actor) return Promise.resolve()
      return new Promise((resolve) => {
        waits.push({ due: world.now + ms, actor, signal, resolve })
      })
    },

    fails: () => !world.isCalm && dice.isLucky(climate.vendorFailures),

    start(given, work) {
      const actor: Actor = {
        ...given,
        gone: new AbortController(),
        began: world.step,
        sent: new Set(),
        reply: undefined,
        asleepUntil: 0,
      }
      world.active = actor
      work(actor).then(
        (reply) => {
          actor.reply = reply
          if (reply) world.ledgerRows.replied(actor, reply)
        },
        (error: Error) => world.ledgerRows.failed(actor, error),
      )
      drainMicrotasks()
      return actor
    },

    ready() {
      waits = waits.filter((wait) => !isOver(wait))
      const due = waits.filter((wait) => wait.due <= world.now)
      const all = due.length > 0 ? [...items, ...due] : items
      return world.processes.some(({ isFrozen }) => isFrozen) ? all.filter(({ actor }) => !actor.process.isFrozen) : all
    },

    release(which) {
      const { actor } = which
      world.active = actor
      if ('due' in which) {
        waits.splice(waits.indexOf(which), 1)
        world.say(() => `${actor.name}: time is up`)
        which.resolve()
        return drainMicrotasks()
      }
      items.splice(items.indexOf(which), 1)
      if (!actor.process.isAlive) return performUnheard(which)
      world.say(() => `${actor.name}: ${which.label}${which.answer ? ' is answered' : ''}`)
      if (which.answer) answer(which)
      else perform(which)
      drainMicrotasks()
    },

    nextWait() {
      waits = waits.filter((wait) => !isOver(wait))
      const going = waits.filter(({ actor }) => !actor.process.isFrozen)
      return going.length === 0 ? undefined : Math.min(...going.map(({ due }) => due))
    },

    /**
     * What was asked and not yet done is lost, or done all the same: at once by a storage that dies with its process,
     * else any time.
     */
    crash(process) {
      world.say(() => `${ownerOf(process.index)} crashes`)
      process.isAlive = false
      const left = items.splice(0)
      items.push(...left.filter(({ actor }) => actor.process !== process))
      for (const item of left.filter(({ actor }) => actor.process === process)) {
        const isWrite = /^(openCall|moveCall|claim|finish|settle)/.test(item.label)
        if (item.answer || !isWrite || dice.isLucky(0.5)) continue
        if ((item.isStorage && world.isSingle) || dice.isLucky(0.5)) performUnheard(item)
        else items.push(item)
      }
    },

    boot() {
      const index = world.processes.length
      const gateway = setup.gateways[index]
      if (!gateway) throw new Error('too many processes')
      const process: Process = { index, gateway, isAlive: true, isMaintaining: false, isFrozen: false, skewMs: 0 }
      world.processes.push(process)
      world.say(() => `${ownerOf(index)} starts`)
      if (!world.isSingle || index === 0) return process
      const wasCalm = world.isCalm
      world.isCalm = true
      world.start(
        { name: `${ownerOf(index)} takes over`, kind: 'start', process },
        async () => void (await gateway.takeOver()),
      )
      world.isCalm = wasCalm
      return process
    },

    hangUp(actor) {
      world.say(() => `${actor.name}: the caller hangs up`)
      world.active = actor
      actor.gone.abort()
      drainMicrotasks()
    },

    pass(ms) {
      world.now += ms
      cash.advance(world.now)
      world.say(() => `${ms / 1000} s pass`)
      if (world.isStorageAway) return
      for (const { index, skewMs } of world.processes.filter(
        ({ isAlive, isFrozen }) => isAlive && !isFrozen && !dice.isLucky(0.25),
      )) {
        const workerId = ownerOf(index)
        const calls = (peek(world.storage.lostCalls(Number.MAX_SAFE_INTEGER, 1_000)) as readonly Call[]).filter(
          (call) => call.workerId === workerId,
        )
        peek(
          world.storage.renew(
            workerId,
            calls.map(({ id }) => id),
            world.now + skewMs + setup.timeouts.workLeaseMs,
          ),
        )
      }
    },

    sign(buyer, product, lifeSeconds) {
      const validBefore = BigInt(Math.floor(world.now / 1000) + lifeSeconds)
      const payment = cash.sign(product.offer, { from: buyer.wallet, now: world.now, validBefore })
      const exact = parseExact(payment, product.offer)
      if (exact.kind === 'refused') throw new Error(exact.reason)
      const { key, expiresAt } = exact
      const identity: Identity = { kind: 'known', payer: buyer.wallet, key, expiresAt }
      const name = `${buyer.name[0]}${world.signed.length}`
      const header = btoa(JSON.stringify(payment))
      const signed: Signed = {
        name,
        key,
        payment,
        header,
        buyer,
        product,
        identity,
        expiresAt,
        isCancelled: false,
        isPresented: false,
      }
      world.signed.push(signed)
      byKey.set(key, signed)
      bySignature.set(payment.payload.signature, signed)
      return signed
    },

    signedIn(payment) {
      const signed = bySignature.get(payment.payload.signature)
      if (!signed) throw new Error('nobody signed this')
      return signed
    },

    byKey: (key) => byKey.get(key),

    isSpendable: (signed) =>
      !signed.isCancelled && world.now < signed.expiresAt && world.ledgerRows.moved(signed.key) === undefined,

    land(by, signed) {
      const before = cash.transfers.length
      cash.submit(signed.payment)
      const transfer = cash.transfers[before]
      if (transfer) world.ledgerRows.landed(by, signed, transfer)
    },
  }
  const facts: ChainFacts = {
    isCancelled: (payment) => world.signedIn(payment).isCancelled,
    payTo: cash.offer(1n).payTo,
  }
  const chain = setup.rule.chain ? setup.rule.chain(weathered, facts) : weathered
  return Object.assign(world, { chain, ledgerRows: ledgerRows(world) })
}

const TOO_MANY = 'the node answers 429'

const wallets = new Map<string, string>()

function walletOf(name: string, cash: MemoryChain): string {
  const known = wallets.get(name) ?? cash.wallet(name)
  wallets.set(name, known)
  return known
}
