/** Everything that may happen in a run, and how often. */
import { alive, openerOf, poll, post } from './buyers.ts'
import { close } from './limits.ts'
import { maintain } from './scheduler.ts'
import type { World } from './world.ts'

/** A little more than the dearest product costs. */
export const PRICE = 50_000n

/** Happens, unless there is nothing that it could happen to. */
type Event = (world: World, habits: Habits) => void

/** No run does everything: one that does a few things often goes deeper than one that does all of them now and then. */
export type Habits = {
  /**
   * Share of steps in which something goes on that was begun before, and share of those that leave it asleep instead.
   */
  readonly releases: number
  readonly sleeps: number
  /** How many calls there are to be. */
  readonly calls: number
  /** Jobs that are ready before anything goes wrong: most of what can comes after that. */
  readonly jobs: number
  readonly events: readonly (readonly [Event, number])[]
  /** Milliseconds that pass at once, and seconds that an authorization lives. */
  readonly jumps: readonly number[]
  readonly lives: readonly number[]
}

export function habitsOf({ chance, setup }: World): Habits {
  const often = <T>(...of: readonly T[]): T => chance.pick(of)
  return {
    releases: often(0.45, 0.6, 0.75),
    sleeps: often(0, 0.08, 0.2),
    calls: often(1, 2, 3),
    jobs: often(0, 1, 1, 2),
    events: [
      [postNew, 6],
      [postAgain, often(0, 2, 5)],
      [pollSomehow, often(8, 14, 24)],
      [pollWithAny, often(0, 0, 1)],
      [maintainOnce, often(0, 2, 5)],
      [pass, often(2, 5, 9)],
      [crash, often(0, 1, 3)],
      [start, often(1, 4)],
      [hangUp, often(0, 0, 2)],
      [cancel, often(0, 1, 3)],
      [submit, often(0, 0, 1, 3)],
      [drain, often(0, 0, 1, 2)],
      [refill, often(0, 1, 2)],
      [lag, often(0, 0, 2)],
      [outage, often(0, 0, 2)],
      [deliver, often(0, 1, 3)],
      [forget, often(0, 1)],
      ...operating(setup, often(0, 1, 3)),
    ],
    jumps: often(
      [700, 5_000, 9_000, 31_000, 46_000],
      [46_000, 46_000, 9_000],
      [2_000, 46_000, 700_000],
      [31_000, 46_000, 120_000, 1_300_000],
    ),
    lives: often([600], [600, 90], [60, 20], [600, 8]),
  }
}

/** An operator is there where something is limited. */
const operating = ({ controls }: World['setup'], weight: number): Habits['events'] =>
  controls.length > 0 ? [[operate, weight]] : []

/**
 * Habits of a harsh run. What is signed outlives it, so that nothing but a wallet can keep its answers from being paid.
 * Nobody crashes: who is killed between the last word of a stream and its claim has given it away, and no rule mends
 * that.
 */
export function harshHabitsOf(world: World): Habits {
  const often = <T>(...of: readonly T[]): T => world.chance.pick(of)
  const mild = habitsOf(world)
  const gone: readonly Event[] = [cancel, crash, drain, submit]
  return {
    ...mild,
    calls: often(2, 3, 5),
    jobs: often(0, 0, 1),
    events: [
      ...mild.events.map(([event, weight]) => [event, gone.includes(event) ? 0 : weight] as const),
      [freeze, often(0, 2, 4)],
      [thaw, often(1, 3)],
      [storageAway, often(0, 1, 3)],
      [limit, often(0, 0, 2)],
      [flee, often(0, 0, 1)],
      [skew, often(0, 0, 1)],
    ],
    jumps: often([700, 5_000, 9_000, 31_000], [46_000, 9_000], [31_000, 2_000]),
    lives: [7_200],
  }
}

/**
 * Habits of a storm: as in a harsh run, and processes are killed while the storage is away or clocks differ. What is
 * signed outlives it, because a clock that is ahead takes an authorization for over before the chain does.
 */
export function stormyHabitsOf(world: World): Habits {
  const often = <T>(...of: readonly T[]): T => world.chance.pick(of)
  const mild = habitsOf(world)
  return {
    ...mild,
    events: [
      ...mild.events,
      [freeze, often(0, 2, 4)],
      [thaw, often(1, 3)],
      [storageAway, often(1, 3)],
      [limit, often(0, 0, 2)],
      [skew, often(0, 1)],
    ],
    lives: [7_200],
  }
}

// ── buyers ──────────────────────────────────────────────────────────────────────────────────────────────────────────

function postNew(world: World, { calls, lives }: Habits): void {
  const { chance, buyers, setup, ledgerRows } = world
  const process = alive(world)
  if (process && ledgerRows.calls.length < calls)
    post(world, process, world.sign(chance.pick(buyers), chance.pick(setup.products), chance.pick(lives)))
}

function postAgain(world: World): void {
  const process = alive(world)
  if (process && world.signed.length > 0) post(world, process, world.chance.pick(world.signed))
}

/**
 * With what opened the call, with anything that its buyer has ever signed, or with a new signature, at times for
 * another price.
 */
function pollSomehow(world: World, { lives }: Habits): void {
  const { chance, ledgerRows, signed, setup } = world
  const process = alive(world)
  if (!process || ledgerRows.calls.length === 0) return
  const id = chance.pick(ledgerRows.calls)
  const opener = openerOf(world, id)
  const draw = chance.next()
  if (draw < 0.3) return void poll(world, process, { id, signed: opener })
  if (draw < 0.5)
    return void poll(world, process, { id, signed: chance.pick(signed.filter(({ buyer }) => buyer === opener.buyer)) })
  const product = chance.isLucky(0.15) ? chance.pick(setup.products) : opener.product
  const amount = setup.rule.isByUse ? ledgerRows.dueOf(id) : undefined
  poll(world, process, { id, signed: world.sign(opener.buyer, product, chance.pick(lives), amount) })
}

