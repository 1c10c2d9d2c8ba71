/**
 * The world of one run: real gateways over a real storage, and a scheduler that decides in which order everything that they ask of it
 * is done and answered. Nothing here waits: `drainMicrotasks` runs a gateway until it has nothing left to do but ask.
 */
import { drainMicrotasks } from 'bun:jsc'
import { peek } from 'bun'
import { type CashChain, cashChain } from '../../adapters/chains/cash.ts'
import { memoryStorage } from '../../adapters/storage/memory.ts'
import { type Gateway, gateway, type Offer, type Patience, patience, type Payment, type Ports, type Storage } from '../../core/mod.ts'
import type { Chain, Identity, Settlement } from '../../core/ports.ts'
import type { Reply } from '../../core/endpoint.ts'
import { type Books, books, type LawName } from './books.ts'
import { type Chance, chance } from './chance.ts'

export const START = Date.UTC(2026, 10, 20)
export const ORIGIN = 'http://model.test'
export const POSTED = '/api/v1/images/generations'

/** How one rule of the house is switched off: by what stands behind a port, never inside core. */
export type Rule = {
  readonly name: string
  readonly storage?: () => Storage
  readonly chain?: (chain: Chain, facts: ChainFacts) => Chain
  readonly patience?: Partial<Patience>
  /** The gateway never hears that a caller has gone. */
  readonly isDeaf?: boolean
  /** The laws that are judged; all of them unless told. */
  readonly breaks?: readonly LawName[]
}

export type ChainFacts = { isCancelled(payment: Payment): boolean; readonly payTo: string }

export const AS_BUILT: Rule = { name: 'as built' }

/** What is sold: `fast` answers inline where it can, `slow` is always a job. */
export type Product = { readonly name: string; readonly body: string; readonly offer: Offer }
export type Buyer = { readonly name: string; readonly wallet: string }

/** A signed authorization. It is only known to its buyer until it is sent to a gateway. */
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
  isShown: boolean
}

export type Process = { readonly index: number; readonly gateway: Gateway; isAlive: boolean; isTending: boolean }

/** One thing that goes on in a process: a request, a round of tending. */
export type Actor = {
  readonly name: string
  readonly kind: 'post' | 'poll' | 'tend' | 'start'
  readonly process: Process
  readonly signed?: Signed
  /** The call that is polled. */
  readonly call?: string
  readonly gone: AbortController
  /** Step at which it began. */
  readonly began: number
  /** Authorizations that it put on the wire. */
  readonly sent: Set<string>
  reply: Reply | undefined
  /** Step until which the scheduler leaves it alone: a process that is slow for a while. */
  asleepUntil: number
}

type Item = {
  readonly actor: Actor
  readonly label: string
  readonly isStorage: boolean
  readonly run: () => Promise<unknown>
  readonly resolve: (value: never) => void
  readonly reject: (error: Error) => void
  /** Done, but the answer is still on its way. */
  answer: { readonly value: unknown } | { readonly error: Error } | undefined
}

type Wait = { readonly due: number; readonly actor: Actor; readonly signal: AbortSignal | undefined; readonly resolve: () => void }

/** What kind of weather a run has; shares are between 0 and 1. */
export type Climate = {
  /** Questions that are answered at once, without anybody coming between. */
  readonly atOnce: number
  /** Questions that take effect now and are answered later. */
  readonly lateAnswers: number
  readonly failures: number
  readonly lostStorage: number
  readonly settling: { readonly refused: number; readonly landed: number; readonly late: number; readonly dropped: number }
}

export type World = {
  readonly chance: Chance
  readonly climate: Climate
  readonly cash: CashChain
  readonly chain: Chain
  readonly storage: Storage
  readonly stage: Stage
  readonly processes: Process[]
  readonly buyers: readonly Buyer[]
  readonly signed: Signed[]
  /** Payments that were broadcast and may land any time. */
  readonly mempool: Signed[]
  readonly books: Books
  readonly lines: string[]
  readonly isSingle: boolean
  now: number
  step: number
  active: Actor | undefined
  isCalm: boolean
  isDown: boolean
  say(text: () => string): void
  /** Asks something of the world on behalf of a process: done when the scheduler says so. */
  ask<T>(process: Process, label: string, run: () => Promise<T>, isStorage?: boolean): Promise<T>
  wait(process: Process, ms: number, signal: AbortSignal | undefined): Promise<void>
  /** Runs `work` as the actor until it only waits. */
  start(actor: Omit<Actor, 'sent' | 'gone' | 'began' | 'reply' | 'asleepUntil'> & { readonly gone?: AbortController }, work: (actor: Actor) => Promise<Reply | undefined>): Actor
  /** What the scheduler may let go on. */
  ready(): readonly (Item | Wait)[]
  release(which: Item | Wait): void
  crash(process: Process): void
  hangUp(actor: Actor): void
  boot(): Process
  /** Passes time; processes that are well have said so in the meantime. */
  pass(ms: number): void
  /** The earliest moment for which anybody waits. */
  nextWait(): number | undefined
  sign(buyer: Buyer, product: Product, lifeSeconds: number): Signed
  byKey(key: string): Signed | undefined
  isSpendable(signed: Signed): boolean
  /** Lets the chain do something to an authorization, and books what it moved. */
  onChain(by: 'gateway' | 'payer', signed: Signed, act: () => void): void
}

