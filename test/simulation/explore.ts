/**
 * One run: everything that can go wrong, in an order that its seed decides; then all is well again, and the books are
 * closed (decision 85).
 */
import { alive, openerOf, poll, post } from './buyers.ts'
import type { Violation } from './ledger.ts'
import { close, OPEN } from './limits.ts'
import { type Habits, habitsOf, harshHabitsOf, PRICE, stormyHabitsOf } from './events.ts'
import { isLive } from './products.ts'
import type { Setup } from './setup.ts'
import { maintain, type Process, step } from './scheduler.ts'
import { retireOlder, upgradingHabitsOf } from './upgrades/events.ts'
import { judgeSums } from './upgrades/sums.ts'
import { createWorld, type Signed, type World } from './world.ts'

export type Run = {
  readonly seed: number
  readonly steps: number
  readonly violation: Violation | undefined
  /** Events, line by line; empty unless traced. */
  readonly lines: readonly string[]
}

/** To be called from a macrotask: it drains microtasks itself. The same seed makes the same run. */
export function explore(setup: Setup, seed: number, { isTraced = false }: { isTraced?: boolean } = {}): Run {
  const world = createWorld(setup, seed, { isTraced })
  const { ledgerRows, chance } = world
  setup.world = world
  setup.refresh()
  world.boot()
  for (const { wallet } of world.buyers) world.cash.fund(wallet, PRICE * BigInt(1 + chance.below(3)))
  const habits = habitsIn(world)
  for (let jobs = habits.jobs; jobs > 0; jobs--) headStart(world, habits)
  const last = 18 + chance.below(31)
  for (world.step = 1; world.step <= last && !ledgerRows.violation; world.step++) step(world, habits)
  if (!ledgerRows.violation) quiet(world)
  if (!ledgerRows.violation) ledgerRows.close()
  if (!ledgerRows.violation && world.fleet) judgeSums(world)
  setup.world = undefined
  return { seed, steps: world.step, violation: ledgerRows.violation, lines: world.lines }
}

function habitsIn(world: World): Habits {
  const { isHarsh, isStormy } = world.setup.rule
  if (world.fleet) return upgradingHabitsOf(world)
  if (isStormy) return stormyHabitsOf(world)
  return isHarsh ? harshHabitsOf(world) : habitsOf(world)
}

function headStart(world: World, { lives }: Habits): void {
  const { chance, buyers, setup } = world
  const process = alive(world)
  const slow = setup.products.find(({ name }) => name === 'slow')
  if (!process || !slow) return
  world.isCalm = true
  post(world, process, world.sign(chance.pick(buyers), slow, chance.pick(lives)))
  world.isCalm = false
}

/**
 * The node answers, wallets are full, time passes: whatever was in doubt must now become known, and whatever was made,
 * collected.
 */
function quiet(world: World): void {
  const { chance, cash, ledgerRows } = world
  world.say(() => '── all is well again')
  if (!world.setup.rule.isHarsh && chance.isLucky(0.2)) outlast(world)
  world.isCalm = true
  world.isDown = false
  world.isStorageAway = false
  world.limited = 0
  for (const each of world.processes) Object.assign(each, { isFrozen: false, skewMs: 0 })
  cash.outage(false)
  cash.lag(0)
  retireOlder(world)
  for (const signed of world.mempool.splice(0)) if (chance.isLucky(0.5)) world.land('gateway', signed)
  const process = alive(world) ?? world.boot()
  finish(world)
  for (const { wallet } of world.buyers) cash.fund(wallet, 1_000_000_000n)
  world.now += 50_000
  cash.advance(world.now)
  maintain(world, process)
  // Nobody was heard of for so long: whoever is alive gets another lease to say so.
  world.now += world.setup.timeouts.workLeaseMs
  cash.advance(world.now)
  maintain(world, process)
  finish(world)
  if (!ledgerRows.violation) ledgerRows.judgeGifts()
  for (const id of ledgerRows.calls) if (!ledgerRows.violation) settleUp(world, process, id)
  // Who is blocked collects what was ordered before, and orders nothing.
  close(world.setup.controls, OPEN)
  ledgerRows.closed(OPEN)
  // Signed for what a call came to, it orders nothing else.
  const isOfProduct = ({ amount, product }: Signed) => amount === product.offer.amount
  const presented = world.signed.filter(
    (signed) => signed.isPresented && isOfProduct(signed) && world.isSpendable(signed),
  )
  for (let tries = 0; tries < 2 && presented.length > 0 && !ledgerRows.violation; tries++)
    useAgain(world, process, presented.splice(chance.below(presented.length), 1))
}

