/**
 * What outlives a run, and gateways of the real core, built for each run, whose ports ask the world of the run that is
 * on.
 */
import { drainMicrotasks } from 'bun:jsc'
import { peek } from 'bun'
import { memoryChain } from '../../adapters/chains/memory.ts'
import { memoryStorage } from '../../adapters/storage/memory.ts'
import { chunk, DONE, streamAnswer, usageChunk, wholeAnswer } from '../../adapters/providers/scripted/chat.ts'
import type { Reply } from '../../core/http/reply.ts'
import { calls } from '../../core/products/site/call_poll.ts'
import { chat } from '../../core/products/chat/completions.ts'
import { images } from '../../core/products/images/generations.ts'
import {
  type Gateway,
  gateway,
  type Offer,
  type Timeouts,
  timeouts,
  type ChatVendor,
  type Payment,
  type Ports,
  type Storage,
} from '../../core/mod.ts'
import type { Chain } from '../../core/ports/mod.ts'
import { pollKey } from '../../core/call/poll_urls.ts'
import type { LawName } from './ledger.ts'
import type { Product } from './products.ts'
import { ownerOf, type Process, START, type World } from './world.ts'

/**
 * What the buyers of the model buy; a gateway is used for many runs, so it may sell nothing for which it remembers
 * anything.
 */
const ENDPOINTS = [...images, ...calls]
/** Chat remembers deadlines, so that its gateways are made anew for each run. */
const ALL_ENDPOINTS = [...ENDPOINTS, ...chat]

/** Signs poll URLs; in a database the key would be one more write that is asked for in every run. */
const POLL_SECRET = '5e'.repeat(32)
/** Where a buyer polls, as a reply would tell. */
export const pollUrl = (id: string, path: string = POSTED): string =>
  `${path}/${id}?key=${pollKey(Buffer.from(POLL_SECRET, 'hex'), id)}`

export const POSTED = '/api/v1/images/generations'
const COMPLETIONS = '/api/v1/chat/completions'

/**
 * A rule of the house, switched off by what stands behind a port, never inside core; or, with only a name, the house as
 * it is built.
 */
export type Rule = {
  readonly name: string
  readonly storage?: () => Storage
  readonly chain?: (chain: Chain, facts: ChainFacts) => Chain
  readonly timeouts?: Partial<Timeouts>
  /**
   * Pauses, a storage that goes away, clocks that differ and a node that refuses, with chat and streams among what is
   * sold.
   */
  readonly isHarsh?: boolean
  /** The gateway never hears that a caller has gone. */
  readonly isDeaf?: boolean
  /** The laws that are judged; all of them unless told. */
  readonly breaks?: readonly LawName[]
}

export type ChainFacts = { isCancelled(payment: Payment): boolean; readonly payTo: string }

export const AS_BUILT: Rule = { name: 'as built' }
export const IN_BAD_WEATHER: Rule = { name: 'as built, in bad weather', isHarsh: true }

export type Setup = {
  readonly rule: Rule
  /** One for each process that a run may start. */
  gateways: readonly Gateway[]
  /** Gateways that remember nothing of the runs before. */
  refresh(): void
  readonly products: readonly Product[]
  readonly timeouts: Timeouts
  world: World | undefined
}

const MAX_PROCESSES = 6
const PIXEL = 'data:image/png;base64,iVBORw0KGgo='
const NEVER = new AbortController().signal

export function setup(rule: Rule): Setup {
  const made: Setup = {
    rule,
    gateways: [],
    products: [],
    refresh: () => {},
    timeouts: { ...timeouts, ...rule.timeouts },
    world: undefined,
  }
  const world = (): World => {
    if (!made.world) throw new Error('there is no world')
    return made.world
  }
  made.world = beforeAnyRun()
  const open = (index: number) =>
    gateway({
      ports: portsOf(index, world),
      endpoints: rule.isHarsh ? ALL_ENDPOINTS : ENDPOINTS,
      label: 'model',
      pollKeys: [POLL_SECRET],
      workerId: ownerOf(index),
      timeouts: made.timeouts,
    })
  const all = () => Array.from({ length: MAX_PROCESSES }, (_, index) => open(index))
  const picture = (model: string) => ({ path: POSTED, body: JSON.stringify({ model, prompt: 'a red fox' }) })
  const answer = (stream: boolean) => ({
    path: COMPLETIONS,
    body: JSON.stringify({
      model: 'vendor-h/chat-4',
      messages: [{ role: 'user', content: 'Why?' }],
      max_tokens: MAX_TOKENS,
      stream,
    }),
  })
  const pictures = [
    productOf('fast', picture('vendor-a/image-1'), open(0)),
    productOf('slow', picture('vendor-e/image-pro'), open(0)),
  ]
  const products = rule.isHarsh
    ? [...pictures, productOf('talk', answer(false), open(0)), productOf('stream', answer(true), open(0))]
    : pictures
  Object.assign(made, { gateways: all(), products, refresh: () => void (made.gateways = all()) })
  made.world = undefined
  return made
}

