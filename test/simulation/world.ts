/** The world of one run: a storage, a chain with weather, buyers, and the scheduler under them. */
import { drainMicrotasks } from 'bun:jsc'
import { peek } from 'bun'
import type { MemoryChain } from '../../adapters/chains/evm/memory.ts'
import { parseExact } from '../../adapters/chains/evm/exact/payload.ts'
import { parseUpto } from '../../adapters/chains/evm/upto/payload.ts'
import { memoryStorage } from '../../adapters/storage/memory/mod.ts'
import type { Offer, Payment, Storage } from '../../core/mod.ts'
import type { Call, Chain, Identity, Settlement, SettleOptions } from '../../core/ports/mod.ts'
import { type Ledger, ledgerRows } from './ledger.ts'
import { chance } from './chance.ts'
import type { Product } from './products.ts'
import { type Actor as AnyActor, createScheduler, ownerOf, type Process, type Scheduler } from './scheduler.ts'
import { type ChainFacts, cashOf, type Setup } from './setup.ts'
import type { Fleet } from './upgrades/fleet.ts'

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
  /** Its amount, in base units. */
  readonly amount: string
  /** Moves what the gateway has sent it for. */
  moves?: () => Promise<unknown>
  isCancelled: boolean
  /** A gateway has seen it. */
  isPresented: boolean
}

export type Actor = AnyActor<Signed>

export type World = Omit<Scheduler<Signed>, 'crash'> & Parts

type Parts = {
  readonly setup: Setup
  readonly storage: Storage
  readonly fleet: Fleet | undefined
  readonly cash: MemoryChain
  /** The cash chain under the weather of this run, as processes see it. */
  readonly chain: Chain
  readonly ledgerRows: Ledger
  readonly buyers: readonly Buyer[]
  readonly signed: Signed[]
  /** Broadcast, not mined, not forgotten. */
  readonly mempool: Signed[]
  /** One process at a time, which takes over from the one before; else two may run on one storage. */
  readonly isSingle: boolean
  /** The storage loses a question or an answer now and then. */
  isFlaky: boolean
  isDown: boolean
  /** Share of questions to the node that are answered 429. */
  limited: number
  /** Whether the vendor fails this time. */
  fails(): boolean
  /** Price of a chat answer, in base units. */
  charge(): bigint
  crash(process: Process): void
  /** `isStarted`: by its fleet; otherwise the newest version starts. */
  boot(isStarted?: boolean): Process
  /** Time passes; processes that are well have said so in the meantime. */
  pass(ms: number): void
  /** `amount`: another price than that of the product, in base units. */
  sign(buyer: Buyer, product: Product, lifeSeconds: number, amount?: bigint): Signed
  signedIn(payment: Payment): Signed
  byKey(key: string): Signed | undefined
  /** Whether the chain would still take it. */
  isSpendable(signed: Signed): boolean
  /** Lands an authorization, if the chain takes it, and books what it moved. */
  land(by: 'gateway' | 'payer', signed: Signed): void
}

