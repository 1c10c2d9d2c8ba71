/** One run: everything that can go wrong, in an order that its seed decides; then all is well again, and the books are closed. */
import type { Violation } from './books.ts'
import { createWorld, POSTED, type Process, requestOf, type Signed, type Stage, type World } from './world.ts'

export type Run = { readonly seed: number; readonly steps: number; readonly violation: Violation | undefined; readonly lines: readonly string[] }

export function explore(on: Stage, seed: number, options: { isTraced?: boolean } = {}): Run {
  const world = createWorld(on, seed, { isTraced: options.isTraced ?? false })
  world.boot()
  for (const { wallet } of world.buyers) world.cash.fund(wallet, PRICE * BigInt(1 + world.chance.below(3)))
  const habits = habitsOf(world)
  for (let jobs = world.chance.pick([0, 1, 1, 2]); jobs > 0; jobs--) headStart(world, habits)
  const length = 25 + world.chance.below(31)
  for (world.step = 1; world.step <= length && !world.books.violation; world.step++) {
    const ready = world.ready().filter(({ actor }) => actor.asleepUntil <= world.step)
    const next = ready.length > 0 ? world.chance.pick(ready) : undefined
    if (next && world.chance.isLucky(habits.sleeps)) next.actor.asleepUntil = world.step + 6 + world.chance.below(30)
    else if (next && world.chance.isLucky(habits.releases)) world.release(next)
    else drawn(world, habits)(world, habits)
  }
  if (!world.books.violation) quiet(world)
  if (!world.books.violation) world.books.close()
  on.world = undefined
  return { seed, steps: world.step, violation: world.books.violation, lines: world.lines }
}

/** A job that is ready to be collected: most of what can go wrong comes after this. */
function headStart(world: World, { lives }: Habits): void {
  const process = alive(world)
  const slow = world.stage.products.find(({ name }) => name === 'slow')
  if (!process || !slow) return
  world.isCalm = true
  post(world, process, world.sign(world.chance.pick(world.buyers), slow, world.chance.pick(lives)))
  world.isCalm = false
}

// ── what may happen ─────────────────────────────────────────────────────────────────────────────────────────────────

/** Does it, unless there is nothing to do it to. */
type Event = (world: World, habits: Habits) => unknown

/** No run does everything: those that do a few things often go deeper than those that do all of them now and then. */
type Habits = { readonly releases: number; readonly sleeps: number; readonly calls: number; readonly events: readonly (readonly [Event, number])[]; readonly total: number; readonly jumps: readonly number[]; readonly lives: readonly number[] }

/** A little more than the dearest product costs. */
const PRICE = 50_000n

function habitsOf(world: World): Habits {
  const { chance } = world
  const often = (...weights: readonly number[]) => chance.pick(weights)
  const events: (readonly [Event, number])[] = [
    [postNew, 6],
    [postAgain, often(0, 2, 5)],
    [poll, often(4, 8, 14)],
    [pollAsStranger, often(0, 0, 1)],
    [tend, often(0, 2, 5)],
    [pass, often(1, 4, 8)],
    [crash, often(0, 0, 2)],
    [start, often(1, 4)],
    [hangUp, often(0, 0, 2)],
    [cancel, often(0, 0, 1, 3)],
    [submit, often(0, 0, 1, 3)],
    [drain, often(0, 0, 1, 2)],
    [refill, often(0, 1, 2)],
    [lag, often(0, 0, 2)],
    [outage, often(0, 0, 2)],
    [deliver, often(0, 1, 3)],
    [drop, often(0, 1)],
  ]
  return {
    releases: often(0.45, 0.6, 0.75),
    sleeps: often(0, 0.08, 0.2),
    calls: often(1, 2, 3),
    events,
    total: events.reduce((sum, [, weight]) => sum + weight, 0),
    jumps: chance.pick([
      [700, 5_000, 9_000, 31_000, 46_000],
      [46_000, 46_000, 9_000],
      [2_000, 46_000, 700_000],
      [31_000, 46_000, 120_000, 1_300_000],
    ]),
    lives: chance.pick([[600], [600, 90], [60, 20], [600, 8]]),
  }
}

function drawn({ chance }: World, { events, total }: Habits): Event {
  let left = chance.next() * total
  for (const [event, weight] of events) {
    left -= weight
    if (left < 0) return event
  }
  return poll
}

function alive(world: World): Process | undefined {
  const running = world.processes.filter(({ isAlive }) => isAlive)
  return running.length === 0 ? undefined : world.chance.pick(running)
}

const postNew: Event = (world, { calls, lives }) => {
  const process = alive(world)
  if (!process || world.books.calls.length >= calls) return false
  post(world, process, world.sign(world.chance.pick(world.buyers), world.chance.pick(world.stage.products), world.chance.pick(lives)))
  return true
}

const postAgain: Event = (world) => {
  const process = alive(world)
  if (!process || world.signed.length === 0) return false
  post(world, process, world.chance.pick(world.signed))
  return true
}