/** As much of a world as a quote needs. */
function beforeAnyRun(): World {
  const processes = Array.from({ length: MAX_PROCESSES }, () => ({ skewMs: 0 }) as Process)
  const ask = <T>(_process: Process, { run }: { readonly run: () => Promise<T> }): Promise<T> => run()
  const wait = () => new Promise<void>(() => {})
  return { now: START, cash: memoryChain(), storage: memoryStorage(), processes, ask, wait } as unknown as World
}

/** A tenth of so many tokens is quoted: 0.0087 USDC. */
const MAX_TOKENS = 64_000

/** The offer is read off a real 402. */
function productOf(name: Product['name'], { path, body }: Pick<Product, 'path' | 'body'>, gateway: Gateway): Product {
  const pending = gateway.handle(requestOf('POST', path, { body }), { ip: '', gone: NEVER })
  drainMicrotasks()
  const reply = peek(pending) as Reply
  const { accepts } = JSON.parse(String(reply.body)) as { accepts: [Offer] }
  return { name, path, body, offer: accepts[0] }
}

/** As much of a Request as core reads; a real one brings streams, and streams bring the event loop. */
export function requestOf(method: string, path: string, { body, header }: { body?: string; header?: string }): Request {
  const headers = new Map<string, string>()
  if (header !== undefined) headers.set('payment-signature', header)
  if (body !== undefined) headers.set('content-type', 'application/json').set('content-length', String(body.length))
  const read = { get: (name: string) => headers.get(name) ?? null, has: (name: string) => headers.has(name) }
  return {
    method,
    url: `http://model.test${path}`,
    headers: read,
    body: body === undefined ? null : {},
    text: async () => body ?? '',
  } as unknown as Request
}

/**
 * Everything that a process asks goes through the world, which decides when it is done and when it is answered; the
 * books are kept on the way.
 */
