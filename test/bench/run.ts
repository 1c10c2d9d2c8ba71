/**
 * `bun run bench`: what Farebox costs beside a bare Bun.serve, @x402/hono and Portkey, measured in one run. It prints
 * and never asserts. It ends within 300 s, what costs buyers most comes first, and on a busy machine each part is
 * shorter. At the end it names each goal that it has measured and what it has left out. `bun run bench -- --times 2
 * --out FILE` runs it twice, and compares both in one file. `bun run bench -- chat` runs one part alone, however long:
 * paid, vouchers, cpu, challenges, agent, quotes, chat, signatures, start, market, gas, clip or blocking. `--quick` is
 * for a look while developing; `--case TEXT` for the cases of blocking whose name contains it; `--prof DIR` for CPU
 * profiles of the contestants.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { parseArgs } from 'node:util'
import type { PrivateKeyAccount } from 'viem/accounts'
import { GENERATIONS } from '../server/clients/payer.ts'
import { ask, type Challenge, type Gateway, signed, transfers, wallets } from './buyers.ts'
import type { Cpu, Given, Ready } from './contestant.ts'
import { chat } from './chat.ts'
import { clip } from './clip.ts'
import { gas } from './gas.ts'
import { inProcess } from './in_process.ts'
import { signatures } from './signatures.ts'
import { start } from './start.ts'
import { vouchers } from './vouchers.ts'
import type { Command, Measured } from './load.ts'
import type { Gaps } from './heartbeat.ts'
import { market } from './market.ts'
import { count, fixed, goal, judged, median, table, total, verdict } from './print.ts'
import { blocking } from './blocking.ts'
import { agent } from './agent.ts'
import { repeated } from './repeated.ts'
import { type Pace, paceOf, slownessNow, unhurried } from './pace.ts'

type Part = { readonly name: string; readonly seconds?: number; run(load: Generator, pace: Pace): Promise<void> }

type Plan = {
  readonly rounds: number
  readonly roundMs: number
  readonly warmMs: number
  /** Of all challenges but the first, so that every kind of product is in one run. */
  readonly others: { readonly rounds: number; readonly roundMs: number; readonly warmMs: number }
  readonly paidRounds: number
  readonly paid: Readonly<Record<number, number>>
}

const CONNECTIONS = 64
const BUYERS = 256
const WARM_CONNECTIONS = 16
const WARM_IMAGES = 1_024
/** `paid` is images per round by how many are in flight. */
const FULL: Plan = {
  rounds: 5,
  roundMs: 800,
  warmMs: 1_500,
  others: { rounds: 4, roundMs: 350, warmMs: 400 },
  paidRounds: 2,
  paid: { 1: 40, 32: 320, 128: 512, 256: 512 },
}
const QUICK: Plan = {
  rounds: 3,
  roundMs: 500,
  warmMs: 500,
  others: { rounds: 3, roundMs: 150, warmMs: 150 },
  paidRounds: 1,
  paid: { 1: 40, 32: 320, 128: 512, 256: 512 },
}
/** Time limits of the whole, and of a part that was named. */
const WHOLE_MS = 295_000
const PART_MS = 900_000
const PARTNER = { challenges: 'bare Bun.serve: parses, same bytes', peer: '@x402/hono' }

/**
 * In the order of what buyers feel most. `seconds` is what a part takes on a machine that does nothing else; each has
 * its share of the time that is left. One without it compares with nothing: it is run only when named.
 */
