/** Settles a paid call once: claims it, verifies a new authorization, sends it and records what became of it. */
import type { Clock } from '../../lib/clock.ts'
import { within } from '../../lib/timers.ts'
import { silent } from '../../ports/meter.ts'
import type { Authorization, Call, Claim } from '../../ports/mod.ts'
import { isCumulative } from '../../x402/offer.ts'
import { completeFree } from './complete.ts'
import { drawDown } from './draw_down.ts'
import type { Paying } from '../outcome.ts'
import type { SettleContext, Settling } from './context.ts'
import { record } from './record.ts'
import { spend } from './send.ts'
import { noteHandedOut } from './sent_authorizations.ts'

/**
 * Settles a completed call once, spending `offered` only when every earlier authorization of the call is proven dead
 * (decision 15). With `completion`, stores the result and claims in one step. Never rejects because of the chain; a
 * storage error rejects.
 */
export async function settleCall(
  context: SettleContext,
  call: Call,
  offered: Authorization,
  settling: Settling,
): Promise<Paying> {
  const { completion, retainUntil } = settling
  if (call.quote === 0n) return await completeFree(context, call, completion)
  const drawn = completion && (await drawDown(context, call, { offered, completion, retainUntil }))
  return drawn ?? (await settleByClaim(context, call, { offered, settling }))
}

/** The authorization that the caller offers, and what is asked for with it. */
type Offered = { readonly offered: Authorization; readonly settling: Settling }

async function settleByClaim(context: SettleContext, call: Call, { offered, settling }: Offered): Promise<Paying> {
  const { storage, clock, timeouts } = context
  const { completion } = settling
  const giveUpAt = clock.now() + timeouts.takenMs
  // Of a channel it may be another payment on the same base, such as one with a new deposit.
  let isVerified = offered.key === call.authorization && (completion !== undefined || !isCumulative(offered.offer))
  let pause = 20
  for (;;) {
    const now = clock.now()
    const until = now + timeouts.settleLeaseMs
    const isOffered = isVerified && offered.expiresAt > now
    const claim = await storage.claimSettlement(call.id, isOffered ? offered : undefined, {
      now,
      until,
      ...(completion && { result: completion, workerId: call.workerId }),
    })
    if (claim.kind === 'settled') return { kind: 'settled', receipt: claim.receipt, now: false }
    if (claim.kind === 'replayed') return claim
    if (claim.kind === 'nothing' && !isVerified) {
      const bad = await whyUnverified(context, call, offered)
      if (bad) return bad
      isVerified = true
      continue
    }
    if (claim.kind === 'nothing') return { kind: 'refused', reason: 'the authorization can no longer move money' }
    if (claim.kind === 'taken') {
      if (now >= giveUpAt) return UNDER_WAY
      await clock.wait(Math.min(pause, Math.max(1, Math.min(claim.until, giveUpAt) - now)))
      pause = Math.min(pause * 2, 500)
      continue
    }
    const paying = await spendClaimed(context, call, { offered, settling, claim, isVerified, now })
    if (paying) return paying
  }
}

/** A claim of this process, with the authorization to spend. */
type Claimed = Extract<Claim, { kind: 'yours' | 'retry' }>

/** Undefined where the claimed authorization is dead and the offered one may follow it. */
async function spendClaimed(
  context: SettleContext,
  call: Call,
  { offered, settling, claim, isVerified, now }: Offered & { claim: Claimed; isVerified: boolean; now: number },
): Promise<Paying | undefined> {
  const { retainUntil, isDelivered = false, by = 'reply' } = settling
  const authorization = claim.kind === 'yours' ? offered : claim.authorization
  if (claim.kind === 'yours' && offered.key !== call.authorization) await noteHandedOut(context.storage, offered, now)
  const stored = claim.kind === 'retry' ? claim : undefined
  const spent = await spend(context, authorization, { stored, charge: claim.charge })
  const ending = { token: claim.token, authorization, spent, startedAt: now, retainUntil, isDelivered, by }
  const paying = await record(context, call, ending)
  const isDead = paying === 'dead' || paying === 'forgiven'
  if (!isDead) return paying
  if (authorization.key !== offered.key || !isVerified) return undefined
  return spent.kind === 'dead'
    ? { ...spent, kind: 'refused' }
    : { kind: 'refused', reason: 'the authorization is dead' }
}

/** Why a new authorization cannot pay this call; undefined when it verifies. */
async function whyUnverified(context: SettleContext, call: Call, offered: Authorization): Promise<Paying | undefined> {
  const bad = await verify(context, call, offered)
  // Another poll may settle it meanwhile, or have settled it.
  const after = bad?.kind === 'rejected' ? await context.storage.getCall(call.id) : undefined
  if (after?.receipt && after.paymentStatus === 'settled')
    return { kind: 'settled', receipt: after.receipt, now: false }
  if (after?.paymentStatus === 'settling') return UNDER_WAY
  return bad
}

/**
 * Undefined when a new authorization verifies. One that does not is never bound: after a crash the call would wait for
 * it to expire.
 */
async function verify(
  { storage, chain, clock, meter = silent, timeouts }: SettleContext,
  call: Call,
  { key, payment, offer }: Authorization,
): Promise<Paying | undefined> {
  const verdict = await within(clock, timeouts.verifyMs, (signal) =>
    chain.verify(payment, offer, { now: clock.now(), signal }),
  ).catch((error: Error) => ({ kind: 'unavailable' as const, reason: error.message }))
  meter.judged(verdict.kind === 'refused' ? verdict.code : verdict.kind)
  if (verdict.kind === 'valid') return undefined
  if (verdict.kind === 'unavailable') return verdict
  if (verdict.corrected) return { ...verdict, kind: 'rejected' }
  const served = await storage.callOf(key, clock.now())
  return served && served.id !== call.id ? { kind: 'replayed', call: served } : { ...verdict, kind: 'rejected' }
}

const UNDER_WAY: Paying = { kind: 'unknown', reason: 'a settlement of this call is under way', isElsewhere: true }

/** The result of a settlement, if it is known after `ms`. Otherwise it goes on in the background. */
export async function knownWithin(
  ms: number,
  paying: Promise<Paying>,
  { clock, background }: { readonly clock: Clock; readonly background: (work: Promise<unknown>) => void },
): Promise<Paying> {
  const known = new AbortController()
  const late = clock.wait(ms, known.signal).then(() => undefined)
  const first = await Promise.race([paying, late]).finally(() => known.abort())
  if (first) return first
  background(paying)
  return UNDER_WAY
}