function portsOf(index: number, world: () => World): Ports {
  const process = (): Process => {
    const found = world().processes[index]
    if (!found) throw new Error(`process ${index} does not run`)
    return found
  }
  const store = <T>(label: string, run: (storage: Storage, world: World) => Promise<T>): Promise<T> => {
    const here = world()
    return here.ask(process(), { label, isStorage: true, run: () => run(here.storage, here) })
  }
  const node = <T>(label: string, payment: Payment, run: (chain: Chain) => Promise<T>): Promise<T> => {
    const here = world()
    return here.ask(process(), {
      label: `${label} ${here.signedIn(payment).name}`,
      isStorage: false,
      run: () => run(here.chain),
    })
  }

  const storage: Storage = {
    recordPaid: (...args) => store('recordPaid', (inner) => inner.recordPaid(...args)),
    openCall: (call, authorization, at) =>
      store('openCall', async (inner, { ledgerRows }) =>
        ledgerRows.opened(await inner.openCall(call, authorization, at), authorization, at),
      ),
    getCall: (id) => store('getCall', (inner) => inner.getCall(id)),
    callOf: (key, now) => store('callOf', (inner) => inner.callOf(key, now)),
    moveCall: (id, from, patch) =>
      store(`moveCall ${patch.workStatus ?? ''}`, (inner) => inner.moveCall(id, from, patch)),
    renew: (workerId, ids, until) => store('renew', (inner) => inner.renew(workerId, ids, until)),
    lostCalls: (now, limit) => store('lostCalls', (inner) => inner.lostCalls(now, limit)),
    unfinishedCalls: (workerId, at) => store('unfinishedCalls', (inner) => inner.unfinishedCalls(workerId, at)),
    claimSettlement(id, offered, at) {
      const { ledgerRows, active } = world()
      ledgerRows.claiming(active, id)
      return store('claimSettlement', async (inner) =>
        ledgerRows.claimed(await inner.claimSettlement(id, offered, at), { id, offered, at }),
      )
    },
    finishSettlement: (id, token, outcome, at) =>
      store(`finishSettlement ${outcome.kind}`, async (inner, { ledgerRows }) =>
        ledgerRows.finished(await inner.finishSettlement(id, token, outcome, at), id, outcome),
      ),
    unsettled: (...args) => store('unsettled', (inner) => inner.unsettled(...args)),
    spendByModel: (payer, since) => store('spendByModel', (inner) => inner.spendByModel(payer, since)),
    listCalls: (at) => store('listCalls', (inner) => inner.listCalls(at)),
    listSettled: (at) => store('listSettled', (inner) => inner.listSettled(at)),
    findCalls: (name, limit) => store('findCalls', (inner) => inner.findCalls(name, limit)),
    listAuthorizations: (call) => store('listAuthorizations', (inner) => inner.listAuthorizations(call)),
    callTotals: (query) => store('callTotals', (inner) => inner.callTotals(query)),
    buyersByDay: (query) => store('buyersByDay', (inner) => inner.buyersByDay(query)),
    listOpen: (limit) => store('listOpen', (inner) => inner.listOpen(limit)),
    lease: (name, workerId, at) => store('lease', (inner) => inner.lease(name, workerId, at)),
    hit: (bucket, take, now) => store('hit', (inner) => inner.hit(bucket, take, now)),
    putRecord: (...args) => store('putRecord', (inner) => inner.putRecord(...args)),
    getRecord: (...args) => store('getRecord', (inner) => inner.getRecord(...args)),
    moveRecord: (...args) => store('moveRecord', (inner) => inner.moveRecord(...args)),
    listRecords: (...args) => store('listRecords', (inner) => inner.listRecords(...args)),
    prune: (now) => store('prune', (inner) => inner.prune(now)),
    ledgerRows: (...args) => store('ledgerRows', (inner) => inner.ledgerRows(...args)),
    archiveCalls: (...args) => store('archiveCalls', (inner) => inner.archiveCalls(...args)),
    pruneLedger: (...args) => store('pruneLedger', (inner) => inner.pruneLedger(...args)),
    close: async () => {},
  }

  const chain: Chain = {
    terms: (now) => world().cash.terms(now),
    identify: (payment, offer, at) => world().chain.identify(payment, offer, at),
    verify: (payment, offer, at) => node('verify', payment, (inner) => inner.verify(payment, offer, at)),
    settle(payment, offer, at) {
      const { ledgerRows, active } = world()
      const attempt = ledgerRows.settling(active, payment)
      return node('settle', payment, (inner) => inner.settle(payment, offer, at)).finally(() =>
        ledgerRows.answered(attempt),
      )
    },
    fate: (payment, offer, at) => node('fate', payment, (inner) => inner.fate(payment, offer, at)),
  }

  const generate = () => {
    const { ask, fails } = world()
    const run = async () => {
      if (fails()) throw new Error('the vendor is out of paint')
      return [{ url: PIXEL }]
    }
    return ask(process(), { label: 'vendor', isStorage: false, run })
  }

  /** Each answer has a number of its own, and comes in pieces where a stream is asked for. */
  const talker: ChatVendor = {
    format: 'chat',
    async ask({ stream }) {
      const work = world().ledgerRows.newWork()
      const failing = async () => {
        if (world().fails()) throw new Error('the model is lost for words')
      }
      await world().ask(process(), { label: 'model', isStorage: false, run: failing })
      if (!stream) return wholeAnswer({ content: `end-of-work-${work}` })
      const pieces = [
        chunk({ content: 'Well' }),
        chunk({ content: ', you see, ' }),
        chunk({ content: `end-of-work-${work}` }, { finish: 'stop' }),
        usageChunk(),
        DONE,
      ]
      const answer = streamAnswer(pieces, {
        gate: () => world().ask(process(), { label: 'piece', isStorage: false, run: async () => {} }),
      })
      return answer
    },
  }

  return {
    storage,
    chain,
    objects: { put: async () => {}, get: async () => undefined, delete: async () => {} },
    vendors: {
      images: () => ({ generate }),
      chat: () => talker,
      media: () => Promise.reject(new Error('there is no media host')),
    },
    clock: {
      now: () => world().now + (world().processes[index]?.skewMs ?? 0),
      wait: (ms, signal) => world().wait(ms, signal),
    },
    log: { info() {}, warn() {}, alert: (message, fields) => world().ledgerRows.alerted(message, fields) },
    random: (bytes) => world().ledgerRows.random(bytes),
    countTokens: async (text) => text.length,
    background(work) {
      const { ledgerRows } = world()
      work.catch((error: Error) => ledgerRows.alerted('background work failed', { error: error.message }))
    },
  }
}
