/**
 * Cost of a call without HTTP: `bun test/bench/in_process.ts [milliseconds of a round] [part of a name]`, or
 * part `cpu` of the bench.
 * The app is called in a loop with 32 in flight before a vendor whose answer is scripted. Free chat, paid chat and paid
 * streams on the memory chain, by vouchers and by API keys, on SQLite and in memory, taking turns.
 */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { memoryChain } from '../../adapters/chains/evm/memory.ts'
import { systemClock } from '../../adapters/local.ts'
import { memoryObjects } from '../../adapters/objects/memory.ts'
import { memoryStorage } from '../../adapters/storage/memory/mod.ts'
import { sqliteStorage } from '../../adapters/storage/sqlite/mod.ts'
import { countTokens, warmTokenizer } from '../../adapters/token_counter.ts'
import { type Chain, gateway, type Offer, type Storage } from '../../core/mod.ts'
import type { ChatVendor } from '../../core/ports/vendors/chat.ts'
import { app } from '../../server/app.ts'
import { usdc } from '../../core/x402/money.ts'
import { offerOf } from '../../core/x402/offer.ts'
import { keyText } from '../../core/x402/api_key.ts'
import { FREE, keyBuyer, voucherBuyer, voucherChain } from '../adapters/chains/evm/channels/vouchers.ts'
import { BUYERS, buyerName } from './chat_gateways.ts'
import { fixed, median, table, verdict } from './print.ts'

const IN_FLIGHT = 32
const ROUNDS = 5
const BALANCE = 1_000_000_000_000n
/** Price of a chat of 160 and 180 tokens by use, in base units; the gateway refuses vouchers of another sum. */
const CHARGE = 1_106n
const PIECES = 50
const TEXT = 'A fox is small, quick and red, and the snow does not trouble it. '.repeat(14)
const FREE_TIER = [{ requests: 1_000_000_000, windowMs: 60_000 }]
const URL_OF_CHAT = 'http://127.0.0.1/api/v1/chat/completions'

const CASES = [
  { name: 'free chat, whole', model: 'openai/gpt-oss-120b', stream: false, at: 'sqlite' },
  { name: 'paid chat, whole, SQLite', model: 'openai/gpt-6-luna', stream: false, at: 'sqlite' },
  { name: 'paid chat, whole, memory storage', model: 'openai/gpt-6-luna', stream: false, at: 'memory' },
  { name: `paid chat, stream of ${PIECES} pieces, SQLite`, model: 'openai/gpt-6-luna', stream: true, at: 'sqlite' },
  { name: 'paid by voucher, whole, SQLite', model: 'openai/gpt-6-luna', stream: false, at: 'vouchers' },
  { name: 'paid by voucher, whole, memory storage', model: 'openai/gpt-6-luna', stream: false, at: 'memory vouchers' },
  { name: 'paid by API key, whole, SQLite', model: 'openai/gpt-6-luna', stream: false, at: 'keys' },
  { name: 'paid by one API key, whole, SQLite', model: 'openai/gpt-6-luna', stream: false, at: 'one key' },
  { name: 'paid by API key, whole, memory storage', model: 'openai/gpt-6-luna', stream: false, at: 'memory keys' },
] as const
/** In microseconds of CPU, at most. */
const GOALS: Readonly<Record<string, number>> = {
  'paid chat, whole, SQLite': 350,
  'paid by voucher, whole, SQLite': 400,
  'paid by API key, whole, SQLite': 250,
}
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

/** Signs the payment of the buyer with this number for an offer. */
type Sign = (offer: Offer, buyer: number) => Promise<object>
type Money = {
  readonly chain: Chain
  readonly sign: Sign
  /** API keys that pay in place of signed payments, each of them with a deposit. */
  readonly keys?: readonly string[]
}

/** Money of a chain in memory, of which many wallets have plenty. Processes of one ledger name theirs differently. */
export function cash(owner = ''): Money {
  const chain = memoryChain()
  const walletOf = (buyer: number) => chain.wallet(owner + buyerName(buyer))
  for (let index = 0; index < BUYERS; index++) chain.fund(walletOf(index), BALANCE)
  return { chain, sign: async (offer, buyer) => chain.sign(offer, { from: walletOf(buyer), now: Date.now() }) }
}

/** The charge of a call is known beforehand, because the vendor always says the same. */
export function vouchers(storage: Storage): Money {
  const buyers = Array.from({ length: BUYERS }, (_, index) => ({ ...voucherBuyer(buyerName(index)), charged: 0n }))
  return {
    chain: voucherChain(storage),
    async sign(offer, number) {
      const buyer = buyers[number % BUYERS] as (typeof buyers)[number]
      const base = buyer.charged
      buyer.charged += CHARGE
      return await buyer.sign(offer, base)
    },
  }
}

