/**
 * A second authorization that is part of the work: the same wallet pays somebody else first, and then us. It is stored
 * as a call of its own, so authorization binding, settlement and reconciliation work as for any call, and a crash
 * between the two payments neither loses nor repeats one.
 */
import { abandon, failIfOverdue } from './fail.ts'
import type { SettleContext } from './paying.ts'
import { settleCall } from './settle.ts'
import { noteUnpaidCall, unpaidCallOf } from '../unpaid/unpaid_calls.ts'
import { capOf, overText } from '../exposure.ts'
import { ApiError } from '../../http/errors.ts'
import type { ActiveCalls } from '../active_calls.ts'
import type { Timeouts } from '../timeouts.ts'
import { type Offers, balanceKeyOf } from '../offers.ts'
import { Type } from '@sinclair/typebox'
import { recordKind } from '../../endpoint/record_kind.ts'
import type { Authorization, Call, NewWalletLimit, Ports, Storage } from '../../ports/mod.ts'
import type { Json } from '../../lib/json.ts'
import { anyCallUrl, cannotVerify } from '../../endpoint/replies.ts'
import { newId } from '../../lib/ids.ts'
import type { Offer, Payment } from '../../x402/protocol.ts'
import type { To, Used, Refused, SecondaryPayment } from '../../endpoint/call_context.ts'

/** Interval between checks of an unknown outcome. */
const RETRY_EVERY_MS = 3_000
/** Retention of its row, beside the ledger's. The request that brought it finds it by this row. */
export const SECONDARY_RETENTION_MS = 30 * 24 * 3_600_000
/** The call that a settled or pending second authorization belongs to now, when that is no longer the original one. */
const TAKEN = recordKind({ kind: 'secondary_payment', version: 1, schema: Type.Object({ parent: Type.String() }) })

type SecondaryOffer = To & { readonly signal: AbortSignal }

/** What second authorizations need of their gateway. */
export type SecondaryContext = {
  readonly gateway: { readonly name: string; readonly basePath: string; readonly workerId: string }
  readonly ports: Pick<Ports, 'storage' | 'chain' | 'clock' | 'log' | 'random'>
  readonly settings: { readonly timeouts: Timeouts; readonly newWallet: NewWalletLimit }
  readonly offers: Offers
  readonly calls: { readonly active: ActiveCalls }
  readonly identity: { readonly pollUrls: { keyOf(id: string): Promise<string> } }
}

