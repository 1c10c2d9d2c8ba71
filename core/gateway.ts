/**
 * One gateway: its endpoints over one set of ports, as a function from Request to Reply. Programs that embed Farebox
 * start here.
 */
import { attemptLimit, operatorCheck } from './http/attempts.ts'
import { addressKey } from './http/caller_address.ts'
import { maintenance } from './lifecycle/maintenance.ts'
import { activity, startRunning } from './lifecycle/running.ts'
import { hides, SetupError, setupProblems } from './lifecycle/setup_problems.ts'
import type { Setup } from './lifecycle/setup.ts'
import { isForgotten } from './endpoint/records.ts'
import { type Timeouts, timeouts as usual } from './payment/timeouts.ts'
import type { Catalog } from './endpoint/offering.ts'
import { catalog as contractCatalog } from './products/catalog.ts'
import { documentsOf } from './discovery/mod.ts'
import { type Endpoint, type Free, type FreeCalls, isSold } from './endpoint/mod.ts'
import { type Reply, withoutBody } from './http/reply.ts'
import type { GatewayFacts } from './endpoint/gateway_info.ts'
import { endpoints as everything } from './products/mod.ts'
import { changelog } from './products/site/changelog_data.ts'
import { unknownPath, wrongMethod } from './http/routing_errors.ts'
import { errorReply, type ErrorFormat } from './http/error_formats.ts'
import { ApiError, withRetryAfter } from './http/errors.ts'
import { pricesOf } from './payment/control/controls.ts'
import { callHandlers } from './call/paid_call.ts'
import type { Engine, Settings } from './engine.ts'
import {
  budget,
  holdOn,
  inputParser,
  MAX_BODY,
  MAX_UPLOAD,
  parseJson,
  readBody,
  readRaw,
  UNCOUNTED,
  whenEnded,
} from './http/request_body.ts'
import { withDeclaredRecords } from './endpoint/record_kind.ts'
import { signedReplies } from './http/signed_replies.ts'
import { type RequestUrl, requestUrl } from './http/request_url.ts'
import { FREE_TIER, limits, type Permit, type Window, windowSpent } from './http/rate_limit.ts'
import { pollUrls } from './identity/poll_urls.ts'
import { noteStoredMedia, type Retention, retention as usualRetention, retentionOf } from './payment/retention.ts'
import { sharedBy } from './lib/per_process.ts'
import { activeCalls, sharedState } from './payment/active_calls.ts'
import { prepaidCalls } from './payment/prepaid_calls.ts'
import { NEW_WALLET_LIMIT, newWalletsLimit } from './payment/unpaid/new_wallets.ts'
import { offersOf } from './payment/offers.ts'
import { router } from './router.ts'
import { withoutHints } from './x402/offer.ts'
import { didDocument } from './x402/offer_receipt.ts'
import { metered, NO_ENDPOINT, silent } from './ports/meter.ts'
import { storageProbe } from './ports/storage_probe.ts'
import { noDeliveries } from './call/delivery/deliveries.ts'
import { mirrors } from './call/work/media_mirror.ts'
import { withHealthStatus } from './endpoint/health_status.ts'
import { newId } from './lib/ids.ts'
import { UNPAID_CHARACTERS, unpaidWork } from './http/unpaid_work.ts'
import { paymentHeader, type RequestContext, requestContextOf } from './endpoint/request_context.ts'
import { trialOf } from './endpoint/samples.ts'
import type { Caller, Gateway } from './endpoint/gateway.ts'
import { anyCallUrl } from './endpoint/replies.ts'
import { signIns } from './identity/sign_in.ts'

const UPLOADS_AT_ONCE = 8
/** Several bodies of one address take this part of the memory at most; one alone may need more. */
const SHARES = 4

const NONE = { all: [], get: () => undefined }
const NO_ROWS: Catalog = { images: NONE, chat: NONE, video: NONE, audio: NONE, declared: new Map() }

/**
 * Builds a gateway that can sell. Checks the setup, that storage answers, and that the chain is what the configuration
 * says: its id, the token, the accounts, the gas. Rejects with a SetupError that lists every problem. A node that does
 * not answer is no mistake: the gateway answers 503 to buyers until it does, while `run` asks again.
 *
 * @example
 * const chain = memoryChain()
 * const farebox = await createGateway({ ports: localPorts({ chain, chat: () => echoVendor({ countTokens }) }) })
 * const stop = farebox.run()
 * await stop()
 */
