/**
 * Payments by a channel (`batch-settlement`): one deposit, then a voucher for each call, whose ceiling counts all that
 * the seller may claim so far (decision 159). Calls by channels go one after another, because each voucher builds on
 * the last.
 */
import { fieldsOf } from '../../core/lib/mod.ts'
import { encodeHeader, usdc } from '../../core/x402/mod.ts'
import { aboveCap, beyondDay, type Caps, inUsdc, tooLong } from '../buyer/budget.ts'
import type { Journal, Reservation } from '../buyer/journal.ts'
import type { Offer } from '../buyer/signed_payment.ts'
import { type Demand, validSecondsOf } from './demand.ts'
import { Refused } from './errors.ts'

export const CHANNEL_SCHEME = 'batch-settlement'

/** The wallet's channel with the seller of an offer. */
export type Channel = {
  readonly id: string
  /** The largest deposit, in base units. */
  readonly maxDeposit: bigint
  /** Signs a voucher for the offer, and a deposit where the channel has too little. */
  sign(offer: Offer): Promise<Readonly<Record<string, unknown>>>
  /** Takes note of a receipt, which says what was charged. */
  note(receipt: string | undefined, payment: string): Promise<void>
  /** Remaining deposit after the last receipt, in base units. */
  left(): Promise<bigint | undefined>
  /** Takes over the state that a refusal proves with a voucher of this wallet. Resolves with whether it could. */
  correct(refusal: { readonly required: string | null; readonly payment: string }): Promise<boolean>
}

/** The longest time after which money can be taken out of a channel without its seller, in seconds. */
const MAX_WITHDRAW_DELAY_S = 30 * 86_400

type Given = {
  readonly offer: Offer
  readonly demand: Demand
  readonly caps: Caps & { readonly session: bigint | undefined }
  readonly journal: Journal
  /** Deposits of this proxy that no voucher has promised to the seller, in base units. */
  readonly idle: bigint
  /** Sum by which earlier vouchers of the same request have raised the ceiling, in base units. */
  readonly raised: bigint
}

/** Signs a voucher within the caps. What it raises the ceiling by counts as spent. */
export async function signVoucher(
  channel: Channel,
  { offer, demand, caps, journal, idle, raised }: Given,
): Promise<{ readonly payment: string; readonly reserved: Reservation; readonly deposit: bigint }> {
  const price = usdc(BigInt(offer.amount))
  const above = aboveCap(caps, price)
  if (above !== undefined) throw refused(`${above} Raise it with --max-per-call.`)
  const late = tooLong(validSecondsOf(offer))
  if (late !== undefined) throw refused(late)
  const { withdrawDelay = 0 } = offer.extra ?? {}
  if (!(Number(withdrawDelay) <= MAX_WITHDRAW_DELAY_S)) throw refused('The channel could not be left for months.')
  const payload = await channel.sign(offer)
  const { channelId, maxClaimableAmount } = fieldsOf(payload.voucher)
  const deposit = BigInt(String(fieldsOf(payload.deposit).amount ?? '0'))
  if (String(channelId).toLowerCase() !== channel.id.toLowerCase()) throw refused('The voucher is of another channel.')
  // Terms that change with each call would open a channel each.
  if (deposit > 0n && idle + deposit > channel.maxDeposit)
    throw refused(`Deposits would be above ${inUsdc(usdc(channel.maxDeposit))} USDC. Raise them with --deposit.`)
  const ceiling = { channel: channel.id.toLowerCase(), amount: usdc(BigInt(String(maxClaimableAmount))) }
  const reserved = journal.reserveVoucher(ceiling, caps.perDay)
  if ('left' in reserved) throw refused(`${beyondDay(price, reserved.left)} Raise it with --max-per-day.`, raised)
  // A seller that says it charged more than was signed would raise the next ceiling. One that charges a voucher,
  // refuses it and proves the charge with it would get another for the same request.
  const most = caps.perCall !== undefined && caps.perCall > price ? caps.perCall : price
  const isBeyond = raised + reserved.amount > most
  if (!isBeyond && !(caps.session !== undefined && reserved.amount > caps.session)) {
    const { resource, extensions } = demand
    const payment = {
      x402Version: 2,
      ...(resource !== undefined && { resource }),
      accepted: offer,
      payload,
      extensions,
    }
    return { payment: encodeHeader(payment), reserved, deposit }
  }
  journal.releaseVoucher(ceiling, reserved)
  throw refused(
    isBeyond
      ? `The request would raise the ceiling of the channel by ${inUsdc(usdc(raised + reserved.amount))} USDC.`
      : 'The cap of this session is reached. Raise it with --max-per-session.',
    raised,
  )
}

const refused = (reason: string, raised = 0n) =>
  new Refused(402, `farebox proxy: ${reason} ${raised === 0n ? 'Nothing was paid.' : 'No other voucher was signed.'}`)

/**
 * Lets one call run at a time. Resolves with the end of the turn, which must be called; undefined if `turnTimeout`
 * resolved before the turn came.
 */
export function turns() {
  let last = Promise.resolve()
  function turnOf(): Promise<() => void>
  function turnOf(turnTimeout: Promise<void> | undefined): Promise<(() => void) | undefined>
  async function turnOf(turnTimeout?: Promise<void>): Promise<(() => void) | undefined> {
    let end = (): void => {}
    const before = last
    last = new Promise((resolve) => (end = resolve))
    const isDue = await Promise.race([before.then(() => true), ...(turnTimeout ? [turnTimeout.then(() => false)] : [])])
    if (isDue) return () => end()
    void before.then(end)
    return undefined
  }
  return turnOf
}
