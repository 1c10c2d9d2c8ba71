/**
 * Runs of replicas that share relayer keys: leases, nonces, replacement and gas, over the real lease and the real nonce
 * queue and a scripted node. Everything that replicas ask, or wait for, is answered in an order that the seed decides.
 */
import { collect, oneStep, pass, release, thaw } from './events.ts'
import { ENOUGH, KEYS, newRelay, type Relay, type RelayerRule, type RelayerRun, say, violate } from './relay.ts'
import { start } from './replicas.ts'

/** Transactions of one replica that something may go wrong with at once. */
const MAX_UNDER_WAY = 4

/** The same seed makes the same run. To be called where microtasks can be drained. */
export function play(rule: RelayerRule, seed: number, { isTraced = false } = {}): RelayerRun {
  const relay = newRelay(rule, seed, isTraced)
  for (const key of KEYS.slice(0, relay.dice.pick([2, 3]))) relay.node.fund(key, ENOUGH)
  start(relay)
  start(relay)
  const last = 30 + relay.dice.below(60)
  for (relay.step = 1; relay.step <= last && !relay.violation; relay.step++) oneStep(relay)
  if (!relay.violation) quiet(relay)
  if (!relay.violation) judgeEnd(relay)
  return { seed, steps: relay.step, violation: relay.violation, lines: relay.lines }
}

/** All is well again, keys have gas, and an hour passes. */
function quiet(relay: Relay): void {
  const { node } = relay
  say(relay, () => '── all is well again')
  relay.isCalm = true
  relay.isStorageAway = false
  thaw(relay)
  node.lag = 0
  node.baseFee = 1_000_000_000n
  for (const key of KEYS) node.fund(key, ENOUGH)
  for (let minute = 0; minute < 60 && !relay.violation && !isAllSettled(relay); minute++) {
    for (let second = 0; second < 12; second++) {
      for (let turns = 0; turns < 2_000; turns++) {
        const [ready] = relay.items.filter(({ due }) => due <= relay.now)
        if (!ready) break
        release(relay, ready)
      }
      node.mine(() => true)
      pass(relay, 5_000)
    }
    for (const replica of relay.replicas.filter(({ isAlive }) => isAlive))
      for (let each = 0; each < 5; each++) collect(relay, replica)
  }
  node.mine(() => true)
}

const isAllSettled = ({ sales }: Relay) => sales.every(({ isSettled }) => isSettled)

function judgeEnd(relay: Relay): void {
  const { node, sales, givenUp } = relay
  const wasted = [...node.mined.values()].filter(({ success }) => !success)
  if (wasted.length > MAX_UNDER_WAY * relay.disturbances)
    return violate(
      relay,
      'wasted',
      `${wasted.length} transactions cost gas for nothing, after ${relay.disturbances} disturbances`,
    )
  const stuck = sales.find(({ isSettled }) => !isSettled)
  if (stuck) return violate(relay, 'ended', `${stuck.id} is not settled, for ${stuck.account ?? 'any account'}`)
  const byOther = sales.find(
    ({ id, account }) => account && node.mined.get(node.executed.get(id) ?? '0x')?.from !== account,
  )
  if (byOther) return violate(relay, 'ended', `${byOther.id} was not sent by ${byOther.account}`)
  const revived = givenUp.find(({ id, hashes }) => hashes.has(node.executed.get(id) ?? '0x'))
  if (revived)
    return violate(relay, 'rejected', `${revived.id} was given up, and executed by what had been sent before`)
}