export async function createGateway(setup: Setup): Promise<Gateway> {
  const problems = [...setupProblems(setup, everything)]
  if (!setup?.ports?.chain || !setup.ports.storage?.getRecord || !setup.ports.clock) throw new SetupError(problems)
  const { chain, storage, clock, log } = setup.ports
  const now = clock.now()
  const [checked, answer] = await Promise.allSettled([chain.check?.({ now }), storage.getRecord('start', 'probe', now)])
  if (checked.status === 'rejected') problems.push(`ports.chain: ${(checked.reason as Error).message}`)
  if (answer.status === 'rejected') problems.push(`ports.storage: ${(answer.reason as Error).message}`)
  const result = checked.status === 'fulfilled' ? checked.value : undefined
  if (result?.kind === 'wrong') problems.push(...result.problems)
  if (problems.length > 0) throw new SetupError(problems)
  const built = gateway(setup)
  if (result?.kind === 'ready') for (const warning of result.warnings) log.warn(warning, { gateway: built.name })
  if (result?.kind === 'unavailable')
    log.warn('a chain is unreachable; its gateway answers 503 until it responds', {
      gateway: built.name,
      reason: result.reason,
    })
  return built
}

/**
 * The same as createGateway(), at once and without asking the chain or storage. For tests, and for programs that check
 * their chain themselves: until `chain.check` has passed, such a gateway sells nothing. Throws SetupError.
 *
 * @example
 * const farebox = gateway({ ports: localPorts({ chain: memoryChain(), chat: () => echoVendor({ countTokens }) }) })
 */
export function gateway(setup: Setup): Gateway {
  return customGateway({
    ...setup,
    catalog: setup.catalog ?? contractCatalog(),
    endpoints: setup.endpoints ?? everything,
    changes: changelog,
  })
}

/** The settings of a gateway that sells the given products alone, from an empty catalog unless one is given. */
export type CustomSetup = Setup & {
  readonly endpoints: readonly Endpoint[]
  /** The changelog of its documents. */
  readonly changes?: Parameters<typeof documentsOf>[1]['changes']
}

/**
 * A gateway of these products alone: a bundler leaves out the built-in ones.
 *
 * @example
 * const farebox = customGateway({ ports, endpoints: endpoints.filter(({ name }) => name === 'health') })
 */
