/** Channels of buyers, and what their clients believe. */
import type { ChannelConfig } from '../../../adapters/chains/evm/channels/digests.ts'
import { type Hex, lower, word } from '../../../adapters/chains/lib/hex.ts'
import { digests } from './contract.ts'
import { AUTHORIZER, type Signer, signerOf } from './keys.ts'
import { ASSET, PAY_TO, WITHDRAW_DELAY } from './terms.ts'

/** One channel of a buyer, and what its client believes. */
export type Client = {
  readonly name: string
  readonly buyer: string
  /** Signs deposits; its address is the payer. */
  readonly wallet: Signer
  /** Signs vouchers. */
  readonly voucher: Signer
  readonly config: ChannelConfig
  readonly id: Hex
  charged: bigint
  balance: bigint
}

/** Who holds no key but its own. */
export const THIEF = 'mallory'

/** Channels of one buyer, which differ by their salts. */
export const loadOf = (size: number): readonly Client[] =>
  Array.from({ length: size }, (_, index) => clientOf('load', 100n + BigInt(index)))

/** Two buyers, or three channels of two buyers. Bob's vouchers have a key of their own. */
export function clientsOf(isThree: boolean): Client[] {
  const clients = [clientOf('alice', 1n), clientOf('bob', 1n)]
  return isThree ? [...clients, clientOf('alice', 2n)] : clients
}

/** `payer`: whom it names, where that is not its own wallet. */
export function clientOf(buyer: string, salt: bigint, payer?: Hex): Client {
  const wallet = signerOf(buyer)
  const voucher = buyer === 'bob' ? signerOf('the vouchers of bob') : wallet
  const config: ChannelConfig = {
    payer: payer ?? wallet.address,
    payerAuthorizer: voucher.address,
    receiver: lower(PAY_TO),
    receiverAuthorizer: AUTHORIZER.address,
    token: lower(ASSET),
    withdrawDelay: WITHDRAW_DELAY,
    salt: `0x${word(salt)}`,
  }
  const id = digests.channelId(config)
  return { name: `${buyer[0]}${salt}`, buyer, wallet, voucher, config, id, charged: 0n, balance: 0n }
}
