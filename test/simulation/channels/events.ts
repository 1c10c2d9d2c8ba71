/** Everything that may happen in a run with channels, and how often. */
import type { Reply } from '../../../core/http/reply.ts'
import { encodeFunctionData } from 'viem'
import { lower } from '../../../adapters/chains/lib/hex.ts'
import { BATCH_SETTLEMENT, batchSettlementAbi as abi } from '../../../adapters/chains/evm/node/x402_contracts.ts'
import { pollUrl, strangerPollUrl, type Product, requestOf } from '../products.ts'
import { maintain, ownerOf } from '../scheduler.ts'
import { MIN_DEPOSIT } from './terms.ts'
import { type Client, THIEF } from './clients.ts'
import type { Actor, Process, Signed, World } from './world.ts'

type Event = (world: World, habits: Habits) => void

type Habits = {
  readonly releases: number
  readonly sleeps: number
  readonly calls: number
  readonly events: readonly (readonly [Event, number])[]
  readonly jumps: readonly number[]
  readonly lives: readonly number[]
}

export function habitsOf({ chance, isRough }: World): Habits {
  const often = <T>(...of: readonly T[]): T => chance.pick(of)
  const rough = (weight: number) => (isRough ? weight : 0)
  // Rare events are frequent in the runs that are about them.
  const theme = often(undefined, undefined, 'withdrawals', 'refunds', 'backups')
  const more = (name: string, weight: number, ...usual: readonly number[]) =>
    theme === name ? weight : often(...usual)
  return {
    releases: often(0.45, 0.6, 0.75),
    sleeps: often(0, 0.08, 0.2),
    calls: often(3, 6, 12),
    events: [
      [postNew, 10],
      [postDuplicate, often(0, 1, 3)],
      [postAgain, often(0, 2, 4)],
      [postWrongBase, often(0, 0, 2)],
      [pollSomehow, often(4, 8, 16)],
      [forgetState, often(0, 1)],
      [maintainOnce, often(0, 2, 5)],
      [claimOnce, more('backups', 8, 1, 3, 6)],
      [pass, often(2, 5, 9)],
      [hangUp, often(0, 0, 2)],
      [initiateWithdrawal, more('withdrawals', 5, 0, 1, 3)],
      [finalizeWithdrawal, more('withdrawals', 8, 0, 1, 3)],
      [sendDeposit, often(0, 0, 2)],
      [askRefund, more('refunds', 6, 0, 0, 1, 3)],
      [drain, often(0, 0, 2)],
      [refill, often(1, 2)],
      [lag, often(0, 0, 2)],
      [outage, often(0, 0, 2)],
      [deliver, often(0, 1, 3)],
      [forget, often(0, 1)],
      [freeze, often(0, 0, 2)],
      [thaw, often(1, 3)],
      [storageAway, often(0, 0, 1)],
      [crash, rough(often(0, 1, 3))],
      [start, often(1, 4)],
      [backUp, rough(more('backups', 2, 0, 1, 2))],
      [restore, rough(more('backups', 2, 0, 0, 1))],
    ],
    jumps: often(
      [700, 5_000, 9_000, 31_000, 46_000],
      [46_000, 61_000, 9_000],
      [2_000, 61_000, 310_000, 700_000],
      [31_000, 46_000, 310_000, 910_000],
    ),
    lives: often([7_200], [600, 90], [60, 20]),
  }
}

export function alive(world: World): Process | undefined {
  const running = world.processes.filter(({ isAlive, isFrozen }) => isAlive && !isFrozen)
  return running.length === 0 ? undefined : world.chance.pick(running)
}

// ── requests ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Of all customers, so that what is told to an address is told to any of them; never to the thief's. */
const CUSTOMERS = '192.0.2.1'
const THIEFS = '198.51.100.1'
const addressOf = ({ holder }: Signed): string => (holder === THIEF ? THIEFS : CUSTOMERS)

export function post(world: World, process: Process, signed: Signed): Actor {
  const { path, body } = signed.product
  const request = requestOf('POST', path, { body, header: signed.header })
  const name = `${ownerOf(process.index)} post ${signed.product.name} ${signed.name} #${world.step}`
  world.say(() => name)
  signed.isPresented = true
  return world.start({ name, kind: 'post', process, signed }, async ({ gone }) =>
    heard(await process.gateway.handle(request, { ip: addressOf(signed), gone: gone.signal }), gone.signal),
  )
}

export function poll(world: World, process: Process, { id, signed }: { id: string; signed: Signed }): Actor {
  const path = world.ledger.isLive(id) ? '/api/v1/calls' : undefined
  const isOwn = world.ledger.opener(id)?.holder === signed.holder
  const url = isOwn ? pollUrl(id, path) : strangerPollUrl(id, path)
  const request = requestOf('GET', url, { header: signed.header })
  const name = `${ownerOf(process.index)} poll ${world.ledger.nameOf(id)} ${signed.name} #${world.step}`
  world.say(() => name)
  signed.isPresented = true
  return world.start({ name, kind: 'poll', process, signed, call: id }, ({ gone }) =>
    process.gateway.handle(request, { ip: addressOf(signed), gone: gone.signal }),
  )
}

