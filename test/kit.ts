/** Ports for tests: a clock that only moves when told, counted ids, a cash chain, scripted vendors. And a buyer. */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { type MemoryChain, memoryChain } from '../adapters/chains/evm/memory.ts'
import { memoryObjects } from '../adapters/objects/memory.ts'
import { memoryStorage } from '../adapters/storage/memory/mod.ts'
import { demoSearch, demoWeb } from '../server/devnet/demo/search.ts'
import { demoCharacters } from '../server/devnet/demo/videos.ts'
import { demoDefi, demoPrediction } from '../server/devnet/demo/data.ts'
import { demoMarket } from '../server/devnet/demo/market.ts'
import { scriptedSandbox } from './fakes/sandbox.ts'
import { PIXEL, type ScriptedVendor, scriptedVendor } from './fakes/images.ts'
import type { ScriptedAudio } from './fakes/audio.ts'
import { type ScriptedVideo, scriptedVideo } from './fakes/videos.ts'
import { pollUrls } from '../core/identity/poll_urls.ts'
import { actors } from './actors.ts'
import {
  type ChatVendor,
  type Clock,
  type Gateway,
  gateway,
  type Offer,
  type Payment,
  type Ports,
  type RpcCall,
  type RpcVendor,
  type Setup,
  type Vendors,
} from '../core/mod.ts'

/** 2026-11-20T00:00:00Z. */
export const START = Date.UTC(2026, 10, 20)

export type TestClock = Clock & {
  /** Moves time and lets everything run that was waiting for it. */
  advance(ms: number): Promise<void>
  /** Lets everything run that waits for nothing but promises. */
  settle(): Promise<void>
  /** How many are waiting. */
  readonly waiting: number
}

type Waiter = { readonly at: number; readonly resolve: () => void }

export function testClock(start = START): TestClock {
  let now = start
  const waiters = new Set<Waiter>()

  /** Macrotasks, not time: each lets all pending promise reactions and I/O callbacks run. */
  async function settle(): Promise<void> {
    for (let turn = 0; turn < 12; turn++) await new Promise((resolve) => setImmediate(resolve))
  }

  return {
    settle,
    now: () => now,
    get waiting() {
      return waiters.size
    },
    wait(ms, signal) {
      return new Promise((resolve) => {
        if (signal?.aborted) return resolve()
        if (ms === 0) return setImmediate(resolve)
        const waiter = { at: now + ms, resolve: end }
        waiters.add(waiter)
        signal?.addEventListener('abort', end, { once: true })
        function end(): void {
          waiters.delete(waiter)
          signal?.removeEventListener('abort', end)
          resolve()
        }
      })
    },
    async advance(ms) {
      await settle()
      now += ms
      for (const waiter of [...waiters].sort((a, b) => a.at - b.at)) if (waiter.at <= now) waiter.resolve()
      await settle()
    },
  }
}

type LogLine = {
  readonly level: 'info' | 'warn' | 'alert'
  readonly message: string
  readonly fields: Record<string, unknown>
}

export function testLog() {
  const lines: LogLine[] = []
  const at =
    (level: LogLine['level']) =>
    (message: string, fields: Record<string, unknown> = {}) =>
      void lines.push({ level, message, fields })
  return { lines, info: at('info'), warn: at('warn'), alert: at('alert') }
}

/** Bytes that count: every id is another one, and the same in every run. */
export function countingRandom(): (bytes: number) => Uint8Array {
  const counts = new Map<number, number>()
  return (bytes) => {
    const count = (counts.get(bytes) ?? 0) + 1
    counts.set(bytes, count)
    const made = new Uint8Array(bytes)
    new DataView(made.buffer).setUint32(bytes - 4, count)
    return made
  }
}

/** Something that waits until a test lets it go on. */
export function door() {
  let open = () => {}
  const passed = new Promise<void>((resolve) => {
    open = resolve
  })
  return { passed, open: () => open() }
}

/** A vendor whose images are ready when the test opens the door. */
export function slowVendor() {
  const ready = door()
  const vendor = scriptedVendor(async ({ n }) => {
    await ready.passed
    return Array.from({ length: n }, () => ({ url: PIXEL }))
  })
  return { vendor, ready: ready.open }
}

/** A node of two chains that answers every call with its own method. */
export const oneNode: RpcVendor = {
  networks: ['base-mainnet', 'solana-mainnet'],
  ask: async (_network, calls) => ({
    text: JSON.stringify('method' in calls ? heard(calls) : calls.map(heard)),
    isCached: false,
  }),
}
const heard = ({ id, method }: RpcCall) => ({ jsonrpc: '2.0', id, result: method })

/** Stands for a machine that somebody has rented already. */
export const LEASED = 'rented'

function leased() {
  const sandbox = scriptedSandbox()
  sandbox.add(LEASED)
  return sandbox
}

