/**
 * A second authorization that is part of the work: the same wallet pays somebody else first, and then us (decision 58).
 * It is stored as a call of its own, so authorization binding, settlement and reconciliation work as for any call, and
 * a crash between the two payments neither loses nor repeats one.
 */
import { abandon, failIfOverdue } from './fail.ts'
import { meaningOf, reasonOf } from '../outcome.ts'
import type { SettleContext } from './context.ts'
import { settleCall } from './settle.ts'
import { SECONDARY_RETENTION_MS } from '../retention.ts'
import { noteUnpaidCall, unpaidCallOf } from '../unpaid/unpaid_calls.ts'
import { capOf, overText } from '../ledger/exposure.ts'
import { ApiError } from '../../http/errors.ts'
import type { ActiveCalls } from '../calls/active_calls.ts'
import type { Timeouts } from '../timeouts.ts'
import { type Offers, balanceKeyOf } from '../offers.ts'
import { Type } from '@sinclair/typebox'
import { recordKind } from '../../endpoint/record_kind.ts'
import { familyOf } from '../../ports/chain_family.ts'
import type { Authorization, Call, Chain, NewWalletLimit, Ports, RecordStorage, Verdict } from '../../ports/mod.ts'
import type { Json } from '../../lib/json.ts'
import { cannotVerify } from '../../endpoint/demands.ts'
import { anyCallUrl } from '../../endpoint/replies.ts'
import { newId } from '../../lib/ids.ts'
import type { Offer, Payment } from '../../x402/protocol.ts'
import type { To, Used, Refused, SecondaryPayment } from '../../endpoint/call_context.ts'

/** Interval between checks of an unknown outcome. */
const RETRY_EVERY_MS = 3_000
/** The call that a settled or pending second authorization belongs to now, when that is no longer the original one. */
const TAKEN = recordKind({ kind: 'secondary_payment', version: 1, schema: Type.Object({ parent: Type.String() }) })

/** The part of an engine that second authorizations need. */
type SecondaryContext = {
  readonly gateway: { readonly name: string; readonly basePath: string; readonly workerId: string }
  readonly ports: Pick<Ports, 'storage' | 'chain' | 'clock' | 'log' | 'random'>
  readonly settings: { readonly timeouts: Timeouts; readonly newWallet: NewWalletLimit }
  readonly offers: Offers
  readonly money: Pick<SettleContext, 'retries'>
  readonly calls: { readonly active: ActiveCalls }
  readonly identity: { readonly pollUrls: { keyOf(id: string): Promise<string> } }
}

type SecondaryOutcome = Awaited<ReturnType<Extract<SecondaryPayment, { kind: 'ready' }>['settle']>>

/** The payment that is requested: how much, to whom, and with which authorization. */
type Request = To & { readonly payment: Payment; readonly signal: AbortSignal }

/** An authorization that its wallet has signed for the work of `call`. */
type SecondPayment = {
  readonly call: Call
  readonly to: Request
  readonly asset: string
  readonly authorization: Authorization
}

export async function paySecondary(context: SecondaryContext, call: Call, to: Request): Promise<SecondaryPayment> {
  const { gateway, ports, offers: offering, identity } = context
  const { storage, clock } = ports
  const { payment, amount, maxTimeoutSeconds, payTo } = to
  const offers = offering
    .at({ amount, maxTimeoutSeconds })
    .flatMap((offer) => (isPlain(offer, ports.chain) ? [{ ...offer, payTo }] : []))
  if (offers.length === 0)
    throw new ApiError('NOT_CONFIGURED', {
      message: 'This gateway takes no plain transfers on an EVM chain. Nothing was charged.',
    })
  const identified = await offering.identify(payment, offers)
  if (identified.kind === 'unavailable') throw cannotVerify(identified.reason)
  if (identified.kind === 'refused') return identified
  const { payer, key, expiresAt, offer } = identified
  if (payer !== call.payer)
    return refused(`it is signed by ${payer}, but the payment of this request is signed by ${call.payer}`)
  const unpaid = await unpaidCallOf(storage, call, clock.now())
  if (unpaid)
    throw unpaidCallError(unpaid, { key: await identity.pollUrls.keyOf(unpaid.id), basePath: gateway.basePath })

  const authorization = { key, payer, payment, offer, expiresAt }
  const second: SecondPayment = { call, to, asset: balanceKeyOf(identified), authorization }
  const known = await storage.callOf(key, clock.now())
  if (known) return await payWithKnown(context, second, known)
  const verdict = await offering.verify(payment, offer)
  if (verdict.kind === 'unavailable') throw cannotVerify(verdict.reason)
  if (verdict.kind === 'refused')
    return verdict.code === 'PAYMENT_REPLAY' ? { kind: 'used', transaction: null } : verdict
  return { kind: 'ready', settle: () => payWithNew(context, second, verdict) }
}

/** The authorization came before, with this request or with one that has failed. */
async function payWithKnown(context: SecondaryContext, second: SecondPayment, known: Call): Promise<SecondaryPayment> {
  const { name, amount, payTo } = second.to
  const isOurs =
    known.endpoint === name && known.quote === amount && known.offer.payTo.toLowerCase() === payTo.toLowerCase()
  if (!isOurs || !(await isLeft(context, second.call, known))) return used(known)
  return {
    kind: 'ready',
    settle: async () =>
      (await take(context, second.call, known)) ? await settled(context, second, known) : used(known),
  }
}