const PARTS: readonly Part[] = [
  { name: 'paid', seconds: 35, run: (load, pace) => paidImages(load, pace) },
  { name: 'vouchers', seconds: 65, run: (_, pace) => vouchers({ scratch, ...pace, profile: options.prof, children }) },
  { name: 'cpu', seconds: 35, run: (_, { isQuick, isOver }) => inProcess(isQuick ? 150 : 400, '', isOver) },
  { name: 'challenges', seconds: 20, run: (load, pace) => challenges(load, QUOTES.slice(0, 2), pace) },
  { name: 'agent', seconds: 8, run: (_, pace) => agent({ scratch, ...pace, profile: options.prof, children }) },
  { name: 'chat', seconds: 60, run: (_, pace) => chat({ scratch, ...pace, profile: options.prof, children }) },
  { name: 'signatures', seconds: 5, run: () => signatures() },
  { name: 'start', seconds: 15, run: () => start({ scratch, children }) },
  { name: 'quotes', seconds: 50, run: (load, pace) => challenges(load, QUOTES.slice(2), pace) },
  { name: 'market', seconds: 20, run: (load, pace) => market({ load, enter: contestant, ...pace }) },
  { name: 'clip', seconds: 30, run: (_, { isQuick }) => clip({ scratch, isQuick, children }) },
  { name: 'gas', run: () => gas() },
  { name: 'blocking', run: (load) => blocking({ load, enter: contestant, only: options.case }) },
]
const { values: options, positionals } = parseArgs({
  options: {
    quick: { type: 'boolean' },
    only: { type: 'string' },
    prof: { type: 'string' },
    case: { type: 'string' },
    times: { type: 'string' },
    out: { type: 'string' },
  },
  allowPositionals: true,
})
const wanted = options.only ? [options.only] : positionals
const names = PARTS.map(({ name }) => name)
for (const part of wanted)
  if (!names.includes(part)) throw new RangeError(`no such part: ${part}; there are ${names.join(', ')}`)
if (options.times)
  process.exit(await repeated(process.argv.slice(2), { times: Number(options.times), out: options.out }))
const scratch = mkdtempSync(join(tmpdir(), 'farebox-bench-'))
const children: Bun.Subprocess[] = []

// ── processes ───────────────────────────────────────────────────────────────────────────────────────────────────────

export type Contestant = {
  readonly name: string
  readonly port: number
  readonly ready: Ready
  /** CPU time since its start, in microseconds. */
  cpu(): Promise<number>
  /** How long its event loop was held since it was last asked; of one that beats. */
  gaps(): Promise<Gaps>
  stop(): Promise<void>
}

export type Entered = (name: string, given?: Omit<Given, 'dir'>) => Promise<Contestant>

/** Starts a contestant in a process of its own; its log goes to a file, as in production. */
async function contestant(name: string, given: Omit<Given, 'dir'> = {}): Promise<Contestant> {
  const dir = mkdtempSync(join(scratch, `${name}-`))
  const profile = options.prof ? ['--cpu-prof', '--cpu-prof-md', '--cpu-prof-dir', join(options.prof, name)] : []
  const heart = given.beats ? ['--preload', join(import.meta.dir, 'heartbeat.ts')] : []
  const { promise, resolve, reject } = Promise.withResolvers<Ready>()
  const answers: ((cpuMicros: number) => void)[] = []
  let tell: (gaps: Gaps) => void = () => {}
  const child = Bun.spawn(
    [
      process.execPath,
      ...profile,
      ...heart,
      join(import.meta.dir, 'contestant.ts'),
      name,
      JSON.stringify({ ...given, dir }),
    ],
    {
      stdin: 'ignore',
      stdout: Bun.file(join(dir, 'log')),
      stderr: 'inherit',
      ipc: (message: Ready | Cpu | { gaps: Gaps }) => {
        if ('gaps' in message) return tell(message.gaps)
        return 'cpuMicros' in message ? answers.shift()?.(message.cpuMicros) : resolve(message)
      },
    },
  )
  children.push(child)
  void child.exited.then((code) => reject(new Error(`${name} ended with ${code} before it was ready`)))
  const ready = await promise
  return {
    name,
    port: ready.port,
    ready,
    cpu: () =>
      new Promise((answered) => {
        answers.push(answered)
        child.send('cpu')
      }),
    gaps: () =>
      new Promise((answered) => {
        tell = answered
        child.send('gaps')
      }),
    async stop() {
      child.disconnect()
      await child.exited
    },
  }
}

