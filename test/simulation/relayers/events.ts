/** Events of replicas, their keys and their node, and how often. */
import { drainMicrotasks } from 'bun:jsc'
import type { EvmChain } from '../../../adapters/chains/evm/mod.ts'
import type { Hex } from '../../../adapters/chains/lib/hex.ts'
import type { Payment } from '../../../core/mod.ts'
import { type Item, KEYS, type Relay, type Replica, say, violate } from './relay.ts'
import { start } from './replicas.ts'

type Event = (relay: Relay) => void

const MILD: readonly (readonly [Event, number])[] = [
  [sell, 6],
  [(relay) => withReplica(relay, (replica) => collect(relay, replica)), 10],
  [(relay) => pass(relay, relay.dice.pick([500, 2_000, 5_000])), 6],
  [mine, 8],
  [(relay) => void (relay.node.lag = relay.dice.below(3)), 1],
]

const HARSH: typeof MILD = [
  ...MILD,
  [price, 1],
  [crash, 1],
  [freeze, 1],
  [thaw, 1],
  [forget, 1],
  [(relay) => void (relay.isStorageAway = !relay.isStorageAway), 1],
  [empty, 0.5],
  [pause, 1],
]

export function oneStep(relay: Relay): void {
  const { dice, mood } = relay
  const ready = relay.items.filter(({ due, replica }) => due <= relay.now && !replica.isFrozen)
  if (ready.length > 0 && dice.isLucky(0.6)) return release(relay, dice.pick(ready))
  const events = mood.isHarsh ? HARSH : MILD
  let left = dice.next() * events.reduce((sum, [, weight]) => sum + weight, 0)
  for (const [event, weight] of events) {
    left -= weight
    if (left < 0) return event(relay)
  }
}

export function release(relay: Relay, item: Item): void {
  relay.items = relay.items.filter((each) => each !== item)
  if (!item.replica.isAlive) return
  say(relay, () => `${item.replica.name}: ${item.label}`)
  item.go()
  drainMicrotasks()
}

/** Time passes, and whoever waits goes on in between. */
export function pass(relay: Relay, ms: number): void {
  const until = relay.now + ms
  for (let turns = 0; turns < 200; turns++) {
    const waits = relay.items.filter(({ due, replica }) => due > 0 && due <= until && !replica.isFrozen)
    const next = waits.reduce<Item | undefined>(
      (first, each) => (!first || each.due < first.due ? each : first),
      undefined,
    )
    if (!next) break
    relay.now = Math.max(relay.now, next.due)
    release(relay, next)
  }
  relay.now = until
  say(relay, () => `${ms / 1000} s pass`)
}

/** Time in which nobody does anything, so that leases end. */
function pause(relay: Relay): void {
  relay.now += 46_000
  relay.disturbances++
  say(relay, () => 'everybody pauses for 46 s')
}

function withReplica(relay: Relay, work: (replica: Replica) => void): void {
  const alive = relay.replicas.filter(({ isAlive, isFrozen }) => isAlive && !isFrozen)
  if (alive.length > 0) work(relay.dice.pick(alive))
}

function mine({ node, dice, mood }: Relay): void {
  node.mine(() => !dice.isLucky(mood.dropped))
}

function price(relay: Relay): void {
  const { node, dice } = relay
  relay.disturbances++
  node.baseFee = dice.pick([100_000_000n, 1_000_000_000n, 4_000_000_000n, 9_000_000_000n])
  say(relay, () => `gas costs ${node.baseFee}`)
}

function crash(relay: Relay): void {
  if (relay.replicas.length > 4) return
  withReplica(relay, (replica) => {
    say(relay, () => `${replica.name} dies`)
    replica.isAlive = false
    relay.disturbances++
    relay.items = relay.items.filter((item) => item.replica !== replica)
    start(relay)
  })
}

function freeze(relay: Relay): void {
  withReplica(relay, (replica) => {
    say(relay, () => `${replica.name} pauses`)
    replica.isFrozen = true
    relay.disturbances++
  })
}

export function thaw(relay: Relay): void {
  for (const replica of relay.replicas) replica.isFrozen = false
}

/** The node forgets a transaction that waits. */
function forget(relay: Relay): void {
  const waiting = relay.node.waiting()
  if (waiting.length === 0) return
  relay.disturbances++
  relay.node.drop(relay.dice.pick(waiting))
}

function empty(relay: Relay): void {
  const key = relay.dice.pick(KEYS)
  relay.disturbances++
  relay.node.fund(key, -relay.node.balanceOf(key))
  say(relay, () => `${key} is empty`)
}

const OFFER = { scheme: 'exact' } as Parameters<EvmChain['settle']>[1]
const NAMED_OFFER = { scheme: 'upto' } as Parameters<EvmChain['settle']>[1]

function sell(relay: Relay): void {
  const id: Hex = `0x${(relay.sales.length + 1).toString(16).padStart(64, '0')}`
  const account = relay.dice.isLucky(0.3) ? relay.dice.pick(KEYS) : undefined
  const permit2Authorization = { witness: { facilitator: account } }
  const payload = { signature: id, ...(account && { permit2Authorization }) }
  relay.sales.push({ id, payment: { payload } as unknown as Payment, account, claimed: 0, isSettled: false })
}

/** As core does: one settlement of a payment at a time, whose claim ends with its lease. */
export function collect(relay: Relay, replica: Replica): void {
  const open = relay.sales.filter(({ isSettled, claimed }) => !isSettled && claimed <= relay.now)
  if (open.length === 0) return
  const sale = relay.dice.pick(open)
  sale.claimed = relay.now + 60_000
  const offer = sale.account ? NAMED_OFFER : OFFER
  void replica.chain.settle(sale.payment, offer, { now: relay.now, signal: new AbortController().signal }).then(
    (settlement) => {
      if (!replica.isAlive) return
      say(
        relay,
        () => `${replica.name}: ${sale.id} is ${settlement.kind} ${'reason' in settlement ? settlement.reason : ''}`,
      )
      sale.claimed = relay.now
      if (settlement.kind !== 'settled') return
      sale.isSettled = true
      const hash = settlement.receipt.transaction
      if (relay.node.executed.get(sale.id) !== hash) violate(relay, 'truth', `${sale.id} is reported in ${hash}`)
    },
    () => void (sale.claimed = relay.now),
  )
  drainMicrotasks()
}
