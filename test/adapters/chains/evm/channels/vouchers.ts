/** Channels whose balance every node confirms, and buyers who sign vouchers for them. No node is needed. */
import { decodeFunctionData, keccak256, toHex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { refundLogs } from '../../../../../adapters/chains/evm/channels/contract.ts'
import { channelDigests, type ChannelConfig } from '../../../../../adapters/chains/evm/channels/digests.ts'
import { evmChannels } from '../../../../../adapters/chains/evm/channels/mod.ts'
import { channelRefunds } from '../../../../../adapters/chains/evm/channels/refunds.ts'
import { channelStates } from '../../../../../adapters/chains/evm/channels/state.ts'
import type { ChainLog } from '../../../../../adapters/chains/evm/token.ts'
import { type Hex, lower, word } from '../../../../../adapters/chains/hex.ts'
import { batchSettlementAbi, ERC3009_COLLECTOR } from '../../../../../adapters/chains/lib/x402_contracts.ts'
import type { Chain, Offer, Payment, Storage } from '../../../../../core/mod.ts'

const NETWORK = 'eip155:84532'
const CHAIN_ID = 84_532
const [ASSET, PAY_TO] = ['1', '2'].map((digit) => `0x${digit.repeat(40)}`) as [Hex, Hex]
const { address, sign } = privateKeyToAccount(`0x${'5'.repeat(64)}`)
const AUTHORIZER = { address: lower(address), sign }
const BALANCE = 1_000_000_000_000n
const digests = channelDigests(CHAIN_ID)

/**
 * A chain that sells by vouchers alone. The only transactions that it sends are refunds, which are mined at once and
 * noted in `refunded`; its node is behind them.
 */
export function voucherChain(
  storage: Storage,
  refunded: bigint[] = [],
  /** What the three views of a channel answer: balance and claimed, withdrawing and since when, the refund nonce. */
  views: () => readonly (readonly bigint[])[] = () => [[BALANCE, 0n], [0n, 0n], [0n]],
): Chain {
  const confirmed = () =>
    views().map((words) => ({ ok: true, data: `0x${words.map((each) => word(each)).join('')}` as Hex }))
  const reads = { view: async () => ({ kind: 'seen' as const, time: 1_795_132_800, results: confirmed() }) }
  const relayer = {
    async send({ data }: { readonly data: Hex }) {
      const { channelId, amount } = refundCallIn(data)
      refunded.push(amount)
      const [transactionHash, block] = [keccak256(data), 9]
      const log = { ...refundLogs(channelId), data: `0x${word(amount)}` as Hex, transactionHash }
      const receipt = { transactionHash, block, success: true, logs: [log as ChainLog] }
      return { kind: 'mined' as const, receipt, hasOtherNonces: false }
    },
  }
  const states = channelStates(storage, { network: NETWORK, seller: AUTHORIZER.address })
  const rpc = { request: async () => ({ kind: 'result' as const, value: '0x8' }) }
  const context = { reads, relayer, states }
  const refunds = channelRefunds(
    { ...context, rpc, authorizer: AUTHORIZER, digests },
    { network: NETWORK, lagSeconds: 10 },
  )
  const channels = evmChannels(
    { ...context, refunds },
    {
      network: NETWORK,
      chainId: CHAIN_ID,
      asset: ASSET,
      payTo: PAY_TO,
      domain: { name: 'USDC', version: '2' },
      authorizer: AUTHORIZER.address,
      withdrawDelay: 900,
      minDeposit: 1n,
      lagSeconds: 10,
    },
  )
  return { ...channels, terms: () => [channels.terms] }
}

/** The refund in a transaction that claims, refunds and settles. */
function refundCallIn(data: Hex): { readonly channelId: Hex; readonly amount: bigint } {
  const calls = decodeFunctionData({ abi: batchSettlementAbi, data }).args?.[0] as readonly Hex[]
  for (const each of calls) {
    const { functionName, args } = decodeFunctionData({ abi: batchSettlementAbi, data: each })
    if (functionName !== 'refundWithSignature') continue
    const [config, amount] = args
    return { channelId: digests.channelId(config as unknown as ChannelConfig), amount }
  }
  throw new Error('nothing but refunds is sent here')
}

type Seller = Pick<Offer, 'payTo' | 'asset'> & {
  readonly extra: Readonly<Record<string, unknown>>
  /** Another channel of the same buyer. */
  readonly salt?: bigint
}

const SELLER: Seller = {
  payTo: PAY_TO,
  asset: ASSET,
  extra: { receiverAuthorizer: AUTHORIZER.address, withdrawDelay: 900, name: 'USDC', version: '2' },
}

/** A buyer with a channel of its own at a seller, by default that of `voucherChain`. */
export function voucherBuyer(name: string, { payTo, asset, extra, salt: channelSalt = 7n }: Seller = SELLER) {
  const account = privateKeyToAccount(keccak256(toHex(name)))
  const payer = lower(account.address)
  const channelConfig = {
    payer,
    payerAuthorizer: payer,
    receiver: lower(payTo),
    receiverAuthorizer: lower(String(extra.receiverAuthorizer)),
    token: lower(asset),
    withdrawDelay: Number(extra.withdrawDelay),
    salt: `0x${word(channelSalt)}` as Hex,
  }
  const channelId = digests.channelId(channelConfig)
  const sign = async (accepted: Offer, base: bigint): Promise<Payment> => {
    const ceiling = base + BigInt(accepted.amount)
    const signature = await account.sign({ hash: digests.voucher(channelId, ceiling) })
    const voucher = { channelId, maxClaimableAmount: String(ceiling), signature }
    return { x402Version: 2, accepted, payload: { type: 'voucher', channelConfig, voucher } }
  }
  return {
    address: account.address,
    channelId,
    /** A voucher for an offer, when `base` was charged so far. */
    sign,
    /** The first voucher of the channel, with a deposit of this amount. */
    async open(accepted: Offer, amount: bigint): Promise<Payment> {
      const salt: Hex = `0x${word(1n)}`
      const signature = await account.signTypedData({
        domain: {
          name: String(extra.name),
          version: String(extra.version),
          chainId: CHAIN_ID,
          verifyingContract: asset as Hex,
        },
        types: { ReceiveWithAuthorization: RECEIVE },
        primaryType: 'ReceiveWithAuthorization',
        message: {
          from: account.address,
          to: ERC3009_COLLECTOR,
          value: amount,
          validAfter: 0n,
          validBefore: 2n ** 40n,
          nonce: digests.depositNonce(channelId, salt),
        },
      })
      const erc3009Authorization = { validAfter: '0', validBefore: String(2n ** 40n), salt, signature }
      const { payload, ...payment } = await sign(accepted, 0n)
      const deposit = { amount: String(amount), authorization: { erc3009Authorization } }
      return { ...payment, payload: { ...payload, type: 'deposit', deposit } }
    },
    /** Asks for what is left of the channel. */
    async refund(accepted: Offer, charged: bigint): Promise<Payment> {
      const signature = await account.sign({ hash: digests.voucher(channelId, charged) })
      const voucher = { channelId, maxClaimableAmount: String(charged), signature }
      return { x402Version: 2, accepted, payload: { type: 'refund', channelConfig, voucher } }
    },
  }
}

const RECEIVE = [
  { name: 'from', type: 'address' },
  { name: 'to', type: 'address' },
  { name: 'value', type: 'uint256' },
  { name: 'validAfter', type: 'uint256' },
  { name: 'validBefore', type: 'uint256' },
  { name: 'nonce', type: 'bytes32' },
]
