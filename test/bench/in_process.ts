/**
 * What a call costs without HTTP: `bun test/bench/in_process.ts [milliseconds of a round] [part of a name]`, or
 * part `cpu` of the bench.
 * The app is called in a loop with 32 in flight before a vendor whose answer is scripted. Free chat, paid chat and paid
 * streams on the memory chain, on SQLite and in memory, taking turns.
 */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { memoryChain } from '../../adapters/chains/memory.ts'
import { systemClock } from '../../adapters/local.ts'
import { memoryObjects } from '../../adapters/objects/memory.ts'
import { memoryStorage } from '../../adapters/storage/memory.ts'
import { sqliteStorage } from '../../adapters/storage/sqlite/mod.ts'
import { countTokens, warmTokenizer } from '../../adapters/token_counter.ts'
import { gateway, type Offer, type Storage } from '../../core/mod.ts'
import type { ChatVendor } from '../../core/ports/vendors/chat.ts'
import { app } from '../../server/app.ts'
import { BUYERS, buyerName } from './chat_gateways.ts'
import { fixed, median, table } from './print.ts'

const IN_FLIGHT = 32
const ROUNDS = 5
const BALANCE = 1_000_000_000_000n
const PIECES = 50
const TEXT = 'A fox is small, quick and red, and the snow does not trouble it. '.repeat(14)
const FREE_TIER = [{ requests: 1_000_000_000, windowMs: 60_000 }]
const URL_OF_CHAT = 'http://127.0.0.1/api/v1/chat/completions'

const CASES = [
  { name: 'free chat, whole', model: 'openai/gpt-oss-120b', stream: false, at: 'sqlite' },
  { name: 'paid chat, whole, SQLite', model: 'openai/gpt-6-luna', stream: false, at: 'sqlite' },
  { name: 'paid chat, whole, memory storage', model: 'openai/gpt-6-luna', stream: false, at: 'memory' },
  { name: `paid chat, stream of ${PIECES} pieces, SQLite`, model: 'openai/gpt-6-luna', stream: true, at: 'sqlite' },
] as const
type Case = (typeof CASES)[number]
type Round = { readonly cpuMicros: number; readonly rate: number }

function scripted(): ChatVendor {
  const usage = { prompt_tokens: 160, completion_tokens: 180, total_tokens: 340 }
  const event = (value: object) => new TextEncoder().encode(`data: ${JSON.stringify(value)}\n\n`)
  const chunk = (choices: readonly object[], more = {}) =>
    event({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1_795_132_800, model: 'm', choices, ...more })
  const events = [
    ...Array.from({ length: PIECES }, () =>
      chunk([{ index: 0, delta: { content: TEXT.slice(0, TEXT.length / PIECES) }, finish_reason: null }]),
    ),
    chunk([{ index: 0, delta: {}, finish_reason: 'stop' }]),
    chunk([], { usage }),
    new TextEncoder().encode('data: [DONE]\n\n'),
  ]
  return {
    format: 'chat',
    async ask({ model, stream }) {
      if (!stream) {
        const message = { role: 'assistant', content: TEXT }
        const choices = [{ index: 0, message, finish_reason: 'stop' }]
        const created = 1_795_132_800
        return {
          kind: 'whole',
          body: { id: 'chatcmpl-1', object: 'chat.completion', created, model, choices, usage },
        }
      }
      let at = 0
      return { kind: 'stream', stream: { next: async () => events[at++], cancel() {} } }
    },
  }
}

function started(storage: Storage) {
  const chain = memoryChain()
  for (let index = 0; index < BUYERS; index++) chain.fund(chain.wallet(buyerName(index)), BALANCE)
  const vendor = scripted()
  const log = { access() {}, info() {}, warn: console.error, alert: console.error }
  const made = gateway({
    ports: {
      storage,
      objects: memoryObjects(),
      chain,
      vendors: { images: () => undefined, chat: () => vendor, media: () => Promise.reject(new Error('no media here')) },
      clock: systemClock,
      log: log as never,
      random: (bytes: number) => new Uint8Array(randomBytes(bytes)),
      countTokens,
      background: (work: Promise<unknown>) => void work.catch(console.error),
    },
    name: 'bench',
    label: 'base-sepolia',
    workerId: randomBytes(12).toString('hex'),
    freeTier: FREE_TIER,
  })
  const elysia = app({ gateways: [{ gateway: made, hosts: [] }], log: log as never })
  return { chain, fetch: (request: Request) => elysia.fetch(request) }
}
type Started = ReturnType<typeof started>