/** So many keys, each with a channel of its own. */
async function apiKeys(storage: Storage, count: number): Promise<Money> {
  const chain = voucherChain(storage, [], undefined, undefined, FREE, true)
  const now = Date.now()
  const [terms] = chain.terms(now)
  if (!terms || !chain.apiKeys) throw new Error('it sells nothing to keys')
  const offer = offerOf(terms, { amount: usdc(0n), maxTimeoutSeconds: 600 })
  const keys: string[] = []
  for (let index = 0; index < count; index++) {
    const seed = new Uint8Array(32).fill(index + 1)
    const deposited = await chain.apiKeys.deposit(await keyBuyer(seed, offer).deposit(BALANCE), {
      now,
      signal: AbortSignal.timeout(60_000),
    })
    if (deposited.kind !== 'deposited') throw new Error(JSON.stringify(deposited))
    keys.push(keyText(seed, 'test'))
  }
  return { chain, keys, sign: () => Promise.reject(new Error('keys sign nothing')) }
}

export function started(storage: Storage, { chain, sign, keys }: Money = cash()) {
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
  return { sign, keys, fetch: (request: Request) => elysia.fetch(request) }
}
export type Started = ReturnType<typeof started>

export async function prepared({ sign, keys, fetch }: Started, { model, stream }: Pick<Case, 'model' | 'stream'>) {
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
  return async (): Promise<Request> => {
    if (keys) return request({ authorization: `Bearer ${keys[buyer++ % keys.length]}` })
    if (!challenge) return request()
    const payment = await sign(challenge.accepts[0], buyer++)
    return request({ 'payment-signature': btoa(JSON.stringify({ ...payment, resource: challenge.resource })) })
  }
}

/** The requests are signed before the time is taken. */
export async function round({ fetch }: Started, next: () => Promise<Request>, count: number): Promise<Round> {
  const requests: Request[] = []
  for (let made = 0; made < count; made++) requests.push(await next())
  // Each lane has buyers of its own, whose vouchers follow one another.
  const lane = async (_: unknown, first: number) => {
    for (let at = first; at < count; at += IN_FLIGHT) {
      const response = await fetch(requests[at] as Request)
      const text = await response.text()
      if (response.status !== 200) throw new Error(`${response.status}: ${text.slice(0, 400)}`)
    }
  }
  Bun.gc(true)
  const cpu = process.cpuUsage()
  const startedAt = performance.now()
  await Promise.all(Array.from({ length: IN_FLIGHT }).map(lane))
  const seconds = (performance.now() - startedAt) / 1_000
  const { user, system } = process.cpuUsage(cpu)
  return { cpuMicros: (user + system) / count, rate: count / seconds }
}

export async function inProcess(ms: number, only = '', isOver = (): boolean => false): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'farebox-bench-'))
  const storages = { sqlite: sqliteStorage(join(dir, 'farebox.db')), memory: memoryStorage() }
  await warmTokenizer()
  const gateways = {
    sqlite: started(storages.sqlite),
    memory: started(storages.memory),
    vouchers: started(storages.sqlite, vouchers(storages.sqlite)),
    'memory vouchers': started(storages.memory, vouchers(storages.memory)),
    keys: started(storages.sqlite, await apiKeys(storages.sqlite, BUYERS)),
    'one key': started(storages.sqlite, await apiKeys(storages.sqlite, 1)),
    'memory keys': started(storages.memory, await apiKeys(storages.memory, BUYERS)),
  }
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
  for (let n = 0; n < ROUNDS && !(n > 0 && isOver()); n++)
    for (const each of field) each.rounds.push(await round(each.gateway, each.next, each.count))
  console.log(
    `\nin process, without HTTP, ${IN_FLIGHT} in flight, ${field[0]?.rounds.length} rounds taking turns; medians`,
  )
  const free = median(field[0]?.rounds.map(({ rate }) => rate) ?? [])
  table(
    ['', 'CPU us each', 'least', 'per second', 'of free'],
    field.map(({ name, rounds }) => {
      const cpu = rounds.map(({ cpuMicros }) => cpuMicros)
      const rate = median(rounds.map((each) => each.rate))
      return [name, fixed(median(cpu), 0), fixed(Math.min(...cpu), 0), fixed(rate, 0), fixed(rate / free, 2)]
    }),
  )
  for (const { name, rounds } of field) {
    const most = GOALS[name]
    if (most === undefined) continue
    const cpu = rounds.map(({ cpuMicros }) => cpuMicros)
    const spread = `${fixed(Math.min(...cpu), 0)} to ${fixed(Math.max(...cpu), 0)}`
    verdict(median(cpu) <= most, `${fixed(median(cpu), 0)} (${spread}) us of CPU, ${name}; goal: at most ${most}`)
  }
  await storages.sqlite.close()
  rmSync(dir, { recursive: true })
}

if (import.meta.main) {
  await inProcess(Number(process.argv[2] ?? 500), process.argv[3])
  process.exit(0)
}
