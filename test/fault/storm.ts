/** Scenes of bad weather over a crowd of buyers, one fault at a time; then a storm of all, while there are minutes. */
import { setTimeout as pause } from 'node:timers/promises'
import type { PrivateKeyAccount } from 'viem/accounts'
import { EVM_SCHEMES } from '../../adapters/chains/evm/node/x402_contracts.ts'
import { type Chance, chance, seedOf } from '../simulation/chance.ts'
import { lineOf, paidOnChain, type Row } from './audit.ts'
import { chargedTask, depositsIn, readChannels } from './channel_ledger.ts'
import { approvePermit2, idOf, officialPayers, type Payers, type Signed } from './payers.ts'
import { again, collect, type Task, newTask, run, type Walk, WARES, type Ware } from './tasks.ts'
import { isStuck, reckon, type Reckoning } from './reckoning.ts'
import { heardBy, reportLines } from './storm_report.ts'
import { type Fixture, fixture } from './fixture.ts'
import { studio } from './studio.ts'
import { type Talker, talker } from './talker.ts'
import { drain, EARLY, type Disruption, type DisruptionName, faults, LEASE_SECONDS, type Sky } from './weather.ts'

type StormOptions = {
  readonly seed: number
  /** How long all of it lasts, scenes and storm; only the scenes unless told. */
  readonly minutes?: number
  /** Only scenes whose name contains this. */
  readonly scene?: string
  readonly log?: (line: string) => void
}

export type SceneFigures = Reckoning & {
  readonly name: string
  readonly seconds: number
  readonly alerts: number
  /** Answers to the buyers' requests. */
  readonly heard: ReadonlyMap<string, number>
}
export type StormReport = { readonly scenes: readonly SceneFigures[]; readonly alerts: readonly string[] }

/** Where buyers shop. The first wallets come again and again; the others are strangers, each of whom is used once. */
type Town = Fixture & {
  readonly talks: Talker
  readonly chance: Chance
  readonly regulars: PrivateKeyAccount[]
  readonly strangers: PrivateKeyAccount[]
  readonly drained: Set<string>
  /** Calls that an earlier scene has left stuck, and has reported. */
  readonly stuck: Set<string>
  /** Everything that was ever signed. */
  readonly signed: Set<Signed>
  readonly payers: Payers
}

type Scene = { readonly name: string; play(town: Town): Promise<readonly Task[]> }

const BUYERS = 330
const REGULARS = 90
/** A settlement lease, a work lease and several rounds: by then whatever was held by the dead is somebody else's. */
const WAIT_MS = 150_000
/** How long a crowd may take until all its answers are under way; the fault then comes in any case. */
const LEAD_MS = 10_000
/** How long answers of a scene take; streams go on when the fault is over. */
const ANSWER_MS = 6_000

const scenes: readonly Scene[] = [
  ...(Object.keys(faults) as DisruptionName[]).map((name) => ({
    name,
    play: (town: Town) => underFault(town, { fault: faults[name], isEarly: EARLY.has(name) }),
  })),
  { name: 'wallets are drained while their answers are made', play: drainedAtWork },
]

