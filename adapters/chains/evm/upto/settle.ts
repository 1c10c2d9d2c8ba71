/** Charges what was used of an authorization, in a transaction of the account that the buyer signed for. */
import type { Settlement, SettleOptions } from '../../../../core/ports/mod.ts'
import type { Offer, Payment } from '../../../../core/x402/mod.ts'
import { lower, uintIn } from '../../lib/hex.ts'
import { MAX_CONTRACT_REVERTS } from '../../lib/revert_limiter.ts'
import { fateOf } from './fate.ts'
import { checkAmount, type Upto } from './payload.ts'
import { allowanceCall, bitmapCall, isNonceUsed, settleCall, tokenPermitOf, transferIn } from './permit2.ts'
import { digestOf, nothingMoved, parse, SETTLE_WITH_PERMIT_GAS, simulate, type UptoScheme } from './scheme.ts'

/** Gas limits: Permit2 and a token's transfer cost about 120,000, the permit of a token 60,000 more. */
const SETTLE_GAS = 250_000n

type Sending = {
  readonly charge: bigint
  readonly payment: Payment
  readonly now: number
  readonly hasCallers: () => boolean
}

export async function settle(
  scheme: UptoScheme,
  payment: Payment,
  offer: Offer,
  at: SettleOptions,
): Promise<Settlement> {
  const upto = parse(scheme, payment, offer)
  if (upto.kind === 'refused') return { kind: 'refused', reason: upto.reason }
  const bad = checkAmount(upto, offer)
  if (bad) return { kind: 'refused', reason: bad.reason }
  const charge = at.charge ?? upto.amount
  if (charge > upto.amount) {
    const text = `the charge is ${charge} base units, and ${upto.amount} were signed`
    return { kind: 'refused', reason: `invalid_upto_evm_payload_settlement_exceeds_amount: ${text}` }
  }
  if (charge === 0n) return { kind: 'settled', receipt: nothingMoved(scheme, upto) }
  if (at.signal.aborted) return { kind: 'unknown', reason: 'no time left to settle' }
  if (upto.facilitator !== lower(scheme.facilitator))
    return {
      kind: 'unavailable',
      reason: `the key of ${upto.facilitator} has to send it, and this replica has another`,
    }
  const { now } = at
  return await scheme.inFlight.settle(
    digestOf(scheme, upto),
    async (pending) => {
      scheme.active++
      try {
        return await scheme.sending(() =>
          send(scheme, upto, { charge, payment, now, hasCallers: () => pending.callers > 0 }),
        )
      } catch (error) {
        return { kind: 'unavailable', reason: (error as Error).message }
      } finally {
        pending.isSending = false
        scheme.active--
      }
    },
    at.signal,
  )
}

async function send(
  scheme: UptoScheme,
  upto: Upto,
  { charge, payment, now, hasCallers }: Sending,
): Promise<Settlement> {
  if (!hasCallers()) return { kind: 'unknown', reason: 'no caller waits for it any more' }
  const plain = settleCall(upto, charge)
  const [state, simulated] = await Promise.all([
    scheme.reads.view([bitmapCall(upto), allowanceCall(upto)], { lagSeconds: 0 }),
    simulate(scheme, upto, plain),
  ])
  if (state.kind === 'failure') return { kind: 'unknown', reason: `nothing was sent: ${state.reason}` }
  if (simulated.kind === 'failure') return { kind: 'unknown', reason: `nothing was sent: ${simulated.reason}` }
  const [bitmap, allowance] = state.results.map((result) => uintIn(result))
  if (bitmap === undefined || isNonceUsed(bitmap, upto) || BigInt(state.time) > upto.deadline)
    return await endOf(scheme, upto)
  if (scheme.reverts.count(upto.from, now) >= MAX_CONTRACT_REVERTS)
    return { kind: 'refused', reason: `too many transfers of ${upto.from} have reverted on chain` }
  const permit = simulated.results[0]?.ok ? undefined : tokenPermitOf(payment, upto)
  const call = permit ? settleCall(upto, charge, permit) : plain
  const seen = permit ? await simulate(scheme, upto, call) : simulated
  if (seen.kind === 'failure') return { kind: 'unknown', reason: `nothing was sent: ${seen.reason}` }
  if (!seen.results[0]?.ok) {
    const short = (allowance ?? 0n) < charge ? `; Permit2 may move ${allowance} base units of the payer` : ''
    return {
      kind: 'refused',
      reason: `nothing was sent: the settlement of ${charge} base units would revert${short}`,
    }
  }
  const sent = await scheme.relayer.send({ ...call, gas: permit ? SETTLE_WITH_PERMIT_GAS : SETTLE_GAS }, now)
  if (sent.kind === 'rejected') return { kind: 'unavailable', reason: `nothing was sent: ${sent.reason}` }
  if (sent.kind === 'mined') {
    const receipt = transferIn(sent.receipt, upto, scheme.network)
    if (receipt) scheme.settledIn.set(upto.key, sent.receipt.transactionHash)
    if (receipt) return { kind: 'settled', receipt }
    scheme.reverts.recordRevert(upto.from, now)
  }
  const after = await fateOf(scheme, upto)
  if (after.kind === 'paid') return { kind: 'settled', receipt: after.receipt }
  if (after.kind === 'dead') return { kind: 'refused', reason: 'the authorization is dead: used or expired' }
  const mayLand = after.kind === 'unknown' || sent.kind === 'lost' || sent.hasOtherNonces
  return mayLand
    ? { kind: 'unknown', reason: 'the transaction was lost, and may still be mined' }
    : { kind: 'refused', reason: 'the transfer reverted: nothing moved' }
}

/** The outcome of an authorization that can no longer be sent. */
async function endOf(scheme: UptoScheme, upto: Upto): Promise<Settlement> {
  const found = await fateOf(scheme, upto)
  if (found.kind === 'paid') return { kind: 'settled', receipt: found.receipt }
  if (found.kind === 'dead') return { kind: 'refused', reason: 'the authorization is dead: used or expired' }
  if (found.kind === 'open') return { kind: 'unknown', reason: 'nothing was sent: the node is behind' }
  return found.isUsed ? { kind: 'refused', reason: found.reason } : found
}