function pollWithAny(world: World): void {
  const { chance, ledgerRows, signed } = world
  const process = alive(world)
  if (process && ledgerRows.calls.length > 0)
    poll(world, process, { id: chance.pick(ledgerRows.calls), signed: chance.pick(signed) })
}

function hangUp(world: World): void {
  const posts = world
    .ready()
    .filter(({ actor }) => actor.kind === 'post' && !actor.gone.signal.aborted && !actor.reply && actor.process.isAlive)
  if (posts.length > 0) world.hangUp(world.chance.pick(posts).actor)
}

function cancel(world: World): void {
  const open = world.signed.filter(world.isSpendable)
  if (open.length === 0) return
  const signed = world.chance.pick(open)
  world.say(() => `${signed.buyer.name} cancels ${signed.name}`)
  world.cash.cancel(signed.payment)
  signed.isCancelled = true
}

function submit(world: World): void {
  // Nobody but the gateway can send what was signed for its account.
  if (world.setup.rule.isByUse) return
  const open = world.signed.filter(world.isSpendable)
  if (open.length === 0) return
  const signed = world.chance.pick(open)
  world.say(() => `somebody submits ${signed.name}`)
  world.land('payer', signed)
}

function drain(world: World): void {
  const { name, wallet } = world.chance.pick(world.buyers)
  world.say(() => `${name} moves everything elsewhere`)
  world.cash.drain(wallet)
}

function refill(world: World): void {
  const { name, wallet } = world.chance.pick(world.buyers)
  const times = 1 + world.chance.below(3)
  world.say(() => `${name} gets enough for ${times}`)
  world.cash.fund(wallet, PRICE * BigInt(times))
}

// ── processes and time ──────────────────────────────────────────────────────────────────────────────────────────────

function maintainOnce(world: World): void {
  const process = alive(world)
  if (process && !process.isMaintaining) maintain(world, process)
}

/** Until somebody's time is up, or by a jump. */
function pass(world: World, { jumps }: Habits): void {
  const { chance, now } = world
  const next = world.nextWait()
  const jump = chance.pick(jumps)
  world.pass(next !== undefined && next > now && chance.isLucky(0.3) ? next - now : jump)
}

export function crash(world: World): void {
  const process = alive(world)
  if (process && world.processes.length < world.setup.gateways.length) world.crash(process)
}

export function start(world: World): void {
  const running = world.processes.filter(({ isAlive }) => isAlive).length
  if (running < (world.isSingle ? 1 : 2) && world.processes.length < world.setup.gateways.length) world.boot()
}

function freeze(world: World): void {
  const process = alive(world)
  if (!process) return
  world.say(() => `p${process.index} pauses`)
  process.isFrozen = true
}

function thaw(world: World): void {
  const frozen = world.processes.filter(({ isFrozen }) => isFrozen)
  if (frozen.length === 0) return
  const process = world.chance.pick(frozen)
  world.say(() => `p${process.index} goes on`)
  process.isFrozen = false
}

/** By less than a quarter of a lease: a replica whose clock is further off does not sell. */
function skew(world: World): void {
  const process = alive(world)
  if (!process || process.skewMs !== 0) return
  process.skewMs = world.chance.pick([7_000, -7_000])
  world.say(() => `the clock of p${process.index} is off by ${process.skewMs / 1000} s`)
}

function storageAway(world: World): void {
  world.isStorageAway = !world.isStorageAway
  world.say(() => `the storage ${world.isStorageAway ? 'goes away' : 'is back'}`)
}

/** Moves everything elsewhere while answers are being made, or cancels what it signed. */
function flee(world: World): void {
  const buyer = world.chance.pick(world.buyers)
  world.say(() => `${buyer.name} takes its money away`)
  world.ledgerRows.fled(buyer)
  world.cash.drain(buyer.wallet)
}

/** Blocks wallets, closes the gateways for maintenance, or opens them again. */
function operate(world: World): void {
  const { chance, buyers, setup, ledgerRows } = world
  const blocked = buyers.flatMap(({ wallet }) => (chance.isLucky(0.3) ? [wallet] : []))
  const closing = { blocked, isClosed: chance.isLucky(0.2) }
  world.say(() => `the operator closes: ${JSON.stringify(closing)}`)
  if (!setup.rule.isOpen) close(setup.controls, closing)
  ledgerRows.closed(closing)
}

// ── the chain ───────────────────────────────────────────────────────────────────────────────────────────────────────

function lag(world: World): void {
  const blocks = world.chance.below(4)
  world.say(() => `the node is ${blocks} blocks behind`)
  world.cash.lag(blocks)
}

function limit(world: World): void {
  world.limited = world.limited > 0 ? 0 : world.chance.pick([0.3, 0.7, 1])
  world.say(() => `the node answers 429 to ${world.limited * 100}%`)
}

function outage(world: World): void {
  world.isDown = !world.isDown
  world.say(() => `the node ${world.isDown ? 'goes down' : 'is back'}`)
  world.cash.outage(world.isDown)
}

function deliver(world: World): void {
  const [signed] = world.mempool.splice(world.chance.below(Math.max(1, world.mempool.length)), 1)
  if (!signed) return
  world.say(() => `the late transaction of ${signed.name} is mined`)
  world.land('gateway', signed)
}

function forget(world: World): void {
  const [signed] = world.mempool.splice(world.chance.below(Math.max(1, world.mempool.length)), 1)
  if (signed) world.say(() => `the late transaction of ${signed.name} is forgotten`)
}
