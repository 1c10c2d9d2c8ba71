/** One schedule of faults, from the first buyer to the last look into the books (decision 101). */
import { setTimeout as pause } from 'node:timers/promises'
import type { Pool } from 'pg'
import { type Chance, chance, seedOf } from '../simulation/chance.ts'
import { type Audit, audit, type Ledger } from './audit.ts'
import { type Board, buy, newPurchase, type Order, type Purchase } from './buyers.ts'
import { type Point, points, type Scene } from './kill_points.ts'
import { type Killed, killAt } from './killer.ts'
import type { Replica } from './replicas.ts'
import { bury, type Fixture, fixture } from './fixture.ts'

export type FaultOptions = {
  readonly seed: number
  readonly buyers: number
  readonly kills: number
  /** Share of messages between gateway and chain that meet trouble; 0.05 unless told. */
  readonly trouble?: number
  /**
   * Ends what a dead process held at once, as if its leases' half minute had passed: a short run has no time to wait.
   */
  readonly hasten?: boolean
  readonly log?: (line: string) => void
  /** May look into the books, and spoil them, after the audit and before everything ends. */
  readonly afterwards?: (ledgerRows: Ledger) => Promise<void>
}

export type FaultReport = Audit & {
  readonly kills: readonly Killed[]
  readonly seconds: number
  /** Messages between the gateway and the chain, and what they met. */
  readonly rpc: Readonly<Record<string, number>>
  /** Answers to buyers' requests. */
  readonly answers: ReadonlyMap<string, number>
  readonly alerts: readonly string[]
  /** Every gateway process that there was, and the directory of all files: both have gone. */
  readonly pids: readonly number[]
  readonly dir: string
}

const FAST: Order = { model: 'vendor-d/image-cv4', prompt: 'a lighthouse at dusk', size: '512x512' }
const SLOW: Order = { model: 'vendor-e/image-pro', prompt: 'a red fox in the snow', size: '1024x1024' }
/** A settlement lease, a work lease and two sweeps: by then whatever a dead process held is somebody else's. */
const BOUND_MS = 100_000

/** Plays one schedule. Everything that it starts has ended when it resolves or rejects. */
export async function fault({
  seed,
  buyers,
  kills,
  trouble = 0.05,
  hasten = false,
  log = () => {},
  afterwards,
}: FaultOptions): Promise<FaultReport> {
  const startedAt = performance.now()
  const dice = (index: number) => chance(seedOf(seed, index))
  const undo: (() => unknown)[] = []
  try {
    const proxy = { chance: dice(0), slowMs: hasten ? 300 : 3_000, silentShare: hasten ? 0 : 0.3 }
    const { replicas, people, pool, node, payTo, media, dir, rpc } = await fixture(undo, { buyers, proxy })
    log(`seed ${seed}: ${buyers} buyers, ${kills} kills; ready after ${seconds(startedAt)} s`)

    const board: Board = new Set()
    const shopping = gateway(people, {
      replicas,
      board,
      chance: dice(1),
      waves: kills + 1,
      pollMs: hasten ? 150 : 1_000,
      hurriedSeconds: hasten ? 9 : 40,
    })
    const scene: Scene = { pool, proxy: rpc, media, board }
    rpc.setTrouble(trouble)
    const killed = await rampage({
      replicas,
      scene,
      chance: dice(2),
      kills,
      hasten,
      startedAt,
      release: shopping.release,
      log,
    })
    shopping.releaseAll()
    await shopping.over
    rpc.setTrouble(0)
    await quiet(pool)
    const ledgerRows: Ledger = { pool, rpcUrl: node.url, payTo, purchases: shopping.purchases, replicas }
    const audited = await audit(ledgerRows)
    await afterwards?.(ledgerRows)
    const answers = new Map<string, number>()
    for (const [what, count] of shopping.purchases.flatMap((purchase) => [...purchase.answers]))
      answers.set(what, (answers.get(what) ?? 0) + count)
    const alerts = replicas.flatMap((each) => each.alerts)
    return {
      ...audited,
      kills: killed,
      seconds: Number(seconds(startedAt)),
      rpc: { ...rpc.counts },
      answers,
      alerts,
      pids: replicas.flatMap((each) => each.pids),
      dir,
    }
  } finally {
    for (const step of undo.toReversed()) await step()
  }
}

const seconds = (since: number): string => ((performance.now() - since) / 1000).toFixed(1)

type Shopping = {
  readonly replicas: readonly Replica[]
  readonly board: Board
  readonly chance: Chance
  readonly waves: number
  readonly pollMs: number
  readonly hurriedSeconds: number
}

/**
 * Buyers come in waves, so that there is business at each kill; each buys one picture or two, one after the other. Some
 * sign for a short time.
 */