export type Generator = {
  run(command: Omit<Command, 'file'>, requests: readonly string[]): Promise<Measured>
  stop(): void
}

function generator(): Generator {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, 'load.ts')], {
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
  })
  children.push(child)
  const lines = createInterface({ input: Readable.fromWeb(child.stdout as never) })[Symbol.asyncIterator]()
  let count = 0
  return {
    async run(command, requests) {
      const file = join(scratch, `requests-${count++}.json`)
      writeFileSync(file, JSON.stringify(requests))
      child.stdin.write(`${JSON.stringify({ ...command, file } satisfies Command)}\n`)
      await child.stdin.flush()
      const line = await lines.next()
      rmSync(file)
      if (line.done) throw new Error('the load generator ended')
      return JSON.parse(line.value)
    },
    stop: () => child.stdin.end(),
  }
}

// ── a: challenges per second ────────────────────────────────────────────────────────────────────────────────────────

/** Requests without a payment, another order each time; `gateway` is one of devnet's by name. */
type Quote = {
  readonly name: string
  readonly path: string
  readonly gateway: string
  /** Absent where the order is in the path or the query: then it is a GET. */
  readonly body?: (n: number) => unknown
  /** Measured for longer, and beside @x402/hono. */
  readonly isMain?: true
}
const image = (n: number) => ({ model: 'vendor-a/image-1', prompt: `a red fox in the snow, ${n}` })
const message = (n: number) => ({ role: 'user', content: `why is the sky blue, ${n}?` })
const QUOTES: readonly Quote[] = [
  { name: 'an image', path: GENERATIONS, gateway: 'devnet', body: image, isMain: true },
  { name: 'an image on Solana', path: GENERATIONS, gateway: 'solana', body: image },
  {
    name: 'a chat',
    path: '/api/v1/chat/completions',
    gateway: 'devnet',
    body: (n) => ({ model: 'farebox/echo', messages: [message(n)] }),
  },
  {
    name: 'a message',
    path: '/api/v1/messages',
    gateway: 'devnet',
    body: (n) => ({ model: 'farebox/echo', max_tokens: 400, messages: [message(n)] }),
  },
  {
    name: 'a video',
    path: '/api/v1/videos/generations',
    gateway: 'devnet',
    body: (n) => ({ model: 'vendor-c/video-1', prompt: `a red fox runs through the snow, ${n}` }),
  },
  {
    name: 'speech',
    path: '/api/v1/audio/speech',
    gateway: 'devnet',
    body: (n) => ({ model: 'elevenlabs/flash-v2.5', input: `Hello from a gateway, ${n}.` }),
  },
  {
    name: 'a search',
    path: '/api/v1/search',
    gateway: 'devnet',
    body: (n) => ({ query: `red foxes in the snow, ${n}` }),
  },
  {
    name: 'an RPC call',
    path: '/api/v1/rpc/base-sepolia',
    gateway: 'devnet',
    body: (id) => ({ jsonrpc: '2.0', id, method: 'eth_blockNumber', params: [] }),
  },
  {
    name: 'a sandbox',
    path: '/api/v1/sandbox/create',
    gateway: 'devnet',
    body: (n) => ({ image: 'python:3.11', timeout: n % 300, cpu: 1, memory: 512 }),
  },
  {
    name: 'a phone lookup',
    path: '/api/v1/phone/lookup',
    gateway: 'devnet',
    body: (n) => ({ phoneNumber: `+1415555${String(n).padStart(4, '0')}` }),
  },
  { name: 'a stock price', path: '/api/v1/usstock/price/AAPL', gateway: 'devnet' },
  { name: 'a prediction market', path: '/api/v1/pm/polymarket/markets', gateway: 'devnet' },
  { name: 'yields', path: '/api/v1/defidata/yields', gateway: 'devnet' },
]
const PROMPTS = 500

