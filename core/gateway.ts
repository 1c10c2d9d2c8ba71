/**
 * One gateway: the menu over one set of ports, as a function from Request to Reply. The whole of Farebox, for those who
 * embed it.
 */
import { addressKey } from './http/caller_address.ts'
import { fail, overdue, reconcile, STALLED } from './payment/settle.ts'
import { isForgotten } from './endpoint/records.ts'
import { type Timeouts, timeouts as usual } from './payment/timeouts.ts'
import type { Catalog } from './endpoint/offering.ts'
import { catalog as contractCatalog } from './products/catalog.ts'
import { recordIfRefused } from './payment/unpaid_calls.ts'
import { within } from './lib/timers.ts'
import { documentsOf } from './discovery/mod.ts'
import {
  type Context,
  type Endpoint,
  type Free,
  type FreeCalls,
  isSold,
  servesBeforeSettlement,
} from './endpoint/mod.ts'
import type { Reply } from './http/reply.ts'
import type { GatewayFacts } from './endpoint/gateway_info.ts'
import { endpoints as everything } from './products/mod.ts'
import { changelog } from './products/site/changelog_data.ts'
import { errorReply, type ErrorFormat } from './http/error_formats.ts'
import { ApiError, withRetryAfter } from './http/errors.ts'
import { callHandlers } from './call/paid_call.ts'
import type { GatewayContext } from './call/gateway_context.ts'
import { UPSTREAM_JOB, LOST } from './payment/ledger.ts'
import { budget, holdOn, parseJson, readBody, readRaw, UNCOUNTED } from './http/request_body.ts'
import { withDeclaredRecords } from './endpoint/record_kind.ts'
import { type RequestUrl, requestUrl } from './http/request_url.ts'
import { limits, type Permit, type Window, windowSpent } from './http/rate_limit.ts'
import { pollUrls } from './call/poll_urls.ts'
import {
  noteStoredMedia,
  type Retention,
  retention as usualRetention,
  retentionOf,
  settledMsOf,
} from './payment/retention.ts'
import { SECONDARY_RETENTION_MS } from './payment/secondary_payment.ts'
import { sharedBy } from './lib/per_process.ts'
import { activeCalls } from './payment/active_calls.ts'
import { router } from './router.ts'
import { withoutHints } from './x402/offer.ts'
import { metered, NO_ENDPOINT, silent } from './ports/meter.ts'
import { mirrors } from './call/media_mirror.ts'
import { dollars, roundUp } from './x402/money.ts'
import type { Call, NewWalletLimit, Ports } from './ports/mod.ts'
import { withHealthStatus } from './endpoint/health_status.ts'
import { isSameSecret, newId } from './lib/ids.ts'
import { unpaidWork } from './http/unpaid_work.ts'
import { paymentHeader, type RequestContext } from './call/request_context.ts'
import { trialOf } from './endpoint/samples.ts'
import type { Caller, Gateway } from './endpoint/gateway.ts'