function gateway(
  people: Fixture['people'],
  { replicas, board, chance: dice, waves, pollMs, hurriedSeconds }: Shopping,
) {
  const gates = Array.from({ length: waves }, () => Promise.withResolvers<void>())
  const purchases: Purchase[] = []
  let released = 0
  const plans = people.map((buyer, index) => {
    const orders = Array.from({ length: 1 + dice.below(2) }, () => ({
      order: dice.isLucky(0.4) ? SLOW : FAST,
      lifeSeconds: dice.isLucky(0.25) ? hurriedSeconds : undefined,
    }))
    return {
      buyer,
      wave: Math.floor((index * waves) / people.length),
      delayMs: dice.below(pollMs * 4),
      orders,
      chance: chance(dice.below(2 ** 31)),
    }
  })
  const over = Promise.all(
    plans.map(async ({ buyer, wave, delayMs, orders, chance }) => {
      await gates[wave]?.promise
      await pause(delayMs)
      for (const order of orders) {
        const purchase = newPurchase(buyer, order)
        purchases.push(purchase)
        await buy(purchase, { replicas, board, chance, pollMs, waitMs: 2 * BOUND_MS })
      }
    }),
  )
  const release = () => gates[released++]?.resolve()
  return { purchases, over, release, releaseAll: () => gates.forEach(release) }
}

type Rampage = {
  readonly replicas: readonly Replica[]
  readonly scene: Scene
  readonly chance: Chance
  readonly kills: number
  readonly hasten: boolean
  readonly startedAt: number
  release(): void
  log(line: string): void
}

/**
 * Kills one replica after the other, each point first once and then what was missed; starts each again after a while.
 */
async function rampage({
  replicas,
  scene,
  chance,
  kills,
  hasten,
  startedAt,
  release,
  log,
}: Rampage): Promise<readonly Killed[]> {
  const aims = shuffled(points, chance)
  const killed: Killed[] = []
  const hit = new Set<Point>()
  const restarts: Promise<void>[] = []
  for (let index = 0; index < kills; index++) {
    const left = aims.filter((point) => !hit.has(point))
    const aim = left.length > 0 ? left[index % left.length]! : chance.pick(points)
    const target = await keyed(replicas, scene, chance)
    const waitMs = hasten ? 4_000 : 25_000
    release()
    const more = setInterval(release, waitMs * 0.3) // nobody came to where we wait
    const kill = await killAt(aim, target, { scene, chance, waitMs, startedAt }).finally(() => clearInterval(more))
    for (const point of kill.hit) hit.add(point)
    killed.push(kill)
    const downMs = hasten ? chance.below(200) : 200 + chance.below(4_000)
    const seconds = (kill.afterMs / 1000).toFixed(1).padStart(6)
    const missed = kill.hit.includes(aim) ? '' : 'MISSED '
    const where = `at ${aim.padEnd(9)} ${missed}after ${kill.tries} looks, calls at ${kill.hit.join(' ') || 'none'}`
    log(`${seconds} s  killed ${kill.replica.padEnd(3)} ${where}; back in ${downMs} ms`)
    restarts.push(restart(target, downMs))
  }
  await Promise.all(restarts)
  return killed

  async function restart(target: Replica, downMs: number): Promise<void> {
    if (hasten) await bury(target.life(), scene)
    await pause(downMs)
    await target.start()
  }
}

/** One that holds a relayer key, for only that can be at every point. A dead one's key is free half a minute later. */
async function keyed(replicas: readonly Replica[], { pool }: Scene, chance: Chance): Promise<Replica> {
  const until = performance.now() + BOUND_MS
  while (performance.now() < until) {
    const { rows } = await pool.query<{ life: string }>(
      `SELECT o.life FROM leases l JOIN fault_workers o USING (worker_id) WHERE l.name LIKE 'relayer:%' AND l.expires_at > $1`,
      [Date.now() + 1_000],
    )
    const able = replicas.filter((each) => each.isUp() && rows.some(({ life }) => life === each.life()))
    if (able.length > 0) return chance.pick(able)
    await pause(100)
  }
  throw new Error('no replica holds a relayer key')
}

/**
 * Waits until no call is under way and none is in doubt, no longer than the bound; what is left then is the audit's to
 * name.
 */
async function quiet(pool: Pool): Promise<void> {
  const until = performance.now() + BOUND_MS
  while (performance.now() < until) {
    const { rows } = await pool.query(
      `SELECT 1 FROM calls WHERE work_status IN ('queued', 'in_progress') OR payment_status = 'settling' LIMIT 1`,
    )
    if (rows.length === 0) return
    await pause(100)
  }
}

function shuffled<T>(list: readonly T[], chance: Chance): readonly T[] {
  const left = [...list]
  return list.map(() => left.splice(chance.below(left.length), 1)[0]!)
}
