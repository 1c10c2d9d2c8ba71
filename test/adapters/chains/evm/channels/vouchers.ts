/** Channels whose balance every node confirms, and buyers who sign vouchers for them. No node is needed. */
import { keccak256, toHex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { channelDigests } from '../../../../../adapters/chains/evm/channels/digests.ts'
import { evmChannels } from '../../../../../adapters/chains/evm/channels/mod.ts'
import { channelStates } from '../../../../../adapters/chains/evm/channels/state.ts'
import { type Hex, lower, word } from '../../../../../adapters/chains/hex.ts'
import type { Chain, Offer, Payment, Storage } from '../../../../../core/mod.ts'

const NETWORK = 'eip155:84532'
const CHAIN_ID = 84_532
const [ASSET, PAY_TO, AUTHORIZER] = ['1', '2', '5'].map((digit) => `0x${digit.repeat(40)}`) as [Hex, Hex, Hex]
const BALANCE = 1_000_000_000_000n
const digests = channelDigests(CHAIN_ID)

/** A chain that sells by vouchers alone. It sends nothing. */
export function voucherChain(storage: Storage): Chain {
  const confirmed = [[BALANCE, 0n], [0n, 0n], [0n]].map((words) => ({
    ok: true,
    data: `0x${words.map((each) => word(each)).join('')}` as Hex,
  }))
  const channels = evmChannels(
    {
      reads: { view: async () => ({ kind: 'seen', time: 1_795_132_800, results: confirmed }) },
      relayer: { send: () => Promise.reject(new Error('nothing is sent here')) },
      states: channelStates(storage, { network: NETWORK, seller: AUTHORIZER }),
    },
    {
      network: NETWORK,
      chainId: CHAIN_ID,
      asset: ASSET,
      payTo: PAY_TO,
      domain: { name: 'USDC', version: '2' },
      authorizer: AUTHORIZER,
      withdrawDelay: 900,
      minDeposit: 1n,
      lagSeconds: 10,
    },
  )
  return { ...channels, terms: () => [channels.terms] }
}

/** A buyer with a channel of its own. `sign` makes a voucher for an offer, when `base` was charged so far. */
export function voucherBuyer(name: string) {
  const account = privateKeyToAccount(keccak256(toHex(name)))
  const payer = lower(account.address)
  const channelConfig = {
    payer,
    payerAuthorizer: payer,
    receiver: PAY_TO,
    receiverAuthorizer: AUTHORIZER,
    token: ASSET,
    withdrawDelay: 900,
    salt: `0x${word(7n)}` as Hex,
  }
  const channelId = digests.channelId(channelConfig)
  return {
    address: account.address,
    channelId,
    async sign(accepted: Offer, base: bigint): Promise<Payment> {
      const ceiling = base + BigInt(accepted.amount)
      const signature = await account.sign({ hash: digests.voucher(channelId, ceiling) })
      const voucher = { channelId, maxClaimableAmount: String(ceiling), signature }
      return { x402Version: 2, accepted, payload: { type: 'voucher', channelConfig, voucher } }
    },
  }
}
