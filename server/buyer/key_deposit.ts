/**
 * A deposit that funds an API key (contract 23.9): the wallet signs the transfer into a channel that names the key, and
 * the key signs a voucher of zero. Nothing here reads a file or the network, so a page can use it too.
 */
import { encodeAbiParameters, type Hex, hashTypedData, keccak256, type LocalAccount } from 'viem'
import { keySalt } from '../../core/x402/mod.ts'
import type { Offer } from './signed_payment.ts'

/** The immutable parameters of the channel of a key. Addresses in lower case. */
export type KeyChannelConfig = {
  readonly payer: Hex
  readonly payerAuthorizer: Hex
  readonly receiver: Hex
  readonly receiverAuthorizer: Hex
  readonly token: Hex
  readonly withdrawDelay: number
  readonly salt: Hex
}

type Signer = Pick<LocalAccount, 'address' | 'signTypedData'>

/** One address on every EVM network (x402 specification, scheme `batch-settlement` for EVM). */
export const CHANNEL_CONTRACT: Hex = '0x4020074e9dF2ce1deE5A9C1b5c3f541D02a10003'
const COLLECTOR: Hex = '0x4020806089470a89826cB9fB1f4059150b550004'
/** How long the gateway may bring the deposit on chain. */
const LIFE_SECONDS = 3_600

const CHANNEL_CONFIG = [
  { name: 'payer', type: 'address' },
  { name: 'payerAuthorizer', type: 'address' },
  { name: 'receiver', type: 'address' },
  { name: 'receiverAuthorizer', type: 'address' },
  { name: 'token', type: 'address' },
  { name: 'withdrawDelay', type: 'uint40' },
  { name: 'salt', type: 'bytes32' },
] as const

/** The channel of a key with the seller of this offer. Throws Error for an offer that names none. */
export function keyChannel(offer: Offer, { payer, key }: { readonly payer: string; readonly key: string }) {
  const { receiverAuthorizer, withdrawDelay } = offer.extra ?? {}
  if (typeof receiverAuthorizer !== 'string' || typeof withdrawDelay !== 'number')
    throw new Error('the offer of the gateway names no receiverAuthorizer and withdrawDelay')
  const config: KeyChannelConfig = {
    payer: lower(payer),
    payerAuthorizer: lower(key),
    receiver: lower(offer.payTo),
    receiverAuthorizer: lower(receiverAuthorizer),
    token: lower(offer.asset),
    withdrawDelay,
    salt: keySalt(lower(key)),
  }
  const types = { ChannelConfig: CHANNEL_CONFIG }
  return {
    config,
    id: hashTypedData({ domain: domainOf(offer), types, primaryType: 'ChannelConfig', message: config }),
  }
}

type KeyDepositing = {
  readonly wallet: Signer
  readonly key: Signer
  /** In base units. */
  readonly amount: bigint
  /** Milliseconds since 1970. */
  readonly now: number
  /** Of each deposit another one: 32 bytes in hex. */
  readonly nonce: Hex
}

/** The payment for `POST /api/v1/keys/deposit`, not yet encoded. */
export async function keyDeposit(offer: Offer, { wallet, key, amount, now, nonce }: KeyDepositing) {
  const { config, id } = keyChannel(offer, { payer: wallet.address, key: key.address })
  const { name, version } = offer.extra ?? {}
  if (typeof name !== 'string' || typeof version !== 'string')
    throw new Error('the offer of the gateway names no EIP-712 domain of the token')
  const validBefore = BigInt(Math.floor(now / 1000) + LIFE_SECONDS)
  const signature = await wallet.signTypedData({
    domain: { name, version, chainId: chainIdOf(offer), verifyingContract: config.token },
    types: { ReceiveWithAuthorization: AUTHORIZATION },
    primaryType: 'ReceiveWithAuthorization',
    message: {
      from: wallet.address,
      to: COLLECTOR,
      value: amount,
      validAfter: 0n,
      validBefore,
      nonce: keccak256(encodeAbiParameters([{ type: 'bytes32' }, { type: 'uint256' }], [id, BigInt(nonce)])),
    },
  })
  const voucher = await key.signTypedData({
    domain: domainOf(offer),
    types: { Voucher: VOUCHER },
    primaryType: 'Voucher',
    message: { channelId: id, maxClaimableAmount: 0n },
  })
  const erc3009Authorization = { validAfter: '0', validBefore: String(validBefore), salt: nonce, signature }
  return {
    x402Version: 2,
    accepted: offer,
    payload: {
      type: 'deposit',
      channelConfig: config,
      voucher: { channelId: id, maxClaimableAmount: '0', signature: voucher },
      deposit: { amount: String(amount), authorization: { erc3009Authorization } },
    },
  }
}

const AUTHORIZATION = [
  { name: 'from', type: 'address' },
  { name: 'to', type: 'address' },
  { name: 'value', type: 'uint256' },
  { name: 'validAfter', type: 'uint256' },
  { name: 'validBefore', type: 'uint256' },
  { name: 'nonce', type: 'bytes32' },
] as const
const VOUCHER = [
  { name: 'channelId', type: 'bytes32' },
  { name: 'maxClaimableAmount', type: 'uint128' },
] as const

const lower = (address: string): Hex => address.toLowerCase() as Hex
const chainIdOf = ({ network }: Offer): number => Number(network.split(':')[1])
const domainOf = (offer: Offer) => ({
  name: 'x402 Batch Settlement',
  version: '1',
  chainId: chainIdOf(offer),
  verifyingContract: CHANNEL_CONTRACT,
})
