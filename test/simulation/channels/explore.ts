/** One run with channels: everything that can go wrong; then all is well again, and what was charged is claimed. */
import type { Violation } from './ledger.ts'
import { alive, claim, dueOf, habitsOf, poll, post, readChain } from './events.ts'
import { maintain, step } from '../scheduler.ts'
import { anotherOf, type Product } from '../products.ts'
import { timeouts } from '../../../core/mod.ts'
import type { ChannelRule } from './rules.ts'
import { type Client, THIEF } from './clients.ts'
import { honest, thievery } from './thief.ts'
import { createWorld, type Process, type World } from './world.ts'

export type Run = {
  readonly seed: number
  readonly steps: number
  readonly violation: Violation | undefined
  readonly lines: readonly string[]
}

export type ChannelSetup = {
  readonly rule: ChannelRule
  readonly products: readonly Product[]
  readonly pricedAt: (amount: bigint) => Product | undefined
}

/** Calls that wait for each other. */
const MAX_ROUNDS = 4

export function explore(
  { rule, products, pricedAt }: ChannelSetup,
  seed: number,
  { isTraced = false }: { isTraced?: boolean } = {},
): Run {
  const world = createWorld(rule, seed, { products, isTraced, pricedAt })
  const { ledger, chance, clients, contract } = world
  contract.advance(world.now)
  world.boot()
  for (const { config } of clients) contract.fund(config.payer, 50_000n * BigInt(1 + chance.below(5)))
  const usual = habitsOf(world)
  const habits = rule.isThief ? { ...usual, events: [...usual.events, ...thievery(world)] } : usual
  const last = chance.isLucky(0.15) ? 40 + chance.below(100) : 12 + chance.below(24)
  for (world.step = 1; world.step <= last && !ledger.violation; world.step++) step(world, habits)
  if (!ledger.violation)
    quiet(world, { isTimely: habits.lives.every((life) => life > 3_600) && habits.jumps.every((ms) => ms < 60_000) })
  return { seed, steps: world.step, violation: ledger.violation, lines: world.lines }
}

/** The node answers, wallets are full, time passes: everything can be collected, bought again, and claimed. */
function quiet(world: World, { isTimely }: { readonly isTimely: boolean }): void {
  const { chance, ledger, contract } = world
  world.say(() => '── all is well again')
  world.isCalm = true
  world.isDown = false
  world.isStorageAway = false
  world.lagBlocks = 0
  for (const each of world.processes) each.isFrozen = false
  for (const call of world.mempool.splice(0)) if (chance.isLucky(0.5)) ledger.mined('gateway', call)
  const process = alive(world) ?? world.boot()
  finish(world)
  for (const { config } of honest(world)) contract.fund(config.payer, 1_000_000_000n)
  for (const ms of [70_000, timeouts.workLeaseMs, 70_000]) {
    world.now += ms
    contract.advance(world.now)
    maintain(world, process)
    finish(world)
    claim(world, process)
    finish(world)
  }
  if (!ledger.violation) ledger.judgeGifts({ isTimely })
  collectAll(world, process)
  if (!ledger.violation) buyAgain(world, process, chance.pick(honest(world)))
  if (!ledger.violation) claimAll(world, process)
  if (!ledger.violation) ledger.close()
}

function finish(world: World): void {
  for (let turn = 0; turn < 2_000 && !world.ledger.violation; turn++) {
    const [first] = world.ready()
    const next = world.nextWait()
    if (!first && next === undefined) return
    if (first) world.release(first)
    else world.now = Math.max(world.now, next ?? 0)
    world.contract.advance(world.now)
  }
  world.ledger.violate('nothingStuck', 'something goes on for ever')
}

/** A call may have to wait for another one on the same base: it is asked for again when that one is paid. */
function collectAll(world: World, process: Process): void {
  const { ledger } = world
  let left = ledger.calls
  for (let round = 0; round < MAX_ROUNDS && left.length > 0 && !ledger.violation; round++)
    left = left.filter((id) => !ledger.violation && !collect(world, process, id))
  const [id] = left
  if (id === undefined || ledger.violation) return
  const call = ledger.row(id)
  const state = `${call?.workStatus}, ${call?.paymentStatus}`
  ledger.violate('nothingStuck', `${ledger.nameOf(id)} cannot be collected: ${state}`)
}

/** By what opened the call, then by new vouchers, each signed by what the poll before has told. False where not now. */
function collect(world: World, process: Process, id: string): boolean {
  const { ledger } = world
  const opener = ledger.opener(id)
  const isIn = () => ledger.violation !== undefined || ledger.row(id)?.workStatus === 'failed'
  if (!opener || opener.holder === THIEF || isIn()) return true
  const actor = poll(world, process, { id, signed: opener })
  finish(world)
  if (isIn() || actor.reply?.status === 200) return true
  readChain(world, opener.client)
  for (let turn = 0; turn < 3; turn++) {
    const again = poll(world, process, {
      id,
      signed: signWell(world, opener.client, opener.product, dueOf(world, id)),
    })
    finish(world)
    if (isIn() || again.reply?.status === 200) return true
  }
  return false
}

/** Enough is deposited, and for long enough. */
function signWell(world: World, client: Client, product: Product, amount: bigint) {
  const base = client.charged
  const isEnough = client.balance >= base + amount && world.contract.escrow(client.id).withdrawing === 0n
  if (isEnough) return world.sign(client, product, { base, amount })
  const deposit = world.signDeposit(client, { amount: base + amount + 100_000n, lifeSeconds: 600 })
  return world.sign(client, product, { base, deposit, amount })
}

/** A client that has lost everything reads the chain, is corrected, and buys. */
function buyAgain(world: World, process: Process, client: Client): void {
  const { ledger, products } = world
  const product = anotherOf(products.find(({ name }) => name === 'fast') as Product)
  readChain(world, client)
  let text = ''
  for (let turn = 0; turn < 3; turn++) {
    const actor = post(world, process, signWell(world, client, product, BigInt(product.offer.amount)))
    finish(world)
    if (ledger.violation || actor.reply?.status === 200 || actor.reply?.status === 202) return
    text = `${actor.reply?.status} ${String(actor.reply?.body).slice(0, 300)}`
  }
  ledger.violate('nothingStuck', `${client.name} cannot buy any more: ${text}`)
}

function claimAll(world: World, process: Process): void {
  world.now += 180_000
  world.contract.advance(world.now)
  claim(world, process)
  finish(world)
  world.start({ name: 'everything is claimed', kind: 'claim', process }, async () => {
    await process.claims.claimDue(world.now, 1n)
    return undefined
  })
  finish(world)
}
