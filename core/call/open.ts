/** Step 8: opens the call, which binds its authorization, and brings its deposit on chain where it has one. */
import type { Engine } from '../engine.ts'
import { addressKey } from '../http/caller_address.ts'
import type { Reply } from '../http/reply.ts'
import { newId } from '../lib/ids.ts'
import type { SpendingHold } from '../payment/control/spending.ts'
import { capOf, overText } from '../payment/ledger/exposure.ts'
import { bindTag } from '../payment/calls/identified_calls.ts'
import { abandon, fail } from '../payment/settlement/fail.ts'
import { securePayment } from '../payment/settlement/secure_payment.ts'
import {
  type Counted,
  countUnproven,
  type Full,
  fullText,
  isKnownFull,
  MAX_RETRY_S,
  notePaid,
  type UnprovenContext,
  unprovenPrice,
  worthOf,
} from '../payment/unpaid/new_wallets.ts'
import { silent } from '../ports/meter.ts'
import type { Authorization, Call, NewCall, Opened } from '../ports/mod.ts'
import type { OpenedCall } from './work/opened_call.ts'
import type { Verified } from './order.ts'
import { later, type Refused, refuse, unfunded, unverified } from './refuse.ts'
import { replayOf } from './replay.ts'

type Opening =
  | { readonly kind: 'opened'; readonly opened: OpenedCall }
  | Refused
  | { readonly kind: 'unavailable'; readonly reason: string }
  | { readonly kind: 'replayed'; readonly call: Call }

export async function open(engine: Engine, verified: Verified): Promise<OpenedCall | Reply> {
  const opening = await openWithin(engine, verified)
  if (opening.kind === 'replayed') return await replayOf(engine, verified, opening.call)
  if (opening.kind === 'refused') return await refuse(engine, verified, opening)
  if (opening.kind === 'unavailable') return unverified(engine, verified, opening.reason)
  const { meter = silent } = engine.ports
  meter.judged('valid')
  verified.counting.refund()
  return opening.opened
}

/** Opens the call within the operator's limits on spending. */
async function openWithin(engine: Engine, verified: Verified): Promise<Opening> {
  const { controls, windows } = engine.limits
  const { payer, price } = verified
  const order = { payer, gateway: engine.gateway.name, amount: price.amount, limits: windows }
  const hold = await controls?.reserve(order)
  let isOpened = false
  try {
    const opening = await openCall(engine, verified, hold)
    const secured = opening.kind === 'opened' ? await secure(engine, verified, opening.opened) : opening
    isOpened = secured.kind === 'opened'
    return secured
  } finally {
    if (!isOpened) hold?.release()
  }
}

async function openCall(engine: Engine, verified: Verified, hold: SpendingHold | undefined): Promise<Opening> {
  const { storage, clock } = engine.ports
  const { endpoint, input, price, payment, payer, key, expiresAt, offer, tag, requestContext, verdict } = verified
  const now = clock.now()
  const authorization: Authorization = { key, payer, payment, offer, expiresAt }
  const call = await newCallOf(engine, verified, now)
  hold?.opening(call.id)
  const opening = await insert(engine, verified, { call, authorization, now }).catch(async (error) => {
    if (tag) {
      const first = await storage.getCall(call.id)
      // Another request under the identifier may be opening it now.
      if (!first) throw error
      if (first.authorization !== key) return { kind: 'replayed' as const, call: first }
    }
    return await abandon(storage, call, { error, now: clock.now() })
  })
  if (opening.kind === 'replayed') return opening
  if (opening.kind === 'over') return overLimit(engine, verified, opening)
  const started = await begin(engine, verified, { authorization, opening }).catch((error) =>
    abandon(storage, opening.call, { error, now: clock.now() }),
  )
  if (started.kind === 'refused') return started
  const settlesEarly = opening.atLimit === true || started.settlesEarly
  const working = { endpoint, input, authorization, requestContext, margin: price.margin, settlesEarly }
  return { kind: 'opened', opened: { ...working, call: opening.call, isRefundable: !!verdict.holds } }
}

/**
 * The call as it is stored. Its request are the fields that polls show, the signed poll URL, and a keyed hash of the
 * caller's address.
 */
async function newCallOf(engine: Engine, verified: Verified, now: number): Promise<NewCall> {
  const { ports, gateway, settings, identity } = engine
  const { timeouts } = settings
  const { endpoint, input, price, payer, offer, asset, tag, fingerprint, quotedAt, verifiedAt } = verified
  const { retention } = endpoint
  const fresh = newId(ports.random, now)
  const id = tag ? await bindTag(ports.storage, tag, { call: fresh, retention, now }) : fresh
  const { model, request } = endpoint.remember(input)
  // A poll URL must live at least as long as the result that it collects.
  const longest = timeouts.maxJobMs + Math.max(retention.unclaimedMs, retention.settledMs)
  const signed = await identity.pollUrls.signed(endpoint, request, { id, expiresAt: now + longest })
  return {
    id,
    gateway: gateway.name,
    endpoint: endpoint.name,
    payer,
    asset,
    quote: price.amount,
    offer,
    fingerprint,
    model,
    request: { ...signed, ...(await identity.pollUrls.from(id, verified.requestContext.ip)) },
    createdAt: now,
    quotedAt,
    verifiedAt,
    workerId: gateway.workerId,
    expiresAt: now + retention.unclaimedMs,
  }
}