/** What differs from one gateway to the next. Only `ports` must be given. */
export type Setup = {
  readonly ports: Ports
  /** Name in the ledger; `default` unless told. */
  readonly name?: string
  /** What replies call the network, for example `base`. */
  readonly label?: string
  readonly version?: string
  /** Where to reach the operator, for its documents: an http(s) URL or an e-mail address. Its docs page unless told. */
  readonly contact?: string
  readonly catalog?: Catalog
  readonly endpoints?: readonly Endpoint[]
  readonly timeouts?: Partial<Timeouts>
  /** How long results, ledger rows and media are kept. Give `pruneExpired` the same. */
  readonly retention?: Partial<Retention>
  /** Names this process in its calls; random unless told. Must differ between two processes that share a storage. */
  readonly workerId?: string
  /** Replaces every inline window, in milliseconds; 0 makes every call a job. */
  readonly inlineMs?: number
  /** Largest request body and mirrored media, in bytes: 1 MiB and 64 MiB. */
  readonly maxBody?: number
  readonly maxMedia?: number
  /** Largest request body that brings files, in bytes: 32 MiB. */
  readonly maxUpload?: number
  /**
   * Memory for request bodies of more than 64 KiB until they are answered, in bytes, each counted three times: 8 times
   * `maxUpload`. Over it 503.
   */
  readonly maxBodies?: number
  /**
   * Called when 32 MiB of that memory have been given back: the place to collect garbage, which a runtime may put off
   * until there is twice as much.
   */
  readonly onBodiesFreed?: () => void
  /** CAIP-2 networks that it is paid on, for what is sold differently there. */
  readonly networks?: readonly string[]
  /** Endpoints that it does not have, by name; `voice` hides every endpoint whose name begins with `voice.`. */
  readonly hidden?: readonly string[]
  /** Status of the answer while its chain cannot be asked: 503, or 402 with a code (contract 1.27). */
  readonly unverifiable?: 402 | 503
  /** What an address may ask of free models; 30 a minute and 300 an hour (contract 20.2). */
  readonly freeTier?: readonly Window[]
  /**
   * Characters of unpaid requests that are counted for one address in a minute: 10,000,000. One beyond ASCII counts as
   * its bytes in UTF-8.
   */
  readonly unpaidCharacters?: number
  /** Whether a web page of this `Origin` may use what is free; every page may unless told. */
  readonly freeToOrigin?: (origin: string) => boolean
  /**
   * What a wallet that has never paid may have open of what is served before it is paid for, such as chat: 2 calls,
   * worth 0.05 USDC together. The first is let through whatever it costs.
   */
  readonly newWallet?: Partial<Omit<NewWalletLimit, 'endpoints'>>
  /** Wallets that may buy what is not for everybody: `generate_content`, `background`. */
  readonly allowlists?: Readonly<Record<string, readonly string[]>>
  /** What the operator has switched off for a while. */
  readonly featureFlags?: Context['featureFlags']
  /** Keys that sign poll URLs, in hex, newest first; absent, storage keeps one that all replicas share. */
  readonly pollKeys?: readonly string[]
  /** Opens the operator's routes to `Authorization: Bearer`; absent, nobody is the operator. */
  readonly operatorToken?: string
  /** Serves `/v1/*` like `/api/v1/*` (contract 3.8). */
  readonly bareV1?: boolean
}

const MINUTE_MS = 60_000
const UPLOADS_AT_ONCE = 8
const UNPAID_CHARACTERS = 10_000_000
const FREE_TIER: readonly Window[] = [
  { requests: 30, windowMs: MINUTE_MS },
  { requests: 300, windowMs: 60 * MINUTE_MS },
]

const NEW_WALLET = { calls: 2, worth: roundUp(dollars('0.05')) }

/** How often jobs at their vendors' place are seen to, and how many at a time. */
const POLL_EVERY_MS = 15_000
const MAX_POLLS = 50

