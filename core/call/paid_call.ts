/** One paid call from start to finish. The only file that knows the order of work and money. */
import { addressKey } from '../http/caller_address.ts'
import { abandon, failIfOverdue } from '../payment/settle.ts'
import { isOver } from '../endpoint/records.ts'
import { abandonedText } from '../payment/abandoned_calls.ts'
import { blockOf, uncollectedJobOf } from '../payment/unpaid_calls.ts'
import {
  type RequestHead,
  type Free,
  type Allowlist,
  type Paid,
  type Polled,
  type Price,
  type Sold,
  servesBeforeSettlement,
} from '../endpoint/mod.ts'
import type { Reply } from '../http/reply.ts'
import { capOf, overText } from '../payment/exposure.ts'
import { ApiError } from '../http/errors.ts'
import type { GatewayContext } from './gateway_context.ts'
import { isNotedHandedOut } from '../payment/sent_authorizations.ts'
import { bindTag, identifierOf, type Tag, taggedCall, tagOf } from '../payment/identified_calls.ts'
import { clip } from '../lib/text.ts'
import {
  type Hold,
  holdOn,
  type InputParser,
  inputParser,
  isForm,
  parseForm,
  parseJson,
  readBody,
  readRaw,
  textFields,
  UNCOUNTED,
} from '../http/request_body.ts'
import { type Jobs, jobs } from './job.ts'
import { streamedCalls } from './stream.ts'
import { silent } from '../ports/meter.ts'
import { usdc } from '../x402/money.ts'
import { offersOf, purseOf } from '../payment/offers.ts'
import { isBrowser } from '../http/browser_402.ts'
import type { Authorization, Call, PaymentCode } from '../ports/mod.ts'
import { wasHandedOut } from '../payment/proofs.ts'
import * as replies from '../endpoint/replies.ts'
import { fingerprint, newId } from '../lib/ids.ts'
import type { CountTokens } from '../ports/vendors/chat.ts'
import type { UnpaidCount } from '../http/unpaid_work.ts'
import { besideOf, paymentHeader, resourceOf, type RequestContext } from './request_context.ts'
import { decodePayment, type Offer } from '../x402/protocol.ts'

export type CallHandlers = {
  sell(endpoint: Sold, requestContext: RequestContext): Promise<Reply>
  /** The 402 that a probe without a body gets: the default price (contract 1.53). */
  discover(endpoint: Sold | Free, requestContext: RequestContext): Promise<Reply>
  poll(endpoint: Polled, requestContext: RequestContext, id: string): Promise<Reply>
  /** Sees to a call whose work goes on at its vendor's place. */
  look: Jobs['look']
  /** Stops the work of an unfinished call, which then costs nothing. False when it had ended. */
  cancel(id: string, why: string): Promise<boolean>
  drain(): void
}

/** An order that was checked and priced. */
type Priced = { readonly input: unknown; readonly price: Price; readonly offers: readonly Offer[] }
type Checking = { readonly asked: RequestHead; readonly countTokens: CountTokens }
type Taking = Priced & {
  readonly counting: UnpaidCount
  readonly header: string
  readonly asked: string
  readonly requestContext: RequestContext
}

