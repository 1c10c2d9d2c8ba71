/** One paid call from start to finish. The only file that knows the order of work and money. */
import { type Completion, fail, isForgotten, isOver, type Money, overdue, type Patience, type Paying, settleCall, STALLED, within } from './calls.ts'
import type { Catalog } from './catalog/mod.ts'
import type { Paid, Poll, Price, Reply, Stored } from './endpoint.ts'
import { Fault, plain } from './faults.ts'
import { bindTag, identifierOf, type Tag, taggedCall, tagOf } from './identifier.ts'
import { budget, type Intake, intake, isForm, parseForm, parseJson, readBody, readRaw } from './intake.ts'
import { LOST } from './ledger.ts'
import { mirror } from './mirror.ts'
import { print, type Usdc } from './money.ts'
import { isBrowser } from './paywall.ts'
import type { Authorization, Call, Identity, Json, PaymentCode, Ports } from './ports.ts'
import * as replies from './replies.ts'
import { fingerprint, newId } from './tickets.ts'
import { fits, gone, notOnOffer, paymentHeader, resourceOf, type Visit } from './visit.ts'
import { decodePayment, type Offer, type Payment, refusalHeaders } from './x402.ts'

/** What the flow of one gateway is made of. */
export type House = {
  readonly name: string
  /** `base`, `base-sepolia`, ... (ruling 7). */
  readonly label: string
  readonly ports: Ports
  readonly catalog: Catalog
  readonly paid: ReadonlyMap<string, Paid>
  readonly patience: Patience
  /** Names this process in the calls that it works on. */
  readonly owner: string
  /** Largest request body and largest mirrored piece of media, in bytes. */
  readonly maxBody: number
  readonly maxUpload: number
  readonly maxMedia: number
  /** What a payer may have open when no balance can be read. */
  readonly unreadableCap: Usdc
  /** Overrides every inline window, in milliseconds. */
  readonly inlineMs?: number
}

export type Flow = {
  sell(endpoint: Paid, visit: Visit): Promise<Reply>
  /** The 402 that a probe without a body gets: the default price (ruling 2). */
  discover(endpoint: Paid, visit: Visit): Reply
  poll(endpoint: Poll, visit: Visit, id: string): Promise<Reply>
}

/** What all steps of one call share. */
type Working = { readonly endpoint: Paid; readonly input: unknown; readonly call: Call; readonly authorization: Authorization; readonly visit: Visit }
type Taking = { readonly input: unknown; readonly price: Price; readonly offers: readonly Offer[]; readonly header: string; readonly asked: string; readonly visit: Visit }
type Done = { kind: 'made'; stored: Stored; raw: readonly string[]; completion: Completion } | { kind: 'failed'; fault: Fault }

/** How many of the largest uploads may be read at a time; each may be held whole, several times over. */
const UPLOADS_AT_ONCE = 8

