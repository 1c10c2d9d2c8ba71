/** Who signed a payment by voucher, and whether the signatures are right (decision 137). */
import { checksummed } from '../../../../core/lib/mod.ts'
import type { Identity, Refused, Unavailable } from '../../../../core/ports/mod.ts'
import type { Offer, Payment } from '../../../../core/x402/mod.ts'
import { lower } from '../../lib/hex.ts'
import type { CallOptions } from '../../lib/results.ts'
import { receiveDigestOf, recoverSigner } from '../exact/eip3009.ts'
import { ERC3009_COLLECTOR } from '../node/x402_contracts.ts'
import type { ChannelConfig } from './digests.ts'
import { type Channeled, type Deposit, endOf, refusedChannel, spentVoucher } from './payload.ts'
import { parse, type VoucherScheme } from './scheme.ts'
import { buyerOf, isSpentVoucher } from './state.ts'

/** Vouchers never expire; a call that is not settled by then never is. */
const VOUCHER_LIFE_MS = 30 * 86_400_000

export async function identify(
  vouchers: VoucherScheme,
  payment: Payment,
  offer: Offer,
  { now, signal }: CallOptions,
): Promise<Identity> {
  const parsed = parse(vouchers, payment, offer)
  if (parsed.kind === 'refused') return parsed
  const { config: channel, channelId, deposit, key, fundedBy, base, ceiling } = parsed
  const wrong =
    (await wrongSignature(vouchers, parsed)) ??
    (deposit && (await wrongDeposit(vouchers, channel, deposit, { now, signal })))
  if (wrong) return wrong
  const state = await vouchers.states.get(channelId, now)
  // On the next base it would name the call that is under way there, and its sender as the buyer.
  if (state && base === state.charged && isSpentVoucher(state, ceiling)) return spentVoucher(ceiling)
  const isAlone = channel.payer === channel.payerAuthorizer
  const isSigned = isAlone || deposit !== undefined
  const isPayerProven = isSigned || state?.isPayerProven
  const payer = buyerOf({ config: channel, ...(isPayerProven && { isPayerProven }) })
  const other = isPayerProven ? channel.payerAuthorizer : channel.payer
  const expiresAt = deposit ? Math.min(endOf(deposit), now + VOUCHER_LIFE_MS) : now + VOUCHER_LIFE_MS
  const others = { otherAddress: checksummed(other), signer: checksummed(channel.payerAuthorizer) }
  return { kind: 'known', payer, key, expiresAt, fundedBy, ...(!isAlone && others) }
}

/** A deposit is signed by the payer; its nonce names the channel, and so the key that signs vouchers. */
async function wrongDeposit(
  vouchers: VoucherScheme,
  { payer }: ChannelConfig,
  deposit: Deposit,
  at: CallOptions,
): Promise<Refused | Unavailable | undefined> {
  const { amount: value, validAfter, validBefore, nonce, signature } = deposit
  const transfer = { from: payer, to: lower(ERC3009_COLLECTOR), value, validAfter, validBefore, nonce }
  const checked = await vouchers.checkSignature(
    { account: payer, digest: receiveDigestOf(transfer, vouchers.separator), signature },
    at,
  )
  if (checked.kind !== 'unsigned') return checked.kind === 'signed' ? undefined : checked
  const text = `deposit.authorization.erc3009Authorization.signature is not of channelConfig.payer: ${checked.problem}`
  return refusedChannel('PAYMENT_INVALID', 'receive_authorization_signature', text)
}

export async function wrongSignature(
  vouchers: VoucherScheme,
  signed: Pick<Channeled, 'channelId' | 'config' | 'ceiling' | 'signature'>,
): Promise<Refused | undefined> {
  const { channelId, config: channel, ceiling, signature } = signed
  const signer = await recoverSigner(vouchers.digests.voucher(channelId, ceiling), signature)
  if (signer === channel.payerAuthorizer) return undefined
  const text = `voucher.signature is of ${signer ?? 'no key'}; it must be of channelConfig.payerAuthorizer, ${channel.payerAuthorizer}`
  return refusedChannel('PAYMENT_INVALID', 'voucher_signature', text)
}

/** Whether both have signed: the payer the deposit, and the key of its channel the voucher. */
export const wrongDepositing = async (
  vouchers: VoucherScheme,
  depositing: Pick<Channeled, 'channelId' | 'config' | 'ceiling' | 'signature'> & { readonly deposit: Deposit },
  at: CallOptions,
) =>
  (await wrongSignature(vouchers, depositing)) ??
  (await wrongDeposit(vouchers, depositing.config, depositing.deposit, at))