/** In memory where its money is in a channel; otherwise in storage, within the caps of its wallet. */
async function insert(
  engine: Engine,
  verified: Verified,
  { call, authorization, now }: { call: NewCall; authorization: Authorization; now: number },
): Promise<Opened> {
  // The id of an order with an identifier may be taken, which storage has to see.
  const isInMemory = verified.verdict.isPrepaid && isAnsweredAtOnce(verified) && !verified.tag
  const prepaid = isInMemory ? engine.calls.prepaid : undefined
  if (prepaid) return await prepaid.open(call, authorization)
  const until = now + engine.settings.timeouts.workLeaseMs
  return await engine.calls.openCall(call, authorization, { now, until, ...capFor(engine, verified, now) })
}

/**
 * The exposure cap of this payer; a call that moves no money, or is reserved in the channel of a key, needs none. A new
 * wallet has a lower cap where answers are served before settlement, and all of them have one together, unless the
 * money is in a channel.
 */
function capFor(engine: Engine, verified: Verified, now: number): { readonly cap?: ReturnType<typeof capOf> } {
  const { price, verdict, requestContext } = verified
  if (price.amount === 0n || requestContext.apiKey) return {}
  const { newWallet } = engine.settings
  const isAtOnce = isAnsweredAtOnce(verified)
  const isFull = isKnownFull(engine.limits.newWallets, addressKey(requestContext.ip), now)
  const newWallets = { paid: unprovenPrice(engine.limits.newWallets, verified, price.amount), isFull }
  return { cap: capOf(verdict, { ...(isAtOnce && { newWallet }), ...(!isSecured(verified) && { newWallets }) }) }
}

function overLimit(engine: Engine, { offers }: Verified, over: Extract<Opened, { kind: 'over' }>): Refused {
  return over.why === 'new_wallets'
    ? later(fullText({ retryAfterSeconds: MAX_RETRY_S }, offers), MAX_RETRY_S)
    : unfunded(overText(over, engine.settings.newWallet))
}

/** Whether an open call may begin, and how it is settled. A call that is refused here has failed. */
async function begin(
  engine: Engine,
  verified: Verified,
  { authorization, opening }: { authorization: Authorization; opening: Extract<Opened, { kind: 'opened' }> },
): Promise<Refused | Exclude<Counted, Full>> {
  const { storage, clock } = engine.ports
  const moved = await movedSince(engine, verified, opening.call)
  if (moved) return moved
  const { endpoint, input, price, requestContext, offers } = verified
  if (!opening.isNew) {
    notePaid(engine.limits.newWallets, verified, price.amount)
    return { kind: 'counted', settlesEarly: false }
  }
  const now = clock.now()
  const worst = endpoint.delivery === 'stream' ? endpoint.worstCost?.(input) : undefined
  const caller = addressKey(requestContext.ip)
  const order = { call: opening.call, authorization, worth: worthOf(price.amount, worst), caller }
  const counted = await countUnproven(unprovenOf(engine), order, now)
  if (counted.kind === 'counted') return counted
  await fail(storage, opening.call, 'New wallets have too much unpaid at the moment. Nothing was charged.', now)
  return later(fullText(counted, offers), counted.retryAfterSeconds)
}

/** Fails a call whose payer has asked for its money back since the payment was verified (decision 133). */
async function movedSince(
  engine: Engine,
  { verdict, payment, offer }: Verified,
  call: Pick<Call, 'id'>,
): Promise<Refused | undefined> {
  const { storage, clock } = engine.ports
  if ((await verdict.holds?.({ now: clock.now() })) !== false) return undefined
  await fail(storage, call, 'The payer asked for its money back before the work began.', clock.now())
  const now = await engine.offers.verify(payment, offer)
  return now.kind === 'refused' ? now : unfunded('the money of this payment moved just now; sign again')
}

/** The opened call, once its deposit is on chain where it has one. */
async function secure(engine: Engine, { verdict }: Verified, opened: OpenedCall): Promise<Opening> {
  if (!verdict.isSecured) return { kind: 'opened', opened }
  const { ports, settings } = engine
  const securing = await securePayment({ ports, timeouts: settings.timeouts }, opened)
  if (securing.kind !== 'secured') return securing
  return { kind: 'opened', opened: securing.extra ? { ...opened, secured: securing.extra } : opened }
}

/** Whether the reply to the order carries the answer, which is settled after it is made. */
const isAnsweredAtOnce = ({ endpoint, input }: Verified): boolean =>
  endpoint.delivery === 'stream' && endpoint.deferred?.(input, { id: '', createdAt: 0, key: '' }) === undefined

/** Whether the money is in a channel, whose deposit is on chain before the work begins. */
const isSecured = ({ verdict }: Verified): boolean => verdict.isPrepaid === true || verdict.isSecured === true

const unprovenOf = ({ ports, gateway, settings, identity, limits }: Engine): UnprovenContext => ({
  storage: ports.storage,
  log: ports.log,
  gateway: gateway.name,
  limit: settings.newWallets,
  known: limits.newWallets,
  hashOf: (address) => identity.pollUrls.secretName(address, ''),
})