async function prepared({ chain, fetch }: Started, { model, stream }: Case) {
  const messages = [
    { role: 'system', content: 'You are a patient naturalist. Answer in plain words, in one paragraph.' },
    { role: 'user', content: 'What does a fox do in winter, when the snow is deep and the mice are under it?' },
  ]
  const body = JSON.stringify({ model, messages, max_tokens: 400, stream })
  const headers = { 'content-type': 'application/json', host: '127.0.0.1' }
  const request = (more = {}) => new Request(URL_OF_CHAT, { method: 'POST', headers: { ...headers, ...more }, body })
  const first = await fetch(request())
  const required = first.headers.get('payment-required')
  await first.text()
  const challenge = required && (JSON.parse(atob(required)) as { accepts: readonly [Offer]; resource: unknown })
  let buyer = 0
  return (): Request => {
    if (!challenge) return request()
    const from = chain.wallet(buyerName(buyer++))
    const payment = chain.sign(challenge.accepts[0], { from, now: Date.now() })
    return request({ 'payment-signature': btoa(JSON.stringify({ ...payment, resource: challenge.resource })) })
  }
}

/** The requests are signed before the time is taken. */
async function round({ fetch }: Started, next: () => Request, count: number): Promise<Round> {
  const requests = Array.from({ length: count }, next)
  let at = 0
  const lane = async () => {
    for (let request = requests[at++]; request; request = requests[at++]) {
      const response = await fetch(request)
      const text = await response.text()
      if (response.status !== 200) throw new Error(`${response.status}: ${text.slice(0, 400)}`)
    }
  }
  Bun.gc(true)
  const cpu = process.cpuUsage()
  const startedAt = performance.now()
  await Promise.all(Array.from({ length: IN_FLIGHT }, lane))
  const seconds = (performance.now() - startedAt) / 1_000
  const { user, system } = process.cpuUsage(cpu)
  return { cpuMicros: (user + system) / count, rate: count / seconds }
}

export async function inProcess(ms: number, only = ''): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'farebox-bench-'))
  const storages = { sqlite: sqliteStorage(join(dir, 'farebox.db')), memory: memoryStorage() }
  await warmTokenizer()
  const gateways = { sqlite: started(storages.sqlite), memory: started(storages.memory) }
  const field = await Promise.all(
    CASES.filter(({ name }) => name.includes(only)).map(async (each) => ({
      ...each,
      gateway: gateways[each.at],
      next: await prepared(gateways[each.at], each),
      rounds: [] as Round[],
      count: 0,
    })),
  )
  for (const each of field) {
    await round(each.gateway, each.next, 500)
    const { rate } = await round(each.gateway, each.next, 500)
    each.count = Math.max(100, Math.round((rate * ms) / 1_000))
  }
  for (let n = 0; n < ROUNDS; n++)
    for (const each of field) each.rounds.push(await round(each.gateway, each.next, each.count))
  console.log(`\nin process, without HTTP, ${IN_FLIGHT} in flight, ${ROUNDS} rounds taking turns; medians`)
  const free = median(field[0]?.rounds.map(({ rate }) => rate) ?? [])
  table(
    ['', 'CPU us each', 'least', 'per second', 'of free'],
    field.map(({ name, rounds }) => {
      const cpu = rounds.map(({ cpuMicros }) => cpuMicros)
      const rate = median(rounds.map((each) => each.rate))
      return [name, fixed(median(cpu), 0), fixed(Math.min(...cpu), 0), fixed(rate, 0), fixed(rate / free, 2)]
    }),
  )
  await storages.sqlite.close()
  rmSync(dir, { recursive: true })
}

if (import.meta.main) {
  await inProcess(Number(process.argv[2] ?? 500), process.argv[3])
  process.exit(0)
}