export function gateway(setup: Setup): Gateway {
  const { name = 'default', label = name, version = '0.0.0', bareV1 = false } = setup
  const { ports: bare, healthStatus } = withHealthStatus(metered(setup.ports), name)
  const { chain, clock, log, meter = silent } = bare
  const catalog = setup.catalog ?? contractCatalog()
  const visible = visibleEndpoints(setup.endpoints ?? everything, setup.hidden ?? [])
  const retention: Retention = { ...usualRetention, ...setup.retention }
  const list = router(setup.retention ? visible.map((endpoint) => withRetention(endpoint, retention)) : visible)
  const timeouts: Timeouts = { ...usual, ...setup.timeouts }
  const workerId = setup.workerId ?? newId(bare.random)
  const active = activeCalls({
    storage: bare.storage,
    workerId,
    clock,
    log,
    leaseMs: timeouts.workLeaseMs,
    lastAlert: sharedBy(setup.ports.storage, 'storage outage', () => ({ at: Number.NEGATIVE_INFINITY })),
  })
  const storage = withDeclaredRecords(active.storage)
  const ports = { ...bare, storage }
  const windows = sharedBy(setup.ports.storage, 'windows', () => limits(storage))
  const perMinute = setup.unpaidCharacters ?? UNPAID_CHARACTERS
  const unpaid = sharedBy(setup.ports.storage, 'unpaid work', () =>
    unpaidWork({ countTokens: ports.countTokens, clock, perMinute }),
  )
  const maxUpload = setup.maxUpload ?? 32 << 20
  const bodies = sharedBy(setup.ports.storage, 'bodies', () =>
    budget(setup.maxBodies ?? Math.max(UPLOADS_AT_ONCE * maxUpload, 4 << 20), clock, {
      onFreed: setup.onBodiesFreed,
    }),
  )
  const gatewayContext: GatewayContext = {
    name,
    label,
    ports,
    catalog,
    sold: list.sold,
    windows,
    unpaidWork: unpaid,
    pollUrls: pollUrls(ports, setup.pollKeys),
    networks: setup.networks ?? [],
    unverifiable: setup.unverifiable ?? 503,
    featureFlags: setup.featureFlags ?? {},
    freeTier: setup.freeTier ?? FREE_TIER,
    allowlists: Object.fromEntries(
      Object.entries(setup.allowlists ?? {}).map(([list, wallets]) => [
        list,
        wallets.map((wallet) => wallet.toLowerCase()),
      ]),
    ),
    timeouts,
    workerId,
    activeCalls: active,
    maxBody: setup.maxBody ?? 1 << 20,
    maxUpload,
    bodies,
    mirror: mirrors({
      ports,
      maxBytes: setup.maxMedia ?? 64 << 20,
      async onStored(call, keys) {
        const now = clock.now()
        await noteStoredMedia(storage, { call, keys, due: now + timeouts.maxJobMs + retention.unclaimedMs }, now)
      },
    }),
    newWallet: {
      ...NEW_WALLET,
      ...setup.newWallet,
      endpoints: [...list.sold.values()].flatMap(({ delivery, name }) => (delivery === 'stream' ? [name] : [])),
    },
    ...(setup.inlineMs !== undefined && { inlineMs: setup.inlineMs }),
    ...(setup.freeToOrigin && { freeToOrigin: setup.freeToOrigin }),
  }
  const { handlePaid, discover, poll, pollUpstream, cancel, drain } = callHandlers(gatewayContext)
  const { objects, vendors, countTokens } = ports
  const terms = () => withoutHints(chain.terms(clock.now()))
  const { networks, featureFlags, allowlists } = gatewayContext
  const offering = { catalog, vendors, countTokens, networks, featureFlags, allowlists }
  const documents = documentsOf(list.endpoints, {
    label,
    version,
    terms,
    changes: changelog,
    offering,
    ...(setup.contact !== undefined && { contact: setup.contact }),
  })
  let isDraining = false
  const leaveRotation = () => void (isDraining = true)
  const facts: GatewayFacts = {
    name,
    label,
    version,
    startedAt: clock.now(),
    isDraining: () => isDraining,
    isReady: () => terms().length > 0,
    closed: () => chain.closed?.(clock.now()),
    terms,
    healthStatus,
    ...documents.documents,
  }
  const calls: FreeCalls = {
    async find(id, key) {
      const call = (await gatewayContext.pollUrls.isKey(id, key)) ? await storage.getCall(id) : undefined
      return call?.gateway === name && !isForgotten(call, clock.now()) ? call : undefined
    },
    cancel,
  }
  const { bazaar } = documents
  const freeContext = {
    catalog,
    objects,
    vendors,
    countTokens,
    clock,
    log,
    gateway: facts,
    calls,
    chain,
    ledger: storage,
    records: storage,
    random: ports.random,
    isOperator: operatorOf(setup.operatorToken),
  }

  async function handle(request: Request, caller: Caller): Promise<Reply> {
    const found = { name: NO_ENDPOINT }
    try {
      const reply = withRetryAfter(await route(request, caller, found))
      return counted(found.name, request.method === 'HEAD' ? await withoutBody(reply) : reply)
    } catch (error) {
      return counted(found.name, refusal(error, 'plain', request))
    }
  }

  function counted(endpoint: string, reply: Reply): Reply {
    meter.answered(endpoint, reply.status)
    return reply
  }

  /** What went wrong, in the words of the surface that was called. */
  function refusal(error: unknown, errorFormat: ErrorFormat, request: Request): Reply {
    if (error instanceof ApiError) return errorReply(error, errorFormat)
    if (active.isFromStorage(error)) return errorReply(STORAGE_AWAY, errorFormat)
    log.alert('a request failed for a reason that nobody foresaw', {
      method: request.method,
      error: (error as Error).stack,
    })
    return errorReply(
      new ApiError('INTERNAL', {
        details: 'Something went wrong here. Send the same request again: an authorization is charged at most once.',
      }),
      errorFormat,
    )
  }

  /** Names in `found` the endpoint that was called. */
  async function route(request: Request, caller: Caller, found: { name: string }): Promise<Reply> {
    const url = requestUrl(request)
    const path = bareV1 && url.path.startsWith('/v1/') ? `/api${url.path}` : url.path
    const match = list.match(request.method, path)
    if ('endpoint' in match) found.name = match.endpoint.name
    if (match.kind === 'discover') {
      const { endpoint: probed, params: given } = match
      const values = isSold(probed) && isTemplate(given) ? trialOf(probed, offering).path : given
      return await discover(probed, requestContextOf(request, url, { caller, params: values, bazaar }))
    }
    if (match.kind === 'options') return { status: 204, headers: { allow: match.allow }, body: null }
    if (match.kind === 'wrong_method') throw wrongMethod(request.method, path, match.allow)
    if (match.kind === 'unknown')
      throw unknownPath(
        path,
        match.nearby.filter((endpoint) => documents.offered().includes(endpoint)),
      )
    const { endpoint, params } = match
    const requestContext = requestContextOf(request, url, {
      caller,
      params,
      bazaar: endpoint.kind === 'poll' ? () => undefined : bazaar,
    })
    if (endpoint.kind === 'poll') return await poll(endpoint, requestContext, params.id ?? '')
    if (endpoint.kind !== 'free') {
      try {
        if (isTemplate(params) && paymentHeader(request) === null)
          return await discover(endpoint, { ...requestContext, params: trialOf(endpoint, offering).path })
        return await handlePaid(endpoint, requestContext)
      } catch (error) {
        return refusal(error, endpoint.errorFormat, request)
      }
    }
    const hold = holdOn(bodies)
    try {
      const permitted = permit(endpoint, caller.ip)
      if (permitted) await permitted
      const header = (name: string) => request.headers.get(name)
      const most = endpoint.uploads ? gatewayContext.maxUpload : gatewayContext.maxBody
      const bytes = () => readRaw(request, most, hold)
      const counting = unpaid.from(caller.ip)
      const text = async () => {
        const body = await readBody(request, most, hold)
        if (body.length > UNCOUNTED) counting.read(body.length)
        return body
      }
      const json = async () => await parseJson(await text(), header('content-type'), clock)
      const freeRequest = {
        method: request.method,
        path,
        params,
        get query() {
          return requestContext.query
        },
        search: url.search,
        origin: requestContext.origin,
        header,
        bytes,
        text,
        json,
      }
      return await endpoint.answer(freeRequest, { ...freeContext, countTokens: counting.countTokens })
    } catch (error) {
      return refusal(error, endpoint.errorFormat ?? 'plain', request)
    } finally {
      hold.release()
    }
  }

  /** Throws where the address has used up its window. A promise only where storage has to be asked. */
  function permit({ name, limit }: Free, ip: string): Promise<void> | undefined {
    if (!limit) return undefined
    const now = clock.now()
    const permitted = windows.take(limit.bucket ?? name, addressKey(ip), limit, now)
    if (permitted instanceof Promise) return permitted.then((permit) => requireGranted(permit, limit, now))
    requireGranted(permitted, limit, now)
    return undefined
  }

  const hasUpstreamJobs = [...list.sold.values()].some(({ delivery }) => delivery === 'upstream_job')
  const retainUntil = (call: Call): number => {
    const endpoint = list.sold.get(call.endpoint)
    return clock.now() + (endpoint ? settledMsOf(call, endpoint.retention) : SECONDARY_RETENTION_MS)
  }

  const { renew } = active

  async function maintain(): Promise<void> {
    const now = clock.now()
    for (const call of await lostOnes(now)) await fail(storage, call, overdue(call, now, timeouts) ?? LOST, now)
    await pollUpstreamJobs(now)
    await runMaintenanceTasks(now)
    const money = { storage, chain, clock, log, meter, timeouts }
    // Only its own: another gateway's chain may be away, or nobody may serve that gateway any more.
    const doubtful = await storage.unsettled(now, 100, name)
    await Promise.all(
      doubtful.map(async (call) => {
        await reconcile(money, call, retainUntil(call))
        // Its buyer has had the answer.
        if (servesBeforeSettlement(list.sold.get(call.endpoint)))
          await recordIfRefused(storage, call.id, { now: clock.now(), until: clock.now() + timeouts.unpaidBlockMs })
      }),
    )
  }

  /** Those of this process are not: it knows better. What ran for too long has failed in any case. */
  async function lostOnes(now: number): Promise<readonly Call[]> {
    const found = await storage.lostCalls(now, 100)
    // Asked after storage has answered: whether it was away is known by then.
    const by = active.lostBy(now)
    return found.filter(
      (call) => overdue(call, now, timeouts) === STALLED || (call.leaseExpiresAt <= by && !active.has(call.id)),
    )
  }

  let polledAt = Number.NEGATIVE_INFINITY
  let lastSeen = ''

  /**
   * Jobs at their vendors' place are seen to although nobody polls: what was made there can often be fetched for a day
   * only.
   */
  async function pollUpstreamJobs(now: number): Promise<void> {
    if (now - polledAt < POLL_EVERY_MS || !hasUpstreamJobs) return
    polledAt = now
    // Each sweep goes on behind the last one, so that none is starved by those that hang; behind the last job comes the
    // first.
    const next = await storage.unfinishedCalls(UPSTREAM_JOB, { gateway: name, after: lastSeen, limit: MAX_POLLS })
    const first =
      next.length < MAX_POLLS
        ? await storage.unfinishedCalls(UPSTREAM_JOB, { gateway: name, after: '', limit: MAX_POLLS - next.length })
        : []
    const turn = [...next, ...first.filter(({ id }) => !next.some((each) => each.id === id))]
    lastSeen = turn.at(-1)?.id ?? ''
    for (const call of turn) {
      const endpoint = list.sold.get(call.endpoint)
      if (endpoint?.delivery !== 'upstream_job') continue
      ports.background(
        pollUpstream(endpoint, call).catch((error: Error) =>
          log.warn('an upstream job could not be polled', { call: call.id, error: error.message }),
        ),
      )
    }
  }

  const maintenanceTasks = list.endpoints.flatMap((endpoint) => {
    const maintenanceTask = isSold(endpoint) ? endpoint.effects?.maintenanceTask : undefined
    return maintenanceTask && (maintenanceTask.can?.(vendors) ?? true)
      ? [{ name: `chore:${endpoint.name}`, ...maintenanceTask }]
      : []
  })

  /** Runs each task on one replica at a time: the lease of a task lasts until it is due again. */
  async function runMaintenanceTasks(now: number): Promise<void> {
    for (const { name: maintenanceTask, everyMs, do: work } of maintenanceTasks) {
      if ((taskDueAt.get(maintenanceTask) ?? 0) > now) continue
      taskDueAt.set(maintenanceTask, now + everyMs)
      if (!(await storage.lease(maintenanceTask, `${workerId}:${name}`, { now, until: now + everyMs }))) continue
      const doing = within(clock, everyMs, (signal) => work({ records: storage, vendors, clock, log, signal }))
      ports.background(
        doing.catch((error: Error) => log.warn('a maintenance task failed', { maintenanceTask, error: error.message })),
      )
    }
  }
  const taskDueAt = new Map<string, number>()

  async function takeOver(): Promise<number> {
    const lost = (await storage.lostCalls(Number.MAX_SAFE_INTEGER, 100_000)).filter(
      (call) => call.workerId !== workerId && call.workerId !== UPSTREAM_JOB,
    )
    for (const call of lost) await fail(storage, call, LOST, clock.now())
    return lost.length
  }

  async function fetch(request: Request, caller: Partial<Caller> = {}): Promise<Response> {
    const { status, headers, body } = await handle(request, { ip: '', ...caller })
    return new Response(body as BodyInit | null, { status, headers })
  }

  return {
    name,
    endpoints: list.endpoints,
    offered: documents.offered,
    handle,
    fetch,
    renew,
    maintain,
    takeOver,
    leaveRotation,
    drain,
  }
}