export function secondaryPayments(
  engine: SecondaryContext,
): (call: Call, payment: Payment, offer: SecondaryOffer) => Promise<SecondaryPayment> {
  const { storage, chain, clock, log } = engine.ports
  const { name: gateway, basePath, workerId } = engine.gateway
  const { timeouts, newWallet } = engine.settings
  const { pollUrls } = engine.identity
  const activeCalls = engine.calls.active
  const money: SettleContext = { storage, chain, clock, log, timeouts }

  return async function paySecondary(call, payment, { name, payTo, amount, maxTimeoutSeconds, signal }) {
    const offers = engine.offers
      .at({ amount, maxTimeoutSeconds })
      .flatMap((offer) => (isPlain(offer) ? [{ ...offer, payTo }] : []))
    if (offers.length === 0)
      throw new ApiError('NOT_CONFIGURED', {
        message: 'This gateway takes no plain transfers on an EVM chain. Nothing was charged.',
      })
    const identified = await engine.offers.identify(payment, offers)
    if (identified.kind === 'unavailable') throw cannotVerify(identified.reason)
    if (identified.kind === 'refused') return identified
    const { payer, key, expiresAt, offer } = identified
    const asset = balanceKeyOf(identified)
    if (payer !== call.payer)
      return refused(`it is signed by ${payer}, but the payment of this request is signed by ${call.payer}`)
    const unpaid = await unpaidCallOf(storage, call, clock.now())
    if (unpaid) throw unpaidCallError(unpaid, { key: await pollUrls.keyOf(unpaid.id), basePath })

    const known = await storage.callOf(key, clock.now())
    if (known) {
      const isOurs =
        known.endpoint === name && known.quote === amount && known.offer.payTo.toLowerCase() === payTo.toLowerCase()
      if (!isOurs || !(await isLeft(known))) return used(known)
      return {
        kind: 'ready',
        settle: async () =>
          (await take(known)) ? await settled(known, { key, payer, payment, offer, expiresAt }) : used(known),
      }
    }
    const verdict = await engine.offers.verify(payment, offer)
    if (verdict.kind === 'unavailable') throw cannotVerify(verdict.reason)
    if (verdict.kind === 'refused')
      return verdict.code === 'PAYMENT_REPLAY' ? { kind: 'used', transaction: null } : verdict
    return { kind: 'ready', settle: begin }

    async function begin() {
      const now = clock.now()
      const authorization: Authorization = { key, payer, payment, offer, expiresAt }
      const fresh = {
        id: newId(engine.ports.random),
        gateway,
        endpoint: name,
        payer,
        asset,
        quote: amount,
        offer,
        fingerprint: call.fingerprint,
        model: null,
        request: { parent: call.id },
        createdAt: now,
        workerId,
        expiresAt: now + SECONDARY_RETENTION_MS,
      }
      const cap = verdict.kind === 'valid' ? capOf(verdict) : undefined
      const opened = await storage.openCall(fresh, authorization, {
        now,
        until: now + timeouts.workLeaseMs,
        ...(cap && { cap }),
      })
      if (opened.kind === 'replayed') return used(opened.call)
      if (opened.kind === 'over') return { ...refused(overText(opened, newWallet)), code: 'PAYMENT_UNFUNDED' as const }
      return await settled(opened.call, authorization).catch((error) =>
        abandon(storage, opened.call, { error, now: clock.now() }),
      )
    }

    /** Its result only records that it was sent. An unknown outcome is checked until it is known. */
    async function settled(own: Call, authorization: Authorization) {
      for (;;) {
        signal.throwIfAborted()
        const completion = { result: { parent: call.id } as Json, expiresAt: clock.now() + SECONDARY_RETENTION_MS }
        const paying = await settleCall(money, own, authorization, {
          completion,
          retainUntil: clock.now() + SECONDARY_RETENTION_MS,
        })
        if (paying.kind === 'settled') {
          await noteUnpaidCall({ storage, log }, call, {
            now: clock.now(),
            until: clock.now() + timeouts.unpaidBlockMs,
          })
          return { kind: 'settled' as const, receipt: paying.receipt }
        }
        if (paying.kind === 'refused' || paying.kind === 'rejected' || paying.kind === 'unavailable')
          return refused(paying.reason)
        if (paying.kind === 'replayed') return used(paying.call)
        await clock.wait(RETRY_EVERY_MS, signal)
      }
    }

    /** Whether it is free to use: the call that brought it has failed. */
    async function isLeft(known: Call): Promise<boolean> {
      const parent = await storage.getCall(await parentOf(storage, known, clock.now()))
      if (parent?.id === call.id) return true
      return (
        parent !== undefined &&
        (await failIfOverdue(storage, parent, { now: clock.now(), timeouts, activeCalls })).workStatus === 'failed'
      )
    }

    /** Assigns it to this call. False when a concurrent call was first. */
    async function take(known: Call): Promise<boolean> {
      const now = clock.now()
      const record = {
        id: known.id,
        owner: known.payer,
        data: { parent: call.id },
        expiresAt: now + SECONDARY_RETENTION_MS,
      }
      const stored = await TAKEN.get(storage, known.id, now)
      if (!(await isLeft(known))) return false
      const isTaken = stored ? await TAKEN.move(storage, stored, record, now) : await TAKEN.put(storage, record, now)
      return isTaken !== undefined
    }
  }
}

/**
 * A plain transfer of the asset itself. A deposit that another contract manages (a batching service names it in
 * `verifyingContract`) would not arrive as money with a recipient who does not use that service.
 */
const isPlain = ({ scheme, network, asset, extra }: Offer): boolean =>
  scheme === 'exact' && network.startsWith('eip155:') && (extra?.verifyingContract ?? asset) === asset

async function parentOf(storage: Pick<Storage, 'getRecord'>, known: Call, now: number): Promise<string> {
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
