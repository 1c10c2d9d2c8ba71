/**
 * The scheme `batch-settlement`: one deposit, then a signed voucher for each call, and claims of many at once (decision
 * 131).
 */
import { checksummed } from '../../../../core/lib/mod.ts'
import type { Refunding, RefundOptions, SettleOptions } from '../../../../core/ports/mod.ts'
import type { Offer, Payment } from '../../../../core/x402/mod.ts'
import { lower } from '../../lib/hex.ts'
import type { CallOptions } from '../../lib/results.ts'
import { domainSeparator } from '../exact/eip3009.ts'
import { channelDigests } from './digests.ts'
import { identify, wrongDepositing, wrongSignature } from './identify.ts'
import { type Channeled, type Deposit, parseRefund } from './payload.ts'
import type { VouchersConfig, VouchersContext, VoucherScheme } from './scheme.ts'
import { drawDown, fate, settle } from './settle.ts'
import { freshMsOf } from './state.ts'
import { terms } from './terms.ts'
import { secure, verify } from './verify.ts'

export function evmChannels(
  { reads, states, deposits, costs, refunds, published, checkSignature }: VouchersContext,
  config: VouchersConfig,
) {
  const { network, asset, payTo, domain, lagSeconds } = config

  const vouchers: VoucherScheme = {
    reads,
    states,
    deposits,
    costs,
    refunds,
    published,
    checkSignature,
    config,
    network,
    lagSeconds,
    digests: channelDigests(config.chainId),
    separator: domainSeparator(domain, config.chainId, lower(asset)),
    freshMs: freshMsOf(config.withdrawDelay),
    unpriced: {
      scheme: 'batch-settlement',
      network,
      asset,
      payTo,
      extra: {
        ...domain,
        receiverAuthorizer: checksummed(config.authorizer),
        withdrawDelay: config.withdrawDelay,
      },
    },
    priced: undefined,
    active: 0,
    parsedBefore: new WeakMap(),
  }
  return {
    terms: () => terms(vouchers),
    identify: (payment: Payment, offer: Offer, at: CallOptions) => identify(vouchers, payment, offer, at),
    verify: (payment: Payment, offer: Offer, at: CallOptions) => verify(vouchers, payment, offer, at),
    secure: (payment: Payment, offer: Offer, at: CallOptions) => secure(vouchers, payment, offer, at),
    settle: (payment: Payment, offer: Offer, at: SettleOptions) => settle(vouchers, payment, offer, at),
    drawDown: (payment: Payment, offer: Offer, at: Omit<SettleOptions, 'signal'>) =>
      drawDown(vouchers, payment, offer, at),
    fate: (payment: Payment, offer: Offer, at: SettleOptions) => fate(vouchers, payment, offer, at),
    refund: (payment: Payment, offer: Offer, at: RefundOptions) => refund(vouchers, payment, offer, at),
    wrongDepositing: (
      depositing: Pick<Channeled, 'channelId' | 'config' | 'ceiling' | 'signature'> & { readonly deposit: Deposit },
      at: CallOptions,
    ) => wrongDepositing(vouchers, depositing, at),
    isIdle: () => isIdle(vouchers),
  }
}

async function refund(vouchers: VoucherScheme, payment: Payment, offer: Offer, at: RefundOptions): Promise<Refunding> {
  const parsed = parseRefund(payment, offer, vouchers.digests)
  if (parsed.kind === 'refused') return parsed
  return (await wrongSignature(vouchers, parsed)) ?? (await vouchers.refunds.refund(parsed, at))
}

const isIdle = (vouchers: VoucherScheme) =>
  vouchers.active === 0 && vouchers.refunds.isIdle() && vouchers.deposits.isIdle()

export type EvmChannels = ReturnType<typeof evmChannels>