/** A stream is read to its end, or until its reader leaves. */
async function heard(reply: Reply, gone: AbortSignal): Promise<Reply> {
  if (!(reply.body instanceof ReadableStream)) return reply
  const reader = reply.body.getReader()
  const decoder = new TextDecoder()
  gone.addEventListener('abort', () => void reader.cancel().catch(() => {}), { once: true })
  let text = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return { ...reply, body: text }
    text += decoder.decode(value, { stream: true })
  }
}

/** A client's next voucher, by the state that it believes: with a deposit where the balance is too low. */
function signNext(
  world: World,
  client: Client,
  product: Product,
  { lives, amount = BigInt(product.offer.amount) }: { readonly lives: readonly number[]; readonly amount?: bigint },
): Signed {
  const { chance } = world
  const base = client.charged
  if (client.balance >= base + amount && !chance.isLucky(0.05)) return world.sign(client, product, { base, amount })
  const missing = base + amount - client.balance
  const enough = missing > MIN_DEPOSIT ? missing : MIN_DEPOSIT
  const deposited = chance.pick([enough, enough, enough * 3n, missing, MIN_DEPOSIT - 1n])
  const deposit = world.signDeposit(client, {
    amount: deposited > 0n ? deposited : 1n,
    lifeSeconds: chance.pick(lives),
  })
  return world.sign(client, product, { base, deposit, amount })
}

function postNew(world: World, habits: Habits): void {
  const { chance, clients, products, ledger } = world
  const process = alive(world)
  if (process && ledger.calls.length < habits.calls)
    post(world, process, signNext(world, chance.pick(clients), chance.pick(products), habits))
}

/** Two purchases on one base, at once, at two replicas where there are two. */
function postDuplicate(world: World, habits: Habits): void {
  const { chance, clients, products, ledger } = world
  if (ledger.calls.length >= habits.calls) return
  const client = chance.pick(clients)
  for (const product of [chance.pick(products), chance.pick(products)]) {
    const process = alive(world)
    if (process) post(world, process, signNext(world, client, product, habits))
  }
}

function postAgain(world: World): void {
  const process = alive(world)
  if (process && world.signed.length > 0) post(world, process, world.chance.pick(world.signed))
}

/** A client that invents what it was charged. */
function postWrongBase(world: World): void {
  const { chance, clients, products } = world
  const process = alive(world)
  if (!process) return
  const client = chance.pick(clients)
  const invented = client.charged + chance.pick([-700n, -1n, 1n, 8_700n])
  const base = invented < 0n ? 0n : invented
  post(world, process, world.sign(client, chance.pick(products), { base }))
}

/** With what opened the call, with anything of its buyer, with a new voucher for what is due, or with a stranger's. */
function pollSomehow(world: World, habits: Habits): void {
  const { chance, ledger } = world
  const signed = world.signed.filter(({ isRefund }) => !isRefund)
  const process = alive(world)
  if (!process || ledger.calls.length === 0) return
  const id = chance.pick(ledger.calls)
  const opener = ledger.opener(id)
  if (!opener) return
  const draw = chance.next()
  // Paid by another channel, a call keeps the base of the one that opened it.
  const own = signed.filter(({ client }) => client === opener.client)
  if (draw < 0.4) return void poll(world, process, { id, signed: opener })
  if (draw < 0.55) return void poll(world, process, { id, signed: chance.pick(own) })
  if (draw < 0.6)
    return void poll(world, process, {
      id,
      signed: chance.pick(
        signed.filter(({ client }) => client === opener.client || client.buyer !== opener.client.buyer),
      ),
    })
  const { client, product } = opener
  poll(world, process, { id, signed: signNext(world, client, product, { ...habits, amount: dueOf(world, id) }) })
}

/** Amount of the 402 of a poll. */
export function dueOf(world: World, id: string): bigint {
  const { charge = null, quote = 1n, paymentStatus } = world.ledger.row(id) ?? {}
  return charge === null || charge === 0n || paymentStatus === 'settled' ? quote : charge
}

function hangUp(world: World): void {
  const posts = world
    .ready()
    .filter(({ actor }) => actor.kind === 'post' && !actor.gone.signal.aborted && !actor.reply && actor.process.isAlive)
  if (posts.length > 0) world.hangUp(world.chance.pick(posts).actor)
}

/** A client that has lost its state reads the chain. */
function forgetState(world: World): void {
  const client = world.chance.pick(world.clients)
  world.say(() => `${client.name} loses its state`)
  readChain(world, client)
}

export function readChain(world: World, client: Client): void {
  const { balance, claimed } = world.contract.escrow(client.id)
  client.charged = claimed
  client.balance = balance
}

// ── the payer's own transactions ────────────────────────────────────────────────────────────────────────────────────

const to = lower(BATCH_SETTLEMENT)