export function flow(house: House): Flow {
  const { ports, catalog, patience, label } = house
  const { storage, chain, clock, log } = ports
  const money: Money = { storage, chain, clock, log, patience }
  const mirroring = { ports, maxBytes: house.maxMedia }
  const context = { catalog }
  const uploads = budget(UPLOADS_AT_ONCE * house.maxUpload)
  const offering = { catalog, vendors: ports.vendors }
  const intakes = new Map<Paid, Intake>([...house.paid.values()].map((endpoint) => [endpoint, intake(endpoint.input)]))

  return { sell, discover, poll }

  // ── 1 to 3: parse, price, challenge. No database, no network ──────────────────────────────────────────────────────

  async function sell(endpoint: Paid, visit: Visit): Promise<Reply> {
    const header = paymentHeader(visit.request)
    const { body, value } = await receive(endpoint, visit.request)
    if (body.length === 0 && header === null) return discover(endpoint, visit)
    const said = await value()
    const input = endpoint.check(intakes.get(endpoint)?.(said), context)
    if (!endpoint.serves(input, offering)) throw notConfigured(endpoint)
    const price = endpoint.price(input, context)
    const offers = offersOf(price)
    if (header === null) return demand(endpoint, visit, { offers, price, why: replies.paymentRequired(price) })
    const asked = typeof body === 'string' ? body : JSON.stringify(said)
    return await take(endpoint, { input, price, offers, header, asked, visit })
  }

  /** The body, and how to read it: as a form where the endpoint takes one, else as JSON. */
  async function receive(endpoint: Paid, request: Request): Promise<{ body: string | Uint8Array; value(): unknown }> {
    const type = request.headers.get('content-type')
    if (endpoint.multipart && isForm(type)) {
      const body = await uploads.room(request, () => readRaw(request, house.maxUpload))
      return { body, value: async () => await endpoint.multipart?.(await parseForm(body, type)) }
    }
    const body = endpoint.uploads ? await uploads.room(request, () => readBody(request, house.maxUpload)) : await readBody(request, house.maxBody)
    return { body, value: () => parseJson(body, type) }
  }

  function discover(endpoint: Paid, visit: Visit): Reply {
    const input = endpoint.check(endpoint.sample(offering) ?? endpoint.example, context)
    if (!endpoint.serves(input, offering)) throw notConfigured(endpoint)
    const price = endpoint.price(input, context)
    return demand(endpoint, visit, { offers: offersOf(price), price, why: replies.paymentRequired(price) })
  }

  function demand(endpoint: Paid, visit: Visit, { offers, price, why }: { offers: readonly Offer[]; price: Price; why: replies.Body }): Reply {
    const asking = { offers, resource: resourceOf(endpoint, visit), label }
    const reply = replies.demand(asking, why, replies.shownPrice(price), price.also)
    const isVisitor = paymentHeader(visit.request) === null && isBrowser(visit.request.headers)
    return isVisitor ? replies.demandPage(reply, asking) : reply
  }

  /** Our offers at this price. While the chain is not ready: `otherwise`, or NOT_READY, for a paid route opens only with an offer. */
  function offersOf({ amount, maxTimeoutSeconds }: Pick<Price, 'amount' | 'maxTimeoutSeconds'>, otherwise: readonly Offer[] = []): readonly Offer[] {
    const today = chain.terms(clock.now()).map(({ scheme, network, asset, payTo, extra }) => {
      return { scheme, network, amount: amount.toString(), asset, payTo, maxTimeoutSeconds, extra }
    })
    const offers = today.length > 0 ? today : otherwise
    if (offers.length > 0) return offers
    throw new Fault('NOT_READY', { message: 'The gateway has not yet been able to check its chain. Nothing was charged.', headers: { 'retry-after': '5' } })
  }

  // ── 4 to 7: identify, known?, verify, open ────────────────────────────────────────────────────────────────────────

  async function take(endpoint: Paid, { input, price, offers, header, asked, visit }: Taking): Promise<Reply> {
    const reject = (code: PaymentCode, reason: string, more: replies.Body = {}) =>
      demand(endpoint, visit, { offers, price, why: { ...replies.verificationFailed(code, reason), ...more } })
    const decoded = decodePayment(header)
    if (!decoded.ok) return reject('PAYMENT_INVALID', decoded.reason)
    const { payment } = decoded
    const named = identifierOf(payment)
    const identified = await identify(payment, offers)
    if (identified.kind === 'unavailable') throw replies.cannotVerify(identified.reason)
    if (identified.kind === 'refused') return reject(identified.code, identified.reason)
    const { payer, key, expiresAt, offer } = identified

    const request = fingerprint(visit.request.method, visit.path, asked)
    const tag = named === undefined ? undefined : tagOf({ gateway: house.name, payer, id: named, fingerprint: request })
    const answered = async () => tag && (await repeat(endpoint, tag, visit))
    const again = await answered()
    if (again) return again
    // Whoever came first with the same identifier may meanwhile have what this one is refused.
    const refuse = async (...why: Parameters<typeof reject>) => (await answered()) ?? reject(...why)
    const replayed = (call: Call) => refuse('PAYMENT_REPLAY', 'the payment authorization was already used', recovery(call))

    const known = await storage.callOf(key, clock.now())
    if (known) return await replayed(known)

    const verdict = await verify(payment, offer)
    if (verdict.kind === 'unavailable') throw replies.cannotVerify(verdict.reason)
    if (verdict.kind === 'refused') {
      const winner = await storage.callOf(key, clock.now())
      return await (winner ? replayed(winner) : refuse(verdict.code, verdict.reason))
    }

    const now = clock.now()
    const authorization: Authorization = { key, payer, payment, offer, expiresAt }
    const fresh = newId(ports.random)
    const id = tag ? await bindTag(storage, tag, { call: fresh, keep: endpoint.keep, now }) : fresh
    const opening = storage.openCall(
      {
        id,
        gateway: house.name,
        endpoint: endpoint.name,
        payer,
        asset: `${offer.network}/${offer.asset.toLowerCase()}`,
        quote: price.amount,
        offer,
        fingerprint: request,
        ...endpoint.remember(input),
        createdAt: now,
        owner: house.owner,
        expiresAt: now + endpoint.keep.unclaimedMs,
      },
      authorization,
      { now, until: now + patience.workLeaseMs, cap: { observed: verdict.balance ?? house.unreadableCap, asOf: verdict.asOf } },
    )
    const opened = await opening.catch(async (error) => {
      const first = tag && (await storage.getCall(id))
      if (first && first.authorization !== key) return { kind: 'replayed' as const, call: first }
      return await release({ id }, error)
    })
    if (opened.kind === 'replayed') return await replayed(opened.call)
    if (opened.kind === 'over') {
      return await refuse('PAYMENT_UNFUNDED', `the open calls of this wallet would come to ${print(opened.sum)} USDC, more than it holds`)
    }
    return await serve({ endpoint, input, call: opened.call, authorization, visit })
  }

  /** The answer to a repetition: what a poll would say of the call. Nothing, where there is no call, or it came to nothing. */
  async function repeat(endpoint: Paid, tag: Tag, visit: Visit): Promise<Reply | undefined> {
    const now = clock.now()
    const known = await taggedCall(storage, tag, now)
    const call = known && (await failIfOverdue(known, now))
    if (!call || isOver(call, now)) return undefined
    const running = (unpaid: Call) => replies.envelope(endpoint, unpaid, unpaid.work === 'queued' ? 'queued' : 'in_progress')
    return await collect(endpoint, call, { visit, running, more: replies.recovery(endpoint, call) })
  }

  type Identified = (Extract<Identity, { kind: 'known' }> & { offer: Offer }) | Exclude<Identity, { kind: 'known' }>

  /** Who signed, judged against the first of the offers that the payment fits. */
  async function identify(payment: Payment, offers: readonly Offer[]): Promise<Identified> {
    const fitting = offers.filter((offer) => fits(offer, payment.accepted))
    let refused: Identified = { kind: 'refused', code: 'PAYMENT_INVALID', reason: notOnOffer(payment.accepted, offers) }
    for (const offer of fitting) {
      const identity = await within(clock, patience.verifyMs, (signal) => chain.identify(payment, offer, { signal })).catch(couldNotAsk)
      if (identity.kind === 'known') return { ...identity, offer }
      if (identity.kind === 'unavailable') return identity
      refused = identity
    }
    return refused
  }

  function verify(payment: Payment, offer: Offer) {
    return within(clock, patience.verifyMs, (signal) => chain.verify(payment, offer, { now: clock.now(), signal })).catch(couldNotAsk)
  }

  // ── 8 to 12: work, mirror, store, settle, reply ───────────────────────────────────────────────────────────────────

  /** Answers inline while the window lasts and the caller stays. The work goes on in any case. */
  async function serve(working: Working): Promise<Reply> {
    const { endpoint, input, call, visit } = working
    const settle = endpoint.settle(input, context)
    const windowMs = settle.mode === 'hybrid' ? (house.inlineMs ?? settle.windowMs) : 0
    if (windowMs <= 0) {
      ports.background(workLater(working).catch((error) => release(call, error)))
      return replies.envelope(endpoint, call)
    }
    const turn = { isSettling: false, isOver: false }
    const work = workInline(working, turn).catch((error) => release(call, error))
    ports.background(work)
    const waiting = new AbortController()
    const reply = await Promise.race([work, gone(visit.gone, waiting.signal), clock.wait(windowMs, waiting.signal).then(() => undefined)])
    waiting.abort()
    if (reply) return reply
    if (turn.isSettling) return (await work) ?? replies.envelope(endpoint, call)
    turn.isOver = true
    ports.background(begin(call))
    return replies.envelope(endpoint, call)
  }

  /** Works, then settles at once, unless the inline turn is over or the caller has gone: the result then waits for a poll to pay. */
  async function workInline(working: Working, turn: { isSettling: boolean; isOver: boolean }): Promise<Reply | undefined> {
    const { endpoint, call, visit, authorization } = working
    const done = await make(working)
    if (done.kind === 'failed') return failure(call, done.fault)
    if (turn.isOver || visit.gone.aborted) return await complete(call, done.completion)
    turn.isSettling = true
    const keepUntil = clock.now() + endpoint.keep.settledMs
    const paying = await settleCall(money, call, authorization, { completion: done.completion, keepUntil })
    if (paying.kind === 'settled') return result(working, done, paying)
    if (paying.kind === 'unknown' || paying.kind === 'unresolved' || paying.kind === 'unavailable') return replies.envelope(endpoint, call, 'in_progress')
    const ended = await storage.getCall(call.id)
    if (ended?.error) return failure(call, new Fault('WORK_FAILED', { error: endpoint.failure, details: ended.error }))
    const reason = paying.kind === 'replayed' ? 'the authorization serves another call' : paying.reason
    return replies.inlineRefusal(endpoint, call, reason)
  }

  async function workLater(working: Working): Promise<void> {
    await begin(working.call)
    const done = await make(working)
    if (done.kind === 'made') await complete(working.call, done.completion)
  }

  async function begin(call: Call): Promise<void> {
    await storage.moveCall(call.id, { work: ['queued'], owner: house.owner }, { work: 'in_progress', startedAt: clock.now() })
  }

  /** When storage fails under a call, its authorization must not stay bound to work that nobody does. */
  async function release(call: Pick<Call, 'id'>, error: unknown): Promise<never> {
    await fail(storage, call, LOST, clock.now())
    throw error
  }

  /** Runs the work under the stall deadline and mirrors its media. A failure is recorded here, which frees the authorization. */
  async function make({ endpoint, input, call }: Working): Promise<Done> {
    const stallsAt = clock.now() + patience.stallMs
    try {
      const order = { id: call.id, input, payer: call.payer, catalog, vendors: ports.vendors }
      const made = await within(clock, patience.stallMs, (signal) => endpoint.run({ ...order, signal }))
      const media = await mirror(mirroring, call.id, made.media)
      const now = clock.now()
      const stored: Stored = { made: made.result, media, created: Math.floor(now / 1000) }
      return { kind: 'made', stored, raw: made.media?.urls ?? [], completion: { result: stored as unknown as Json, expiresAt: now + endpoint.keep.unclaimedMs } }
    } catch (error) {
      const fault = asFault(endpoint, error)
      if (!(error instanceof Fault)) log.warn('work failed', { call: call.id, endpoint: endpoint.name, error: (error as Error).message })
      const now = clock.now()
      await fail(storage, call, now < stallsAt ? failureText(fault) : STALLED, now)
      return { kind: 'failed', fault }
    }
  }

  async function complete(call: Call, { result, expiresAt }: Completion): Promise<undefined> {
    const from = { work: ['queued', 'in_progress'], owner: house.owner, money: 'verified' } as const
    const isWon = await storage.moveCall(call.id, from, { work: 'completed', result, expiresAt, endedAt: clock.now() })
    if (!isWon) log.warn('a result came too late: its call had already ended', { call: call.id })
  }

  function result({ endpoint, call, visit }: Pick<Working, 'endpoint' | 'call' | 'visit'>, { stored, raw }: { stored: Stored; raw?: readonly string[] }, { receipt, now }: Extract<Paying, { kind: 'settled' }>): Reply {
    return replies.result(endpoint, call, { stored, receipt, label, href: hrefOn(visit), isFirst: now, ...(raw && { raw }) })
  }

  // ── polls ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  async function poll({ of }: Poll, visit: Visit, id: string): Promise<Reply> {
    const now = clock.now()
    const found = await storage.getCall(id)
    const isOurs = found && (of === 'all' || of.includes(found.endpoint))
    const endpoint = isOurs ? house.paid.get(found.endpoint) : undefined
    if (!found || !endpoint || found.gateway !== house.name || isForgotten(found, now)) {
      throw new Fault('JOB_NOT_FOUND', { message: 'There is no such job here: it never existed, or has expired.' })
    }
    const running = (call: Call, note?: string) => replies.running(endpoint, call, note)
    return await collect(endpoint, found, { visit, running })
  }

  type Collecting = { readonly visit: Visit; readonly running: (call: Call, note?: string) => Reply; readonly more?: replies.Body }

  /** What a wallet gets for a call that it has opened. `more` joins the body of a 402. */
  async function collect(endpoint: Paid, found: Call, { visit, running, more }: Collecting): Promise<Reply> {
    const now = clock.now()
    const offers = offersOf({ amount: found.quote, maxTimeoutSeconds: found.offer.maxTimeoutSeconds }, [found.offer])
    const asking = { offers, resource: resourceOf(endpoint, visit), label }
    const require = (why: replies.Body) => replies.demand(asking, { ...more, ...why, job_id: why.job_id ?? found.id, model: found.model }, replies.priceOf(found))
    const reject = (code: PaymentCode, reason: string) => require(replies.verificationFailed(code, reason))

    // HEAD must change nothing, so it never pays.
    const header = visit.request.method === 'HEAD' ? null : paymentHeader(visit.request)
    if (header === null) return require(replies.signToCollect)
    const decoded = decodePayment(header)
    if (!decoded.ok) return reject('PAYMENT_INVALID', decoded.reason)
    const identified = await identify(decoded.payment, [found.offer, ...offers.filter(({ payTo }) => payTo !== found.offer.payTo)])
    // Public clients end a job on anything but 202 and 504 (reference clients 2).
    if (identified.kind === 'unavailable') return running(found, replies.CHAIN_AWAY)
    if (identified.kind === 'refused') return reject(identified.code, identified.reason)
    const { payer, key, expiresAt, offer } = identified
    if (payer !== found.payer) throw new Fault('PAYER_MISMATCH', { message: `This job was submitted by another wallet than ${payer}.` })

    const call = await failIfOverdue(found, now)
    if (call.work === 'failed') return replies.failed(endpoint, call)
    if (call.work !== 'completed') return running(call)
    const stored = call.result as unknown as Stored
    const collected = { endpoint, call, visit }
    if (call.receipt) return result(collected, { stored }, { kind: 'settled', receipt: call.receipt, now: false })

    const authorization: Authorization = { key, payer, payment: decoded.payment, offer, expiresAt }
    const paying = await settleCall(money, call, authorization, { keepUntil: now + endpoint.keep.settledMs })
    if (paying.kind === 'settled') return result(collected, { stored }, paying)
    if (paying.kind === 'unknown') return running(call, replies.CONFIRMING)
    if (paying.kind === 'unresolved') return replies.unsettled(endpoint, call, { stored, label, href: hrefOn(visit) })
    if (paying.kind === 'unavailable') return running(call, replies.CHAIN_AWAY)
    if (paying.kind === 'rejected') return reject(paying.code, paying.reason)
    if (paying.kind === 'replayed') {
      return require({ ...replies.verificationFailed('PAYMENT_REPLAY', 'the payment authorization was already used'), ...recovery(paying.call) })
    }
    const refusal = require(replies.settlementFailed(paying.reason))
    return { ...refusal, headers: { ...refusal.headers, ...refusalHeaders({ reason: paying.reason, network: offer.network, payer }) } }
  }

  /** A call whose owner died, or that ran too long, fails when somebody looks at it. */
  async function failIfOverdue(call: Call, now: number): Promise<Call> {
    const error = overdue(call, now, patience)
    if (!error) return call
    await fail(storage, call, error, now)
    return (await storage.getCall(call.id)) ?? call
  }

  /** Where a hosted object is fetched: its store's public address, else this gateway under the origin that was called. */
  function hrefOn({ origin }: Visit): (key: string) => string {
    return (key) => ports.objects.url?.(key) ?? `${origin}/api/media/${key}`
  }

  /** How a replayed payment finds its call; nothing, where the call can no longer be collected here. */
  function recovery(call: Call): replies.Body {
    const endpoint = house.paid.get(call.endpoint)
    const isHere = endpoint && call.gateway === house.name && !isForgotten(call, clock.now())
    return isHere ? replies.recovery(endpoint, call) : {}
  }
}

const couldNotAsk = (error: Error) => ({ kind: 'unavailable' as const, reason: error.message })

function notConfigured({ summary }: Paid): Fault {
  return new Fault('NOT_CONFIGURED', { message: `${summary}: the operator has not configured this model. Nothing was charged.` })
}

function asFault(endpoint: Paid, error: unknown): Fault {
  if (error instanceof Fault) return error
  return new Fault('WORK_FAILED', { error: endpoint.failure, details: 'The model did not deliver a result. Nothing was charged.' })
}

function failureText({ message, parts }: Fault): string {
  return typeof parts.details === 'string' ? `${message}: ${parts.details}` : message
}

/** An inline failure that is not the buyer's names its job (spec 1, Errors 500). */
function failure(call: Call, fault: Fault): Reply {
  if (fault.code !== 'WORK_FAILED') return plain(fault)
  return plain(new Fault(fault.code, { ...fault.parts, fields: { ...fault.parts.fields, job_id: call.id } }))
}