/** What outlives a run: gateways are built once, for building them costs more than a run. */
export type Stage = {
  readonly rule: Rule
  readonly gateways: readonly Gateway[]
  readonly products: readonly Product[]
  readonly patience: Patience
  world: World | undefined
}

const MOST_PROCESSES = 6
const PIXEL = 'data:image/png;base64,iVBORw0KGgo='

export function stage(rule: Rule): Stage {
  const made: { -readonly [Key in keyof Stage]: Stage[Key] } = {
    rule,
    gateways: [],
    products: [],
    patience: { ...patience, ...rule.patience },
    world: undefined,
  }
  const world = (): World => {
    if (!made.world) throw new Error('there is no world')
    return made.world
  }
  made.world = { now: START, cash: cashChain() } as World
  made.gateways = Array.from({ length: MOST_PROCESSES }, (_, index) =>
    gateway({ ports: portsOf(index, world), label: 'model', owner: `p${index}`, ...(rule.patience && { patience: rule.patience }) }),
  )
  const [first] = made.gateways
  made.products = ['vendor-a/image-1', 'vendor-e/image-pro'].map((model) => productOf(model, first))
  made.world = undefined
  return made
}

function productOf(model: string, shop: Gateway | undefined): Product {
  const body = JSON.stringify({ model, prompt: 'a red fox' })
  const asked = shop?.handle(requestOf('POST', POSTED, { body }), { ip: '', gone: new AbortController().signal })
  drainMicrotasks()
  const reply = asked && (peek(asked) as Reply)
  const { accepts } = JSON.parse(String(reply?.body)) as { accepts: [Offer] }
  return { name: model === 'vendor-a/image-1' ? 'fast' : 'slow', body, offer: accepts[0] }
}

/** As much of a Request as core reads; a real one brings streams, and streams bring the event loop. */
export function requestOf(method: string, path: string, { body, header }: { body?: string; header?: string }): Request {
  const values: Record<string, string | undefined> = {
    'payment-signature': header,
    'content-type': body === undefined ? undefined : 'application/json',
    'content-length': body === undefined ? undefined : String(body.length),
  }
  const headers = { get: (name: string) => values[name] ?? null }
  return { method, url: `${ORIGIN}${path}`, headers, body: body === undefined ? null : {}, text: async () => body ?? '' } as unknown as Request
}

// ── what a process asks ─────────────────────────────────────────────────────────────────────────────────────────────

