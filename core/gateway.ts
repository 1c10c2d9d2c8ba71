/** One gateway: the menu over one set of ports, as a function from Request to Reply. The whole of Farebox, for those who embed it. */
import { fail, overdue, type Patience, patience as usual, reconcile } from './calls.ts'
import { type Catalog, catalog as contractCatalog } from './catalog/mod.ts'
import * as documents from './discovery.ts'
import type { Endpoint, Free, Reply } from './endpoint.ts'
import { endpoints as everything } from './endpoints/mod.ts'
import { Fault, plain } from './faults.ts'
import { flow, type House } from './flow.ts'
import { LOST } from './ledger.ts'
import { limits } from './limits.ts'
import { menu } from './menu.ts'
import { dollars, roundUp } from './money.ts'
import type { Call, Ports } from './ports.ts'
import { newId } from './tickets.ts'
import { paymentHeader, type Visit } from './visit.ts'

/** What differs from one gateway to the next. Only `ports` must be given. */
export type Setup = {
  readonly ports: Ports
  /** Name in the ledger; `default` unless told. */
  readonly name?: string
  /** What replies call the network, for example `base`. */
  readonly label?: string
  readonly version?: string
  readonly catalog?: Catalog
  readonly endpoints?: readonly Endpoint[]
  readonly patience?: Partial<Patience>
  /** Names this process in its calls; random unless told. Must differ between two processes that share a storage. */
  readonly owner?: string
  /** Replaces every inline window, in milliseconds; 0 makes every call a job. */
  readonly inlineMs?: number
  /** Largest request body and mirrored media, in bytes: 1 MiB and 64 MiB. */
  readonly maxBody?: number
  readonly maxMedia?: number
  /** Largest request body that brings files, in bytes: 32 MiB. Eight times as much may be in flight. */
  readonly maxUpload?: number
  /** Serves `/v1/*` like `/api/v1/*` (ruling 10). */
  readonly bareV1?: boolean
}

export type Caller = {
  /** Address for rate windows. */
  readonly ip: string
  /** Public origin, where it is another one than the request's own. */
  readonly origin?: string
  /** The request's URL, where it has been parsed already. */
  readonly url?: URL
  /** Aborts when the caller has gone; the request's own signal unless told. */
  readonly gone?: AbortSignal
}

export type Gateway = {
  readonly name: string
  readonly endpoints: readonly Endpoint[]
  /** Answers a request. Never rejects. */
  handle(request: Request, caller: Caller): Promise<Reply>
  /** The same as a web-standard Response. */
  fetch(request: Request, caller?: Partial<Caller>): Promise<Response>
  /** Says that this process is alive: its unfinished calls are safe for another work lease. */
  renew(): Promise<void>
  /** Fails what dead processes lost, and finds out about money in doubt. Both are to be called every few seconds. */
  tend(): Promise<void>
  /** Fails every unfinished call of any other owner: for one who knows that no other process is alive. */
  takeOver(): Promise<number>
}