export function customGateway(setup: CustomSetup): Gateway {
  const problems = setupProblems(setup, setup.endpoints ?? [])
  if (problems.length > 0) throw new SetupError(problems)
  const { basePath = '' } = setup
  const { name = 'default', label = name, version = '0.0.0', bareV1 = false } = setup
  const { ports: bare, healthStatus } = withHealthStatus(metered(setup.ports), name)
  const { chain, clock, log, meter = silent } = bare
  const catalog = setup.catalog ?? NO_ROWS
  const visible = visibleEndpoints(setup.endpoints, setup.hidden ?? []).map(under(basePath))
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
    shared: sharedBy(setup.ports.storage, 'active calls', sharedState),
  })
  const prepaid = prepaidCalls(active.storage, { owner: setup.ports.storage, clock, leaseMs: timeouts.workLeaseMs })
  const storage = withDeclaredRecords(prepaid?.storage ?? active.storage)
  const underWay = activity(bare.background)
  const ports = { ...bare, storage, background: underWay.background }
  const workers = sharedBy(setup.ports.storage, 'workers', () => new Set<string>()).add(workerId)
  const windows = sharedBy(setup.ports.storage, 'windows', () => limits(storage))
  const perMinute = setup.unpaidCharacters ?? UNPAID_CHARACTERS
  const unpaid = sharedBy(setup.ports.storage, 'unpaid work', () =>
    unpaidWork({ countTokens: ports.countTokens, clock, perMinute }),
  )
  const maxUpload = setup.maxUpload ?? MAX_UPLOAD
  const maxBodies = setup.maxBodies ?? Math.max(UPLOADS_AT_ONCE * maxUpload, 4 << 20)
  const bodies = sharedBy(setup.ports.storage, 'bodies', () =>
    budget(maxBodies, clock, {
      share: maxBodies / SHARES,
      onFreed: setup.onBodiesFreed,
    }),
  )
  const hashes = pollUrls(ports, setup.pollKeys)
  const { signer } = setup
  const signing = signer && signedReplies(signer, { clock, log })
  const { networks = [], featureFlags = {} } = setup
  const prices = pricesOf(setup)
  const allowlists = Object.fromEntries(
    Object.entries(setup.allowlists ?? {}).map(([list, wallets]) => [
      list,
      wallets.map((wallet) => wallet.toLowerCase()),
    ]),
  )
  const settings: Settings = {
    timeouts,
    maxBody: setup.maxBody ?? MAX_BODY,
    maxUpload,
    inlineMs: setup.inlineMs,
    unverifiable: setup.unverifiable ?? 503,
    freeTier: setup.freeTier ?? FREE_TIER,
    freeToOrigin: setup.freeToOrigin,
    allowlists,
    newWallet: {
      ...NEW_WALLET_LIMIT,
      ...setup.newWallet,
      endpoints: [...list.sold.values()].flatMap(({ delivery, name }) => (delivery === 'stream' ? [name] : [])),
    },
    newWallets: { ...newWalletsLimit(), ...setup.newWallets },
  }
  const { objects, vendors, countTokens } = ports
  const engine: Engine = {
    gateway: { name, label, basePath, networks, workerId },
    ports,
    settings,
    products: {
      sold: list.sold,
      catalog,
      parsers: new Map(
        [...list.sold.values()].map((endpoint) => [endpoint, inputParser(endpoint.input, endpoint.unknownFields)]),
      ),
      context: { catalog, prices, vendors, countTokens, featureFlags, networks },
    },
    offers: offersOf({ ports, timeouts }),
    money: { storage, chain, clock, log, meter: ports.meter, timeouts, prepaid },
    calls: { active, prepaid },
    limits: { windows, unpaidWork: unpaid, bodies, controls: setup.controls },
    identity: {
      pollUrls: hashes,
      signIns: signIns({ storage, chain, clock, random: ports.random, hashes, timeouts }),
    },
    deliveries: noDeliveries({ clock, maxUpload }),
    mirror: mirrors({
      ports,
      maxBytes: setup.maxMedia ?? 64 << 20,
      async onStored(call, keys) {
        const now = clock.now()
        await noteStoredMedia(storage, { call, keys, due: now + timeouts.maxJobMs + retention.unclaimedMs }, now)
      },
    }),
    signing,
  }
  const { handlePaid, discover, poll, pollUpstream, cancel, drain } = callHandlers(engine)
  const terms = () => withoutHints(chain.terms(clock.now()))
  const { families } = chain
  const offering = { catalog, prices, vendors, countTokens, networks, families, featureFlags, allowlists }
  const documents = documentsOf(list.endpoints, {
    label,
    version,
    basePath,
    terms,
    changes: setup.changes ?? [],
    offering,
    pause: () => clock.wait(0),
    ...(setup.contact !== undefined && { contact: setup.contact }),
  })
  let isDraining = false
  const leaveRotation = () => void (isDraining = true)
  const facts: GatewayFacts = {
    name,
    label,
    version,
    basePath,
    startedAt: clock.now(),
    isDraining: () => isDraining,
    isStorageReachable: storageProbe(storage, clock),
    families,
    isReady: () => terms().length > 0,
    closed: () => chain.closed?.(clock.now()),
    terms,
    healthStatus,
    sellerOf: (kind) =>
      list.endpoints.find((endpoint) => isSold(endpoint) && endpoint.rows?.kind === kind) ?? { name: kind, tag: kind },
    did: (origin) => signer && JSON.stringify(didDocument(signer, origin)),
    ...documents.documents,
  }
  const calls: FreeCalls = {
    async find(id, key) {
      const call = (await hashes.isKey(id, key)) ? await storage.getCall(id) : undefined
      return call?.gateway === name && !isForgotten(call, clock.now()) ? call : undefined
    },
    cancel,
    pollUrl: async (id) => anyCallUrl(id, { key: await hashes.keyOf(id), basePath }),
  }
  const { bazaar } = documents
  const operators = operatorCheck(setup.operatorToken, attemptLimit(clock))
  const freeContext = {
    catalog,
    prices,
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
    signIns: engine.identity.signIns,
  }

  const handle = (request: Request, caller: Caller): Promise<Reply> => respond({ request, caller }, route)

  /** A route of the host with the limits, the metrics and the errors of the gateway's own. */
  function mount(endpoint: Free): Gateway['handle'] {
    return (request, caller) =>
      respond({ request, caller }, (_request, _caller, found) => {
        found.name = endpoint.name
        found.errorFormat = endpoint.errorFormat ?? 'plain'
        const url = requestUrl(request)
        const params = {}
        const requestContext = requestContextOf(request, url, { caller, params, bazaar: NO_BAZAAR })
        return answerFree(endpoint, requestContext, url)
      })
  }

  async function respond(
    { request, caller }: { readonly request: Request; readonly caller: Caller },
    find: typeof route,
  ): Promise<Reply> {
    const startedAt = clock.now()
    const found: Found = { name: NO_ENDPOINT, errorFormat: 'plain' }
    let reply: Reply
    underWay.begin()
    try {
      reply = await find(request, caller, found)
    } catch (error) {
      reply = refusal(error, found.errorFormat, request)
    } finally {
      underWay.end()
    }
    const signed = signing?.reply(reply, () => addressed(request, caller)) ?? reply
    reply = signed instanceof Promise ? await signed : signed
    meter.answered(found.name, reply.status, clock.now() - startedAt)
    reply = withRetryAfter(reply)
    return request.method === 'HEAD' ? await withoutBody(reply) : reply
  }

  /** The URL of a request as it is signed. */
  function addressed(request: Request, from: Caller) {
    const { origin, path } = withoutBase(requestUrl(request), basePath)
    return { origin: (from.origin ?? origin) + basePath, path }
  }

  /** The reply to an error, in the error format of the route. */
  function refusal(error: unknown, errorFormat: ErrorFormat, request: Request): Reply {
    if (error instanceof ApiError) return errorReply(error, errorFormat)
    if (active.isFromStorage(error)) return errorReply(STORAGE_AWAY, errorFormat)
    log.alert('a request failed with an unexpected error', {
      method: request.method,
      error: (error as Error).stack,
    })
    return errorReply(
      new ApiError('INTERNAL', {
        details: 'Internal error. Send the same request again: an authorization is charged at most once.',
      }),
      errorFormat,
    )
  }

  /**
   * Finds and calls the endpoint, and notes in `found` which one it is. A plain function: each asynchronous one between
   * the socket and the answer costs as much as the check of a body.
   */
  function route(request: Request, from: Caller, found: Found): Reply | Promise<Reply> {
    const url = withoutBase(requestUrl(request), basePath)
    const caller = basePath === '' ? from : { ...from, origin: (from.origin ?? url.origin) + basePath }
    const path = bareV1 && url.path.startsWith('/v1/') ? `/api${url.path}` : url.path
    const match = list.match(request.method, path)
    if ('endpoint' in match) found.name = match.endpoint.name
    if (match.kind === 'discover') {
      const { endpoint: probed, params: given } = match
      const values = isSold(probed) && isTemplate(given) ? trialOf(probed, offering).path : given
      return discover(probed, requestContextOf(request, url, { caller, params: values, bazaar }))
    }
    if (match.kind === 'options') return { status: 204, headers: { allow: match.allow }, body: null }
    if (match.kind === 'wrong_method') throw wrongMethod(request.method, basePath + path, match.allow)
    if (match.kind === 'unknown')
      throw unknownPath(
        path,
        match.nearby.filter((endpoint) => documents.offered().includes(endpoint)),
        basePath,
      )
    const { endpoint, params } = match
    const requestContext = requestContextOf(request, url, {
      caller,
      params,
      bazaar: endpoint.kind === 'poll' ? NO_BAZAAR : bazaar,
    })
    if (endpoint.kind === 'poll') return poll(endpoint, requestContext, params.id ?? '')
    found.errorFormat = endpoint.errorFormat ?? 'plain'
    if (endpoint.kind === 'free') return answerFree(endpoint, requestContext, { path, search: url.search })
    if (isTemplate(params) && paymentHeader(request) === null)
      return discover(endpoint, { ...requestContext, params: trialOf(endpoint, offering).path })
    return handlePaid(endpoint, requestContext)
  }

  /** `path` is the one that was matched. */
  async function answerFree(
    endpoint: Free,
    requestContext: RequestContext,
    { path, search }: Pick<RequestUrl, 'path' | 'search'>,
  ): Promise<Reply> {
    const { request, ip, params, origin, isHostTrusted } = requestContext
    const hold = holdOn(bodies, addressKey(ip))
    let retainsBody = false
    try {
      const permitted = permit(endpoint, ip)
      if (permitted) await permitted
      const header = (name: string) => request.headers.get(name)
      const most = endpoint.maxBody ?? (endpoint.uploads ? settings.maxUpload : settings.maxBody)
      const bytes = () => readRaw(request, most, hold)
      const counting = unpaid.from(ip)
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
        search,
        origin,
        isHostTrusted,
        header,
        bytes,
        text,
        json,
      }
      const reply = await endpoint.answer(freeRequest, {
        ...freeContext,
        countTokens: counting.countTokens,
        isOperator: (authorization) => operators(authorization, ip),
      })
      retainsBody = reply.body instanceof ReadableStream && !hold.isEmpty()
      // A stream may need the body of its request until its end.
      return retainsBody ? { ...reply, body: whenEnded(reply.body as ReadableStream<Uint8Array>, hold.release) } : reply
    } finally {
      if (!retainsBody) hold.release()
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

  const { renew } = active
  const { maintain, takeOver } = maintenance({
    name,
    workerId,
    ports,
    meter,
    timeouts,
    endpoints: list.endpoints,
    activeCalls: active,
    pollUpstream,
  })

  async function fetch(request: Request, caller: Partial<Caller> = {}): Promise<Response> {
    const { status, headers, body } = await handle(request, { ip: '', ...caller })
    return new Response(body as BodyInit | null, { status, headers })
  }

  return {
    name,
    endpoints: list.endpoints,
    offered: documents.offered,
    matches: (method, path) =>
      basePath === '' ? list.match(method, path).kind !== 'unknown' : isUnder(path, basePath),
    handle,
    fetch,
    mount,
    openapi: documents.described,
    run: () =>
      startRunning({
        name,
        workerId,
        chain,
        storage,
        sharedStorage: setup.ports.storage,
        objects,
        clock,
        log,
        retention,
        leaseMs: timeouts.workLeaseMs,
        renew,
        maintain,
        takeOver: () => takeOver(workers),
        leaveRotation,
        drain,
        idle: underWay.idle,
      }),
    renew,
    maintain,
    takeOver: () => takeOver(),
    leaveRotation,
    drain,
  }
}

