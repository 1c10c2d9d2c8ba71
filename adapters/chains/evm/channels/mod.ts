/** The scheme `batch-settlement` of one chain: its channels, claims and refunds, and the API keys that pay by it. */
import type { PrivateKeyAccount } from 'viem/accounts'
import { type Hex, lower } from '../../lib/hex.ts'
import type { Rpc } from '../../lib/json_rpc.ts'
import type { Domain } from '../exact/eip3009.ts'
import type { CheckSignature } from '../exact/identity.ts'
import { evmFamily } from '../family.ts'
import { gasPricer } from '../node/gas.ts'
import type { Reads } from '../node/reads.ts'
import type { Relayer } from '../node/relayer.ts'
import { type ClaimsConfig, channelClaims } from './claims.ts'
import { COIN_PRICE, channelCosts } from './costs.ts'
import { channelDeposits } from './deposits.ts'
import { channelDigests } from './digests.ts'
import { keyCalls } from './keys/calls.ts'
import { childKeys } from './keys/child_keys.ts'
import { idleKeys } from './keys/idle.ts'
import { keyIndex } from './keys/key_index.ts'
import { keyedChannels } from './keys/keyed.ts'
import { channelKeys } from './keys/mod.ts'
import { keyRecovery } from './keys/recovery.ts'
import { publishedCeilings } from './published.ts'
import { type ChannelStorage, channelStates } from './records.ts'
import { channelRefunds } from './refunds/mod.ts'
import { evmChannels } from './vouchers.ts'

/** Settings of `batch-settlement`: storage for channels, and the key that claims. */
export type ChannelSettings = {
  readonly storage: ChannelStorage
  /** Signs claims and refunds. It cannot send money elsewhere: claims go to the payee, refunds to the payer. */
  readonly authorizerKey: string
  /** Seconds that a payer waits for a withdrawal; 900 to 2,592,000. Default one day. */
  readonly withdrawDelay?: number
  /** Smallest deposit in base units, while gas does not ask for more. Default 100,000. */
  readonly minDeposit?: bigint
  /**
   * Price of one coin of the chain, in which gas is paid, in whole tokens. Default 4,000, a high price of ether; 0
   * where gas is worth nothing, as on test networks. Deposits, refunds and claims have to be worth their gas by it.
   */
  readonly coinPrice?: number
  /** Takes API keys, which pay from channels of their own. Default false. */
  readonly apiKeys?: boolean
  /** A key that is neither charged nor topped up for so many days is closed. Default never. */
  readonly keyIdleDays?: number | undefined
  /** Gas paid for deposits and refunds of one wallet in an hour. Default 2,000,000; unlimited at a coinPrice of 0. */
  readonly gasPerWallet?: bigint
} & Pick<ClaimsConfig, 'takeLease' | 'alert'> &
  Partial<Pick<ClaimsConfig, 'claimAbove'>>

type ChannelsContext = {
  readonly rpc: Rpc
  readonly reads: Reads
  readonly relayer: Relayer
  readonly checkSignature: CheckSignature
  readonly gasPrice: () => bigint
  readonly relayerAddress: Hex
}

type ChannelsConfig = {
  readonly network: string
  readonly chainId: number
  readonly asset: string
  readonly payTo: string
  readonly domain: Domain
  readonly lagSeconds: number
  readonly logWindow?: number | undefined
}

export function channelsOf(
  { rpc, reads, relayer, checkSignature, gasPrice, relayerAddress }: ChannelsContext,
  { chainId, network, asset, payTo, domain, lagSeconds, logWindow }: ChannelsConfig,
  settings: ChannelSettings & { readonly authorizer: PrivateKeyAccount },
) {
  const { storage, authorizer } = settings
  const seller = lower(authorizer.address)
  const states = channelStates(storage, { network, seller })
  const shared = {
    network,
    asset,
    payTo,
    lagSeconds,
    withdrawDelay: settings.withdrawDelay ?? 86_400,
  }
  const digests = channelDigests(chainId)
  const { takeLease, alert, claimAbove = 1_000_000n, coinPrice = COIN_PRICE } = settings
  const costs = channelCosts({
    gasPrice,
    coinPrice,
    minDeposit: settings.minDeposit ?? 100_000n,
    // Gas that is worth nothing needs no budget unless one is set.
    gasPerWallet: settings.gasPerWallet ?? (coinPrice === 0 ? 10n ** 12n : 2_000_000n),
  })
  const calls = keyCalls({ storage, states, digests, reads }, shared)
  const { reserved } = calls
  const refunds = channelRefunds({ rpc, reads, relayer, states, costs, authorizer, digests, reserved }, shared)
  const deposits = channelDeposits({ reads, relayer, states, costs }, { ...shared, alert })
  const published = publishedCeilings({ rpc, digests })
  const context = { reads, relayer, states, costs, deposits, refunds, published, checkSignature }
  const byVoucher = evmChannels(context, {
    ...shared,
    chainId,
    domain,
    authorizer: seller,
  })
  const takesKeys = settings.apiKeys ?? false
  const channels = keyedChannels({ channels: byVoucher, calls, states, digests, takesKeys })
  const index = keyIndex(storage, { network, seller })
  const children = childKeys(storage, { network, seller })
  const mode = evmFamily.networks[network]?.isTest ? 'test' : 'live'
  const apiKeys = channelKeys({ ...context, rpc, index, children, calls, channels, digests }, { ...shared, mode })
  const costOf = coinPrice ? gasPricer(relayer.feeAt, coinPrice) : undefined
  const { keyIdleDays } = settings
  const idleMs = takesKeys && keyIdleDays !== undefined ? keyIdleDays * 86_400_000 : undefined
  const closeIdle =
    idleMs === undefined
      ? undefined
      : idleKeys({ index, states, calls, refunds }, { idleMs, costOfRefund: costs.refund })
  const claims = channelClaims(
    { ...context, authorizer, digests, closeIdle },
    { ...shared, takeLease, alert, claimAbove, costOf },
  )
  const recoverKeys = keyRecovery(
    { rpc, states, index, calls, digests },
    { asset, authorizer: seller, relayer: lower(relayerAddress), logWindow },
  )
  return { ...channels, ...claims, ...(takesKeys && { apiKeys, recoverKeys }) }
}