function requireGranted({ granted, resetAt }: Permit, limit: Window, now: number): void {
  if (!granted) throw windowSpent(limit, resetAt, now)
}

const STORAGE_AWAY = new ApiError('NOT_READY', {
  message:
    'The gateway cannot reach its storage. Send the same request again in a few seconds: an authorization is charged at most once.',
  headers: { 'retry-after': '5' },
})

/** A request's signal costs more than all else of a quote, so it is asked for only by those who wait for work. */
function requestContextOf(
  request: Request,
  url: RequestUrl,
  {
    caller: { ip, origin = url.origin, gone },
    params,
    bazaar,
  }: { caller: Caller } & Pick<RequestContext, 'params' | 'bazaar'>,
): RequestContext {
  let query: URLSearchParams | undefined
  return {
    request,
    bazaar,
    origin,
    path: url.path,
    params,
    get query() {
      return (query ??= new URLSearchParams(url.search))
    },
    ip,
    get gone() {
      return gone ?? request.signal
    },
  }
}

const withRetention = (endpoint: Endpoint, retention: Retention): Endpoint =>
  isSold(endpoint) ? { ...endpoint, retention: retentionOf(endpoint, retention) } : endpoint

/** Throws for a name that hides nothing: it was meant to. */
function visibleEndpoints(endpoints: readonly Endpoint[], hidden: readonly string[]): readonly Endpoint[] {
  const hides = (name: string) => (endpoint: Endpoint) => endpoint.name === name || endpoint.name.startsWith(`${name}.`)
  for (const name of hidden)
    if (!endpoints.some(hides(name))) throw new RangeError(`there is no endpoint ${name} to hide`)
  return endpoints.filter((endpoint) => !hidden.some((name) => hides(name)(endpoint)))
}

