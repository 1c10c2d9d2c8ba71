/** What outlives a run: gateways of the real core, built once, whose ports ask the world of the run that is on. */
import { drainMicrotasks } from 'bun:jsc'
import { peek } from 'bun'
import { cashChain } from '../../adapters/chains/cash.ts'
import type { Reply } from '../../core/endpoint.ts'
import { calls } from '../../core/endpoints/calls.ts'
import { images } from '../../core/endpoints/images.ts'
import { type Gateway, gateway, type Offer, type Patience, patience, type Payment, type Ports, type Storage } from '../../core/mod.ts'
import type { Chain } from '../../core/ports.ts'
import type { LawName } from './books.ts'
import { ownerOf, type Process, START, type World } from './world.ts'

/** What the buyers of the model buy; a gateway is used for many runs, so it may sell nothing for which it remembers anything. */
const MENU = [...images, ...calls]

export const POSTED = '/api/v1/images/generations'

/** A rule of the house, switched off by what stands behind a port, never inside core; or, with only a name, the house as it is built. */
export type Rule = {
  readonly name: string
  readonly storage?: () => Storage
  readonly chain?: (chain: Chain, facts: ChainFacts) => Chain
  readonly patience?: Partial<Patience>
  /** The gateway never hears that a caller has gone. */
  readonly isDeaf?: boolean
  /** The laws that are judged; all of them unless told. */
  readonly breaks?: readonly LawName[]
}

export type ChainFacts = { isCancelled(payment: Payment): boolean; readonly payTo: string }

export const AS_BUILT: Rule = { name: 'as built' }

/** What is sold: `fast` answers inline where it can, `slow` is always a job. */
export type Product = { readonly name: 'fast' | 'slow'; readonly body: string; readonly offer: Offer }

export type Stage = {
  readonly rule: Rule
  /** One for each process that a run may start. */
  readonly gateways: readonly Gateway[]
  readonly products: readonly Product[]
  readonly patience: Patience
  world: World | undefined
}

const MOST_PROCESSES = 6
const PIXEL = 'data:image/png;base64,iVBORw0KGgo='
const NEVER = new AbortController().signal

export function stage(rule: Rule): Stage {
  const made: Stage = { rule, gateways: [], products: [], patience: { ...patience, ...rule.patience }, world: undefined }
  const world = (): World => {
    if (!made.world) throw new Error('there is no world')
    return made.world
  }
  made.world = { now: START, cash: cashChain() } as World
  const open = (index: number) => gateway({ ports: portsOf(index, world), endpoints: MENU, label: 'model', owner: ownerOf(index), patience: made.patience })
  const gateways = Array.from({ length: MOST_PROCESSES }, (_, index) => open(index))
  const products = [productOf('fast', 'vendor-a/image-1', open(0)), productOf('slow', 'vendor-e/image-pro', open(0))]
  made.world = undefined
  return Object.assign(made, { gateways, products })
}

/** The offer is read off a real 402. */
function productOf(name: Product['name'], model: string, shop: Gateway): Product {
  const body = JSON.stringify({ model, prompt: 'a red fox' })
  const asked = shop.handle(requestOf('POST', POSTED, { body }), { ip: '', gone: NEVER })
  drainMicrotasks()
  const reply = peek(asked) as Reply
  const { accepts } = JSON.parse(String(reply.body)) as { accepts: [Offer] }
  return { name, body, offer: accepts[0] }
}

/** As much of a Request as core reads; a real one brings streams, and streams bring the event loop. */
export function requestOf(method: string, path: string, { body, header }: { body?: string; header?: string }): Request {
  const headers = new Map<string, string>()
  if (header !== undefined) headers.set('payment-signature', header)
  if (body !== undefined) headers.set('content-type', 'application/json').set('content-length', String(body.length))
  const read = { get: (name: string) => headers.get(name) ?? null }
  return { method, url: `http://model.test${path}`, headers: read, body: body === undefined ? null : {}, text: async () => body ?? '' } as unknown as Request
}

/** Everything that a process asks goes through the world, which decides when it is done and when it is answered; the books are kept on the way. */
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
    return here.ask(process(), { label: `${label} ${here.signedIn(payment).name}`, isStorage: false, run: () => run(here.chain) })
  }

  const storage: Storage = {
    openCall: (call, authorization, at) =>
      store('openCall', async (inner, { books }) => books.opened(await inner.openCall(call, authorization, at), authorization, at)),
    getCall: (id) => store('getCall', (inner) => inner.getCall(id)),
    callOf: (key, now) => store('callOf', (inner) => inner.callOf(key, now)),
    moveCall: (id, from, patch) => store(`moveCall ${patch.work ?? ''}`, (inner) => inner.moveCall(id, from, patch)),
    renew: (owner, until) => store('renew', (inner) => inner.renew(owner, until)),
    lostCalls: (now, limit) => store('lostCalls', (inner) => inner.lostCalls(now, limit)),
    unfinishedCalls: (owner, at) => store('unfinishedCalls', (inner) => inner.unfinishedCalls(owner, at)),
    claimSettlement(id, offered, at) {
      const { books, active } = world()
      books.claiming(active, id)
      return store('claimSettlement', async (inner) => books.claimed(await inner.claimSettlement(id, offered, at), { id, offered, at }))
    },
    finishSettlement: (id, token, outcome, at) =>
      store(`finishSettlement ${outcome.kind}`, async (inner, { books }) => books.finished(await inner.finishSettlement(id, token, outcome, at), id, outcome)),
    unsettled: (...asked) => store('unsettled', (inner) => inner.unsettled(...asked)),
    spendByModel: (payer, since) => store('spendByModel', (inner) => inner.spendByModel(payer, since)),
    lease: (name, owner, at) => store('lease', (inner) => inner.lease(name, owner, at)),
    hit: (bucket, take, now) => store('hit', (inner) => inner.hit(bucket, take, now)),
    putOwned: (...asked) => store('putOwned', (inner) => inner.putOwned(...asked)),
    getOwned: (...asked) => store('getOwned', (inner) => inner.getOwned(...asked)),
    moveOwned: (...asked) => store('moveOwned', (inner) => inner.moveOwned(...asked)),
    listOwned: (...asked) => store('listOwned', (inner) => inner.listOwned(...asked)),
    prune: (now) => store('prune', (inner) => inner.prune(now)),
    close: async () => {},
  }

  const chain: Chain = {
    terms: (now) => world().cash.terms(now),
    identify: (payment, offer, at) => world().chain.identify(payment, offer, at),
    verify: (payment, offer, at) => node('verify', payment, (inner) => inner.verify(payment, offer, at)),
    settle(payment, offer, at) {
      const { books, active } = world()
      const attempt = books.settling(active, payment)
      return node('settle', payment, (inner) => inner.settle(payment, offer, at)).finally(() => books.answered(attempt))
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

  return {
    storage,
    chain,
    objects: { put: async () => {}, get: async () => undefined },
    vendors: { images: () => ({ generate }), chat: () => undefined, media: () => Promise.reject(new Error('there is no media host')) },
    clock: { now: () => world().now, wait: (ms, signal) => world().wait(ms, signal) },
    log: { info() {}, warn() {}, alert: (message, fields) => world().books.alerted(message, fields) },
    random: (bytes) => world().books.random(bytes),
    countTokens: async (text) => text.length,
    background(work) {
      const { books } = world()
      work.catch((error: Error) => books.alerted('background work failed', { error: error.message }))
    },
  }
}