function initiateWithdrawal(world: World): void {
  const { chance, contract, ledger } = world
  const client = chance.pick(world.clients)
  const { balance, claimed } = contract.escrow(client.id)
  const free = balance - claimed
  if (free <= 0n) return
  const amount = chance.pick([free, free, 1n + free / 2n])
  world.say(() => `${client.name} wants ${amount} of its ${free} back`)
  ledger.fled(client)
  const data = encodeFunctionData({ abi, functionName: 'initiateWithdraw', args: [client.config, amount] })
  ledger.mined('stranger', { to, data }, client.config.payer)
}

function finalizeWithdrawal(world: World): void {
  const { clients, contract, ledger, now } = world
  const due = clients.filter(({ id, config }) => {
    const { withdrawRequestedAt: at } = contract.escrow(id)
    return at !== 0 && now / 1000 >= at + config.withdrawDelay
  })
  if (due.length === 0) return
  const client = world.chance.pick(due)
  world.say(() => `${client.name} takes back what it withdrew`)
  // A round that has read the channel before cannot know.
  ledger.spoil()
  const data = encodeFunctionData({ abi, functionName: 'finalizeWithdraw', args: [client.config] })
  ledger.mined('stranger', { to, data }, client.config.payer)
}

/** Asks for everything that is left, or for a part. */
function askRefund(world: World): void {
  const { chance, clients, contract } = world
  const process = alive(world)
  if (!process) return
  const client = chance.pick(clients)
  const { balance } = contract.escrow(client.id)
  const part = chance.pick([undefined, undefined, 1n, balance - client.charged])
  post(world, process, world.signRefund(client, { amount: part !== undefined && part > 0n ? part : undefined }))
}

/** Somebody sends a deposit that was signed, before or after the gateway. */
function sendDeposit(world: World): void {
  const deposits = world.signed.filter(({ deposit, isPresented }) => deposit && isPresented)
  if (deposits.length === 0) return
  const { name, deposit, client } = world.chance.pick(deposits)
  world.say(() => `somebody sends the deposit of ${name}`)
  // It may have been meant for another channel.
  if (world.clients.some((other) => other !== client && other.buyer === client.buyer)) world.ledger.fled(client)
  if (deposit) world.ledger.mined('stranger', deposit.call)
}

function drain(world: World): void {
  const client = world.chance.pick(world.clients)
  world.say(() => `${client.buyer} moves everything elsewhere`)
  world.ledger.fled(client)
  world.contract.drain(client.config.payer)
}

function refill(world: World): void {
  const { buyer, config } = world.chance.pick(world.clients)
  world.say(() => `${buyer} gets some money`)
  world.contract.fund(config.payer, 50_000n * BigInt(1 + world.chance.below(3)))
}

// ── processes and time ──────────────────────────────────────────────────────────────────────────────────────────────

function maintainOnce(world: World): void {
  const process = alive(world)
  if (process && !process.isMaintaining) maintain(world, process)
}

function claimOnce(world: World): void {
  const process = alive(world)
  if (process && !process.isClaiming) claim(world, process)
}

export function claim(world: World, process: Process): void {
  const name = `${ownerOf(process.index)} claims #${world.step}`
  world.say(() => name)
  process.isClaiming = true
  world.start({ name, kind: 'claim', process }, async () => {
    await process.claims.maintain({ now: world.now + process.skewMs })
    world.ledger.roundEnds(process)
    process.isClaiming = false
    return undefined
  })
}

function pass(world: World, { jumps }: Habits): void {
  const { chance, now } = world
  const next = world.nextWait()
  const jump = chance.pick(jumps)
  world.pass(next !== undefined && next > now && chance.isLucky(0.3) ? next - now : jump)
}

function crash(world: World): void {
  const process = alive(world)
  if (process && world.canBoot()) world.crash(process)
}

function start(world: World): void {
  const running = world.processes.filter(({ isAlive }) => isAlive).length
  if (running < (world.isSingle ? 1 : 2) && world.canBoot()) world.boot()
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

function storageAway(world: World): void {
  world.isStorageAway = !world.isStorageAway
  world.isFlaky = true
  world.say(() => `the storage ${world.isStorageAway ? 'goes away' : 'is back'}`)
}

function backUp(world: World): void {
  world.backup = world.journal.length()
  world.say(() => `a backup of ${world.backup} writes`)
}

function restore(world: World): void {
  if (world.canBoot() && world.backup < world.journal.length()) world.restore()
}

// ── the chain ───────────────────────────────────────────────────────────────────────────────────────────────────────

function lag(world: World): void {
  world.lagBlocks = world.chance.below(4)
  world.say(() => `the node is ${world.lagBlocks} blocks behind`)
}

function outage(world: World): void {
  world.isDown = !world.isDown
  world.say(() => `the node ${world.isDown ? 'goes down' : 'is back'}`)
}

function deliver(world: World): void {
  const [call] = world.mempool.splice(world.chance.below(Math.max(1, world.mempool.length)), 1)
  if (call) world.ledger.mined('gateway', call)
}

function forget(world: World): void {
  const [call] = world.mempool.splice(world.chance.below(Math.max(1, world.mempool.length)), 1)
  if (call) world.say(() => 'a late transaction is forgotten')
}
