/**
 * Where replicas on one Postgres bend: `bun test/bench/queues.ts [replica ms] [database ms] [flush ms]`. A simulation
 * of queues from the costs that `bun test/bench/postgres.ts` measures, because no machine at hand has the cores to show
 * it by the clock. Calls arrive at random; each visits its replica, the database and the disk of the log in turn. The
 * bend is the rate at which a call takes twice as long as alone, what its vendor takes aside.
 */
import { count, fixed, table } from './print.ts'

/** Milliseconds of CPU of a call at its replica and at the database, and of one flush of the log. */
type Costs = { readonly replica: number; readonly database: number; readonly flush: number }
type Machines = { readonly replicas: number; readonly databaseCores: number }

const CALLS = 20_000
/** Steps of a call that write; each is decided, sent, executed and flushed. */
const WRITES = 3
const WARM_UP = 0.2

type Event = { readonly at: number; readonly run: () => void }

/** Events in order of time. */
function calendar() {
  const heap: Event[] = []
  const isBefore = (a: number, b: number) => (heap[a] as Event).at < (heap[b] as Event).at
  const swap = (a: number, b: number) => ([heap[a], heap[b]] = [heap[b] as Event, heap[a] as Event])
  return {
    add(event: Event): void {
      heap.push(event)
      for (let at = heap.length - 1; at > 0 && isBefore(at, (at - 1) >> 1); at = (at - 1) >> 1) swap(at, (at - 1) >> 1)
    },
    next(): Event | undefined {
      const first = heap[0]
      const last = heap.pop()
      if (!first || !last || heap.length === 0) return first
      heap[0] = last
      for (let at = 0; ;) {
        let least = at
        for (const child of [2 * at + 1, 2 * at + 2]) if (child < heap.length && isBefore(child, least)) least = child
        if (least === at) return first
        swap(at, least)
        at = least
      }
    },
  }
}

/** The mean time of a call in milliseconds, at so many calls a second. */
function simulated(costs: Costs, { replicas, databaseCores }: Machines, rate: number): number {
  const events = calendar()
  let now = 0
  let seed = 1
  // The same numbers in each run: rates are compared, not luck.
  const random = () => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0
    return (seed + 1) / 2 ** 32
  }
  const exponential = (mean: number) => -Math.log(random()) * mean
  /** First come, first served, by so many servers. */
  const station = (servers: number) => {
    let free = servers
    const waiting: (() => void)[] = []
    const begin = (ms: number, then: () => void) => {
      free--
      events.add({
        at: now + ms,
        run() {
          free++
          waiting.shift()?.()
          then()
        },
      })
    }
    return (ms: number, then: () => void) => (free > 0 ? begin(ms, then) : void waiting.push(() => begin(ms, then)))
  }
  /** A flush takes all commits with it that wait when it begins. */
  let [isFlushing, committing]: [boolean, (() => void)[]] = [false, []]
  const flush = (then?: () => void) => {
    if (then) committing.push(then)
    if (isFlushing || committing.length === 0) return
    const together = committing
    ;[isFlushing, committing] = [true, []]
    events.add({
      at: now + costs.flush,
      run() {
        isFlushing = false
        flush()
        for (const each of together) each()
      },
    })
  }
  const processes = Array.from({ length: replicas }, () => station(1))
  const database = station(databaseCores)
  const times: number[] = []
  const step = (replica: (typeof processes)[number], left: number, startedAt: number): void =>
    replica(exponential(costs.replica / WRITES), () =>
      database(exponential(costs.database / WRITES), () =>
        flush(() => (left > 1 ? step(replica, left - 1, startedAt) : void times.push(now - startedAt))),
      ),
    )
  let arriving = 0
  for (let n = 0; n < CALLS; n++) {
    arriving += exponential(1_000 / rate)
    const replica = processes[n % replicas] as (typeof processes)[number]
    events.add({ at: arriving, run: () => step(replica, WRITES, now) })
  }
  for (let event = events.next(); event; event = events.next()) {
    now = event.at
    event.run()
  }
  const measured = times.slice(CALLS * WARM_UP)
  return measured.reduce((sum, each) => sum + each, 0) / measured.length
}

/** The rate at which a call takes twice as long as alone. */
function bend(costs: Costs, machines: Machines): number {
  const alone = simulated(costs, machines, 1)
  let [low, high] = [1, (1_000 * machines.replicas) / costs.replica]
  while (high - low > 5) {
    const rate = (low + high) / 2
    if (simulated(costs, machines, rate) > 2 * alone) high = rate
    else low = rate
  }
  return low
}

if (import.meta.main) {
  const [replica = 1.6, database = 2.1, flush = 1] = process.argv.slice(2).map(Number)
  const costs = { replica, database, flush }
  const cores = [1, 2, 4, 8, 16]
  const of = `${fixed(replica, 2)} ms at the replica, ${fixed(database, 2)} ms at the database, a flush of ${fixed(flush, 1)} ms`
  console.log(`\ncalls a second at which a call takes twice as long as alone: ${of}`)
  table(
    ['replicas of a core', ...cores.map((each) => `${each} cores of database`)],
    [1, 2, 4, 8, 16, 32].map((replicas) => [
      String(replicas),
      ...cores.map((databaseCores) => count(bend(costs, { replicas, databaseCores }))),
    ]),
  )
}