function operatorOf(token: string | undefined): (authorization: string | null) => boolean {
  return (authorization) => token !== undefined && isSameSecret(authorization ?? '', `Bearer ${token}`)
}

function wrongMethod(method: string, path: string, allow: string): ApiError {
  return new ApiError('METHOD_NOT_ALLOWED', {
    message: `${method} is not served at ${path}; allowed: ${allow}.`,
    headers: { allow },
  })
}

/** Indexers ask for paths as the documents write them, braces included (contract 19.14). */
const isTemplate = (params: Readonly<Record<string, string>>): boolean =>
  Object.entries(params).some(([name, value]) => value === `{${name}}`)

/** Names routes that the caller may have meant (contract 3.6). */
const MAX_NEARBY = 5

function unknownPath(path: string, similar: readonly Endpoint[]): ApiError {
  const isBare = path === '/v1' || path.startsWith('/v1/')
  const meant = isBare ? `The API is served under /api/v1: try /api${path}.` : 'There is nothing at this path.'
  const nearby = similar.slice(0, MAX_NEARBY).map((endpoint) => `${endpoint.method} ${endpoint.path}`)
  return new ApiError('NOT_FOUND', { message: meant, fields: { nearby } })
}

async function withoutBody(reply: Reply): Promise<Reply> {
  if (reply.body instanceof ReadableStream) await reply.body.cancel()
  if (typeof reply.body !== 'string') return { ...reply, body: null }
  // The length that GET would have; a server says 0 otherwise (RFC 9110, 8.6).
  return {
    ...reply,
    headers: { ...reply.headers, 'content-length': String(new TextEncoder().encode(reply.body).length) },
    body: null,
  }
}