export function callHandlers(gatewayContext: GatewayContext): CallHandlers {
  const { ports, catalog, timeouts, label } = gatewayContext
  const { storage, clock, vendors, countTokens, meter = silent } = ports
  const offering = offersOf(gatewayContext)
  const { serve, give: giveMade, poll, collect, look, recovery } = jobs(gatewayContext, offering)
  const streamed = streamedCalls(gatewayContext)
  const context = {
    catalog,
    vendors,
    countTokens,
    featureFlags: gatewayContext.featureFlags,
    networks: gatewayContext.networks,
  }
  const inputParsers = new Map<Sold, InputParser>(
    [...gatewayContext.sold.values()].map((endpoint) => [
      endpoint,
      inputParser(endpoint.input, endpoint.unknownFields),
    ]),
  )

  return { sell, discover, poll, look, cancel: streamed.cancel, drain: streamed.drain }

  // ── 1 to 3: parse, price, challenge. No database, no network ──────────────────────────────────────────────────────

  async function sell(endpoint: Sold, requestContext: RequestContext): Promise<Reply> {
    const hold = holdOn(gatewayContext.bodies)
    try {
      return await order(endpoint, requestContext, hold)
    } finally {
      hold.release()
    }
  }

  async function order(endpoint: Sold, requestContext: RequestContext, hold: Hold): Promise<Reply> {
    const header = paymentHeader(requestContext.request)
    const { body, value } = await receive(endpoint, requestContext, hold)
    if (body.length === 0 && header === null && endpoint.from === 'body')
      return await discover(endpoint, requestContext)
    const counting = gatewayContext.unpaidWork.from(requestContext.ip)
    if (body.length > UNCOUNTED) counting.read(body.length)
    const said = await value()
    const quoted =
      header === null && endpoint.order === 'quote_then_check' ? unchecked(endpoint as Paid, said) : undefined
    const { input, price } =
      quoted && quoted.price !== 'free'
        ? quoted
        : await check(endpoint, said, { asked: askedOf(requestContext), countTokens: counting.countTokens })
    if (price === 'free') return await give(endpoint, input, requestContext)
    const offers = offering.at(price)
    if (header === null) {
      meter.quoted(endpoint.name)
      return demand(endpoint, requestContext, { offers, price, why: replies.paymentRequired(price) })
    }
    const asked = typeof body === 'string' ? body : JSON.stringify(said)
    return await take(endpoint, { input, price, offers, counting, header, asked, requestContext })
  }

  /** The order as the endpoint understands it, and what it costs. Throws a Fault for a bad one, and for one that nobody here can serve. */
  async function check(
    endpoint: Sold,
    said: unknown,
    { asked, countTokens }: Checking,
  ): Promise<{ input: unknown; price: Price | 'free' }> {
    const read = inputParsers.get(endpoint)?.(said) ?? {}
    const input =
      endpoint.delivery === 'stream'
        ? await endpoint.check(read, asked, { ...context, countTokens })
        : endpoint.check(read, context)
    if (!endpoint.isAvailable(input, context)) throw notConfigured(endpoint)
    return { input, price: endpoint.delivery === 'stream' ? endpoint.price(input) : endpoint.price(input, context) }
  }

  /** The quote of raw input: whoever pays it is told what is wrong with it. */
  function unchecked(endpoint: Paid, said: unknown): { input: unknown; price: Price | 'free' } {
    if (!endpoint.isAvailable(said, context)) throw notConfigured(endpoint)
    return { input: said, price: endpoint.price(said, context) }
  }

  /** Free answers are rationed by address; a payment that comes with the request is not looked at (contract 1.55). */
  async function give(endpoint: Sold, input: unknown, requestContext: RequestContext): Promise<Reply> {
    const page = requestContext.request.headers.get('origin')
    if (page !== null && gatewayContext.freeToOrigin?.(page) === false) throw foreignPage(page)
    const now = clock.now()
    const [bucket, all] =
      endpoint.delivery === 'stream'
        ? ['free', gatewayContext.freeTier]
        : [endpoint.name, endpoint.freeLimits ?? gatewayContext.freeTier]
    for (const window of all) {
      const { granted, resetAt } = await gatewayContext.windows.take(
        `${bucket}:${window.windowMs}`,
        addressKey(requestContext.ip),
        window,
        now,
      )
      if (!granted) throw freeTierSpent(window, resetAt, now)
    }
    return endpoint.delivery === 'stream'
      ? await streamed.give(endpoint, input, requestContext)
      : await giveMade(endpoint, input, requestContext)
  }

  /** The body, and how to read it: as a form where the endpoint takes one, else as JSON. */
  async function receive(
    endpoint: Sold,
    { request, params, query }: RequestContext,
    hold: Hold,
  ): Promise<{ body: string | Uint8Array; value(): Promise<unknown> }> {
    const type = request.headers.get('content-type')
    const isRaw = endpoint.order === 'quote_then_check' && paymentHeader(request) === null
    const { arrange } = endpoint
    if (arrange) {
      const written = request.method === 'POST' ? await readBody(request, gatewayContext.maxBody, hold) : ''
      const read = async () => (written === '' ? undefined : await parseJson(written, type, clock))
      const asked = Object.fromEntries(query)
      const value = async () =>
        arrange({ params, query: asked, body: await (isRaw ? orElse(read, undefined) : read()) })
      return { body: written === '' && query.size === 0 ? '' : JSON.stringify(asked) + written, value }
    }
    if (endpoint.from === 'query') {
      const asked = {
        ...(endpoint.unknownFields === 'kept' ? everyQueryValue(query) : Object.fromEntries(query)),
        ...params,
      }
      const written = request.method === 'POST' ? await readBody(request, gatewayContext.maxBody, hold) : ''
      if (written === '') return { body: JSON.stringify(asked), value: async () => asked }
      const read = async () => ({ ...textFields(await parseJson(written, type, clock)), ...asked })
      return { body: JSON.stringify(asked) + written, value: () => (isRaw ? orElse(read, asked) : read()) }
    }
    if (endpoint.multipart && isForm(type)) {
      const body = await readRaw(request, gatewayContext.maxUpload, hold)
      return { body, value: async () => await endpoint.multipart?.(await parseForm(body, type)) }
    }
    const body = await readBody(request, endpoint.uploads ? gatewayContext.maxUpload : gatewayContext.maxBody, hold)
    return { body, value: () => parseJson(body, type, clock) }
  }

  async function discover(endpoint: Sold | Free, requestContext: RequestContext): Promise<Reply> {
    if (endpoint.kind === 'free')
      return demand(endpoint, requestContext, {
        offers: offering.at(NOTHING),
        price: NOTHING,
        why: replies.freeOfCharge(endpoint.summary),
      })
    if (endpoint.order === 'quote_then_check' && endpoint.delivery !== 'stream') {
      const said =
        endpoint.from === 'query'
          ? { ...Object.fromEntries(requestContext.query), ...requestContext.params }
          : { ...(endpoint.sample(context) ?? (endpoint.example as object)), ...requestContext.params }
      const { price } = unchecked(endpoint, said)
      if (price === 'free') throw freeHere(endpoint)
      return demand(endpoint, requestContext, {
        offers: offering.at(price),
        price,
        why: replies.paymentRequired(price),
      })
    }
    const said =
      endpoint.delivery === 'stream' ? endpoint.sample(context) : (endpoint.sample(context) ?? endpoint.example)
    const { price } = await check(endpoint, said, { asked: NOTHING_ASKED, countTokens })
    if (price === 'free') throw freeHere(endpoint)
    const also =
      endpoint.delivery !== 'stream' && endpoint.discovery
        ? { ...price.also, ...endpoint.discovery(context) }
        : price.also
    return demand(endpoint, requestContext, {
      offers: offering.at(price),
      price: also ? { ...price, also } : price,
      why: replies.paymentRequired(price),
    })
  }

  function demand(
    endpoint: Sold | Free,
    requestContext: RequestContext,
    { offers, price, why }: Omit<Priced, 'input'> & { why: replies.Body },
  ): Reply {
    const asking = {
      offers,
      resource: resourceOf(endpoint, requestContext),
      label,
      errorFormat: endpoint.errorFormat ?? 'plain',
      beside: besideOf(requestContext.request),
    }
    const reply = replies.demand(asking, why, replies.shownPrice(price), price.also)
    const isVisitor = paymentHeader(requestContext.request) === null && isBrowser(requestContext.request.headers)
    return isVisitor ? replies.demandPage(reply, asking) : reply
  }

  // ── 4 to 7: identify, known?, verify, open ────────────────────────────────────────────────────────────────────────

  async function take(
    endpoint: Sold,
    { input, price, offers, counting, header, asked, requestContext }: Taking,
  ): Promise<Reply> {
    const reject = (code: PaymentCode, reason: string, more: replies.Body = {}) => {
      meter.judged(code)
      return demand(endpoint, requestContext, {
        offers,
        price,
        why: { ...replies.verificationFailed(code, reason), ...more },
      })
    }
    // Nothing is opened: the same signed request is good for another try (contract 1.27).
    const away = (reason: string): Reply => {
      if (gatewayContext.unverifiable === 402)
        return reject(
          'PAYMENT_VERIFICATION_UNAVAILABLE',
          `the payment could not be verified just now (${reason}); send the same signed request again`,
        )
      meter.judged('unavailable')
      throw replies.cannotVerify(reason)
    }
    const decoded = decodePayment(header)
    if (!decoded.ok) return reject('PAYMENT_INVALID', decoded.reason)
    const { payment } = decoded
    const named = identifierOf(payment)
    const identified = await offering.identify(payment, offers)
    if (identified.kind === 'unavailable') return away(identified.reason)
    if (identified.kind === 'refused') return reject(identified.code, identified.reason)
    const { payer, key, expiresAt, offer } = identified

    const request = fingerprint(requestContext.request.method, requestContext.path, asked)
    const tag =
      named === undefined ? undefined : tagOf({ gateway: gatewayContext.name, payer, id: named, fingerprint: request })
    const answered = async () => tag && (await repeat(endpoint, tag, requestContext))
    const again = await answered()
    if (again) return again
    // Whoever came first with the same identifier may meanwhile have what this one is refused.
    const refuse = async (code: PaymentCode, reason: string, more: replies.Body = {}) =>
      (await answered()) ?? reject(code, reason, { payer, ...more })
    const replayed = async (call: Call) => {
      // Before its first send only the wallet can have the authorization; after it everybody has, and the caller must be the one of the order (contract 1.41).
      const isSame = call.fingerprint === request
      const isRightful =
        !wasHandedOut(call) || (isSame && (await gatewayContext.pollUrls.isFrom(call, requestContext.ip)))
      const repeated = isSame && isRightful ? await resend(endpoint, call, requestContext) : undefined
      const worded = endpoint.replayError === undefined ? {} : { error: endpoint.replayError }
      return (
        repeated ??
        (await refuse('PAYMENT_REPLAY', 'the payment authorization was already used', {
          ...worded,
          ...(await recovery(call, isRightful)),
        }))
      )
    }

    const known = await storage.callOf(key, clock.now())
    if (known) return await replayed(known)

    const [verdict, isPublic] = await Promise.all([
      offering.verify(payment, offer),
      isNotedHandedOut(storage, key, clock.now()),
    ])
    if (verdict.kind === 'unavailable') return away(verdict.reason)
    if (isPublic) return await refuse('PAYMENT_REPLAY', replies.SIGN_AFRESH)
    if (verdict.kind === 'refused') {
      const winner = await storage.callOf(key, clock.now())
      return await (winner ? replayed(winner) : refuse(verdict.code, verdict.reason))
    }

    const left = expiresAt - clock.now()
    // An offer of a chain or an operator may allow less than usual.
    const minLifeMs = Math.min(timeouts.minLifeMs, offer.maxTimeoutSeconds * 500)
    if (endpoint.delivery === 'stream' && left < minLifeMs)
      return await refuse(
        'PAYMENT_UNFUNDED',
        `the authorization ends in ${Math.max(0, Math.floor(left / 1000))} seconds; a call of this kind needs at least ${minLifeMs / 1000} seconds. Sign now + maxTimeoutSeconds`,
      )

    const asset = purseOf(identified)
    if (endpoint.delivery === 'stream' && !isAllowed(payer, endpoint.allowlists?.(input))) throw notAdmitted(payer)
    // What moves nothing adds to no debt; it may be the very link by which a wallet is filled.
    const isFree = price.amount === 0n
    const isUnpaidFirst =
      endpoint.delivery === 'stream' && endpoint.deferred?.(input, { id: '', createdAt: 0, key: '' }) === undefined
    const block =
      servesBeforeSettlement(endpoint) && !isFree
        ? await blockOf(
            storage,
            { payer, asset },
            {
              now: clock.now(),
              since: clock.now() - timeouts.unpaidBlockMs,
              newWorth: gatewayContext.newWallet.worth,
            },
          )
        : undefined
    if (block?.kind === 'abandoned')
      return await refuse('PAYMENT_UNFUNDED', abandonedText(block, clock.now()), {
        retryAfterSeconds: Math.ceil((block.until - clock.now()) / 1000),
      })
    if (block)
      return await refuse(
        'PAYMENT_UNFUNDED',
        'this wallet has had an answer whose payment was refused, or lets several results lie; collect that call to pay for it',
        await recovery(block.call, true),
      )
    const holds = verdict.balance ?? 0n
    const waiting =
      servesBeforeSettlement(endpoint) || isFree
        ? undefined
        : await uncollectedJobOf(storage, { payer, asset }, { now: clock.now(), next: price.amount, holds })
    if (waiting)
      return await refuse(
        'PAYMENT_UNFUNDED',
        'more results wait for this wallet than it can pay for; collect one first',
        await recovery(waiting, true),
      )
    const now = clock.now()
    const authorization: Authorization = { key, payer, payment, offer, expiresAt }
    const fresh = newId(ports.random)
    const id = tag ? await bindTag(storage, tag, { call: fresh, keep: endpoint.retention, now }) : fresh
    const { model, request: said } = endpoint.remember(input)
    // A poll URL ends no earlier than what it may collect.
    const longest = timeouts.stallMs + Math.max(endpoint.retention.unclaimedMs, endpoint.retention.settledMs)
    const remembered = {
      ...(await gatewayContext.pollUrls.signed(endpoint, said, { id, expiresAt: now + longest })),
      ...(await gatewayContext.pollUrls.from(id, requestContext.ip)),
    }
    const opening = storage.openCall(
      {
        id,
        gateway: gatewayContext.name,
        endpoint: endpoint.name,
        payer,
        asset,
        quote: price.amount,
        offer,
        fingerprint: request,
        model,
        request: remembered,
        createdAt: now,
        workerId: gatewayContext.workerId,
        expiresAt: now + endpoint.retention.unclaimedMs,
      },
      authorization,
      {
        now,
        until: now + timeouts.workLeaseMs,
        ...(!isFree && { cap: capOf(verdict, isUnpaidFirst ? gatewayContext.newWallet : undefined) }),
      },
    )
    const opened = await opening.catch(async (error) => {
      const first = tag && (await storage.getCall(id))
      if (first && first.authorization !== key) return { kind: 'replayed' as const, call: first }
      return await abandon(storage, { id }, { error, now: clock.now() })
    })
    if (opened.kind === 'replayed') return await replayed(opened.call)
    if (opened.kind === 'over') return await refuse('PAYMENT_UNFUNDED', overText(opened, gatewayContext.newWallet))
    meter.judged('valid')
    counting.refund()
    const working = { input, call: opened.call, authorization, requestContext, settlesEarly: opened.atLimit === true }
    return endpoint.delivery === 'stream'
      ? await streamed.serve({ ...working, endpoint })
      : await serve({ ...working, endpoint })
  }

  function isAllowed(payer: string, list: Allowlist | undefined): boolean {
    if (!list) return true
    const allowlists = gatewayContext.allowlists[list.name]
    return allowlists ? allowlists.includes(payer.toLowerCase()) : list.unset === 'everybody'
  }

  /** The answer to a repetition: what a poll would say of the call. Nothing, where there is no call, or it came to nothing. */
  async function repeat(endpoint: Sold, tag: Tag, requestContext: RequestContext): Promise<Reply | undefined> {
    const now = clock.now()
    const known = await taggedCall(storage, tag, now)
    const call = known && (await failIfOverdue(storage, known, { now, timeouts, living: gatewayContext.living }))
    if (!call || isOver(call, now)) return undefined
    return await again(endpoint, call, requestContext)
  }

  /** The answer to the same signed request, sent again because its reply was lost (contract 1.39). Nothing while it is made, or when it is too late. */
  async function resend(endpoint: Sold, call: Call, requestContext: RequestContext): Promise<Reply | undefined> {
    if (
      !servesBeforeSettlement(endpoint) ||
      call.endpoint !== endpoint.name ||
      call.workStatus !== 'completed' ||
      call.result === null
    )
      return undefined
    const isLate = clock.now() > (call.endedAt ?? 0) + timeouts.resendMs
    return isLate && call.paymentStatus === 'settled' ? undefined : await again(endpoint, call, requestContext)
  }

  /** To one who is known to have sent the order. */
  async function again(endpoint: Sold, call: Call, requestContext: RequestContext): Promise<Reply> {
    const key = await gatewayContext.pollUrls.keyOf(call.id)
    const running = (unpaid: Call) =>
      replies.envelope(endpoint, unpaid, { key, status: unpaid.workStatus === 'queued' ? 'queued' : 'in_progress' })
    return await collect(endpoint, call, {
      requestContext,
      running,
      more: replies.recovery(endpoint, call, key),
      isOrder: true,
      isKeyed: true,
    })
  }
}

