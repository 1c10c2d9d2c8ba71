/**
 * Steps 4 to 7 of a paid call: identify the payer, look for an earlier use of the authorization, verify the payment,
 * open the call. Each step extends the result of the one before it, or returns why no call is opened.
 */
import type { Allowlist, Price, Sold } from '../endpoint/mod.ts'
import { servesBeforeSettlement } from '../endpoint/mod.ts'
import { isOver } from '../endpoint/records.ts'
import * as replies from '../endpoint/replies.ts'
import { addressKey } from '../http/caller_address.ts'
import { ApiError } from '../http/errors.ts'
import type { Reply } from '../http/reply.ts'
import type { UnpaidCount } from '../http/unpaid_work.ts'
import { bodyFingerprint, newId } from '../lib/ids.ts'
import { abandonedText } from '../payment/unpaid/abandoned_calls.ts'
import { capOf, overText } from '../payment/ledger/exposure.ts'
import { bindTag, identifierOf, type Tag, taggedCall, tagOf } from '../payment/identified_calls.ts'
import type { SpendingHold } from '../payment/control/spending.ts'
import { balanceKeyOf } from '../payment/offers.ts'
import { wasHandedOut } from '../identity/proofs.ts'
import { isNotedHandedOut } from '../payment/settlement/sent_authorizations.ts'
import { abandon, fail, failIfOverdue } from '../payment/settlement/fail.ts'
import {
  type Counted,
  countUnproven,
  notePaid,
  unprovenPrice,
  type Full,
  fullText,
  isKnownFull,
  MAX_RETRY_S,
  worthOf,
} from '../payment/unpaid/new_wallets.ts'
import { blockOf, uncollectedJobOf } from '../payment/unpaid/unpaid_calls.ts'
import { silent } from '../ports/meter.ts'
import type { Authorization, Call, Corrected, Opened, PaymentCode, Verdict } from '../ports/mod.ts'
import { isCumulative, withCorrected } from '../x402/offer.ts'
import type { Offer, Payment } from '../x402/protocol.ts'
import type { Challenges } from './payment_required.ts'
import { securePayment } from '../payment/settlement/secure_payment.ts'
import type { Engine } from '../engine.ts'
import type { OpenedCall } from './work/opened_call.ts'
import type { Polls } from './poll.ts'
import type { RequestContext } from '../endpoint/request_context.ts'

/** A validated and priced order. `asked` is its body as text; the fingerprint is computed from it. */
export type PricedOrder = {
  readonly endpoint: Sold
  readonly input: unknown
  readonly price: Price
  readonly offers: readonly Offer[]
  readonly counting: UnpaidCount
  readonly bodyText: string
  readonly requestContext: RequestContext
  /** When it was priced, for the operator's timeline. */
  readonly quotedAt: number
}

/** Step 4: an order with a signed payment. */
type Signed = PricedOrder & {
  readonly kind: 'signed'
  readonly payment: Payment
  readonly payer: string
  readonly otherAddress: string | undefined
  readonly key: string
  readonly expiresAt: number
  readonly offer: Offer
  /** Exposure is summed per asset. */
  readonly asset: string
  readonly fingerprint: string
  readonly tag: Tag | undefined
  /** The same for another key that has signed the payload: it may have ordered before. */
  readonly signerTag: Tag | undefined
}

/** Step 6: the payment has been verified. */
type Verified = Signed & { readonly verdict: Extract<Verdict, { kind: 'valid' }>; readonly verifiedAt: number }

/**
 * Why no call is opened. `refused` carries an error code; `replayed` means that the authorization already serves a
 * call.
 */
type Refused = {
  readonly kind: 'refused'
  readonly code: PaymentCode
  readonly reason: string
  readonly more?: replies.Body
  /** A corrected offer, in place of this one. */
  readonly corrected?: Corrected
  readonly offer?: Offer
  readonly retryAfterSeconds?: number
}
type Unavailable = { readonly kind: 'unavailable'; readonly reason: string }
type OpenedPayment = Extract<Accepted, { kind: 'opened' }>
type Replayed = { readonly kind: 'replayed'; readonly call: Call }