/** Plays every scene, then the storm. Everything that it starts has ended when it resolves or rejects. */
export async function storm({ seed, minutes, scene, log = () => {} }: StormOptions): Promise<StormReport> {
  const startedAt = performance.now()
  const undo: (() => unknown)[] = []
  const played: SceneFigures[] = []
  try {
    const dice = chance(seedOf(seed, 1))
    const films = studio()
    undo.push(() => films.stop())
    const filming = setInterval(() => films.finish(), 500)
    undo.push(() => clearInterval(filming))
    const talks = talker()
    undo.push(() => talks.stop())
    const proxy = { chance: chance(seedOf(seed, 0)), slowMs: 500, silentShare: 0 }
    const set = await fixture(undo, {
      buyers: BUYERS,
      proxy,
      films: films.origin,
      talks: talks.origin,
      leaseSeconds: LEASE_SECONDS,
      schemes: EVM_SCHEMES,
    })
    await approvePermit2(set.node.url, set.people)
    const [regulars, strangers] = [set.people.slice(0, REGULARS), set.people.slice(REGULARS)]
    const town: Town = {
      ...set,
      talks,
      chance: dice,
      regulars,
      strangers,
      drained: new Set(),
      stuck: new Set(),
      signed: new Set(),
      payers: officialPayers(set.node.url),
    }
    log(`seed ${seed}: ready after ${((performance.now() - startedAt) / 1000).toFixed(1)} s`)

    const chosen = scenes.filter(({ name }) => scene === undefined || name.includes(scene))
    for (const each of chosen) await report(each)
    const endsAt = minutes === undefined ? 0 : startedAt + minutes * 60_000
    if (endsAt > performance.now())
      await report({ name: 'a storm of all of them', play: () => allWeathers(town, { endsAt, log }) })
    await report({ name: 'everything that channels owe is claimed', play: claimed })
    return { scenes: played, alerts: set.replicas.flatMap(({ alerts }) => alerts) }

    async function report({ name, play }: Scene): Promise<void> {
      const began = performance.now()
      const alertsOf = () => town.replicas.reduce((count, { alerts }) => count + alerts.length, 0)
      const before = alertsOf()
      const earlier = new Set((await channelsOf(town)).charges.map(({ nonce }) => nonce))
      const tasks = await play(town)
      await quiet(town)
      const figures = {
        ...(await judged(town, tasks, { earlier, isClaimed: play === claimed })),
        name,
        seconds: (performance.now() - began) / 1000,
        alerts: alertsOf() - before,
        heard: heardBy(tasks),
      }
      played.push(figures)
      for (const line of reportLines(figures)) log(line)
    }
  } finally {
    for (const step of undo.toReversed()) await step()
  }
}

// ── scenes ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Streams, whole answers and some of everything else, by every scheme, are under way when the fault comes. Eight more
 * streams belong to buyers of ill will: they send the same payment again elsewhere while they listen.
 */
async function underFault(
  town: Town,
  { fault, isEarly }: { fault: Disruption; isEarly: boolean },
): Promise<readonly Task[]> {
  const tasks: Task[] = []
  const going: Promise<unknown>[] = []
  const [a, b] = town.replicas
  const startedBefore = town.talks.whenAnswerStarts()
  const whenAnswerStarts = Promise.withResolvers<void>()
  const fall = () => fault({ ...town, a, b, whenAnswerStarts: whenAnswerStarts.resolve })
  const early = isEarly ? fall() : undefined
  await Promise.race([whenAnswerStarts.promise, early ?? Promise.resolve()])
  const buyers = [...town.regulars]
  const wish = (ware: Ware, first: number, ms = ANSWER_MS) => {
    const task = newTask({ ware, buyer: buyers.pop()!, ms, about: `task ${tasks.length} of ${Date.now()}` })
    tasks.push(task)
    going.push(run(task, { ...walkOf(town), first }))
    return task
  }
  // Each asks one replica for the price and orders at the other.
  for (let index = 0; index < 8; index++) wish('stream', index % 2)
  const greedy = Array.from({ length: 8 }, (_, index) => wish('stream', index % 2))
  for (let index = 0; index < 4; index++) wish('chat', index % 2)
  for (const ware of ['stream by upto', 'stream by channel', 'chat by channel'] as const)
    for (const first of [0, 1]) wish(ware, first)
  await underWay(town, tasks.length, startedBefore)
  for (const ware of [
    ...(['picture', 'slow picture', 'tool', 'video', 'one-shot', 'chat'] as const),
    ...(['chat by upto', 'picture by channel', 'tool by channel', 'slow tool by channel'] as const),
  ])
    for (const first of [0, 1]) wish(ware, first, 500)
  const raining = early ?? fall()
  going.push(...greedy.map((task, index) => sendAgain(task, town.replicas[index % 2]!)))
  await raining
  for (const ware of WARES) for (const first of [0, 1]) wish(ware, first, 500)
  await Promise.all(going)
  return tasks
}

async function underWay({ talks }: Town, answers: number, before: number): Promise<void> {
  for (
    const until = performance.now() + LEAD_MS;
    talks.whenAnswerStarts() - before < answers && performance.now() < until;
  )
    await pause(50)
  await pause(500)
}

/** While its first answer is on its way, from when the lease of whoever gives it may be over. */
async function sendAgain(task: Task, at: Fixture['replicas'][number]): Promise<void> {
  await pause((LEASE_SECONDS + 1) * 1_000)
  for (let tries = 0; tries < 5 && task.end === undefined && task.signed.length > 0; tries++) {
    await again(task, at)
    await pause(1_000)
  }
}