async function challenges(load: Generator, quotes: readonly Quote[], pace: Pace): Promise<void> {
  const farebox = await contestant('gateway')
  for (const [index, quote] of quotes.entries()) {
    if (index > 0 && pace.isOver()) leftOut.push(`402 for ${quote.name}`)
    else await challengesOf({ load, farebox, pace }, quote)
  }
  await farebox.stop()
}

type Quoting = { readonly load: Generator; readonly farebox: Contestant; readonly pace: Pace }

/** Farebox beside a bare server that parses the body and answers with the same bytes; for images @x402/hono too. */
async function challengesOf({ load, farebox, pace }: Quoting, quote: Quote): Promise<void> {
  const plan = pace.isQuick ? QUICK : FULL
  const port = await portOf(farebox, quote.gateway)
  const requests = Array.from({ length: PROMPTS }, (_, n) =>
    quote.body ? post(quote.path, JSON.stringify(quote.body(n + 1_000))) : get(quote.path),
  )
  const first = await fetch(`http://127.0.0.1:${port}${quote.path}`, {
    ...(quote.body && {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(quote.body(1_000)),
    }),
  })
  const body = await first.text()
  if (first.status !== 402) return console.log(`\n402 for ${quote.name}: not sold here (${first.status})`)
  const headers = [...first.headers].filter(([name]) => !['date', 'content-length', 'connection'].includes(name))
  const bare = await contestant('bare', { repeat: { status: 402, headers, body } })
  const hono = quote.isMain ? await contestant('peer') : undefined
  const field = [{ ...farebox, port }, bare, ...(hono ? [hono] : [])]
  const { rounds, roundMs, warmMs } = quote.isMain ? plan : { ...plan, ...plan.others }
  const seen = new Map<string, (Measured & { readonly cpuMicros: number })[]>(field.map(({ name }) => [name, []]))
  const command = { connections: CONNECTIONS, wanted: 402 }
  for (const each of field) await load.run({ ...command, port: each.port, ms: warmMs }, requests)
  let played = 0
  for (let round = 0; round < rounds && !(round > 0 && pace.isOver()); round++, played++) {
    for (const each of field) {
      const before = await each.cpu()
      const measured = await load.run({ ...command, port: each.port, ms: roundMs }, requests)
      const cpuMicros = ((await each.cpu()) - before) / measured.good
      seen.get(each.name)?.push({ ...measured, cpuMicros })
    }
  }
  await Promise.all([bare.stop(), hono?.stop()])

  const runsOf = (name: string) => seen.get(name) ?? []
  const rate = ({ good, seconds }: Measured) => good / seconds
  const ratios = (name: string) =>
    runsOf('gateway').map((run, round) => rate(run) / rate(runsOf(name)[round] as Measured))
  const cpuRatios = runsOf('gateway').map(
    ({ cpuMicros }, round) => (runsOf('bare')[round]?.cpuMicros ?? NaN) / cpuMicros,
  )
  console.log(
    `\n402 for ${quote.name}, ${CONNECTIONS} connections, ${played} rounds of ${roundMs} ms each, taking turns; medians`,
  )
  table(
    ['', 'per second', 'CPU us each', 'p50 ms', 'p99 ms', 'failed', 'load busy'],
    field.map(({ name }) => {
      const runs = runsOf(name)
      return [
        LABELS[name] ?? name,
        count(median(runs.map(rate))),
        fixed(median(runs.map(({ cpuMicros }) => cpuMicros)), 1),
        fixed(median(runs.map((run) => run.p50)), 2),
        fixed(median(runs.map((run) => run.p99)), 2),
        String(runs.reduce((sum, run) => sum + total(run.bad), 0)),
        fixed(median(runs.map((run) => run.busy)), 2),
      ]
    }),
  )
  goal(`of the rate of bare Bun.serve, which parses the same body: ${quote.name}`, ratios('bare'), 0.6)
  goal(`of its CPU time per answer, turned over: ${quote.name}`, cpuRatios, 0.6)
  if (hono) goal(`of the rate of @x402/hono, which reads no body: ${quote.name}`, ratios('peer'), 2)
  for (const [name, runs] of seen)
    for (const { complaint } of runs)
      if (complaint) console.log(`  first failure of ${name}: ${complaint.slice(0, 400)}`)
}

