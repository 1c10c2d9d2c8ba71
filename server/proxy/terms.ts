/** The demands of a 402, and which of its offers is paid how. */
import type { Money } from '../buyer/wallet_file.ts'
import type { Offer } from '../buyer/signed_payment.ts'
import { type Channel, CHANNEL_SCHEME } from './channels.ts'
import { type Demand, offerFor, readDemand } from './demand.ts'
import { Refused } from './errors.ts'
import { type Challenge, readChallenge } from './mpp.ts'

export type Terms =
  | { readonly offer: Offer; readonly demand: Demand }
  | { readonly offer: Offer; readonly challenge: Challenge }
  | { readonly offer: Offer; readonly demand: Demand; readonly channel: Channel }

export type TermsOptions = {
  readonly money: Money
  /**
   * Opens the wallet's channel with the seller of an offer. Undefined where this wallet cannot pay by it now; absent
   * where channels are not used.
   */
  channel?(offer: Offer): Promise<Channel | undefined>
  /** Whether the wallet can pay an offer of `upto`; absent where it is not used. */
  takesUpto?(offer: Offer, extensions: Demand['extensions']): Promise<boolean>
  readonly now: () => number
}

/** The demands of a 402, in both protocols. */
export type Demanded = { readonly demand: Demand | undefined; readonly challenge: Challenge | undefined }

export async function readDemands(reply: Response, { now }: Pick<TermsOptions, 'now'>): Promise<Demanded> {
  const demand = await readDemand(reply)
  return { demand, challenge: readChallenge(reply.headers.get('www-authenticate'), now()) }
}

/**
 * By a channel, which is charged what was used and needs one transaction for many calls; otherwise by `upto`, which is
 * charged what was used; otherwise by `exact`; otherwise a challenge of MPP. Throws Refused where nothing can be paid.
 */
export async function termsOf(demanded: Demanded, options: TermsOptions): Promise<Terms> {
  const { demand } = demanded
  const metered = options.channel && demand && offerFor(demand, { money: options.money, schemes: [CHANNEL_SCHEME] })
  const channel = metered && (await options.channel?.(metered))
  return metered && channel ? { offer: metered, demand, channel } : await termsByCall(demanded, options)
}

/** The same without channels. */
export async function termsByCall({ demand, challenge }: Demanded, options: TermsOptions): Promise<Terms> {
  const { money } = options
  const limited = options.takesUpto && demand && offerFor(demand, { money, schemes: ['upto'] })
  if (limited && (await options.takesUpto?.(limited, demand.extensions))) return { offer: limited, demand }
  const offer = demand && offerFor(demand, { money, schemes: ['exact'] })
  if (offer) return { offer, demand }
  if (challenge && offerFor({ accepts: [challenge.offer] }, { money, schemes: ['exact'] }))
    return { offer: challenge.offer, challenge }
  if (!demand && !challenge)
    throw new Refused(502, 'farebox proxy: the seller asks for money by neither x402 version 2 nor MPP.')
  throw new Refused(402, `farebox proxy: the seller has no offer in USDC with ${money} money. Nothing was paid.`)
}