/** Vendors of products that bring their own: `vendors` of test/core/products/<product>/stand_in.ts. */
const PRODUCTS = join(import.meta.dirname, 'core/products')
const standIns: Partial<Vendors> = Object.assign(
  {},
  ...(await Promise.all(
    readdirSync(PRODUCTS)
      .map((product) => join(PRODUCTS, product, 'stand_in.ts'))
      .filter((path) => existsSync(path))
      .map(async (path) => ((await import(path)) as { vendors: Partial<Vendors> }).vendors),
  )),
)

/**
 * The embedded vendors of what is sold in one shot, and stand-ins of those that nothing embedded stands in for. No kit
 * has them unless told, so that tests can be without.
 */
export function embedded(
  clock: Clock,
): Pick<
  Vendors,
  | 'rpc'
  | 'search'
  | 'websearch'
  | 'prediction'
  | 'defi'
  | 'market'
  | 'characters'
  | 'voice'
  | 'phone'
  | 'onramp'
  | 'bridge'
  | 'sandbox'
> {
  const { voice, phone, onramp, bridge } = actors()
  return {
    ...standIns,
    rpc: oneNode,
    voice,
    phone,
    onramp,
    bridge,
    search: demoSearch(),
    websearch: demoWeb(),
    prediction: demoPrediction({ clock }),
    defi: demoDefi({ clock }),
    market: demoMarket({ clock }),
    characters: demoCharacters({ random: countingRandom() }),
    sandbox: leased(),
  }
}

export type Kit = {
  readonly clock: TestClock
  readonly chain: MemoryChain
  readonly vendor: ScriptedVendor
  readonly video: ScriptedVideo
  readonly log: ReturnType<typeof testLog>
  readonly ports: Ports
  readonly gateway: Gateway
  /** The same ports behind another process: another worker id, nothing remembered. */
  restart(setup?: Partial<Setup>): Gateway
  buyer(name?: string): Buyer
  /** Time passes for a process that is alive: it renews its promise, as the server's sweep does. */
  streamed(ms: number): Promise<void>
  /** All work that no request waits for has ended. */
  idle(): Promise<void>
  /** Where the buyer of a call polls it, as a reply would tell. */
  keyed(id: string): Promise<string>
}

export type KitOptions = Partial<Omit<Setup, 'ports'>> & {
  readonly vendor?: ScriptedVendor
  readonly ports?: Partial<Omit<Ports, 'vendors'>> & { readonly vendors?: Partial<Vendors> }
  /** Serves every video row. */
  readonly video?: ScriptedVideo
  /** Serves every audio row. */
  readonly audio?: ScriptedAudio
  /** Serves every chat row. */
  readonly chatVendor?: ChatVendor
  readonly chain?: MemoryChain
  /** Comes between the gateway and its ports; the kit itself keeps the bare ones. */
  readonly wrap?: (ports: Ports) => Ports
  /** Comes between the buyers and the gateway. */
  readonly dress?: (gateway: Gateway) => Gateway
}

/** Signs the poll URLs of every kit, so that ids and media keys alone use up the counted random bytes. */
const POLL_KEY = '5e'.repeat(32)

/** The part of `WWW-Authenticate` in the scheme `X402`, beside the challenges of MPP. */
export const x402Scheme = (headers: Headers): string | undefined =>
  headers
    .get('www-authenticate')
    ?.split(', ')
    .find((part) => part.startsWith('X402 '))

export const ORIGIN = 'http://farebox.test'
export const GENERATIONS = '/api/v1/images/generations'
export const FOX = { model: 'vendor-a/image-1', prompt: 'a red fox in the snow' }

/** A gateway over memory adapters. Every part can be replaced. */
export function kit({
  vendor = scriptedVendor(),
  video: filming,
  audio,
  chatVendor,
  chain = memoryChain(),
  ports: { vendors: givenVendors, ...given } = {},
  wrap = (same) => same,
  dress = (same) => same,
  pollKeys = [POLL_KEY],
  ...setup
}: KitOptions = {}): Kit {
  const video = filming ?? scriptedVideo()
  const clock = (given.clock as TestClock | undefined) ?? testClock()
  const log = testLog()
  const pending = new Set<Promise<unknown>>()
  const ports: Ports = {
    storage: memoryStorage(),
    objects: memoryObjects(),
    chain,
    vendors: {
      images: () => vendor,
      chat: () => chatVendor,
      ...(filming && { video: () => filming }),
      ...(audio && { audio: () => audio }),
      media: () => Promise.reject(new Error('no media host in this test')),
      ...givenVendors,
    },
    countTokens: async (text) => text.split(/\s+/).filter(Boolean).length,
    clock,
    log,
    random: countingRandom(),
    background(work) {
      pending.add(work)
      work
        .catch((error: Error) => log.alert('background work failed', { error: error.stack }))
        .finally(() => pending.delete(work))
    },
    ...given,
  }
  const open = (more: Partial<Setup> = {}) =>
    dress(gateway({ ports: wrap(ports), label: 'base-sepolia', workerId: 'first', pollKeys, ...setup, ...more }))
  const farebox = open()
  return {
    clock,
    chain,
    vendor,
    video,
    log,
    ports,
    gateway: farebox,
    restart: (more) => open({ workerId: 'second', ...more }),
    buyer: (name = 'alice') => buyerOf({ name, chain, clock }, farebox),
    async streamed(ms) {
      for (let left = ms; left > 0; left -= 10_000) {
        await farebox.renew()
        await clock.advance(Math.min(left, 10_000))
      }
    },
    async idle() {
      while (pending.size > 0) await Promise.allSettled(pending)
    },
    keyed: async (id) => `/api/v1/calls/${id}?key=${await pollUrls(ports, pollKeys).keyOf(id)}`,
  }
}