const poll: Event = (world, { lives }) => {
  const process = alive(world)
  const { calls } = world.books
  if (!process || calls.length === 0) return false
  const id = world.chance.pick(calls)
  const of = openerOf(world, id)
  const draw = world.chance.next()
  const own = world.signed.filter(({ buyer, product }) => buyer === of.buyer && product === of.product)
  if (draw < 0.3) return collect(world, process, id, of)
  if (draw < 0.5) return collect(world, process, id, world.chance.pick(own))
  return collect(world, process, id, world.sign(of.buyer, of.product, world.chance.pick(lives)))
}

const pollAsStranger: Event = (world) => {
  const process = alive(world)
  const { calls } = world.books
  if (!process || calls.length === 0 || world.signed.length === 0) return false
  return collect(world, process, world.chance.pick(calls), world.chance.pick(world.signed))
}

const tend: Event = (world) => {
  const process = alive(world)
  if (!process || process.isTending) return false
  tendIn(world, process)
  return true
}

const pass: Event = (world, { jumps }) => {
  const next = world.nextWait()
  const jump = world.chance.pick(jumps)
  const isShort = next !== undefined && next > world.now && world.chance.isLucky(0.3)
  world.pass(isShort ? next - world.now : jump)
  return true
}

const crash: Event = (world) => {
  const process = alive(world)
  if (!process || world.processes.length >= world.stage.gateways.length) return false
  world.crash(process)
  return true
}

const start: Event = (world) => {
  const running = world.processes.filter(({ isAlive }) => isAlive).length
  if (running >= (world.isSingle ? 1 : 2) || world.processes.length >= world.stage.gateways.length) return false
  world.boot()
  return true
}

const hangUp: Event = (world) => {
  const waiting = world.ready().map(({ actor }) => actor)
  const actor = waiting.find(({ kind, gone, process, reply }) => kind === 'post' && !gone.signal.aborted && process.isAlive && !reply)
  if (!actor) return false
  world.hangUp(actor)
  return true
}

const cancel: Event = (world) => {
  const open = world.signed.filter(world.isSpendable)
  if (open.length === 0) return false
  const signed = world.chance.pick(open)
  world.say(() => `${signed.buyer.name} cancels ${signed.name}`)
  world.cash.cancel(signed.payment)
  signed.isCancelled = true
  return true
}

const submit: Event = (world) => {
  const open = world.signed.filter(world.isSpendable)
  if (open.length === 0) return false
  const signed = world.chance.pick(open)
  world.say(() => `somebody submits ${signed.name}`)
  world.onChain('payer', signed, () => void world.cash.submit(signed.payment))
  return true
}

const drain: Event = (world) => {
  const { name, wallet } = world.chance.pick(world.buyers)
  world.say(() => `${name} moves everything elsewhere`)
  world.cash.drain(wallet)
  return true
}

const refill: Event = (world) => {
  const { name, wallet } = world.chance.pick(world.buyers)
  const times = 1 + world.chance.below(3)
  world.say(() => `${name} gets ${times} times ${PRICE}`)
  world.cash.fund(wallet, PRICE * BigInt(times))
  return true
}

const lag: Event = (world) => {
  const blocks = world.chance.below(4)
  world.say(() => `the node is ${blocks} blocks behind`)
  world.cash.lag(blocks)
  return true
}

const outage: Event = (world) => {
  world.isDown = !world.isDown
  world.say(() => `the node ${world.isDown ? 'goes down' : 'is back'}`)
  world.cash.outage(world.isDown)
  return true
}

const deliver: Event = (world) => {
  const [signed] = world.mempool.splice(world.chance.below(Math.max(1, world.mempool.length)), 1)
  if (!signed) return false
  world.say(() => `the late transaction of ${signed.name} is mined`)
  world.onChain('gateway', signed, () => void world.cash.submit(signed.payment))
  return true
}

const drop: Event = (world) => {
  const [signed] = world.mempool.splice(world.chance.below(Math.max(1, world.mempool.length)), 1)
  if (!signed) return false
  world.say(() => `the late transaction of ${signed.name} is forgotten`)
  return true
}

// ── what buyers do ──────────────────────────────────────────────────────────────────────────────────────────────────

function openerOf(world: World, id: string): Signed {
  const signed = world.byKey(world.books.row(id)?.authorization ?? '')
  if (!signed) throw new Error(`nobody signed for ${id}`)
  return signed
}

function post(world: World, process: Process, signed: Signed) {
  const request = requestOf('POST', POSTED, { body: signed.product.body, header: signed.header })
  const name = `p${process.index} post ${signed.name} #${world.step}`
  world.say(() => name)
  signed.isShown = true
  return world.start({ name, kind: 'post', process, signed }, ({ gone }) =>
    process.gateway.handle(request, { ip: '', gone: world.stage.rule.isDeaf ? NEVER : gone.signal }),
  )
}

