/** Finds the channels of API keys in the logs of the chain, after the loss of the database. */
import { randomBytes } from 'node:crypto'
import { systemClock } from '../../adapters/local.ts'
import { storageManifest } from '../../adapters/storage/manifests.ts'
import type { Config } from '../config/mod.ts'
import type { EvmPaymentMethod } from '../config/payment_methods.ts'

export type RecoveredKeys = { readonly network: string; readonly channels: number; readonly toBlock: number }

/**
 * Writes the records of the keys of every network that takes keys, from this block on. A record that is there stays as
 * it is. Throws where another process has the database, and where a node does not answer; it may be repeated.
 */
export async function recoverKeys(
  { database, gateways }: Pick<Config, 'database' | 'gateways'>,
  { fromBlock, network }: { readonly fromBlock: number; readonly network: string | undefined },
): Promise<readonly RecoveredKeys[]> {
  const methods = gateways.flatMap(({ paymentMethods }) => paymentMethods).filter(takesKeys)
  const { hold, open } = storageManifest(database)
  const lock = hold?.(database)
  if (hold && !lock) throw new Error('Another process uses the database. Stop the gateway first.')
  try {
    const storage = await open(database)
    try {
      const found: RecoveredKeys[] = []
      for (const method of methods)
        if (network === undefined || method.network === network)
          found.push({ network: method.network, ...(await recovered(method, { storage, fromBlock })) })
      return found
    } finally {
      await storage.close()
    }
  } finally {
    lock?.release()
  }
}

type Keyed = EvmPaymentMethod & {
  readonly channels: NonNullable<EvmPaymentMethod['channels']>
  readonly settles: Extract<EvmPaymentMethod['settles'], { by: 'relayer' }>
}

const takesKeys = (method: { readonly kind: string }): method is Keyed => {
  const { kind, channels, settles } = method as EvmPaymentMethod
  return kind === 'evm' && channels?.keys === true && settles.by === 'relayer'
}

async function recovered(
  { network, rpcUrl, asset, payTo, domain, channels, settles }: Keyed,
  {
    storage,
    fromBlock,
  }: { readonly storage: Awaited<ReturnType<ReturnType<typeof storageManifest>['open']>>; fromBlock: number },
) {
  const [{ addressOfKey }, { evmChain }] = await Promise.all([
    import('../../adapters/chains/evm/key_address.ts'),
    import('../../adapters/chains/evm/mod.ts'),
  ])
  const [relayerKey = '', ...others] = settles.keys
  const workerId = `recovery-${randomBytes(8).toString('hex')}`
  const chain = evmChain({
    network,
    rpcUrl,
    asset,
    payTo,
    domain,
    relayerKey,
    watchesGas: false,
    schemes: ['batch-settlement'],
    channels: {
      storage,
      authorizerKey: channels.key,
      apiKeys: true,
      takeLease: (name, at) => storage.lease(name, workerId, at),
      alert: () => {},
      ...(channels.channelWithdrawSeconds !== undefined && { withdrawDelay: channels.channelWithdrawSeconds }),
    },
  })
  try {
    const relayers = others.map((key) => addressOfKey(key as `0x${string}`))
    const answer = await chain.recoverKeys?.({ now: systemClock.now(), fromBlock, relayers })
    return answer ?? { channels: 0, toBlock: fromBlock }
  } finally {
    chain.close()
  }
}