export type Answer = { readonly status: number; readonly headers: Headers; readonly body: any }

export type Buyer = {
  readonly name: string
  readonly wallet: string
  balance(): bigint
  /** A request without payment: a POST of `body`, or a GET that says it in path and query. */
  ask(body?: unknown, at?: At): Promise<Answer>
  /** Reads a 402 and signs its first offer. */
  sign(challenge: Answer, how?: Partial<Parameters<MemoryChain['sign']>[1]>): Payment
  /** The same with a payment; asks and signs where none is given. */
  buy(body?: unknown, at?: At & { payment?: Payment }): Promise<Answer>
  /** A poll, paid with `payment`. */
  poll(path: string, payment?: Payment, at?: At): Promise<Answer>
}

/** `{name}` in a path is filled from the body. */
type At = {
  readonly method?: 'GET' | 'POST'
  readonly path?: string
  readonly header?: string
  readonly gateway?: Gateway
  readonly gone?: AbortSignal
}

/** A wallet with 100 USDC that speaks HTTP to a gateway. */
function buyerOf({ name, chain, clock }: { name: string; chain: MemoryChain; clock: Clock }, gateway: Gateway): Buyer {
  const wallet = chain.wallet(name)
  chain.fund(wallet, 100_000_000n)

  async function send(
    method: string,
    at: Omit<At, 'method'> & { url: string; body?: string; payment?: Payment | undefined },
  ): Promise<Answer> {
    const headers: Record<string, string> = at.body === undefined ? {} : { 'content-type': 'application/json' }
    if (at.payment) headers[at.header ?? 'payment-signature'] = encodePayment(at.payment)
    const request = new Request(`${ORIGIN}${at.url}`, {
      method,
      headers,
      ...(at.body !== undefined && { body: at.body }),
    })
    return await read(
      await (at.gateway ?? gateway).fetch(request, { ip: '192.0.2.1', ...(at.gone && { gone: at.gone }) }),
    )
  }

  function order(
    body: unknown,
    { method = 'POST', path = GENERATIONS, ...at }: At & { payment?: Payment },
  ): Promise<Answer> {
    const { url, rest } = located(path, body)
    if (method === 'POST') return send(method, { ...at, url, body: JSON.stringify(rest) })
    const query = new URLSearchParams(rest as Record<string, string>).toString()
    return send(method, { ...at, url: query === '' ? url : `${url}?${query}` })
  }

  const ask = (body: unknown = FOX, at: At = {}) => order(body, at)
  const sign: Buyer['sign'] = (challenge, how = {}) =>
    chain.sign(challenge.body.accepts[0] as Offer, { from: wallet, now: clock.now(), ...how })
  return {
    name,
    wallet,
    ask,
    sign,
    balance: () => chain.balanceOf(wallet),
    async buy(body = FOX, at = {}) {
      const payment = at.payment ?? sign(await ask(body, { ...at, gateway: at.gateway ?? gateway }))
      return await order(body, { ...at, payment })
    },
    poll: (path, payment, at = {}) => send('GET', { ...at, url: path, payment }),
  }
}

/** A path with its `{name}` segments filled in, and what of the body is left. */
export function located(path: string, body: unknown): { url: string; rest: unknown } {
  if (typeof body !== 'object' || body === null || !path.includes('{')) return { url: path, rest: body }
  const rest: Record<string, unknown> = { ...body }
  const url = path.replace(/\{(\w+)(\.{3})?\}/g, (segment, name: string, isRest: string | undefined) => {
    const value = rest[name]
    delete rest[name]
    if (typeof value !== 'string') return segment
    return isRest ? value.split('/').map(encodeURIComponent).join('/') : encodeURIComponent(value)
  })
  return { url, rest }
}

export const encodePayment = (payment: unknown): string => btoa(JSON.stringify(payment))
export const decodeHeader = (header: string | null): any => JSON.parse(atob(header ?? ''))

export async function read(response: Response): Promise<Answer> {
  const text = await response.text()
  return { status: response.status, headers: response.headers, body: text === '' ? undefined : JSON.parse(text) }
}

/** A job of alice's that is completed and unpaid, and the payment that opened it. */
export async function readyJob(subject: Kit = kit({ inlineMs: 0 })) {
  const alice = subject.buyer()
  const payment = alice.sign(await alice.ask())
  const { body } = await alice.buy(FOX, { payment })
  await subject.idle()
  return { ...subject, alice, payment, id: body.id as string, pollUrl: body.poll_url as string }
}
