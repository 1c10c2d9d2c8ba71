/**
 * Cost of a paid call for each replica and their database, at 1, 2 and 4 replicas:
 * `bun test/bench/replicas.ts [rounds]`. Of four processes on one Postgres, the first 1, 2 or 4 take turns at the same
 * load: so many calls a second in all or at each, or so many in flight at each. A chat paid by `exact`, on the
 * memory chain before a scripted vendor. The CPU of each part is what counts, not the clock, because all of them share
 * the cores of one machine. Prints, never asserts.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { postgresStorage } from '../../adapters/storage/postgres/mod.ts'
import { warmTokenizer } from '../../adapters/token_counter.ts'
import { postgresServer } from '../adapters/storage/postgres/postgres_server.ts'
import { cash, prepared, round, started } from './in_process.ts'
import { cpuOf, SETTINGS } from './postgres.ts'
import { fixed, median, table } from './print.ts'

const SIZES = [1, 2, 4]
const CHAT = { model: 'openai/gpt-6-luna', stream: false } as const
const WARM_UP = 800
const CALLS = 960

/** How calls come to one replica: each so long after the one before, or as many at a time. */
type Load = { readonly count: number; readonly everyMs: number } | { readonly count: number; readonly inFlight: number }

const LOADS: readonly { readonly name: string; of(replicas: number): Load }[] = [
  { name: '60 a second in all', of: (n) => ({ count: CALLS / n, everyMs: (1_000 * n) / 60 }) },
  { name: '15 a second at each', of: () => ({ count: CALLS / 4, everyMs: 1_000 / 15 }) },
  { name: '8 in flight at each', of: (n) => ({ count: CALLS / n, inFlight: 8 }) },
]

/** Asked for each round by a line; it answers with one when its requests are signed, and with its CPU at the end. */
async function replica(url: string, owner: string): Promise<void> {
  await warmTokenizer()
  const gateway = started(postgresStorage(url), cash(owner))
  const next = await prepared(gateway, CHAT)
  await round(gateway, next, WARM_UP)
  const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
  const line = async () => String((await lines.next()).value)
  console.log('ready')
  for (;;) {
    const load = JSON.parse(await line()) as Load
    const requests: Request[] = []
    while (requests.length < load.count) requests.push(await next())
    const buy = async (request: Request) => {
      const response = await gateway.fetch(request)
      const text = await response.text()
      if (response.status !== 200) throw new Error(`${response.status}: ${text.slice(0, 400)}`)
    }
    const lane = async () => {
      for (let request = requests.pop(); request; request = requests.pop()) await buy(request)
    }
    Bun.gc(true)
    console.log('ready')
    await line()
    const before = process.cpuUsage()
    if ('inFlight' in load) await Promise.all(Array.from({ length: load.inFlight }, lane))
    else {
      const [startedAt, buying] = [performance.now(), [] as Promise<void>[]]
      for (const [at, request] of requests.entries()) {
        const early = startedAt + at * load.everyMs - performance.now()
        if (early > 0) await pause(early)
        buying.push(buy(request))
      }
      await Promise.all(buying)
    }
    const { user, system } = process.cpuUsage(before)
    console.log(String((user + system) / load.count))
  }
}

function child(url: string, owner: string) {
  const process_: ChildProcess = spawn(process.execPath, [fileURLToPath(import.meta.url), '--replica', url, owner], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  if (!process_.stdout) throw new Error('a replica has no output')
  const lines = createInterface({ input: process_.stdout })[Symbol.asyncIterator]()
  return {
    tell: (line: string) => void process_.stdin?.write(`${line}\n`),
    async answer(): Promise<string> {
      const { value, done } = await lines.next()
      if (done) throw new Error('a replica has ended')
      return String(value)
    },
    stop: () => void process_.kill('SIGKILL'),
  }
}

async function replicas(rounds: number): Promise<void> {
  const server = await postgresServer(SETTINGS)
  const url = await server.fresh()
  const storage = postgresStorage(url)
  await storage.ready()
  const all = Array.from({ length: Math.max(...SIZES) }, (_, at) => child(url, `replica ${at} `))
  for (const each of all) await each.answer()
  const found = new Map<string, { replica: number; database: number }[]>()
  for (let n = 0; n < rounds; n++)
    for (const { name, of } of LOADS)
      for (const size of SIZES) {
        const some = all.slice(0, size)
        for (const each of some) each.tell(JSON.stringify(of(size)))
        for (const each of some) await each.answer()
        const before = cpuOf(server.own?.pid)
        for (const each of some) each.tell('go')
        const cpu: number[] = []
        for (const each of some) cpu.push(Number(await each.answer()) / 1_000)
        // A session tells its CPU when it waits again.
        await pause(200)
        const key = `${name} ${size}`
        const database = (cpuOf(server.own?.pid) - before) / (size * of(size).count)
        const mean = cpu.reduce((sum, each) => sum + each, 0) / size
        found.set(key, [...(found.get(key) ?? []), { replica: mean, database }])
      }
  for (const each of all) each.stop()
  console.log(`\nCPU ms of a paid chat, ${rounds} rounds in turns; medians (least to most)`)
  const spread = (values: readonly number[]) =>
    `${fixed(median(values), 2)} (${fixed(Math.min(...values), 2)} to ${fixed(Math.max(...values), 2)})`
  table(
    ['', 'replicas', 'of a replica', 'of the database', 'both'],
    LOADS.flatMap(({ name }) =>
      SIZES.map((size) => {
        const each = found.get(`${name} ${size}`) ?? []
        return [
          name,
          String(size),
          spread(each.map((one) => one.replica)),
          spread(each.map((one) => one.database)),
          spread(each.map((one) => one.replica + one.database)),
        ]
      }),
    ),
  )
  await storage.close()
  await server.stop()
}

if (import.meta.main) {
  const [first, url, owner] = process.argv.slice(2)
  if (first === '--replica') await replica(url ?? '', owner ?? '')
  else await replicas(Number(first ?? 5))
  process.exit(0)
}