export function gateway(setup: Setup): Gateway {
  const { ports, name = 'default', label = name, version = '0.0.0', bareV1 = false } = setup
  const { storage, chain, clock, log } = ports
  const catalog = setup.catalog ?? contractCatalog()
  const list = menu(setup.endpoints ?? everything)
  const patience: Patience = { ...usual, ...setup.patience }
  const owner = setup.owner ?? newId(ports.random)
  const house: House = {
    name,
    label,
    ports,
    catalog,
    paid: list.paid,
    patience,
    owner,
    maxBody: setup.maxBody ?? 1 << 20,
    maxUpload: setup.maxUpload ?? 32 << 20,
    maxMedia: setup.maxMedia ?? 64 << 20,
    unreadableCap: roundUp(dollars('5')),
    ...(setup.inlineMs !== undefined && { inlineMs: setup.inlineMs }),
  }
  const { sell, discover, poll } = flow(house)
  const windows = limits(storage)
  const facts = {
    name,
    label,
    version,
    startedAt: clock.now(),
    isReady: () => chain.terms(clock.now()).length > 0,
    openapi: (origin: string) => JSON.stringify(documents.openapi(list.endpoints, origin, described())),
    wellKnown: (origin: string) => JSON.stringify(documents.wellKnown(list.endpoints, origin, described())),
  }
  const described = () => ({ label, version, terms: chain.terms(clock.now()), offering: { catalog, vendors: ports.vendors } })
  const freeContext = { catalog, objects: ports.objects, vendors: ports.vendors, clock, gateway: facts }

  async function handle(request: Request, caller: Caller): Promise<Reply> {
    try {
      const reply = await route(request, caller)
      return request.method === 'HEAD' ? await withoutBody(reply) : reply
    } catch (error) {
      if (error instanceof Fault) return plain(error)
      log.alert('a request failed for a reason that nobody foresaw', { method: request.method, error: (error as Error).stack })
      return plain(new Fault('INTERNAL', { details: 'Something went wrong here. Send the same request again: an authorization is charged at most once.' }))
    }
  }

  async function route(request: Request, caller: Caller): Promise<Reply> {
    const url = caller.url ?? new URL(request.url)
    const path = bareV1 && url.pathname.startsWith('/v1/') ? `/api${url.pathname}` : url.pathname
    const visit = visitOf(request, url, caller)
    const match = list.match(request.method, path)
    if (match.kind === 'discover') return discover(match.endpoint, visit)
    if (match.kind === 'options') return { status: 204, headers: { allow: match.allow }, body: null }
    if (match.kind === 'wrong_method') throw wrongMethod(request.method, path, match.allow)
    if (match.kind === 'unknown') throw unknownPath(path, match.nearby)
    const { endpoint, params } = match
    if (endpoint.kind === 'paid') return await sell(endpoint, visit)
    if (endpoint.kind === 'poll') return await poll(endpoint, visit, params.id ?? '')
    await permit(endpoint, caller.ip)
    const header = (name: string) => request.headers.get(name)
    return await endpoint.answer({ params, query: url.searchParams, origin: visit.origin, header }, freeContext)
  }

  async function permit({ name, limit }: Free, ip: string): Promise<void> {
    if (!limit) return
    const now = clock.now()
    const { granted, resetAt } = await windows.take(name, ip, limit, now)
    if (granted) return
    const headers = { 'retry-after': String(Math.max(1, Math.ceil((resetAt - now) / 1000))), 'x-ratelimit-reset': String(resetAt) }
    const message = `At most ${limit.requests} requests in ${limit.windowMs / 60_000} minutes; the next is answered after ${new Date(resetAt).toISOString()}.`
    throw new Fault('TOO_MANY_REQUESTS', { message, headers })
  }

  const keepUntil = (call: Call): number => clock.now() + (list.paid.get(call.endpoint)?.keep.settledMs ?? 0)

  const renew = (): Promise<void> => storage.renew(owner, clock.now() + patience.workLeaseMs)

  async function tend(): Promise<void> {
    const now = clock.now()
    for (const call of await storage.lostCalls(now, 100)) await fail(storage, call, overdue(call, now, patience) ?? LOST, now)
    const money = { storage, chain, clock, log, patience }
    const doubtful = (await storage.unsettled(now, 100)).filter((call) => call.gateway === name)
    await Promise.all(doubtful.map((call) => reconcile(money, call, keepUntil(call))))
  }

  async function takeOver(): Promise<number> {
    const lost = (await storage.lostCalls(Number.MAX_SAFE_INTEGER, 100_000)).filter((call) => call.owner !== owner)
    for (const call of lost) await fail(storage, call, LOST, clock.now())
    return lost.length
  }

  async function fetch(request: Request, caller: Partial<Caller> = {}): Promise<Response> {
    const { status, headers, body } = await handle(request, { ip: '', ...caller })
    return new Response(body as BodyInit | null, { status, headers })
  }

  return { name, endpoints: list.endpoints, handle, fetch, renew, tend, takeOver }
}

/** A request's signal costs more than all else of a quote, so it is asked for only where there is a payment. */
function visitOf(request: Request, url: URL, { origin = url.origin, gone }: Caller): Visit {
  const isPaying = paymentHeader(request) !== null
  return { request, origin, path: url.pathname, gone: gone ?? (isPaying ? request.signal : NEVER) }
}

const NEVER = new AbortController().signal

function wrongMethod(method: string, path: string, allow: string): Fault {
  return new Fault('METHOD_NOT_ALLOWED', { message: `${method} is not served at ${path}; allowed: ${allow}.`, headers: { allow } })
}

/** Names routes that the caller may have meant (ruling 10). */
function unknownPath(path: string, nearby: readonly string[]): Fault {
  const meant = path.startsWith('/v1/') ? `The API is served under /api/v1: try /api${path}.` : 'There is nothing at this path.'
  return new Fault('NOT_FOUND', { message: meant, fields: { nearby } })
}

async function withoutBody(reply: Reply): Promise<Reply> {
  if (reply.body instanceof ReadableStream) await reply.body.cancel()
  return { ...reply, body: null }
}
