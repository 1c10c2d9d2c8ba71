/** EVM networks as a way to be paid: by keys of our own, which are leased, or by facilitators. */
import { jsonRpc } from '../lib/json_rpc.ts'
import type { ChainManifest, ChainOpening, PayingAccount, ServingAccount } from '../lib/manifest.ts'
import { blockAt } from './node/log_search.ts'
import type { KeyState } from './relayer_keys.ts'
import type { EvmMethod } from './settings.ts'
import type { ChannelSettings } from './channels/mod.ts'

type Settling = Extract<EvmMethod['settles'], { by: 'relayer' }>

export const evmManifest: ChainManifest<EvmMethod> = {
  open: openEvm,
  accounts: evmAccounts,
  async blockTime({ rpcUrl }, { timeoutMs }) {
    const rpc = jsonRpc({ url: rpcUrl, timeoutMs })
    const latest = await blockAt(rpc, 'latest')
    rpc.close()
    return latest.kind === 'block' ? latest.time : undefined
  },
  async chainSide(method, range) {
    const [{ CHANNEL_KIND, lostIn }, { readTransfers }, { exactKey }] = await Promise.all([
      import('./channels/records.ts'),
      import('./transfers.ts'),
      import('./exact/payload.ts'),
    ])
    const { network, asset, payTo } = method
    const { claims, ...transfers } = await readTransfers(method, range)
    return {
      network,
      asset,
      payTo,
      ...transfers,
      claims: { list: claims, kind: CHANNEL_KIND, lostIn },
      keyOf: ({ payer, nonce }) => (nonce === null ? undefined : exactKey({ network, asset }, payer, nonce)),
      async timeOf(number) {
        const rpc = jsonRpc({ url: method.rpcUrl })
        const found = await blockAt(rpc, number)
        rpc.close()
        if (found.kind === 'failure') throw new Error(found.reason)
        return found.time * 1_000
      },
    }
  },
  takesKeys: ({ channels, settles }) => channels?.keys === true && settles.by === 'relayer',
  recoverKeys,
}

async function openEvm(
  { network, rpcUrl, asset, payTo, domain, schemes, channels, settles }: EvmMethod,
  { isDevnet, isTest, storage, workerId, leaseMs, alert, random }: ChainOpening,
) {
  // An idle local chain makes no blocks, so its latest one may be minutes old. And anvil never mines a transaction that
  // arrives while another is being mined: one at a time, each with up to fifty payments, is as fast.
  const row = { network, rpcUrl, asset, payTo, domain, ...(isDevnet && { readAt: 'pending' as const, maxInFlight: 1 }) }
  if (settles.by === 'facilitators') {
    const { facilitatorChain } = await import('./facilitator.ts')
    return Object.assign(facilitatorChain({ ...row, facilitators: settles.rows, random }), {
      accounts: () => [],
    })
  }
  const [{ addressOfKey }, { evmChain }, { leasedChain }] = await Promise.all([
    import('./key_address.ts'),
    import('./mod.ts'),
    import('./relayer_lease.ts'),
  ])
  const keys = settles.keys.map((key) => {
    const address = addressOfKey(key as `0x${string}`)
    return { name: `relayer:${network}:${address}`, key, address }
  })
  const takeLease = (name: string, at: { now: number; until: number }) => storage.lease(name, workerId, at)
  // The coins of test networks cost nothing.
  const priced = channels && { ...(isTest && { coinPrice: 0 }), ...channels }
  const shared = {
    ...row,
    gasFloor: gasFloorOf(settles),
    facilitators: keys.map(({ address }) => address),
    ...(schemes && { schemes }),
    ...(priced && { channels: channelSettings(priced, { storage, takeLease, alert }) }),
  }
  const chain = leasedChain({
    keys,
    build: (relayerKey, role) => evmChain({ ...shared, relayerKey, watchesGas: role === 'sender' }),
    takeLease,
    leaseMs,
  })
  return Object.assign(chain, { accounts: () => chain.keys().map(servingAccount) })
}