async function payWithNew(
  context: SecondaryContext,
  second: SecondPayment,
  verdict: Extract<Verdict, { kind: 'valid' }>,
): Promise<SecondaryOutcome> {
  const { gateway, ports, settings } = context
  const { storage, clock, random } = ports
  const { call, to, asset, authorization } = second
  const now = clock.now()
  const fresh = {
    id: newId(random, now),
    gateway: gateway.name,
    endpoint: to.name,
    payer: authorization.payer,
    asset,
    quote: to.amount,
    offer: authorization.offer,
    fingerprint: call.fingerprint,
    model: null,
    request: { parent: call.id },
    createdAt: now,
    workerId: gateway.workerId,
    expiresAt: now + SECONDARY_RETENTION_MS,
  }
  const cap = capOf(verdict)
  const opened = await storage.openCall(fresh, authorization, {
    now,
    until: now + settings.timeouts.workLeaseMs,
    ...(cap && { cap }),
  })
  if (opened.kind === 'replayed') return used(opened.call)
  if (opened.kind === 'over')
    return { ...refused(overText(opened, settings.newWallet)), code: 'PAYMENT_UNFUNDED' as const }
  return await settled(context, second, opened.call).catch((error) =>
    abandon(storage, opened.call, { error, now: clock.now() }),
  )
}

/** Its result only records that it was sent. An unknown outcome is checked until it is known. */
async function settled(
  { ports, settings: { timeouts }, money }: SecondaryContext,
  { call, to: { signal }, authorization }: SecondPayment,
  own: Call,
): Promise<SecondaryOutcome> {
  const { storage, chain, clock, log } = ports
  for (;;) {
    signal.throwIfAborted()
    const completion = { result: { parent: call.id } as Json, expiresAt: clock.now() + SECONDARY_RETENTION_MS }
    const paying = await settleCall(
      { storage, chain, clock, log, timeouts, retries: money.retries },
      own,
      authorization,
      {
        completion,
        retainUntil: clock.now() + SECONDARY_RETENTION_MS,
      },
    )
    const { reply, note } = meaningOf(paying, { moment: 'second_payment' })
    if (note === 'unpaid') {
      const now = clock.now()
      await noteUnpaidCall({ storage, log }, call, { now, until: now + timeouts.unpaidBlockMs })
    }
    if (paying.kind === 'settled') return { kind: 'settled', receipt: paying.receipt }
    if (reply === 'withhold' && paying.kind === 'replayed') return used(paying.call)
    if (reply === 'withhold' && paying.kind !== 'free') return refused(reasonOf(paying))
    await clock.wait(RETRY_EVERY_MS, signal)
  }
}

/** Whether a known authorization is free to use: the call that brought it has failed. */
async function isLeft(context: SecondaryContext, call: Call, known: Call): Promise<boolean> {
  const { storage, clock } = context.ports
  const parent = await storage.getCall(await parentOf(storage, known, clock.now()))
  if (parent?.id === call.id) return true
  if (parent === undefined) return false
  const { timeouts } = context.settings
  const current = await failIfOverdue(storage, parent, {
    now: clock.now(),
    timeouts,
    activeCalls: context.calls.active,
  })
  return current.workStatus === 'failed'
}

/** Assigns a known authorization to this call. False when a concurrent call was first. */
async function take(context: SecondaryContext, call: Call, known: Call): Promise<boolean> {
  const { storage, clock } = context.ports
  const now = clock.now()
  const record = {
    id: known.id,
    owner: known.payer,
    data: { parent: call.id },
    expiresAt: now + SECONDARY_RETENTION_MS,
  }
  const stored = await TAKEN.get(storage, known.id, now)
  if (!(await isLeft(context, call, known))) return false
  const isTaken = stored ? await TAKEN.move(storage, stored, record, now) : await TAKEN.put(storage, record, now)
  return isTaken !== undefined
}

/**
 * A plain transfer of the asset itself. A deposit that another contract manages (a batching service names it in
 * `verifyingContract`) would not arrive as money with a recipient who does not use that service.
 */
const isPlain = ({ scheme, network, asset, extra }: Offer, { families }: Pick<Chain, 'families'>): boolean =>
  scheme === 'exact' &&
  familyOf(families, network)?.signsTransfers === true &&
  (extra?.verifyingContract ?? asset) === asset

async function parentOf(storage: Pick<RecordStorage, 'getRecord'>, known: Call, now: number): Promise<string> {
  const taken = await TAKEN.get(storage, known.id, now)
  const data = (taken?.data ?? known.request) as { readonly parent?: string } | null
  return data?.parent ?? ''
}

function unpaidCallError({ id }: Call, at: { readonly key: string; readonly basePath: string }): ApiError {
  const poll_url = anyCallUrl(id, at)
  return new ApiError('NOT_ALLOWED', {
    error: 'Forbidden',
    message: 'This wallet owes the payment of an earlier request: poll it with a payment first. Nothing was charged.',
    fields: { reason: 'unpaid', job_id: id, poll_url },
  })
}

const used = ({ receipt }: Call): Used => ({ kind: 'used', transaction: receipt?.transaction ?? null })
const refused = (reason: string): Refused => ({ kind: 'refused', code: 'PAYMENT_INVALID', reason })