function portsOf(index: number, world: () => World): Ports {
  const process = (): Process => {
    const found = world().processes[index]
    if (!found) throw new Error(`process ${index} does not run`)
    return found
  }
  const store = <T>(label: string, run: (storage: Storage, world: World) => Promise<T>): Promise<T> => {
    const here = world()
    return here.ask(process(), label, () => run(here.storage, here), true)
  }
  const node = <T>(label: string, payment: Payment, run: (chain: Chain) => Promise<T>): Promise<T> => {
    const here = world()
    return here.ask(process(), `${label} ${nameOf(here, payment)}`, () => run(here.chain))
  }

  const storage: Storage = {
    openCall: (call, authorization, at) =>
      store('openCall', async (inner, here) => here.books.opened(await inner.openCall(call, authorization, at), authorization, at)),
    getCall: (id) => store('getCall', (inner) => inner.getCall(id)),
    callOf: (key, now) => store('callOf', (inner) => inner.callOf(key, now)),
    moveCall: (id, from, patch) => store(`moveCall ${patch.work ?? ''}`, (inner) => inner.moveCall(id, from, patch)),
    renew: (owner, until) => store('renew', (inner) => inner.renew(owner, until)),
    lostCalls: (now, limit) => store('lostCalls', (inner) => inner.lostCalls(now, limit)),
    claimSettlement(id, authorization, at) {
      const { active } = world()
      world().books.claiming(active, id)
      return store('claimSettlement', async (inner, here) => here.books.claimed(await inner.claimSettlement(id, authorization, at), { id, authorization, at, actor: active }))
    },
    finishSettlement(id, token, outcome, at) {
      return store(`finishSettlement ${outcome.kind}`, async (inner, here) => here.books.finished(await inner.finishSettlement(id, token, outcome, at), id, outcome))
    },
    unsettled: (before, limit) => store('unsettled', (inner) => inner.unsettled(before, limit)),
    lease: (name, owner, at) => store('lease', (inner) => inner.lease(name, owner, at)),
    hit: (bucket, take, now) => store('hit', (inner) => inner.hit(bucket, take, now)),
    prune: (now) => store('prune', (inner) => inner.prune(now)),
    close: async () => {},
  }

  const chain: Chain = {
    terms: (now) => world().cash.terms(now),
    identify: (payment, offer, at) => world().chain.identify(payment, offer, at),
    verify: (payment, offer, at) => node('verify', payment, (inner) => inner.verify(payment, offer, at)),
    settle(payment, offer, at) {
      const here = world()
      const attempt = here.books.settling(here.active, payment)
      return node('settle', payment, (inner) => inner.settle(payment, offer, at)).finally(() => here.books.answered(attempt))
    },
    fate: (payment, offer, at) => node('fate', payment, (inner) => inner.fate(payment, offer, at)),
  }

  return {
    storage,
    chain,
    objects: { put: async () => {}, get: async () => undefined },
    vendors: {
      images: () => ({
        generate: () => {
          const here = world()
          return here.ask(process(), 'vendor', async () => {
            if (!here.isCalm && here.chance.isLucky(here.climate.failures)) throw new Error('the vendor is out of paint')
            return [{ url: PIXEL }]
          })
        },
      }),
      media: () => Promise.reject(new Error('there is no media host')),
    },
    clock: { now: () => world().now, wait: (ms, signal) => world().wait(process(), ms, signal) },
    log: { info() {}, warn() {}, alert: (message, fields) => world().books.alerted(message, fields) },
    random: (bytes) => world().books.random(bytes),
    background(work) {
      const here = world()
      work.catch((error: Error) => here.books.alerted('background work failed', { error: error.message }))
    },
  }
}

function known(world: World, payment: Payment): Signed {
  const signature = String(payment.payload.signature)
  const found = world.signed.find((each) => each.payment.payload.signature === signature)
  if (!found) throw new Error('nobody signed this')
  return found
}

function nameOf(world: World, payment: Payment): string {
  return world.signed.length > 0 ? known(world, payment).name : ''
}

// ── the world ───────────────────────────────────────────────────────────────────────────────────────────────────────