const servingAccount = ({ address, balance, kind, reason }: KeyState): ServingAccount => ({
  unit: 'wei',
  address,
  balance,
  low: kind === 'low' || kind === 'wrong' ? reason : undefined,
  isLeased: kind === 'serving',
})

/** Below this balance a relayer's key is not used. */
const gasFloorOf = ({ relayerFloorWei: wei, relayerFloorSettlements: settlements }: Settling) => ({
  ...(wei !== undefined && { wei: BigInt(wei) }),
  ...(settlements !== undefined && { settlements }),
})

function channelSettings(
  { key, keys, keyIdleDays, coinPrice, ...row }: NonNullable<EvmMethod['channels']>,
  shared: Pick<ChannelSettings, 'storage' | 'takeLease' | 'alert'>,
): ChannelSettings {
  const { channelWithdrawSeconds: withdrawDelay, channelMinDeposit, channelGasPerWallet, channelClaimAbove } = row
  return {
    ...shared,
    authorizerKey: key,
    ...(withdrawDelay !== undefined && { withdrawDelay }),
    ...(channelMinDeposit !== undefined && { minDeposit: BigInt(channelMinDeposit) }),
    ...(channelGasPerWallet !== undefined && { gasPerWallet: BigInt(channelGasPerWallet) }),
    ...(channelClaimAbove !== undefined && { claimAbove: BigInt(channelClaimAbove) }),
    ...(coinPrice !== undefined && { coinPrice }),
    ...(keys !== undefined && { apiKeys: keys, keyIdleDays }),
  }
}

async function evmAccounts(
  { network, rpcUrl, asset, payTo, domain, settles }: EvmMethod,
  { now, isOffline }: { readonly now: number; readonly isOffline: boolean },
): Promise<readonly PayingAccount[]> {
  if (settles.by === 'facilitators') return []
  const { keys } = settles
  if (isOffline) {
    const { addressOfKey } = await import('./key_address.ts')
    const shared = { role: 'relayer', network, balance: undefined, unit: 'wei', problem: undefined } as const
    return keys.map((key) => ({ ...shared, address: addressOfKey(key as `0x${string}`) }))
  }
  const { evmChain } = await import('./mod.ts')
  const [relayerKey = ''] = keys
  const row = { network, rpcUrl, asset, payTo, domain, relayerKey, gasFloor: gasFloorOf(settles) }
  const chain = evmChain({ ...row, watchesGas: false })
  const statuses = await Promise.all(keys.map((key) => chain.keyStatus(key, now)))
  chain.close()
  return statuses.map(({ address, balance, kind, reason }) => ({
    role: 'relayer',
    network,
    address,
    balance,
    unit: 'wei',
    problem: kind === 'funded' ? undefined : reason,
  }))
}

async function recoverKeys(
  { network, rpcUrl, asset, payTo, domain, channels, settles }: EvmMethod,
  {
    storage,
    workerId,
    now,
    fromBlock,
  }: Pick<ChainOpening, 'storage' | 'workerId'> & { readonly now: number; readonly fromBlock: number },
) {
  const none = { channels: 0, toBlock: fromBlock }
  if (!channels || settles.by !== 'relayer') return none
  const [{ addressOfKey }, { evmChain }] = await Promise.all([import('./key_address.ts'), import('./mod.ts')])
  const [relayerKey = '', ...others] = settles.keys
  const { key, channelWithdrawSeconds } = channels
  const found = { key, ...(channelWithdrawSeconds !== undefined && { channelWithdrawSeconds }), keys: true }
  const takeLease = (name: string, at: { now: number; until: number }) => storage.lease(name, workerId, at)
  const chain = evmChain({
    network,
    rpcUrl,
    asset,
    payTo,
    domain,
    relayerKey,
    watchesGas: false,
    schemes: ['batch-settlement'],
    channels: channelSettings(found, { storage, takeLease, alert: () => {} }),
  })
  try {
    const relayers = others.map((each) => addressOfKey(each as `0x${string}`))
    return (await chain.recoverKeys?.({ now, fromBlock, relayers })) ?? none
  } finally {
    chain.close()
  }
}