/** What is known of a request once its endpoint is: for the metrics, and for its errors. */
type Found = { name: string; errorFormat: ErrorFormat }

/** Polls are not advertised. */
const NO_BAZAAR = () => undefined

function requireGranted({ granted, resetAt }: Permit, limit: Window, now: number): void {
  if (!granted) throw windowSpent(limit, resetAt, now)
}

const STORAGE_AWAY = new ApiError('NOT_READY', {
  message:
    'The gateway cannot reach its storage. Send the same request again in a few seconds: an authorization is charged at most once.',
  headers: { 'retry-after': '5' },
})

const withRetention = (endpoint: Endpoint, retention: Retention): Endpoint =>
  isSold(endpoint) ? { ...endpoint, retention: retentionOf(endpoint, retention) } : endpoint

const isUnder = (path: string, basePath: string): boolean =>
  basePath !== '' && (path === basePath || path.startsWith(`${basePath}/`))

/** The URL of a request without the path of the host's mount, which some hosts take off themselves. */
function withoutBase(url: RequestUrl, basePath: string): RequestUrl {
  return isUnder(url.path, basePath) ? { ...url, path: url.path.slice(basePath.length) || '/' } : url
}

/** The endpoint with its poll URLs under the path of the host's mount. */
function under(basePath: string): (endpoint: Endpoint) => Endpoint {
  return (endpoint) =>
    basePath === '' || !isSold(endpoint)
      ? endpoint
      : { ...endpoint, job: { ...endpoint.job, poll: basePath + endpoint.job.poll, basePath } }
}

function visibleEndpoints(endpoints: readonly Endpoint[], hidden: readonly string[]): readonly Endpoint[] {
  return endpoints.filter((endpoint) => !hidden.some((name) => hides(name)(endpoint)))
}

/** Indexers request paths as the documents write them, braces included (contract 19.14). */
const isTemplate = (params: Readonly<Record<string, string>>): boolean =>
  Object.entries(params).some(([name, value]) => value === `{${name}}`)