export type Accepted =
  | { readonly kind: 'opened'; readonly opened: OpenedCall }
  | { readonly kind: 'reply'; readonly reply: Reply }

export type AcceptPayment = (order: PricedOrder) => Promise<Accepted>

export function paymentAcceptance(
  engine: Engine,
  { demand, collect, recovery }: Pick<Challenges, 'demand'> & Pick<Polls, 'collect' | 'recovery'>,
): AcceptPayment {
  const { ports, offers: offering } = engine
  const { name: gateway, workerId } = engine.gateway
  const { timeouts, newWallet, newWallets: limit, allowlists, unverifiable } = engine.settings
  const { catalog } = engine.products
  const { controls, windows } = engine.limits
  const { pollUrls } = engine.identity
  const activeCalls = engine.calls.active
  const { storage, clock, log, meter = silent } = ports
  const hashOf = (address: string) => pollUrls.secretName(address, '')
  const unproven = { storage, log, gateway, limit, hashOf }

  return async function acceptPayment(order) {
    const signed = await identify(order)
    if (signed.kind === 'refused') return replied(reject(order, signed))
    if (signed.kind === 'unavailable') return replied(unverified(order, signed.reason))

    const repeated = await repeatOf(signed)
    if (repeated) return replied(repeated)
    const known = await storage.callOf(signed.key, clock.now())
    if (known) return replied(await replay(signed, known))

    const verified = await verify(signed)
    if (verified.kind === 'unavailable') return replied(unverified(order, verified.reason))
    if (verified.kind === 'refused') return replied(await refuse(signed, verified))
    if (verified.kind === 'replayed') return replied(await replay(signed, verified.call))

    const refusal = await admit(verified)
    if (refusal) return replied(await refuse(signed, refusal))
    const opened = await openWithin(verified)
    if (opened.kind === 'replayed') return replied(await replay(signed, opened.call))
    if (opened.kind === 'refused') return replied(await refuse(signed, opened))
    if (opened.kind === 'unavailable') return replied(unverified(order, opened.reason))
    meter.judged('valid')
    order.counting.refund()
    return opened
  }

  // ── 4: who signed ─────────────────────────────────────────────────────────────────────────────────────────────────

  async function identify(order: PricedOrder): Promise<Signed | Refused | Unavailable> {
    const { requestContext, bodyText, offers } = order
    const decoded = requestContext.payment
    if (!decoded?.ok)
      return { kind: 'refused', code: 'PAYMENT_INVALID', reason: decoded?.reason ?? 'there is no payment header' }
    const { payment } = decoded
    const id = identifierOf(payment)
    const identified = await offering.identify(payment, offers)
    if (identified.kind !== 'known') return identified
    const { payer, otherAddress, signer, key, expiresAt, offer } = identified
    const { method } = requestContext.request
    const request = await bodyFingerprint(method, requestContext.path, { body: bodyText, clock })
    const tagFor = (wallet: string | undefined) =>
      id !== undefined && wallet !== undefined ? tagOf({ gateway, payer: wallet, id, fingerprint: request }) : undefined
    const asset = balanceKeyOf(identified)
    const wallet = { payer, otherAddress, asset, tag: tagFor(payer), signerTag: tagFor(signer) }
    return { ...order, ...wallet, kind: 'signed', payment, key, expiresAt, offer, fingerprint: request }
  }

  // ── 5: is its authorization known, or the request itself? ─────────────────────────────────────────────────────────

  /**
   * Answers a repeated payment identifier as a poll of its call would. Undefined when there is no call, or when the
   * call failed.
   */
  async function repeatOf({ endpoint, tag, signerTag, requestContext }: Signed): Promise<Reply | undefined> {
    if (!tag) return undefined
    const now = clock.now()
    const known = (await taggedCall(storage, tag, now)) ?? (signerTag && (await taggedCall(storage, signerTag, now)))
    const call = known && (await failIfOverdue(storage, known, { now, timeouts, activeCalls }))
    if (!call || isOver(call, now)) return undefined
    return await answerAgain(endpoint, call, requestContext)
  }

  /**
   * Before the authorization is first sent, only the wallet can have it. Afterwards it is public, so the caller must be
   * the one who placed the order (contract 1.41).
   */
  async function replay(signed: Signed, call: Call): Promise<Reply> {
    const { endpoint, requestContext } = signed
    const isSame = call.fingerprint === signed.fingerprint
    const isKnown = !wasHandedOut(call) || (await pollUrls.isFrom(call, requestContext.ip))
    const isRightful = isKnown && (isSame || !wasHandedOut(call))
    const resent = isSame && isRightful ? await resend(endpoint, call, requestContext) : undefined
    if (resent) return resent
    const corrected = await correction(signed, call, isSame)
    if (corrected) return await refuse(signed, corrected)
    const worded = endpoint.replayError === undefined ? {} : { error: endpoint.replayError }
    const more = { ...worded, ...(isKnown && (await recovery(call, isRightful))) }
    return await refuse(signed, replayed(more))
  }

  /**
   * A buyer of a channel who signed from an earlier state than ours, such as after a stream, whose charge no header
   * says: it learns the state and signs again (contract 1.84). While the call before it is under way it waits for its
   * charge. The identical request is no mistake: it asks for the result, as long as that is sent again.
   */
  async function correction(signed: Signed, call: Call, isSame: boolean): Promise<Refused | undefined> {
    const { payment, offer } = signed
    if (!isCumulative(offer)) return undefined
    const giveUpAt = clock.now() + MAX_HOLD_MS
    for (let pause = 10, current: Call | undefined = call; current; current = await storage.getCall(call.id)) {
      if (isSame && !(current.endedAt !== null && clock.now() > current.endedAt + timeouts.resendMs)) return undefined
      const verdict = await offering.verify(payment, offer)
      if (verdict.kind === 'refused' && verdict.corrected) return verdict
      const isOver = current.workStatus === 'failed' || current.paymentStatus === 'settled'
      if (isOver || clock.now() >= giveUpAt) return undefined
      await clock.wait(pause)
      pause = Math.min(pause * 2, 200)
    }
    return undefined
  }

  /**
   * Answers an identical signed request that was sent again because its reply was lost (contract 1.39). Undefined while
   * the call is still running, and after the resend period.
   */
  async function resend(endpoint: Sold, call: Call, requestContext: RequestContext): Promise<Reply | undefined> {
    if (
      !servesBeforeSettlement(endpoint) ||
      call.endpoint !== endpoint.name ||
      call.workStatus !== 'completed' ||
      call.result === null
    )
      return undefined
    const isLate = clock.now() > (call.endedAt ?? 0) + timeouts.resendMs
    return isLate && call.paymentStatus === 'settled' ? undefined : await answerAgain(endpoint, call, requestContext)
  }

  /** Repeats the reply to a caller who is known to have sent the order. */
  async function answerAgain(endpoint: Sold, call: Call, requestContext: RequestContext): Promise<Reply> {
    const key = await pollUrls.keyOf(call.id)
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

  // ── 6: would it pay, and may this wallet order? ───────────────────────────────────────────────────────────────────

  async function verify(signed: Signed): Promise<Verified | Refused | Unavailable | Replayed> {
    const { payment, offer, key } = signed
    const [verdict, isPublic] = await Promise.all([
      offering.verify(payment, offer),
      isCumulative(offer) ? false : isNotedHandedOut(storage, key, clock.now()),
    ])
    if (verdict.kind === 'unavailable') return verdict
    if (isPublic) return { kind: 'refused', code: 'PAYMENT_REPLAY', reason: replies.SIGN_AFRESH }
    if (verdict.kind === 'valid') return { ...signed, verdict, verifiedAt: clock.now() }
    const winner = await storage.callOf(key, clock.now())
    return winner ? { kind: 'replayed', call: winner } : verdict
  }

  /** Returns why this wallet may not order, or undefined. Throws when the wallet is not on the operator's allowlist. */
  async function admit(verified: Verified): Promise<Refused | undefined> {
    const { endpoint, input, price, payer, otherAddress, offer, verdict } = verified
    controls?.requireOpen()
    if (endpoint.delivery !== 'stream') endpoint.admit?.(input, { catalog, vendors: ports.vendors })
    const short = endpoint.delivery === 'stream' ? shortLife(verified) : undefined
    if (short) return short
    if (endpoint.delivery === 'stream' && !isAllowed(payer, endpoint.allowlists?.(input))) throw notAdmitted(payer)
    controls?.requireListed(payer, otherAddress)
    // A call that moves no money adds no exposure, and it may be the on-ramp link that funds the wallet.
    if (price.amount === 0n) return undefined
    return servesBeforeSettlement(endpoint)
      ? await blockedFor({ payer, offer })
      : await waitingFor({ payer, offer }, { next: price.amount, holds: verdict.balance ?? 0n })
  }

  /**
   * Refuses an authorization that could expire before its answer is ready. The offer of a chain or an operator may
   * allow less time than usual.
   */
  function shortLife({ expiresAt, offer }: Verified): Refused | undefined {
    const left = expiresAt - clock.now()
    const minLifeMs = Math.min(timeouts.minLifeMs, offer.maxTimeoutSeconds * 500)
    if (left >= minLifeMs) return undefined
    return unfunded(
      `the authorization ends in ${Math.max(0, Math.floor(left / 1000))} seconds; a call of this kind needs at least ${minLifeMs / 1000} seconds. Sign now + maxTimeoutSeconds`,
    )
  }

  /** Refuses a wallet that has an unpaid or an uncollected result. */
  async function blockedFor(wallet: Pick<Signed, 'payer' | 'offer'>): Promise<Refused | undefined> {
    const now = clock.now()
    const since = now - timeouts.unpaidBlockMs
    const block = await blockOf(storage, wallet, { now, since, newWorth: newWallet.worth })
    if (block?.kind === 'abandoned')
      return later(abandonedText(block, clock.now()), Math.ceil((block.until - clock.now()) / 1000))
    return (
      block &&
      unfunded(
        'this wallet has an unpaid or uncollected result; collect that call first (poll_url)',
        await recovery(block.call, true),
      )
    )
  }

  /** Refuses a wallet with more uncollected jobs than it can pay for. */
  async function waitingFor(
    wallet: Pick<Signed, 'payer' | 'offer'>,
    { next, holds }: { next: bigint; holds: bigint },
  ): Promise<Refused | undefined> {
    const waiting = await uncollectedJobOf(storage, wallet, { now: clock.now(), next, holds })
    return (
      waiting &&
      unfunded(
        'this wallet has more uncollected results than it can pay for; collect one first (poll_url)',
        await recovery(waiting, true),
      )
    )
  }

  function isAllowed(payer: string, list: Allowlist | undefined): boolean {
    if (!list) return true
    const listed = allowlists[list.name]
    return listed ? listed.includes(payer.toLowerCase()) : list.unset === 'everybody'
  }

  // ── 7: the call ───────────────────────────────────────────────────────────────────────────────────────────────────

  /** Opens the call within the operator's limits on spending. */
  async function openWithin(verified: Verified): Promise<OpenedPayment | Refused | Unavailable | Replayed> {
    const { payer, price } = verified
    const order = { payer, gateway, amount: price.amount, limits: windows }
    const hold = await controls?.reserve(order)
    let isOpened = false
    try {
      const opening = await open(verified, hold)
      const opened = opening.kind === 'opened' ? await secured(verified, opening) : opening
      isOpened = opened.kind === 'opened'
      return opened
    } finally {
      if (!isOpened) hold?.release()
    }
  }

  async function open(verified: Verified, hold: SpendingHold | undefined): Promise<OpenedPayment | Refused | Replayed> {
    const { endpoint, input, price, payment, payer, key, expiresAt, offer, asset, tag, requestContext } = verified
    const now = clock.now()
    const authorization: Authorization = { key, payer, payment, offer, expiresAt }
    const fresh = newId(ports.random)
    const id = tag ? await bindTag(storage, tag, { call: fresh, retention: endpoint.retention, now }) : fresh
    const { model, request } = await remembered(verified, { id, now })
    const call = {
      id,
      gateway,
      endpoint: endpoint.name,
      payer,
      asset,
      quote: price.amount,
      offer,
      fingerprint: verified.fingerprint,
      model,
      request,
      createdAt: now,
      quotedAt: verified.quotedAt,
      verifiedAt: verified.verifiedAt,
      workerId,
      expiresAt: now + endpoint.retention.unclaimedMs,
    }
    const at = { now, until: now + timeouts.workLeaseMs, ...capFor(verified, now) }
    // The id of an order with an identifier may be taken, which storage has to see.
    const isInMemory = verified.verdict.isPrepaid && isAnsweredAtOnce(verified) && !tag
    const prepaid = isInMemory ? engine.calls.prepaid : undefined
    hold?.opening(id)
    const opened = prepaid ? prepaid.open(call, authorization) : storage.openCall(call, authorization, at)
    const opening = await opened.catch(async (error) => {
      const first = tag && (await storage.getCall(id))
      if (first && first.authorization !== key) return { kind: 'replayed' as const, call: first }
      return await abandon(storage, { id }, { error, now: clock.now() })
    })
    if (opening.kind === 'replayed') return opening
    if (opening.kind === 'over')
      return opening.why === 'new_wallets'
        ? later(fullText({ retryAfterSeconds: MAX_RETRY_S }, verified.offers), MAX_RETRY_S)
        : unfunded(overText(opening, newWallet))
    const started = await begin(verified, { authorization, opening }).catch((error) =>
      abandon(storage, opening.call, { error, now: clock.now() }),
    )
    if (started.kind === 'refused') return started
    const settlesEarly = opening.atLimit === true || started.settlesEarly
    const working = { endpoint, input, authorization, requestContext, margin: price.margin, settlesEarly }
    return { kind: 'opened', opened: { ...working, call: opening.call } }
  }

  /** Whether an open call may begin, and how it is settled. A call that is refused here has failed. */
  async function begin(
    verified: Verified,
    { authorization, opening }: { authorization: Authorization; opening: Extract<Opened, { kind: 'opened' }> },
  ): Promise<Refused | Exclude<Counted, Full>> {
    const moved = await movedSince(verified, opening.call)
    if (moved) return moved
    if (!opening.isNew) {
      notePaid(storage, verified, verified.price.amount)
      return { kind: 'counted', settlesEarly: false }
    }
    const { endpoint, input, price, requestContext, offers } = verified
    const now = clock.now()
    const worst = endpoint.delivery === 'stream' ? endpoint.worstCost?.(input) : undefined
    const caller = addressKey(requestContext.ip)
    const order = { call: opening.call, authorization, worth: worthOf(price.amount, worst), caller }
    const counted = await countUnproven(unproven, order, now)
    if (counted.kind === 'counted') return counted
    await fail(storage, opening.call, 'New wallets have too much unpaid at the moment. Nothing was charged.', now)
    return later(fullText(counted, offers), counted.retryAfterSeconds)
  }

  /** The opened call, once its deposit is on chain where it has one. */
  async function secured(
    { verdict }: Verified,
    { opened }: OpenedPayment,
  ): Promise<OpenedPayment | Refused | Unavailable> {
    const securing = verdict.isSecured ? await securePayment({ ports, timeouts }, opened) : undefined
    if (securing && securing.kind !== 'secured') return securing
    return { kind: 'opened', opened: securing?.extra ? { ...opened, secured: securing.extra } : opened }
  }

  /** Fails a call whose payer has asked for its money back since the payment was verified (decision 133). */
  async function movedSince(
    { verdict, payment, offer }: Verified,
    call: Pick<Call, 'id'>,
  ): Promise<Refused | undefined> {
    if ((await verdict.holds?.({ now: clock.now() })) !== false) return undefined
    await fail(storage, call, 'The payer asked for its money back before the work began.', clock.now())
    const now = await offering.verify(payment, offer)
    return now.kind === 'refused' ? now : unfunded('the money of this payment moved just now; sign again')
  }

  /**
   * What the call stores of its request: the fields that polls show, the signed poll URL, and a keyed hash of the
   * caller's address.
   */
  async function remembered(
    { endpoint, input, requestContext }: Verified,
    { id, now }: { id: string; now: number },
  ): Promise<Pick<Call, 'model' | 'request'>> {
    const { model, request } = endpoint.remember(input)
    // A poll URL must live at least as long as the result that it collects.
    const longest = timeouts.maxJobMs + Math.max(endpoint.retention.unclaimedMs, endpoint.retention.settledMs)
    const signed = await pollUrls.signed(endpoint, request, { id, expiresAt: now + longest })
    return { model, request: { ...signed, ...(await pollUrls.from(id, requestContext.ip)) } }
  }

  /**
   * The exposure cap of this payer; a call that moves no money needs none. A new wallet has a lower cap where answers
   * are served before settlement, and all of them have one together, unless the money is in a channel.
   */
  function capFor(verified: Verified, now: number): { readonly cap?: ReturnType<typeof capOf> } {
    const { price, verdict, requestContext } = verified
    if (price.amount === 0n) return {}
    const isAtOnce = isAnsweredAtOnce(verified)
    const isFull = isKnownFull(unproven, addressKey(requestContext.ip), now)
    const newWallets = { paid: unprovenPrice(storage, verified, price.amount), isFull }
    return { cap: capOf(verdict, { ...(isAtOnce && { newWallet }), ...(!isSecured(verified) && { newWallets }) }) }
  }

  // ── replies when no call is opened
  // ───────────────────────────────────────────────────────────────────────────────────

  function reject({ endpoint, requestContext, offers, price }: PricedOrder, refused: Refused): Reply {
    const { code, reason, more, corrected, offer, retryAfterSeconds } = refused
    meter.judged(code)
    const reply = demand(endpoint, requestContext, {
      offers: corrected && offer ? withCorrected(offers, { offer, extra: corrected.extra }) : offers,
      price,
      why: { ...replies.verificationFailed(code, reason), ...(corrected && { error: corrected.error }), ...more },
      ...(corrected && { error: corrected.error }),
    })
    if (retryAfterSeconds === undefined) return reply
    return { ...reply, headers: { ...reply.headers, 'retry-after': String(retryAfterSeconds) } }
  }

  /** Refuses, unless a concurrent request with the same payment identifier has opened a call in the meantime. */
  async function refuse(signed: Signed, refused: Refused): Promise<Reply> {
    const { payer, offer } = signed
    return (await repeatOf(signed)) ?? reject(signed, { offer, ...refused, more: { payer, ...refused.more } })
  }

  /** No call is opened: the same signed request can be sent again (contract 1.27). */
  function unverified(order: PricedOrder, reason: string): Reply {
    if (unverifiable === 402)
      return reject(order, {
        kind: 'refused',
        code: 'PAYMENT_VERIFICATION_UNAVAILABLE',
        reason: `the payment could not be verified just now (${reason}); send the same signed request again`,
      })
    meter.judged('unavailable')
    throw replies.cannotVerify(reason)
  }
}

/** Whether the reply to the order carries the answer, which is settled after it is made. */
const isAnsweredAtOnce = ({ endpoint, input }: Pick<Verified, 'endpoint' | 'input'>): boolean =>
  endpoint.delivery === 'stream' && endpoint.deferred?.(input, { id: '', createdAt: 0, key: '' }) === undefined

/** Whether the money is in a channel, whose deposit is on chain before the work begins. */
const isSecured = ({ verdict }: Verified): boolean => verdict.isPrepaid === true || verdict.isSecured === true

/** How long a request waits for the one before it on the same channel, in milliseconds. */
const MAX_HOLD_MS = 3_000

const replied = (reply: Reply): Accepted => ({ kind: 'reply', reply })

const replayed = (more: replies.Body): Refused => ({
  kind: 'refused',
  code: 'PAYMENT_REPLAY',
  reason: 'the payment authorization was already used',
  more,
})

const unfunded = (reason: string, more: replies.Body = {}): Refused => ({
  kind: 'refused',
  code: 'PAYMENT_UNFUNDED',
  reason,
  more,
})

const later = (reason: string, retryAfterSeconds: number): Refused => ({
  ...unfunded(reason, { retryAfterSeconds }),
  retryAfterSeconds,
})

function notAdmitted(payer: string): ApiError {
  return new ApiError('NOT_ALLOWED', {
    message: `The operator has not listed the wallet ${payer} for this route. Nothing was charged.`,
  })
}