const LABELS: Readonly<Record<string, string>> = {
  gateway: 'Farebox (parses, validates, prices, logs)',
  bare: PARTNER.challenges,
  peer: PARTNER.peer,
}

/** The port of one of devnet's gateways. */
async function portOf({ port }: Contestant, gateway: string): Promise<number> {
  const info = (await (await fetch(`http://127.0.0.1:${port}/devnet`)).json()) as {
    gateways: readonly { name: string; base_url: string }[]
  }
  return Number(new URL(info.gateways.find(({ name }) => name === gateway)?.base_url ?? '').port)
}

const post = (path: string, body: string): string =>
  `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`

const get = (path: string): string => `GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n`

// ── b: paid images per second ───────────────────────────────────────────────────────────────────────────────────────

type Entrant = {
  readonly each: Contestant
  readonly gateway: Gateway
  readonly challenge: Challenge
  readonly buyers: readonly PrivateKeyAccount[]
}

async function paidImages(load: Generator, pace: Pace): Promise<void> {
  const plan = pace.isQuick ? QUICK : FULL
  const farebox = await enter(await contestant('shop'))
  const hono = await enter(await contestant('peer', { amount: farebox.challenge.accepts[0].amount }))
  const field = [farebox, hono]
  const seen = new Map<string, Measured[]>()
  const run = async ({ each, challenge, buyers }: Entrant, connections: number, images: number) => {
    const requests = await signed(challenge, buyers, images)
    return await load.run({ port: each.port, connections, wanted: 200 }, requests)
  }
  const paid = new Map(field.map(({ each }) => [each.name, 0]))
  const bought = ({ each }: Entrant, { good }: Measured) => paid.set(each.name, (paid.get(each.name) ?? 0) + good)
  for (const entrant of field) {
    const warming = await run(entrant, WARM_CONNECTIONS, WARM_IMAGES)
    bought(entrant, warming)
    seen.set(`${entrant.each.name} warming`, [warming])
  }
  let played = 0
  for (let round = 0; round < plan.paidRounds && !(round > 0 && pace.isOver()); round++, played++) {
    for (const [inFlight, images] of Object.entries(plan.paid)) {
      for (const entrant of round % 2 === 0 ? field : field.toReversed()) {
        const measured = await run(entrant, Number(inFlight), images)
        bought(entrant, measured)
        const key = `${entrant.each.name} ${inFlight}`
        seen.set(key, [...(seen.get(key) ?? []), measured])
      }
    }
  }
  const onChain = new Map(
    await Promise.all(field.map(async ({ each, gateway }) => [each.name, await transfers(gateway)] as const)),
  )
  await Promise.all(field.map(({ each }) => each.stop()))

  const rates = (key: string) => (seen.get(key) ?? []).map(({ good, seconds }) => good / seconds)
  console.log(
    `\npaid images, ${BUYERS} buyers, each contestant on an anvil of its own, ${played} rounds taking turns; medians`,
  )
  const levels = Object.keys(plan.paid)
  table(
    ['', 'in flight', 'bought', 'failed', 'per second', 'p50 ms', 'p99 ms'],
    levels.flatMap((level) =>
      [
        ['Farebox', `shop ${level}`],
        [`${PARTNER.peer}, local signer, nonce queue`, `peer ${level}`],
      ].map(([label = '', key = '']) => {
        const runs = seen.get(key) ?? []
        const [good, bad] = [
          runs.reduce((sum, { good }) => sum + good, 0),
          runs.reduce((sum, run) => sum + total(run.bad), 0),
        ]
        return [
          label,
          level,
          count(good),
          count(bad),
          fixed(median(rates(key)), 1),
          fixed(median(runs.map((run) => run.p50)), 1),
          fixed(median(runs.map((run) => run.p99)), 1),
        ]
      }),
    ),
  )
  for (const level of levels) {
    const ratios = rates(`shop ${level}`).map((rate, round) => rate / (rates(`peer ${level}`)[round] ?? NaN))
    goal(`of @x402/hono at ${level} in flight`, ratios, { 1: 1, 32: 3 }[level] ?? 4)
  }
  const failed = [...seen]
    .filter(([key]) => key.startsWith('shop'))
    .reduce((sum, [, runs]) => sum + runs.reduce((all, run) => all + total(run.bad), 0), 0)
  verdict(failed === 0, `${failed} of Farebox's payments failed (goal: none)`)
  for (const [name, label] of [
    ['shop', 'Farebox'],
    ['peer', PARTNER.peer],
  ] as const) {
    const [served, moved] = [paid.get(name), onChain.get(name)]
    console.log(
      `  ${served === moved ? 'equal' : 'DIFFER'} ${label}: ${served} images served, ${moved} transfers to the seller on chain`,
    )
  }
  for (const [key, runs] of seen)
    for (const { complaint } of runs)
      if (complaint) console.log(`  first failure of ${key}: ${complaint.slice(0, 400)}`)
}

