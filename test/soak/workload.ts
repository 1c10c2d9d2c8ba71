/** Buyers of a soak, at a steady rate: purchases by every scheme, calls by keys, and what costs nothing. */
import { setTimeout as pause } from 'node:timers/promises'
import type { Chance } from '../simulation/chance.ts'
import type { Replica } from '../fault/replicas.ts'
import { newTask, run, type Ware } from '../fault/tasks.ts'
import { chatByKey, fundedKey, type Reply } from './keys.ts'
import type { Seller } from './sellers.ts'

/** How many of a hundred or so errands are of a kind. */
const WARES: Readonly<Partial<Record<Ware, number>>> = {
  chat: 12,
  'chat by channel': 14,
  'chat by upto': 6,
  stream: 6,
  'stream by channel': 8,
  'stream by upto': 3,
  'one-shot': 4,
  picture: 3,
  'slow picture': 2,
  'picture by channel': 2,
  tool: 2,
  'tool by channel': 4,
  'tool by upto': 2,
  video: 1,
}
const KEYS = { 'chat by key': 12, 'stream by key': 6 } as const
const QUOTE = 'a quote'
/** Paths that anybody may read, and what they are called. */
const READS = {
  [QUOTE]: 8,
  '/api/v1/models': 3,
  '/openapi.json': 1,
  '/llms.txt': 1,
  '/api/health': 2,
} as const
const WEIGHTS: readonly (readonly [string, number])[] = [WARES, KEYS, READS].flatMap((each) => Object.entries(each))
const WHOLE = WEIGHTS.reduce((sum, [, weight]) => sum + weight, 0)

const KEYS_PER_SELLER = 4
const WAIT_MS = 150_000
const ANSWER_MS = 40_000
const AGAIN_MS = 1_000
/** A buyer's own question to a busy node may fail. He asks again. */
const OWN_FAILURE = 'the buyer failed'
/** At most so many under way: a gateway that is away must not find a thousand of them when it is back. */
const MAX_UNDER_WAY = 48

type Workload = {
  /** How many have ended since it was asked last, by what came of them. */
  taken(): Ended
  /** Ends when all have. None begins after it. */
  stop(): Promise<void>
}
type Ended = {
  readonly whole: number
  readonly part: number
  readonly left: number
  /** Milliseconds of unpaid quotes. */
  readonly quotes: readonly number[]
  /** Answers that no buyer should meet while there is no fault, at most twenty a time. */
  readonly oddities: readonly string[]
}

type WorkloadOptions = {
  readonly sellers: readonly Seller[]
  readonly chance: Chance
  readonly perSecond: number
}

export async function workload({ sellers, chance, perSecond }: WorkloadOptions): Promise<Workload> {
  const keys = new Map<Seller, readonly string[]>()
  for (const seller of sellers) {
    const owners = seller.buyers.splice(0, KEYS_PER_SELLER)
    const funded: string[] = []
    for (const owner of owners) funded.push(await fundedKey(seller.replicas, owner))
    keys.set(seller, funded)
  }
  const underWay = new Set<Promise<void>>()
  let ended = nothing()
  let number = 0

  function begin(): void {
    if (underWay.size >= MAX_UNDER_WAY) return
    const seller = chance.pick(sellers)
    const at = chance.pick(seller.replicas)
    const name = drawn(chance)
    const running = one(name, seller, at)
      .catch((error: Error) => odd(`${name}: ${error.message}`))
      .finally(() => underWay.delete(running))
    underWay.add(running)
  }

  function odd(text: string): void {
    ended.left++
    if (ended.oddities.length < 20) ended.oddities.push(text.slice(0, 400))
  }

  async function one(name: string, seller: Seller, at: Replica): Promise<void> {
    const ms = chance.below(1_500)
    if (name in KEYS) {
      const key = chance.pick(keys.get(seller)!)
      return await untilServed(name, () => chatByKey(at, { key, ms, isStream: name === 'stream by key' }))
    }
    if (name in READS) return await untilServed(name, () => read(name, at))
    const buyer = seller.buyers.shift()
    if (!buyer) return
    const { replicas, payers } = seller
    const task = newTask({ ware: name as Ware, buyer, ms, about: `errand ${number++}` })
    await run(task, { replicas, payers, chance, waitMs: WAIT_MS }).finally(() => seller.buyers.push(buyer))
    if (task.end === 'whole') ended.whole++
    else if (task.end === 'part') ended.part++
    else odd(`${name}: ${task.end} after ${JSON.stringify([...task.answers])}`)
    const met = task.oddities.filter((oddity) => !oddity.startsWith(OWN_FAILURE))
    for (const oddity of met) if (ended.oddities.length < 20) ended.oddities.push(`${name}: ${oddity}`)
  }

  /**
   * Asks again while a gateway is away or says that it cannot sell just now, as its error tells to. A key waits too
   * while another call of it is in doubt.
   */
  async function untilServed(name: string, ask: () => Promise<Reply>): Promise<void> {
    for (const until = performance.now() + WAIT_MS; ; await pause(AGAIN_MS)) {
      const reply = await ask().catch((error: Error) => ({ status: 0, isGood: false, text: error.message }))
      if (reply.isGood) return void ended.whole++
      const isAway = reply.status === 0 || reply.status > 500 || (reply.status === 402 && name in KEYS)
      if (!isAway || performance.now() > until) return odd(`${name}: ${reply.status} ${reply.text}`)
    }
  }

  async function read(name: string, { origin }: Replica): Promise<Reply> {
    const startedAt = performance.now()
    if (name !== QUOTE) {
      const response = await fetch(origin + name, { signal: AbortSignal.timeout(ANSWER_MS) })
      return { status: response.status, isGood: response.ok, text: (await response.text()).slice(0, 200) }
    }
    const { path, body } = newTask({ ware: 'chat', buyer: sellers[0]!.buyers[0]!, ms: 0, about: name })
    const response = await fetch(origin + path, {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json' },
      signal: AbortSignal.timeout(ANSWER_MS),
    })
    const text = await response.text()
    ended.quotes.push(performance.now() - startedAt)
    return { status: response.status, isGood: response.status === 402, text }
  }

  const timer = setInterval(begin, 1_000 / perSecond)
  return {
    taken() {
      const taken = ended
      ended = nothing()
      return taken
    },
    async stop() {
      clearInterval(timer)
      await Promise.all(underWay)
    },
  }
}

const nothing = () => ({ whole: 0, part: 0, left: 0, quotes: [] as number[], oddities: [] as string[] })

function drawn(chance: Chance): string {
  let at = chance.below(WHOLE)
  for (const [name, weight] of WEIGHTS) {
    if (at < weight) return name
    at -= weight
  }
  throw new Error('weights do not add up')
}