export function createWorld(on: Stage, seed: number, { isTraced }: { isTraced: boolean }): World {
  const dice = chance(seed)
  const cash = cashChain()
  const items: Item[] = []
  let waits: Wait[] = []
  const byKey = new Map<string, Signed>()
  const storage = on.rule.storage ? on.rule.storage() : memoryStorage()
  const share = (...of: readonly number[]) => dice.pick(of)
  const climate: Climate = {
    atOnce: share(0, 0.3, 0.6, 0.85),
    lateAnswers: share(0, 0.15, 0.4),
    failures: share(0, 0, 0.1, 0.4),
    lostStorage: share(0, 0, 0, 0, 0.05),
    settling: { refused: share(0, 0.1, 0.3), landed: share(0, 0.2, 0.4), late: share(0, 0.2, 0.4), dropped: share(0, 0.1, 0.3) },
  }
  const buyers: Buyer[] = ['alice', 'bob'].map((name) => ({ name, wallet: walletOf(name, cash) }))

  const weathered: Chain = {
    terms: (now) => cash.terms(now),
    identify: async (payment) => known(world, payment).identity,
    fate: (payment, offer, at) => cash.fate(payment, offer, at),
    verify: (payment, offer, at) => cash.verify(payment, offer, at),
    settle: (payment, offer, at) => settle(payment, offer, at),
  }

  /** The cash chain, with the weather of this run. Whatever is put on the wire is booked before it can land. */
  async function settle(payment: Payment, offer: Offer, at: { now: number; signal: AbortSignal }): Promise<Settlement> {
    const signed = known(world, payment)
    const isHopeless = world.isDown || at.signal.aborted || !world.isSpendable(signed) || !isFunded(signed, offer)
    if (isHopeless) return await cash.settle(payment, offer, at)
    const weather = world.isCalm ? 'fair' : forecast()
    world.say(() => `   the weather for ${signed.name} is ${weather}`)
    if (weather === 'refused') return { kind: 'refused', reason: 'the node refuses' }
    world.books.sending(world.active, payment, signed)
    if (weather === 'late') world.mempool.push(signed)
    if (weather === 'late' || weather === 'dropped') return { kind: 'unknown', reason: 'no receipt in time' }
    let asked: Promise<Settlement> | undefined
    world.onChain('gateway', signed, () => {
      cash.submit(payment)
      asked = cash.settle(payment, offer, at)
    })
    const settled = asked ? await asked : undefined
    if (weather === 'landed' || !settled) return { kind: 'unknown', reason: 'no receipt in time' }
    return settled
  }

  function forecast(): 'fair' | 'refused' | 'landed' | 'late' | 'dropped' {
    const { refused, landed, late, dropped } = climate.settling
    const drawn = dice.next() * Math.max(1, 0.2 + refused + landed + late + dropped)
    if (drawn < refused) return 'refused'
    if (drawn < refused + landed) return 'landed'
    if (drawn < refused + landed + late) return 'late'
    return drawn < refused + landed + late + dropped ? 'dropped' : 'fair'
  }

  function isFunded(signed: Signed, offer: Offer): boolean {
    const { amount } = signed.product.offer
    return amount === offer.amount && cash.balanceOf(signed.buyer.wallet) >= BigInt(amount)
  }

  /** Done and answered in one go, or done now and answered later, or lost before or after it was done. */
  function perform(item: Item): void {
    if (item.isStorage && dice.isLucky(climate.lostStorage)) {
      world.say(() => `${item.actor.name}: ${item.label} fails before it is done`)
      return item.reject(new Error('the database went away'))
    }
    const isLate = dice.isLucky(climate.lateAnswers)
    const isLost = item.isStorage && dice.isLucky(climate.lostStorage)
    if (isLate || isLost) {
      const keep = (answer: NonNullable<Item['answer']>) => {
        item.answer = answer
        items.push(item)
      }
      const lost = { error: new Error('the database went away') }
      item.run().then(
        (value) => keep(isLost ? lost : { value }),
        (error: Error) => keep({ error }),
      )
      return
    }
    item.run().then(
      (value) => item.resolve(value as never),
      (error: Error) => item.reject(error),
    )
  }

  function answer(item: Item): void {
    const { answer: given } = item
    if (!given) return
    if ('error' in given) return item.reject(given.error)
    item.resolve(given.value as never)
  }

  const isOver = (wait: Wait) => wait.signal?.aborted === true || !wait.actor.process.isAlive

  const world: World = {
    chance: dice,
    climate,
    cash,
    chain: weathered,
    storage,
    stage: on,
    processes: [],
    buyers,
    signed: [],
    mempool: [],
    books: undefined as unknown as Books,
    lines: [],
    isSingle: dice.isLucky(0.3),
    now: START,
    step: 0,
    active: undefined,
    isCalm: false,
    isDown: false,

    say(text) {
      if (isTraced) world.lines.push(`${String(world.step).padStart(3)} +${((world.now - START) / 1000).toFixed(1)}s  ${text()}`)
    },

    ask<T>(process: Process, label: string, run: () => Promise<T>, isStorage = false): Promise<T> {
      const actor = world.active
      if (!actor || !process.isAlive) return new Promise(() => {})
      if (world.isCalm || dice.isLucky(climate.atOnce)) {
        world.say(() => `${actor.name}: ${label}, at once`)
        return run()
      }
      return new Promise<T>((resolve, reject) => {
        items.push({ actor, label, isStorage, run, resolve: resolve as Item['resolve'], reject, answer: undefined })
      })
    },

    wait(_process, ms, signal) {
      const actor = world.active
      if (signal?.aborted) return Promise.resolve()
      return new Promise((resolve) => {
        if (actor) waits.push({ due: world.now + ms, actor, signal, resolve })
      })
    },

    start(given, work) {
      const actor: Actor = { gone: new AbortController(), ...given, began: world.step, sent: new Set(), reply: undefined, asleepUntil: 0 }
      world.active = actor
      work(actor).then(
        (reply) => {
          actor.reply = reply
          if (reply) world.books.replied(actor, reply)
        },
        (error: Error) => world.books.failed(actor, error),
      )
      drainMicrotasks()
      return actor
    },

    ready() {
      waits = waits.filter((wait) => !isOver(wait))
      const due = waits.filter((wait) => wait.due <= world.now)
      return due.length > 0 ? [...items, ...due] : items
    },

    release(which) {
      world.active = which.actor
      if ('due' in which) {
        waits.splice(waits.indexOf(which), 1)
        world.say(() => `${which.actor.name}: time is up`)
        which.resolve()
        return drainMicrotasks()
      }
      items.splice(items.indexOf(which), 1)
      if (which.answer) {
        world.say(() => `${which.actor.name}: ${which.label} is answered`)
        answer(which)
        return drainMicrotasks()
      }
      if (!which.actor.process.isAlive) {
        world.say(() => `${which.actor.name}: ${which.label} is done after all, but nobody hears`)
        which.run().catch(() => {})
        return drainMicrotasks()
      }
      world.say(() => `${which.actor.name}: ${which.label}`)
      perform(which)
      drainMicrotasks()
    },

    /** What was asked of the storage is done or lost; of one process's own storage nothing is done later. A transaction may be on the wire. */
    crash(process) {
      world.say(() => `p${process.index} crashes`)
      process.isAlive = false
      for (const item of items.splice(0)) {
        if (item.actor.process !== process) {
          items.push(item)
          continue
        }
        const isWrite = /^(openCall|moveCall|claim|finish|settle)/.test(item.label)
        if (item.answer || !isWrite || dice.isLucky(0.5)) continue
        const isNow = (item.isStorage && world.isSingle) || dice.isLucky(0.5)
        if (!isNow) {
          items.push(item)
          continue
        }
        world.active = item.actor
        world.say(() => `${item.actor.name}: ${item.label} is done, but nobody hears`)
        item.run().catch(() => {})
        drainMicrotasks()
      }
    },

    hangUp(actor) {
      world.say(() => `${actor.name}: the caller hangs up`)
      world.active = actor
      actor.gone.abort()
      drainMicrotasks()
    },

    boot() {
      const index = world.processes.length
      const shop = on.gateways[index]
      if (!shop) throw new Error('too many processes')
      const process: Process = { index, gateway: shop, isAlive: true, isTending: false }
      world.processes.push(process)
      world.say(() => `p${index} starts`)
      if (world.isSingle && index > 0) {
        const wasCalm = world.isCalm
        world.isCalm = true
        world.start({ name: `p${index} takes over`, kind: 'start', process }, async () => void (await shop.takeOver()))
        world.isCalm = wasCalm
      }
      return process
    },

    pass(ms) {
      world.now += ms
      cash.advance(world.now)
      world.say(() => `${ms / 1000} s pass`)
      for (const process of world.processes) {
        if (!process.isAlive || dice.isLucky(0.25)) continue
        peek(world.storage.renew(`p${process.index}`, world.now + on.patience.workLeaseMs))
      }
    },

    nextWait() {
      waits = waits.filter((wait) => !isOver(wait))
      return waits.length === 0 ? undefined : Math.min(...waits.map((wait) => wait.due))
    },

    sign(buyer, product, lifeSeconds) {
      const validBefore = BigInt(Math.floor(world.now / 1000) + lifeSeconds)
      const payment = cash.sign(product.offer, { from: buyer.wallet, now: world.now, validBefore })
      const identity = peek(cash.identify(payment, product.offer, { signal: NEVER })) as Identity
      if (identity.kind !== 'known') throw new Error('signed something odd')
      const { key, expiresAt } = identity
      const name = `${buyer.name[0]}${world.signed.length}`
      const signed: Signed = { name, key, payment, header: btoa(JSON.stringify(payment)), buyer, product, identity, expiresAt, isCancelled: false, isShown: false }
      world.signed.push(signed)
      byKey.set(key, signed)
      return signed
    },

    byKey: (key) => byKey.get(key),

    isSpendable: (signed) => !signed.isCancelled && world.now < signed.expiresAt && !world.books.moved(signed.key),

    onChain(by, signed, act) {
      const before = cash.transfers.length
      act()
      const transfer = cash.transfers[before]
      if (transfer) world.books.landed(by, signed, transfer)
    },
  }
  const facts: ChainFacts = { isCancelled: (payment) => known(world, payment).isCancelled, payTo: cash.offer(1n).payTo }
  const chain = on.rule.chain ? on.rule.chain(weathered, facts) : weathered
  Object.assign(world, { chain, books: books(world) })
  on.world = world
  return world
}

const NEVER = new AbortController().signal
const wallets = new Map<string, string>()

function walletOf(name: string, cash: CashChain): string {
  const known = wallets.get(name) ?? cash.wallet(name)
  wallets.set(name, known)
  return known
}