const COUNTERPARTIES = 4
const AT_ONCE = 10
/** Orders of each of them, in turn; the last one orders jobs. */
const DRAINED_WARES: readonly (readonly Ware[])[] = [
  ['chat', 'stream'],
  ['chat by upto', 'stream by upto'],
  ['chat', 'stream'],
  ['chat by upto', 'stream'],
]
const JOB_WARES: readonly Ware[] = ['slow picture', 'video']
/** How long each of their answers takes, and for how long none has begun when their wallets are emptied. */
const COUNTERPARTY_ANSWER_MS = 4_000
const CALM_MS = 700

/**
 * Wallets that never paid anything are emptied while their answers are made: some have ordered ten answers each, whole
 * and streamed, as many as the gateway lets begin; one has ordered pictures and videos.
 */
async function drainedAtWork(town: Town): Promise<readonly Task[]> {
  const tasks: Task[] = []
  const wallets = town.strangers.splice(0, COUNTERPARTIES + 1)
  const gateway = async (buyer: PrivateKeyAccount, index: number) => {
    town.drained.add(buyer.address.toLowerCase())
    const wares = DRAINED_WARES[index] ?? JOB_WARES
    const own = Array.from({ length: AT_ONCE }, (_, turn) =>
      newTask({ ware: wares[turn % 2]!, buyer, ms: COUNTERPARTY_ANSWER_MS, about: `drained ${turn} of ${Date.now()}` }),
    )
    tasks.push(...own)
    const going = own.map((task) => run(task, { ...walkOf(town), isFickle: true, waitMs: 30_000 }))
    await (index === COUNTERPARTIES ? ordered(own) : nothingMoreBegins(town))
    await drain(buyer, town)
    await Promise.all(going)
    for (const task of own) if (task.end === 'left') task.end = 'refused'
  }
  await Promise.all(wallets.map(gateway))
  return tasks
}

/** One of its jobs is under way. */
async function ordered(tasks: readonly Task[]): Promise<void> {
  for (const until = performance.now() + LEAD_MS; performance.now() < until; await pause(20)) {
    if (tasks.some(({ poll }) => poll !== undefined)) return
  }
}

async function nothingMoreBegins({ talks }: Town): Promise<void> {
  const before = talks.whenAnswerStarts()
  const until = performance.now() + LEAD_MS
  for (let [seen, at] = [before, performance.now()]; performance.now() < until; await pause(50)) {
    if (talks.whenAnswerStarts() > seen) [seen, at] = [talks.whenAnswerStarts(), performance.now()]
    if (seen > before && performance.now() - at > CALM_MS) return
  }
}

const LOAD = 10

/** Buyers come one after the other, and one fault follows the other, sometimes with a wallet that is drained. */
async function allWeathers(
  town: Town,
  { endsAt, log }: { endsAt: number; log: (line: string) => void },
): Promise<readonly Task[]> {
  const { chance: dice, replicas } = town
  const tasks: Task[] = []
  const buyers = [...town.regulars]
  let isOver = false

  async function gateway(): Promise<void> {
    while (!isOver) {
      const buyer = buyers.shift()
      if (!buyer) return
      const task = newTask({
        ware: dice.pick(WARES),
        buyer,
        ms: dice.below(7_000),
        about: `task ${tasks.length} of ${Date.now()}`,
      })
      tasks.push(task)
      const greed = dice.isLucky(0.2) && task.ware === 'stream' ? sendAgain(task, dice.pick(replicas)) : undefined
      await Promise.all([run(task, walkOf(town)), greed])
      buyers.push(buyer)
      await pause(dice.below(1_500))
    }
  }

  const shopping = Array.from({ length: LOAD }, gateway)
  /** The last fault may take its time to mend, and everybody is served after it. */
  const lastAt = endsAt - 45_000
  while (performance.now() < lastAt) {
    await pause(2_000 + dice.below(5_000))
    if (town.strangers.length > 2 * COUNTERPARTIES && dice.isLucky(0.2))
      shopping.push(drainedAtWork(town).then((drained) => void tasks.push(...drained)))
    const name = dice.pick(Object.keys(faults) as DisruptionName[])
    log(`${((endsAt - performance.now()) / 1000).toFixed(0).padStart(6)} s to go: ${name}`)
    const [a, b] = dice.isLucky(0.5) ? replicas : ([replicas[1], replicas[0]] as const)
    const sky: Sky = { ...town, a, b, whenAnswerStarts: () => {} }
    await faults[name](sky)
  }
  isOver = true
  await Promise.all(shopping)
  return tasks
}

