/** Channels whose balance every node confirms, and buyers who sign vouchers for them. No node is needed. */
import { evmFamily } from '../../../../../adapters/chains/evm/family.ts'
import { decodeAbiParameters, decodeFunctionData, keccak256, toHex } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { refundLogs } from '../../../../../adapters/chains/evm/channels/contract.ts'
import { channelDigests, type ChannelConfig } from '../../../../../adapters/chains/evm/channels/digests.ts'
import { evmChannels } from '../../../../../adapters/chains/evm/channels/vouchers.ts'
import { type ChannelCosts, channelCosts } from '../../../../../adapters/chains/evm/channels/costs.ts'
import { channelDeposits } from '../../../../../adapters/chains/evm/channels/deposits.ts'
import { publishedCeilings } from '../../../../../adapters/chains/evm/channels/published.ts'
import { channelRefunds } from '../../../../../adapters/chains/evm/channels/refunds/mod.ts'
import { childKeys } from '../../../../../adapters/chains/evm/channels/keys/child_keys.ts'
import { keyCalls } from '../../../../../adapters/chains/evm/channels/keys/calls.ts'
import { idleKeys } from '../../../../../adapters/chains/evm/channels/keys/idle.ts'
import { keyIndex } from '../../../../../adapters/chains/evm/channels/keys/key_index.ts'
import { keyedChannels } from '../../../../../adapters/chains/evm/channels/keys/keyed.ts'
import { channelKeys } from '../../../../../adapters/chains/evm/channels/keys/mod.ts'
import { channelStates } from '../../../../../adapters/chains/evm/channels/records.ts'
import { evmIdentity } from '../../../../../adapters/chains/evm/exact/identity.ts'
import type { Reads } from '../../../../../adapters/chains/evm/node/reads.ts'
import type { Rpc } from '../../../../../adapters/chains/lib/json_rpc.ts'
import type { ContractCall } from '../../../../../adapters/chains/evm/node/multicall.ts'
import type { ChainLog } from '../../../../../adapters/chains/evm/node/token.ts'
import { type Hex, lower, word } from '../../../../../adapters/chains/lib/hex.ts'
import { keySalt, privateKeyOf } from '../../../../../core/x402/api_key.ts'
import { batchSettlementAbi, ERC3009_COLLECTOR } from '../../../../../adapters/chains/evm/node/x402_contracts.ts'
import type { Chain, Offer, Payment, Storage } from '../../../../../core/mod.ts'

export const NETWORK = 'eip155:84532'
const CHAIN_ID = 84_532
const [ASSET, PAY_TO] = ['1', '2'].map((digit) => `0x${digit.repeat(40)}`) as [Hex, Hex]
const { address, sign } = privateKeyToAccount(`0x${'5'.repeat(64)}`)
const AUTHORIZER = { address: lower(address), sign }
const BALANCE = 1_000_000_000_000n
const digests = channelDigests(CHAIN_ID)

type Views = readonly (readonly bigint[])[]

/** After so long a key is closed that nobody uses. */
export const IDLE_MS = 30 * 86_400_000

/** Gas that is worth nothing. */
export const FREE = channelCosts({ gasPrice: () => 0n, coinPrice: 0, minDeposit: 1n, gasPerWallet: 10n ** 12n })

/**
 * A chain that sells by vouchers alone. The only transactions that it sends are refunds, which are mined at once and
 * noted in `refunded`; its node is behind them.
 */
