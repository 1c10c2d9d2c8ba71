/** State of the scheme `batch-settlement`, which each of its verbs is given. */
import type { Refused } from '../../../../core/ports/mod.ts'
import type { Offer, Payment, Terms } from '../../../../core/x402/mod.ts'
import type { Hex } from '../../lib/hex.ts'
import type { CheckSignature } from '../exact/identity.ts'
import type { Reads } from '../node/reads.ts'
import type { ChannelCosts } from './costs.ts'
import type { ChannelDeposits } from './deposits.ts'
import type { channelDigests } from './digests.ts'
import { type Channeled, parseChanneled } from './payload.ts'
import type { PublishedCeilings } from './published.ts'
import type { ChannelRefunds } from './refunds/mod.ts'
import type { ChannelStates } from './records.ts'

export type VouchersConfig = {
  readonly network: string
  readonly chainId: number
  readonly asset: string
  readonly payTo: string
  /** Name and version of the token's EIP-712 domain. */
  readonly domain: { readonly name: string; readonly version: string }
  /** The address whose key signs claims and refunds. */
  readonly authorizer: Hex
  /** How long a payer has to wait for a withdrawal, in seconds: the time in which its vouchers must be claimed. */
  readonly withdrawDelay: number
  readonly lagSeconds: number
}

export type VouchersContext = {
  readonly reads: Pick<Reads, 'view'>
  readonly states: ChannelStates
  readonly deposits: ChannelDeposits
  readonly costs: ChannelCosts
  readonly refunds: ChannelRefunds
  readonly published: PublishedCeilings
  readonly checkSignature: CheckSignature
}

/** State of `evmChannels`. */
export type VoucherScheme = {
  readonly reads: VouchersContext['reads']
  readonly states: VouchersContext['states']
  readonly deposits: VouchersContext['deposits']
  readonly costs: VouchersContext['costs']
  readonly refunds: VouchersContext['refunds']
  readonly published: VouchersContext['published']
  readonly checkSignature: VouchersContext['checkSignature']
  readonly config: VouchersConfig
  readonly network: string
  readonly lagSeconds: number
  readonly digests: ReturnType<typeof channelDigests>
  readonly separator: Hex
  readonly freshMs: number
  readonly unpriced: Terms
  priced: Terms | undefined
  active: number
  /** Each payment is asked about several times, of the same offer mostly. */
  readonly parsedBefore: WeakMap<Payment, { readonly offer: Offer; readonly parsed: Channeled | Refused }>
}

export function parse(vouchers: VoucherScheme, payment: Payment, offer: Offer): Channeled | Refused {
  const before = vouchers.parsedBefore.get(payment)
  if (before?.offer === offer) return before.parsed
  const parsed = parseChanneled(payment, offer, vouchers.digests)
  vouchers.parsedBefore.set(payment, { offer, parsed })
  return parsed
}
