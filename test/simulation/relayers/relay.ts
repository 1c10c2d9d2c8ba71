/** One run of replicas that share relayer keys: its laws, its state, and what replicas ask and wait for. */
import type { LeasedChain } from '../../../adapters/chains/evm/relayer_lease.ts'
import type { Hex } from '../../../adapters/chains/lib/hex.ts'
import type { Answer, Rpc } from '../../../adapters/chains/lib/json_rpc.ts'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import type { Payment, Storage } from '../../../core/mod.ts'
import { type Chance, chance } from '../chance.ts'
import { type ScriptedNode, scriptedNode } from './node.ts'

export const LAWS = {
  truth: 'a payment is reported as settled only in the transaction that executed it',
  rejected: 'a payment that a relayer gave up is not executed by what that relayer sent before',
  ended: 'when all is well again every payment is settled, by the account that it names',
  holder: 'a replica that does not pause settles only with a key whose lease it holds',
  capped: 'no transaction offers more than the highest price of gas',
  wasted: 'no gas is spent on an executed payment, but for transactions under way when something goes wrong',
} as const
export type LawName = keyof typeof LAWS

export type RelayerRule = {
  readonly name: string
  /** Changes what the relayers hear from the node. */
  readonly answers?: (method: string, answer: Answer) => Answer
  readonly takeLease?: (take: TakeLease) => TakeLease
  /** Nobody looks whether a payment was executed. */
  readonly ignoresFate?: boolean
  readonly cap?: bigint
}
export type TakeLease = (name: string, at: { now: number; until: number }) => Promise<boolean>

export type RelayerRun = {
  readonly seed: number
  readonly steps: number
  readonly violation: { readonly law: LawName; readonly text: string } | undefined
  readonly lines: readonly string[]
}

const START = 1_795_132_800_000
export const LEASE_MS = 30_000
export const CAP = 20_000_000_000n
export const GAS = 120_000n
export const KEYS = [1, 2, 3].map((index): Hex => `0x${String(index).repeat(40)}`)
export const ENOUGH = 10n ** 17n

export type Replica = {
  readonly name: string
  readonly chain: LeasedChain
  isAlive: boolean
  isFrozen: boolean
}

type Sale = {
  readonly id: Hex
  readonly payment: Payment
  readonly account: Hex | undefined
  claimed: number
  isSettled: boolean
}

/** Something that a replica asks, or a wait. */
export type Item = { readonly replica: Replica; readonly label: string; readonly due: number; readonly go: () => void }

type Mood = {
  readonly atOnce: number
  readonly lost: number
  readonly dropped: number
  readonly isHarsh: boolean
}

export type Relay = {
  readonly rule: RelayerRule
  readonly dice: Chance
  readonly mood: Mood
  readonly node: ScriptedNode
  readonly storage: Storage
  readonly replicas: Replica[]
  readonly sales: Sale[]
  readonly lines: string[]
  readonly isTraced: boolean
  /** Payments that were given up, with what that send had broadcast, and nobody has broadcast again. */
  readonly givenUp: { readonly id: Hex; readonly hashes: Set<Hex> }[]
  readonly leases: Map<string, { readonly owner: string; readonly until: number }>
  items: Item[]
  isCalm: boolean
  isStorageAway: boolean
  /** How often a replica paused or died, a transaction was forgotten, gas got dearer, or an account lacked it. */
  disturbances: number
  now: number
  step: number
  violation: RelayerRun['violation']
}

export function newRelay(rule: RelayerRule, seed: number, isTraced: boolean): Relay {
  const dice = chance(seed)
  const node = scriptedNode()
  node.isStrict = dice.isLucky(0.5)
  return {
    rule,
    dice,
    node,
    isTraced,
    mood: {
      atOnce: dice.pick([0.3, 0.6, 0.8]),
      lost: dice.pick([0, 0, 0.05, 0.2]),
      dropped: dice.pick([0, 0, 0.1]),
      isHarsh: dice.isLucky(0.6),
    },
    storage: memoryStorage(),
    replicas: [],
    sales: [],
    lines: [],
    givenUp: [],
    leases: new Map(),
    items: [],
    isCalm: false,
    isStorageAway: false,
    disturbances: 0,
    now: START,
    step: 0,
    violation: undefined,
  }
}

export function say(relay: Relay, text: () => string): void {
  if (relay.isTraced) relay.lines.push(`${relay.step} +${((relay.now - START) / 1000).toFixed(1)}s  ${text()}`)
}

export function violate(relay: Relay, law: LawName, text: string): void {
  if (relay.violation) return
  relay.violation = { law, text }
  say(relay, () => `VIOLATION: ${LAWS[law]}: ${text}`)
}

export function ask<T>(relay: Relay, replica: Replica, label: string, run: () => Promise<T>): Promise<T> {
  if (!replica.isAlive) return new Promise(() => {})
  if (!replica.isFrozen && (relay.isCalm || relay.dice.isLucky(relay.mood.atOnce))) return run()
  return new Promise((resolve, reject) => {
    relay.items.push({ replica, label, due: 0, go: () => void run().then(resolve, reject) })
  })
}

export function rpcOf(relay: Relay, replica: Replica): Rpc {
  const { node, dice, mood, rule } = relay
  const failure: Answer = { kind: 'failure', reason: 'no answer in time' }
  const request = (method: string, params: readonly unknown[]) =>
    ask(relay, replica, method, async () => {
      const isLost = !relay.isCalm && dice.isLucky(mood.lost)
      if (isLost && dice.isLucky(0.5)) return given(method, failure)
      const answer = node.answer(method, params)
      if (answer.kind === 'error' && answer.message.startsWith('insufficient')) relay.disturbances++
      say(relay, () => `${replica.name}: ${method}: ${JSON.stringify('value' in answer ? answer.value : answer)}`)
      return given(method, isLost ? failure : answer)
    })
  const given = (method: string, answer: Answer) => rule.answers?.(method, answer) ?? answer
  return { request, requestAlone: (method, params) => request(method, params), close() {} }
}

export const wait = (relay: Relay, replica: Replica, ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal?.aborted) return resolve()
    const item: Item = { replica, label: 'time is up', due: relay.now + Math.max(1, ms), go: resolve }
    relay.items.push(item)
    signal?.addEventListener('abort', () => {
      relay.items = relay.items.filter((each) => each !== item)
      resolve()
    })
  })
