/**
 * Signatures of buyers of each scheme on EVM, and of thieves: nothing is checked here, and every field may be
 * somebody else's.
 */
import { type Hex, keccak256, toHex } from 'viem'
import type { PrivateKeyAccount } from 'viem/accounts'
import { type ChannelConfig, channelDigests } from '../../../adapters/chains/evm/channels/digests.ts'
import { lower } from '../../../adapters/chains/lib/hex.ts'
import { ERC3009_COLLECTOR, PERMIT2, UPTO_PROXY } from '../../../adapters/chains/evm/node/x402_contracts.ts'
import type { Offer, Payment } from '../../../core/x402/protocol.ts'

const fieldsOf = (text: string) =>
  text.split(', ').map((field) => {
    const [type = '', name = ''] = field.split(' ')
    return { type, name }
  })
const AUTHORIZATION = fieldsOf(
  'address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce',
)
const PERMIT_TYPES = {
  PermitWitnessTransferFrom: fieldsOf(
    'TokenPermissions permitted, address spender, uint256 nonce, uint256 deadline, Witness witness',
  ),
  TokenPermissions: fieldsOf('address token, uint256 amount'),
  Witness: fieldsOf('address to, address facilitator, uint256 validAfter'),
}

let nonces = 0
const freshNonce = (): Hex => keccak256(toHex(`${Math.random()} ${nonces++}`))

/** `now` in milliseconds. `by` signs in the place of the wallet that is named. */
type Signing = { readonly offer: Offer; readonly now: number; readonly by?: PrivateKeyAccount }

const chainIdOf = ({ network }: Offer): number => Number(network.split(':')[1])
const endOf = ({ offer, now }: Signing): bigint => BigInt(Math.floor(now / 1000) + offer.maxTimeoutSeconds)
const tokenOf = (offer: Offer) => {
  const { name, version } = offer.extra as { name: string; version: string }
  return { name, version, chainId: chainIdOf(offer), verifyingContract: offer.asset as Hex }
}

/** An EIP-3009 authorization in the name of `from`. */
export async function signExact(
  account: PrivateKeyAccount,
  signing: Signing & { readonly nonce?: string; readonly validBefore?: bigint },
): Promise<Payment> {
  const { offer, by = account } = signing
  const { nonce = freshNonce(), validBefore = endOf(signing) } = signing
  const [value, validAfter] = [BigInt(offer.amount), 0n]
  const named = { from: account.address, to: offer.payTo, nonce }
  const signature = await by.signTypedData({
    domain: tokenOf(offer),
    types: { TransferWithAuthorization: AUTHORIZATION },
    primaryType: 'TransferWithAuthorization',
    message: { ...named, value, validAfter, validBefore },
  })
  const numbers = { value: String(value), validAfter: '0', validBefore: String(validBefore) }
  return { x402Version: 2, accepted: offer, payload: { signature, authorization: { ...named, ...numbers } } }
}

/** A Permit2 authorization for the proxy of `upto`, of a wallet that has approved Permit2. */
export async function signUpto(account: PrivateKeyAccount, signing: Signing): Promise<Payment> {
  const { offer, by = account } = signing
  const [nonce, deadline] = [BigInt(freshNonce()), endOf(signing)]
  const witness = {
    to: offer.payTo as Hex,
    facilitator: (offer.extra as { facilitatorAddress: Hex }).facilitatorAddress,
  }
  const permitted = { token: offer.asset as Hex, amount: BigInt(offer.amount) }
  const signature = await by.signTypedData({
    domain: { name: 'Permit2', chainId: chainIdOf(offer), verifyingContract: PERMIT2 },
    types: PERMIT_TYPES,
    primaryType: 'PermitWitnessTransferFrom',
    message: { permitted, spender: UPTO_PROXY, nonce, deadline, witness: { ...witness, validAfter: 0n } },
  })
  const permit2Authorization = {
    from: account.address,
    permitted: { ...permitted, amount: String(permitted.amount) },
    spender: UPTO_PROXY,
    nonce: String(nonce),
    deadline: String(deadline),
    witness: { ...witness, validAfter: '0' },
  }
  return { x402Version: 2, accepted: offer, payload: { signature, permit2Authorization } }
}