async function enter(each: Contestant): Promise<Entrant> {
  const gateway = { ...each.ready.devnet, port: each.port } as Gateway
  const { challenge } = await ask(each.port)
  return { each, gateway, challenge, buyers: await wallets(gateway, BUYERS) }
}

// ── the run ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const startedAt = performance.now()
const limitMs = wanted.length > 0 ? PART_MS : WHOLE_MS
const leftMs = (): number => limitMs - (performance.now() - startedAt)
const [{ model = 'unknown processor' } = {}] = cpus()
console.log(
  `Farebox bench: Bun ${Bun.version}, ${process.platform} ${process.arch}, ${navigator.hardwareConcurrency} cores (${model.trim()}), loopback only`,
)
const chosen = PARTS.filter(({ name, seconds }) => (wanted.length > 0 ? wanted.includes(name) : seconds !== undefined))
const leftOut: string[] = []
const shortened: string[] = []

/** Runs a part. One that is given up loses its processes, and the next one begins. */
async function measure({ name, seconds, run }: Part, load: Generator): Promise<void> {
  const isAlone = wanted.length > 0 || seconds === undefined
  const later = chosen.slice(chosen.findIndex((part) => part.name === name)).map((part) => part.seconds ?? 0)
  const pace = isAlone
    ? unhurried(options.quick ?? false, leftMs())
    : paceOf(later, { leftMs: leftMs(), slowness: options.quick ? Number.POSITIVE_INFINITY : slownessNow() })
  const { promise: late, resolve } = Promise.withResolvers<'late'>()
  const limit = setTimeout(() => resolve('late'), pace.limitMs)
  const before = children.length
  const running = run(load, pace)
  const end = await Promise.race([running, late])
  clearTimeout(limit)
  if (end !== 'late') return void (pace.isQuick && !options.quick && shortened.push(name))
  leftOut.push(`the end of ${name}`)
  running.catch(() => {})
  for (const child of children.slice(before)) child.kill('SIGKILL')
}

const load = generator()
try {
  for (const part of chosen) await measure(part, load)
} finally {
  load.stop()
  for (const child of children) child.kill()
  rmSync(scratch, { recursive: true, force: true })
}
const verdicts = judged()
console.log(`\n${fixed((performance.now() - startedAt) / 1_000, 0)} s in all. Of ${verdicts.length} goals:`)
for (const verdict of verdicts) console.log(`  ${verdict}`)
console.log(leftOut.length > 0 ? `left out for want of time: ${leftOut.join(', ')}` : 'nothing was left out')
if (shortened.length > 0) console.log(`with fewer and shorter rounds, to end in time: ${shortened.join(', ')}`)
console.log('On a shared or busy machine trust the ratios, not the figures.')
process.exit(0)