export function createWorld(setup: Setup, seed: number, { isTraced }: { isTraced: boolean }): World {
  const dice = chance(seed)
  const cash = cashOf(setup.rule)
  const byKey = new Map<string, Signed>()
  const bySignature = new Map<unknown, Signed>()
  const often = (...shares: readonly number[]) => dice.pick(shares)
  const scheduler = createScheduler<Signed>(dice, {
    isTraced,
    isMixed: setup.rule.doors !== undefined,
    writes: /^(openCall|moveCall|claim|finish|settle)/,
    replied: (actor, reply) => world.ledgerRows.replied(actor, reply),
    failed: (actor, error) => world.ledgerRows.failed(actor, error),
  })
  /** Shares of the weather. */
  const climate = {
    vendorFailures: often(0, 0, 0.1, 0.4),
    refused: setup.rule.isHarsh ? 0 : often(0, 0.1, 0.3),
    landed: often(0, 0.2, 0.4),
    late: often(0, 0.2, 0.4),
    dropped: often(0, 0.1, 0.3),
  }

  const weathered: Chain = {
    families: cash.families,
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
  async function settle(payment: Payment, offer: Offer, at: SettleOptions): Promise<Settlement> {
    const signed = world.signedIn(payment)
    if (isLimited()) return { kind: 'unknown', reason: TOO_MANY }
    const isFunded =
      signed.amount === offer.amount && cash.balanceOf(signed.buyer.wallet) >= BigInt(at.charge ?? offer.amount)
    if (world.isDown || at.signal.aborted || !world.isSpendable(signed) || !isFunded || at.charge === 0n)
      return await cash.settle(payment, offer, at)
    const weather = world.isCalm ? 'normal' : drawOutcome()
    world.say(() => `   the weather for ${signed.name} is ${weather}`)
    if (weather === 'refused') return { kind: 'refused', reason: 'the node refuses' }
    world.ledgerRows.sending(world.active, payment, signed)
    if (weather === 'late') world.mempool.push(signed)
    const charged = () => cash.settle(payment, offer, at)
    if (setup.rule.isByUse) signed.moves = charged
    if (weather === 'late' || weather === 'dropped') return { kind: 'unknown', reason: 'no receipt in time' }
    const lost: Settlement = { kind: 'unknown', reason: 'no receipt in time' }
    if (setup.rule.isByUse) {
      const settled = await charged()
      const { transaction } = settled.kind === 'settled' ? settled.receipt : { transaction: '' }
      noteTransfer(
        'gateway',
        signed,
        cash.transfers.findLastIndex((each) => each.transaction === transaction),
      )
      return weather === 'normal' ? settled : lost
    }
    world.land('gateway', signed)
    return weather === 'normal' ? await charged() : lost
  }

  function noteTransfer(by: 'gateway' | 'payer', signed: Signed, index: number): void {
    const transfer = cash.transfers[index]
    if (transfer) world.ledgerRows.landed(by, signed, transfer)
  }

  function storageIn(ships: Fleet, index: number, isStarted: boolean): Storage {
    const start = { by: index, version: ships.newest, crashAt: undefined }
    const { kind } = isStarted ? { kind: 'started' } : ships.start(start)
    if (kind !== 'started') throw new Error(`the ${start.version} version is ${kind}`)
    return ships.storageOf(index, (verb) => {
      if (ships.isPast(index))
        world.ledgerRows.violate('olderStops', `${ownerOf(index)} has done ${verb} in a database that it cannot read`)
    })
  }

  function drawOutcome(): 'normal' | 'refused' | 'landed' | 'late' | 'dropped' {
    const { refused, landed, late, dropped } = climate
    const drawn = dice.next() * Math.max(1, 0.2 + refused + landed + late + dropped)
    if (drawn < refused) return 'refused'
    if (drawn < refused + landed) return 'landed'
    if (drawn < refused + landed + late) return 'late'
    return drawn < refused + landed + late + dropped ? 'dropped' : 'normal'
  }

  const crash = scheduler.crash
  const fleet = setup.rule.fleet?.()
  const parts: Parts = {
    setup,
    storage: fleet?.storage ?? (setup.rule.storage ? setup.rule.storage() : memoryStorage()),
    fleet,
    cash,
    chain: weathered,
    ledgerRows: undefined as unknown as Ledger,
    buyers: ['alice', 'bob'].map((name) => ({ name, wallet: walletOf(name, cash) })),
    signed: [],
    mempool: [],
    isSingle: dice.isLucky(0.3) || fleet?.isSingle === true,
    isFlaky: scheduler.lost > 0 || setup.rule.isHarsh === true || setup.rule.isStormy === true,
    isDown: false,
    limited: 0,

    fails: () => !world.isCalm && dice.isLucky(climate.vendorFailures),

    charge: () => dice.pick([0n, 0n, 1n, 700n, 8_000n, 1_000_000n]),

    crash: (process) => crash(process, { isSingle: world.isSingle }),

    boot(isStarted = false) {
      const index = world.processes.length
      const gateway = setup.gateways[index]
      if (!gateway) throw new Error('too many processes')
      const storage = fleet && storageIn(fleet, index, isStarted)
      const state = { isAlive: true, isMaintaining: false, isFrozen: false, skewMs: 0 }
      const process: Process = { index, gateway, ...state, ...(storage && { storage }) }
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

    pass(ms) {
      world.now += ms
      cash.advance(world.now)
      world.say(() => `${ms / 1000} s pass`)
      if (world.isStorageAway) return
      for (const { index, skewMs, storage = world.storage } of world.processes.filter(
        ({ isAlive, isFrozen }) => isAlive && !isFrozen && !dice.isLucky(0.25),
      )) {
        if (fleet?.isPast(index)) continue
        const workerId = ownerOf(index)
        const calls = (peek(storage.lostCalls(Number.MAX_SAFE_INTEGER, 1_000)) as readonly Call[]).filter(
          (call) => call.workerId === workerId,
        )
        peek(
          storage.renew(
            workerId,
            calls.map(({ id }) => id),
            world.now + skewMs + setup.timeouts.workLeaseMs,
          ),
        )
      }
    },

    sign(buyer, product, lifeSeconds, amount = BigInt(product.offer.amount)) {
      const validBefore = BigInt(Math.floor(world.now / 1000) + lifeSeconds)
      const offer = { ...product.offer, amount: String(amount) }
      const payment = cash.sign(offer, { from: buyer.wallet, now: world.now, validBefore })
      const parsed = setup.rule.isByUse ? parseUpto(payment, offer) : parseExact(payment, offer)
      if (parsed.kind === 'refused') throw new Error(parsed.reason)
      const { key, expiresAt } = parsed
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
        amount: offer.amount,
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
      if (signed.moves) void signed.moves()
      else cash.submit(signed.payment)
      // Calls charged by use are settled, which takes promises; no process runs meanwhile.
      if (signed.moves) drainMicrotasks()
      noteTransfer(by, signed, before)
    },
  }
  const world: World = Object.assign(scheduler, parts)
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