async function orElse<T>(read: () => Promise<T>, otherwise: T): Promise<T> {
  try {
    return await read()
  } catch {
    return otherwise
  }
}

/** A quote of nothing, for what is free. */
const NOTHING: Price = { amount: usdc(0n), maxTimeoutSeconds: 300, publicPrice: {} }
const NOTHING_ASKED: RequestHead = { params: {}, header: () => null }
const askedOf = ({ params, request }: RequestContext): RequestHead => ({
  params,
  header: (name) => request.headers.get(name),
})

/** A query for what is passed on: what it says several times is a list, and whoever takes one text refuses it. Half of a question is another question. */
function everyQueryValue(query: URLSearchParams): Record<string, string | string[]> {
  const said = new Map<string, string | string[]>()
  for (const [name, value] of query) {
    const before = said.get(name)
    if (Array.isArray(before)) before.push(value)
    else said.set(name, before === undefined ? value : [before, value])
  }
  return Object.fromEntries(said)
}

function freeHere({ path }: Sold): ApiError {
  return new ApiError('METHOD_NOT_ALLOWED', {
    message: `${path} is free here: POST a request to it.`,
    headers: { allow: 'OPTIONS, POST' },
  })
}

function notConfigured({ summary }: Sold): ApiError {
  return new ApiError('NOT_CONFIGURED', {
    message: `${summary}: the operator has not configured this model. Nothing was charged.`,
  })
}

function notAdmitted(payer: string): ApiError {
  return new ApiError('NOT_ALLOWED', {
    message: `The operator has not listed the wallet ${payer} for this route. Nothing was charged.`,
  })
}

/** Somebody's web page, in a browser on this machine, is not the person who started the gateway. */
function foreignPage(origin: string): ApiError {
  return new ApiError('NOT_ALLOWED', {
    message: `Free models are not served to web pages of ${clip(origin)}. Call from a page on localhost, or without a browser.`,
  })
}

/** 429 with the four headers; the reset in unix seconds (contract 4.10). */
function freeTierSpent(
  { requests, windowMs }: { requests: number; windowMs: number },
  resetAt: number,
  now: number,
): ApiError {
  return new ApiError('FREE_TIER_RATE_LIMITED', {
    message: `What is free answers ${requests} requests in ${minutes(windowMs)} from one address. Wait, or choose what is paid.`,
    headers: {
      'retry-after': String(Math.max(1, Math.ceil((resetAt - now) / 1000))),
      'x-ratelimit-limit': String(requests),
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': String(Math.ceil(resetAt / 1000)),
    },
  })
}

const minutes = (ms: number): string => (ms === 60_000 ? 'a minute' : `${ms / 60_000} minutes`)