export function voucherChain(
  storage: Storage,
  refunded: bigint[] = [],
  /** Answers of the three views of a channel: balance and claimed, withdrawing and since when, the refund nonce. */
  views: () => Views | Promise<Views> = () => [[BALANCE, 0n], [0n, 0n], [0n]],
  /** The fate of a deposit that is sent. */
  sending: (nonce: Hex) => 'mined' | 'reverted' | 'used up' | 'lost' = () => 'mined',
  /** Gas is worth nothing unless told. */
  costs: ChannelCosts = FREE,
  /** Takes API keys. */
  takesKeys = false,
  alert: (message: string) => void = () => {},
): Chain & { closeIdle(now: number): Promise<void> } {
  /** Nonces of deposits that were sent. */
  const landed = new Set<string>()
  /** Every deposit would be taken. */
  const answered = async (calls: readonly ContractCall[]) => {
    const confirmed = [...(await views())]
    return calls.map(({ to, data }) => {
      const isUsed = to === ASSET && landed.has(data.slice(-64))
      const words = to === ASSET || data.length > 100 ? [isUsed ? 1n : 0n] : (confirmed.shift() ?? [])
      return { ok: true, data: `0x${words.map((each) => word(each)).join('')}` as Hex }
    })
  }
  const reads = {
    view: async (calls: readonly ContractCall[]) => ({
      kind: 'seen' as const,
      time: 1_795_132_800,
      results: await answered(calls),
    }),
  }
  const relayer = {
    async send({ data }: { readonly data: Hex }) {
      const nonce = depositNonceIn(data)
      if (nonce) {
        const end = sending(nonce)
        if (end !== 'reverted') landed.add(nonce.slice(2))
        if (end === 'lost') return { kind: 'lost' as const, reason: 'another transaction took its nonce' }
        const receipt = { transactionHash: keccak256(data), block: 8, success: end === 'mined', logs: [] }
        return { kind: 'mined' as const, receipt, hasOtherNonces: false }
      }
      const { channelId, amount } = refundCallIn(data)
      refunded.push(amount)
      const [transactionHash, block] = [keccak256(data), 9]
      const log = { ...refundLogs(channelId), data: `0x${word(amount)}` as Hex, transactionHash }
      const receipt = { transactionHash, block, success: true, logs: [log as ChainLog] }
      return { kind: 'mined' as const, receipt, hasOtherNonces: false }
    },
  }
  const states = channelStates(storage, { network: NETWORK, seller: AUTHORIZER.address })
  const rpc = {
    request: async (method?: string) => ({ kind: 'result' as const, value: RPC[method ?? ''] ?? '0x8' }),
  }
  const { checkSignature } = evmIdentity(
    { rpc: rpc as unknown as Rpc, reads: reads as unknown as Reads },
    { network: NETWORK, lagSeconds: 10 },
  )
  const context = { reads, relayer, states, costs, checkSignature }
  const deposits = channelDeposits(context, { network: NETWORK, asset: ASSET, lagSeconds: 10, alert })
  const times = { network: NETWORK, withdrawDelay: 900, lagSeconds: 10 }
  const calls = keyCalls({ storage, states, digests, reads: reads as Pick<Reads, 'view'> }, times)
  const refunds = channelRefunds(
    { ...context, rpc, authorizer: AUTHORIZER, digests, reserved: calls.reserved },
    { network: NETWORK, lagSeconds: 10 },
  )
  const channels = evmChannels(
    { ...context, deposits, refunds, published: publishedCeilings({ rpc: rpc as unknown as Rpc, digests }) },
    {
      network: NETWORK,
      chainId: CHAIN_ID,
      asset: ASSET,
      payTo: PAY_TO,
      domain: { name: 'USDC', version: '2' },
      authorizer: AUTHORIZER.address,
      withdrawDelay: 900,
      lagSeconds: 10,
    },
  )
  const keyed = keyedChannels({ channels, calls, states, digests, takesKeys })
  const index = keyIndex(storage, { network: NETWORK, seller: AUTHORIZER.address })
  const apiKeys = channelKeys(
    {
      ...context,
      reads: reads as Pick<Reads, 'view'>,
      rpc: rpc as unknown as Pick<Rpc, 'request'>,
      index,
      children: childKeys(storage, { network: NETWORK, seller: lower(AUTHORIZER.address) }),
      calls,
      channels: keyed,
      deposits,
      refunds,
      digests,
    },
    { network: NETWORK, asset: ASSET, mode: 'test', lagSeconds: 10 },
  )
  const closeIdle = idleKeys({ index, states, calls, refunds }, { idleMs: IDLE_MS, costOfRefund: costs.refund })
  const families = [evmFamily]
  return { ...keyed, families, terms: () => [channels.terms()], closeIdle, ...(takesKeys && { apiKeys }) }
}

/** Accounts have no code, and have sent nothing. */
const RPC: Readonly<Record<string, string>> = { eth_getCode: '0x', eth_getTransactionCount: '0x0' }

/** The nonce of the deposit that a transaction brings; undefined for any other one. */
function depositNonceIn(data: Hex): Hex | undefined {
  const { functionName, args } = decodeFunctionData({ abi: batchSettlementAbi, data })
  if (functionName !== 'deposit') return undefined
  const [config, , , signed] = args
  const types = [{ type: 'uint256' }, { type: 'uint256' }, { type: 'uint256' }, { type: 'bytes' }] as const
  const [, , salt] = decodeAbiParameters(types, signed)
  return digests.depositNonce(digests.channelId(config as unknown as ChannelConfig), toHex(salt, { size: 32 }))
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

/**
 * A buyer with a channel of its own at a seller, by default that of `voucherChain`. `payer`: a wallet that the channel
 * names in place of the key that signs its vouchers.
 */
export function voucherBuyer(
  name: string | PrivateKeyAccount,
  { payTo, asset, extra, salt: channelSalt = 7n }: Seller = SELLER,
  payer?: Hex,
) {
  const account = typeof name === 'string' ? privateKeyToAccount(keccak256(toHex(name))) : name
  const channelConfig = {
    payer: payer ?? lower(account.address),
    payerAuthorizer: lower(account.address),
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
    /** The first voucher of the channel, with the deposit of this amount and number that `by` signs. */
    async open(accepted: Offer, amount: bigint, { by = account, number = 1n }: Opening = {}) {
      const salt: Hex = `0x${word(number)}`
      const signature = await by.signTypedData({
        domain: {
          name: String(extra.name),
          version: String(extra.version),
          chainId: CHAIN_ID,
          verifyingContract: asset as Hex,
        },
        types: { ReceiveWithAuthorization: RECEIVE },
        primaryType: 'ReceiveWithAuthorization',
        message: {
          from: channelConfig.payer,
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

type Opening = { readonly by?: Pick<PrivateKeyAccount, 'signTypedData'>; readonly number?: bigint }

const RECEIVE = [
  { name: 'from', type: 'address' },
  { name: 'to', type: 'address' },
  { name: 'value', type: 'uint256' },
  { name: 'validAfter', type: 'uint256' },
  { name: 'validBefore', type: 'uint256' },
  { name: 'nonce', type: 'bytes32' },
]

/** A wallet with an API key of this seed, and the deposit of the wallet into the channel of the key. */
export function keyBuyer(seed: Uint8Array, accepted: Offer) {
  const payer = privateKeyToAccount(keccak256(toHex(`payer ${seed[0]}`)))
  const key = privateKeyToAccount(toHex(privateKeyOf(seed)))
  const salt = BigInt(keySalt(lower(key.address)))
  const buyer = voucherBuyer(key, { ...SELLER, salt }, lower(payer.address))
  return {
    ...buyer,
    payer,
    key,
    deposit: (amount: bigint) => buyer.open({ ...accepted, amount: '0' }, amount, { by: payer }),
  }
}