const walkOf = ({ replicas, payers, chance: dice }: Town): Walk => ({
  replicas,
  payers,
  chance: dice,
  waitMs: WAIT_MS,
})

// ── the books ──────────────────────────────────────────────────────────────────────────────────────────────────────

const QUIET_MS = 100_000

/** Waits until no call is under way or in doubt, no longer than the bound; what is left is the reckoning's to name. */
async function quiet({ pool, stuck }: Town): Promise<void> {
  for (const until = performance.now() + QUIET_MS; performance.now() < until; await pause(250)) {
    const { rows } = await pool.query<{ id: string }>(
      `SELECT id FROM calls WHERE work_status IN ('queued', 'in_progress') OR payment_status = 'settling'`,
    )
    if (rows.every(({ id }) => stuck.has(id))) return
  }
}

const channelsOf = ({ pool, node, payTo }: Town) => readChannels({ pool, rpcUrl: node.url, payTo })

const CLAIMED_MS = 200_000

/** Waits until everything that channels were charged is claimed. It is the reckoning's to name what is not. */
async function claimed(town: Town): Promise<readonly Task[]> {
  for (const until = performance.now() + CLAIMED_MS; performance.now() < until; await pause(2_000)) {
    const { lines } = await channelsOf(town)
    if (lines.every(({ record, claimed: onChain }) => onChain >= (record?.charged ?? 0n))) break
  }
  return []
}

const SETTLED = `SELECT c.id, c.payer, coalesce(c.paid, c.quote)::text AS quote, c.work_status AS "workStatus",
    c.payment_status AS "paymentStatus", c.receipt,
    coalesce(array_agg(a.key) FILTER (WHERE a.status = 'paid'), '{}') AS paid,
    c.payment_status = 'settled' AND c.offer LIKE '%"batch-settlement"%' AS "isOfChannel"
  FROM calls c LEFT JOIN authorizations a ON a.call = c.id GROUP BY c.id`

/** `earlier`: what channels had been charged before, for nobody's task of this scene. */
type Judging = { readonly earlier: ReadonlySet<string>; readonly isClaimed: boolean }

async function judged(town: Town, tasks: readonly Task[], { earlier, isClaimed }: Judging): Promise<Reckoning> {
  const { pool, node, payTo, replicas, payers, drained, signed } = town
  const facts = async () => {
    const channels = await channelsOf(town)
    const chain = (await paidOnChain({ rpcUrl: node.url, payTo })).map((line) => ({
      ...line,
      nonce: line.nonce.toLowerCase(),
    }))
    const { rows } = await pool.query<Row & { isOfChannel: boolean }>(SETTLED)
    const ledger = rows.filter(({ isOfChannel }) => !isOfChannel).map((row) => ({ ...row, ...lineOf(row) }))
    return { chain, channels, ledger }
  }
  const before = await facts()
  const byId = new Map([...before.chain, ...before.channels.charges].map((line) => [line.nonce, line]))
  const owners = chargedTask(tasks, { charges: before.channels.charges, earlier })
  const uncollected = new Map<Task, string>()
  await Promise.all(
    tasks.map(async (task, index) => {
      const paid = task.signed.find((payment) => {
        const line = byId.get(idOf(payment))
        return line && !earlier.has(line.nonce) && (owners.get(line) ?? task) === task
      })
      if (!paid) return
      const order = index % 2 === 0 ? replicas : replicas.toReversed()
      const reason = await collect(task, { replicas: order, payers, paid })
      if (reason !== undefined) uncollected.set(task, reason)
    }),
  )
  const { chain, channels, ledger: all } = await facts()
  const ledger = all.filter(({ id }) => !town.stuck.has(id))
  for (const row of ledger) if (isStuck(row)) town.stuck.add(row.id)
  for (const task of tasks) for (const payment of task.signed) signed.add(payment)
  return reckon({
    tasks,
    chain,
    channels: { ...channels, earlier, signed: depositsIn([...signed]), isClaimed },
    ledger,
    drained,
    signed: new Set([...signed].map(idOf)),
    uncollected,
  })
}