/** Anybody's collector of deposits, and its code: it transfers what it is asked for from its own balance. */
export const COLLECTOR: Hex = '0x00000000000000000000000000000000c0117ec7'
export const COLLECTOR_CODE: Hex = '0x63a9059cbb60e01b5f523360045260443560245260205f60445f5f6024355af15000'

export type Channel = { readonly config: ChannelConfig; readonly id: Hex }

/** The channel that these have with the seller of an offer. Whoever `authorizer` is signs its vouchers. */
export function channelOf(
  offer: Offer,
  { payer, authorizer = payer, salt = 1n }: { payer: string; authorizer?: string; salt?: bigint },
): Channel {
  const extra = offer.extra as { receiverAuthorizer: string; withdrawDelay: number }
  const config = {
    payer: lower(payer),
    payerAuthorizer: lower(authorizer),
    receiver: lower(offer.payTo),
    receiverAuthorizer: lower(extra.receiverAuthorizer),
    token: lower(offer.asset),
    withdrawDelay: extra.withdrawDelay,
    salt: toHex(salt, { size: 32 }),
  }
  return { config, id: channelDigests(chainIdOf(offer)).channelId(config) }
}

type ChannelSigning = { readonly offer: Offer; readonly channel: Channel; readonly base?: bigint }

/** The next voucher of a channel when `base` was charged before, signed by `authorizer`. */
export async function signVoucher(
  authorizer: PrivateKeyAccount,
  { offer, channel: { config, id }, base = 0n }: ChannelSigning,
): Promise<Payment> {
  const ceiling = base + BigInt(offer.amount)
  const signature = await authorizer.sign({ hash: channelDigests(chainIdOf(offer)).voucher(id, ceiling) })
  const voucher = { channelId: id, maxClaimableAmount: String(ceiling), signature }
  return { x402Version: 2, accepted: offer, payload: { type: 'voucher', channelConfig: config, voucher } }
}

/** Asks for what is left of a channel, or for a part, when `charged` was charged. */
export async function signRefund(
  authorizer: PrivateKeyAccount,
  { offer, channel, base = 0n, amount }: ChannelSigning & { readonly amount?: bigint },
): Promise<Payment> {
  const hash = channelDigests(chainIdOf(offer)).voucher(channel.id, base)
  const voucher = {
    channelId: channel.id,
    maxClaimableAmount: String(base),
    signature: await authorizer.sign({ hash }),
  }
  const payload = { type: 'refund', channelConfig: channel.config, voucher }
  return {
    x402Version: 2,
    accepted: offer,
    payload: { ...payload, ...(amount !== undefined && { amount: String(amount) }) },
  }
}

/** A voucher with a deposit that `by` has signed as a transfer of the channel's payer; junk without it. */
export async function signDeposit(
  authorizer: PrivateKeyAccount,
  { amount, by, ...signing }: ChannelSigning & { readonly amount: bigint; readonly by: PrivateKeyAccount | undefined },
): Promise<Payment> {
  const { offer, channel } = signing
  const [salt, validBefore] = [freshNonce(), 2n ** 40n]
  const signature = await by?.signTypedData({
    domain: tokenOf(offer),
    types: { ReceiveWithAuthorization: AUTHORIZATION },
    primaryType: 'ReceiveWithAuthorization',
    message: {
      from: channel.config.payer,
      to: ERC3009_COLLECTOR,
      value: amount,
      validAfter: 0n,
      validBefore,
      nonce: channelDigests(chainIdOf(offer)).depositNonce(channel.id, salt),
    },
  })
  const erc3009Authorization = {
    validAfter: '0',
    validBefore: String(validBefore),
    salt,
    signature: signature ?? `0x${'11'.repeat(64)}1b`,
  }
  const { payload, ...payment } = await signVoucher(authorizer, signing)
  const deposit = { amount: String(amount), authorization: { erc3009Authorization } }
  return { ...payment, payload: { ...payload, type: 'deposit', deposit } }
}