const NEVER = new AbortController().signal

function pollWith(world: World, process: Process, id: string, signed: Signed) {
  const request = requestOf('GET', `${POSTED}/${id}`, { header: signed.header })
  const name = `p${process.index} poll ${world.books.call(id)} ${signed.name} #${world.step}`
  world.say(() => name)
  signed.isShown = true
  return world.start({ name, kind: 'poll', process, signed, call: id }, ({ gone }) => process.gateway.handle(request, { ip: '', gone: gone.signal }))
}

function collect(world: World, process: Process, id: string, signed: Signed): boolean {
  pollWith(world, process, id, signed)
  return true
}

function tendIn(world: World, process: Process): void {
  const name = `p${process.index} tends #${world.step}`
  world.say(() => name)
  process.isTending = true
  world.start({ name, kind: 'tend', process }, async () => {
    try {
      await process.gateway.tend()
    } finally {
      process.isTending = false
    }
    return undefined
  })
}

// ── all is well again ───────────────────────────────────────────────────────────────────────────────────────────────

/** The node answers, wallets are full, time passes: whatever was in doubt must now become known, and whatever was made, collected. */
function quiet(world: World): void {
  const { chance, cash, books } = world
  world.say(() => '── all is well again')
  if (chance.isLucky(0.2)) outlast(world)
  world.isCalm = true
  world.isDown = false
  cash.outage(false)
  cash.lag(0)
  for (const signed of world.mempool.splice(0)) {
    if (chance.isLucky(0.5)) world.onChain('gateway', signed, () => void cash.submit(signed.payment))
  }
  const process = world.processes.find(({ isAlive }) => isAlive) ?? world.boot()
  finish(world)
  for (const { wallet } of world.buyers) cash.fund(wallet, 1_000_000_000n)
  world.now += 50_000
  cash.advance(world.now)
  for (let round = 0; round < 2; round++) tendIn(world, process)
  for (const id of books.calls) if (!books.violation) settleUp(world, process, id)
  for (const signed of world.signed.filter(({ isShown }) => isShown)) if (!books.violation) useAgain(world, process, signed)
}

/** The node stays away until every authorization has been over for ten minutes. */
function outlast(world: World): void {
  world.isDown = true
  world.cash.outage(true)
  world.now = Math.max(world.now, ...world.signed.map(({ expiresAt }) => expiresAt)) + 601_000
  world.cash.advance(world.now)
  world.isCalm = true
  finish(world)
  const process = world.processes.find(({ isAlive }) => isAlive)
  if (process) tendIn(world, process)
}

/** Everything that was begun ends, however long it takes. */
function finish(world: World): void {
  for (let turn = 0; turn < 2_000 && !world.books.violation; turn++) {
    const [first] = world.ready()
    const next = world.nextWait()
    if (!first && next === undefined) return
    if (first) world.release(first)
    else world.now = Math.max(world.now, next ?? 0)
  }
  if (!world.books.violation) world.books.violate('nothingStuck', 'something goes on for ever')
}

/** Polls with what the call was paid with, then with what opened it, then with a new signature: a completed call must now be collected. */
function settleUp(world: World, process: Process, id: string): void {
  const { books } = world
  const opener = openerOf(world, id)
  const spent = world.signed.filter(({ key, buyer, isShown }) => isShown && buyer === opener.buyer && books.moved(key) && books.servedBy(key).has(id))
  for (const signed of [...spent, opener, world.sign(opener.buyer, opener.product, 600)]) {
    const { reply } = pollWith(world, process, id, signed)
    finish(world)
    if (books.violation) return
    if (reply?.status === 200) return
  }
  const call = books.row(id)
  books.violate('nothingStuck', `${books.call(id)} cannot be collected: ${call?.work}, ${call?.money}`)
}

/** Sends the same signed request again: it is served, or leads to its call. */
function useAgain(world: World, process: Process, signed: Signed): void {
  const { books } = world
  if (!world.isSpendable(signed) || signed.expiresAt < world.now + 7_000) return
  const posted = post(world, process, signed)
  finish(world)
  const { reply } = posted
  const body = JSON.parse(String(reply?.body ?? '{}'))
  const id = body.id ?? body.job_id
  const isKnown = reply?.status === 200 || reply?.status === 202 || (body.code === 'PAYMENT_REPLAY' && body.recoverable === true)
  if (!isKnown || id === undefined) return books.violate('nothingStuck', `${signed.name} moved no money, and answers ${reply?.status} ${body.code ?? ''}`)
  const { reply: collected } = pollWith(world, process, id, signed)
  finish(world)
  const isServed = collected?.status === 200 && JSON.parse(String(collected.body)).data !== undefined
  if (!isServed) books.violate('nothingStuck', `${signed.name} moved no money, and leads to ${books.call(id)}, which is ${books.row(id)?.work} and answers ${collected?.status}`)
}