/** The node stays away until every authorization has been over for ten minutes. */
function outlast(world: World): void {
  world.isDown = true
  world.isCalm = true
  world.cash.outage(true)
  world.now =
    Math.max(world.now, ...world.signed.map(({ expiresAt }) => expiresAt)) + world.setup.timeouts.unresolvedMs + 1_000
  world.cash.advance(world.now)
  finish(world)
  const process = alive(world)
  if (process) maintain(world, process)
}

/** Everything that was begun ends, however long it takes. */
function finish(world: World): void {
  for (let turn = 0; turn < 2_000 && !world.ledgerRows.violation; turn++) {
    const [first] = world.ready()
    const next = world.nextWait()
    if (!first && next === undefined) return
    if (first) world.release(first)
    else world.now = Math.max(world.now, next ?? 0)
  }
  world.ledgerRows.violate('nothingStuck', 'something goes on for ever')
}

/**
 * Polls with what the call was paid with, then with what opened it, then with a new signature: one of them must collect
 * it.
 */
function settleUp(world: World, process: Process, id: string): void {
  const { ledgerRows } = world
  const opener = openerOf(world, id)
  const spent = world.signed.filter(
    ({ key, buyer, isPresented }) =>
      isPresented && buyer === opener.buyer && ledgerRows.moved(key) !== undefined && ledgerRows.servedBy(key).has(id),
  )
  const amount = world.setup.rule.isByUse ? ledgerRows.dueOf(id) : undefined
  for (const signed of [...spent, opener, world.sign(opener.buyer, opener.product, 600, amount)]) {
    const actor = poll(world, process, { id, signed })
    finish(world)
    if (ledgerRows.violation || actor.reply?.status === 200) return
  }
  const call = ledgerRows.row(id)
  ledgerRows.violate(
    'nothingStuck',
    `${ledgerRows.nameOf(id)} cannot be collected: ${call?.workStatus}, ${call?.paymentStatus}`,
  )
}

/**
 * Sends the same signed request again: it is served, or leads to a call that can be collected with it. One that was
 * handed out for a call serves that call alone (contract 1.41).
 */
function useAgain(world: World, process: Process, [signed]: readonly Signed[]): void {
  const { ledgerRows } = world
  if (!signed || !world.isSpendable(signed) || signed.expiresAt < world.now + 7_000) return
  const posted = post(world, process, signed)
  finish(world)
  if (ledgerRows.violation) return
  if (isLive(signed.product) && posted.reply?.status === 200) return
  const body = JSON.parse(String(posted.reply?.body ?? '{}'))
  // A limit says when to come again; nothing is bound meanwhile.
  if (world.setup.rule.limits && Number(body.retryAfterSeconds) > 0) return
  const own = ledgerRows.handedOut(signed.key)
  const id = body.id ?? body.job_id ?? own
  const isTaken =
    posted.reply?.status === 200 ||
    posted.reply?.status === 202 ||
    (body.code === 'PAYMENT_REPLAY' && (body.recoverable === true || own !== undefined))
  if (!isTaken || id === undefined)
    return ledgerRows.violate(
      'nothingStuck',
      `${signed.name} moved no money, and is answered with ${posted.reply?.status} ${body.code ?? ''}`,
    )
  const collected = poll(world, process, { id, signed })
  finish(world)
  if (isLive(signed.product) && collected.reply?.status === 200) return
  if (JSON.parse(String(collected.reply?.body ?? '{}')).data !== undefined) return
  ledgerRows.violate(
    'nothingStuck',
    `${signed.name} moved no money, and leads to ${ledgerRows.nameOf(id)}, which is ${ledgerRows.row(id)?.workStatus} and answers ${collected.reply?.status}`,
  )
}
