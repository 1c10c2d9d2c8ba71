/**
 * A thief: a wallet with little money, keys of its own, and everything that was ever sent to a chain. It forges
 * payloads in the names of others, sends again what it has read, opens channels by salts, funds channels of others,
 * and takes its money away.
 */
import { lower } from '../../../adapters/chains/lib/hex.ts'
import type { Product } from '../products.ts'
import { alive, poll, post } from './events.ts'
import { type Client, clientOf, THIEF } from './clients.ts'
import { signerOf } from './keys.ts'
import type { Signed, World } from './world.ts'

type Event = (world: World) => void

const TRICKS: readonly Event[] = [
  forgeAndPoll,
  forgeAndPost,
  sendAgain,
  pollWithPublic,
  spendRest,
  refundOthers,
  fundInName,
  bySalts,
  takeAway,
]

/** A run is about one of the tricks, and has some of all of them. */
export function thievery({ chance, rule }: World): readonly (readonly [Event, number])[] {
  const favourite = TRICKS.find(({ name }) => name === rule.trick) ?? chance.pick(TRICKS)
  return TRICKS.map((trick) => [trick, trick === favourite ? 10 : chance.pick([0, 1, 2])])
}

export const honest = (world: World): readonly Client[] => world.clients.filter(({ buyer }) => buyer !== THIEF)

/** A channel whose vouchers the thief signs. `payer`: whom it names. */
function channelOf(world: World, payer: Client | undefined, salt: bigint): Client {
  const made = clientOf(THIEF, salt, payer?.config.payer)
  const known = world.clients.find(({ id }) => id === made.id)
  if (known) return known
  world.clients.push(made)
  return made
}

/** A payload that names a victim as its payer, with a deposit that the thief has signed, or without one. */
function forged(world: World, product: Product, amount = BigInt(product.offer.amount)): Signed {
  const { chance } = world
  const victim = chance.pick(honest(world))
  const client = channelOf(world, victim, 1_000n + BigInt(chance.below(3)))
  const deposit = chance.isLucky(0.7)
    ? world.signDeposit(client, { amount: amount + 20_000n, lifeSeconds: 600 })
    : undefined
  return world.sign(client, product, { base: 0n, deposit, amount })
}

function target(world: World): string | undefined {
  const { ledger, chance } = world
  const theirs = ledger.calls.filter((id) => ledger.opener(id)?.holder !== THIEF)
  return theirs.length === 0 ? undefined : chance.pick(theirs)
}

function forgeAndPoll(world: World): void {
  const [process, id] = [alive(world), target(world)]
  const opener = id === undefined ? undefined : world.ledger.opener(id)
  if (process && id !== undefined && opener)
    poll(world, process, { id, signed: forged(world, opener.product, world.ledger.row(id)?.quote) })
}

function forgeAndPost(world: World): void {
  const process = alive(world)
  if (process) post(world, process, forged(world, world.chance.pick(world.products)))
}

/** A product for whatever the thief asks: it does not know what others have asked. */
const own = (product: Product): Product =>
  product.path.includes('images')
    ? { ...product, body: JSON.stringify({ ...JSON.parse(product.body), prompt: 'what the thief wants' }) }
    : {
        ...product,
        body: JSON.stringify({ ...JSON.parse(product.body), messages: [{ role: 'user', content: 'Who?' }] }),
      }

/** A published voucher for any purchase: the base is what is left of its ceiling. */
function replayed(world: World, product: Product, amount = BigInt(product.offer.amount)): Signed | undefined {
  const vouchers = world.loot.filter(({ ceiling }) => ceiling >= amount)
  if (vouchers.length === 0) return undefined
  const { client, ceiling, signature } = world.chance.pick(vouchers)
  const deposit = depositOf(world, client)
  return world.sign(client, product, { base: ceiling - amount, amount, signature, deposit, holder: THIEF })
}

/** At times with a deposit of the same channel, as its transaction shows it. */
function depositOf(world: World, { id }: Client) {
  if (world.chance.isLucky(0.6)) return undefined
  const own = world.signed.find(
    ({ deposit, client }) => client.id === id && deposit !== undefined && world.published.has(deposit.call.data),
  )
  return own?.deposit
}

function sendAgain(world: World): void {
  const process = alive(world)
  const signed = replayed(world, own(world.chance.pick(world.products)))
  if (process && signed) post(world, process, signed)
}

function pollWithPublic(world: World): void {
  const [process, id] = [alive(world), target(world)]
  const opener = id === undefined ? undefined : world.ledger.opener(id)
  if (!process || id === undefined || !opener) return
  const { quote, charge } = world.ledger.row(id) ?? {}
  const amount = world.chance.pick([quote, charge ?? undefined, 1n])
  const signed = replayed(world, opener.product, amount && amount > 0n ? amount : 1n)
  if (signed) poll(world, process, { id, signed })
}

/** A published voucher allows more than was charged: an answer of exactly that price is ordered with it. */
function spendRest(world: World): void {
  const { chance } = world
  const process = alive(world)
  const left = world.loot.filter(({ ceiling, charged }) => ceiling > charged)
  if (!process || left.length === 0) return
  const { client, ceiling, charged, signature } = chance.pick(left)
  const product = world.pricedAt(ceiling - charged)
  if (product) post(world, process, world.sign(client, product, { base: charged, signature, holder: THIEF }))
}

/** Asks for the refund of another's channel with the last voucher that was claimed. */
function refundOthers(world: World): void {
  const process = alive(world)
  if (!process || world.loot.length === 0) return
  const { client, ceiling, signature } = world.chance.pick(world.loot)
  post(world, process, world.signRefund(client, { voucher: { ceiling, signature }, holder: THIEF }))
}

/** The contract takes a deposit for any channel from anybody: the thief's money, the victim's name. */
function fundInName(world: World): void {
  const { chance, contract } = world
  const process = alive(world)
  if (!process) return
  const client = channelOf(world, chance.pick(honest(world)), 2_000n + BigInt(chance.below(2)))
  const product = chance.pick(world.products)
  const amount = BigInt(product.offer.amount)
  if (contract.escrow(client.id).balance < client.charged + amount) contract.gift(client.id, 30_000n)
  post(world, process, world.sign(client, product, { base: client.charged }))
}

/** The money for one, in as many channels as there are salts, all at once. */
function bySalts(world: World): void {
  const { chance, contract } = world
  const wallet = signerOf(THIEF).address
  const funds = contract.balanceOf(wallet)
  if (funds < 20_000n) contract.fund(wallet, 30_000n)
  const deposited = contract.balanceOf(wallet)
  const product = chance.pick(world.products)
  if (deposited < BigInt(product.offer.amount)) return
  const lifeSeconds = chance.pick([60, 7_200])
  for (let salt = 0; salt < 3 + chance.below(6); salt++) {
    const process = alive(world)
    const client = channelOf(world, undefined, 3_000n + BigInt(world.step * 10 + salt))
    const deposit = world.signDeposit(client, { amount: deposited, lifeSeconds })
    if (process) post(world, process, world.sign(client, product, { base: 0n, deposit }))
  }
}

function takeAway(world: World): void {
  world.say(() => `${THIEF} moves everything elsewhere`)
  world.contract.drain(lower(signerOf(THIEF).address))
}
