/** The accounts of a gateway: which of its keys pay for settlements, and what they hold. */
import { systemClock } from '../../adapters/local.ts'
import type { PaymentMethod } from '../config/payment_methods.ts'
import { defined } from '../config/settings.ts'
import { gasFloorOf } from './chains.ts'

/** An account that pays for settlements. It holds no key. */
export type PayingAccount = {
  readonly role: 'relayer' | 'fee payer'
  readonly network: string
  readonly address: string
  /** In wei or lamports; undefined when it cannot be read. */
  readonly balance: bigint | undefined
  readonly unit: 'wei' | 'lamports'
  /** Why it cannot pay for settlements, or why that is unknown; undefined when it can. */
  readonly problem: string | undefined
}

/**
 * Reads every account that pays for settlements, or only names them. Facilitators have none of ours. Never rejects for
 * a node.
 */
export async function payingAccounts(
  paymentMethod: PaymentMethod,
  { isOffline = false } = {},
): Promise<readonly PayingAccount[]> {
  if (paymentMethod.kind === 'batched') return []
  const { network, rpcUrl, asset, payTo } = paymentMethod
  const now = systemClock.now()
  if (paymentMethod.kind === 'solana') {
    const { settles } = paymentMethod
    const { solanaChain } = await import('../../adapters/chains/solana/mod.ts')
    if (settles.by === 'facilitators') return []
    const { keys: feePayerKeys, feePayerFloorLamports: feePayerFloor } = settles
    const chain = await solanaChain(defined({ network, rpcUrl, mint: asset, payTo, feePayerKeys, feePayerFloor }))
    if (!isOffline) await chain.check({ now })
    if (!isOffline) await chain.refresh({ now })
    const found = chain.feePayers().map(({ address, balance, low }) => ({
      role: 'fee payer' as const,
      network,
      address,
      balance: balance === undefined ? undefined : BigInt(balance),
      unit: 'lamports' as const,
      problem: low ?? (balance === undefined && !isOffline ? `the balance of ${address} cannot be read` : undefined),
    }))
    chain.close()
    return found
  }
  const { domain, settles } = paymentMethod
  if (settles.by === 'facilitators') return []
  const { evmChain } = await import('../../adapters/chains/evm/mod.ts')
  const { keys } = settles
  if (isOffline) {
    const { addressOfKey } = await import('../../adapters/chains/evm/key_address.ts')
    const shared = { role: 'relayer', network, balance: undefined, unit: 'wei', problem: undefined } as const
    return keys.map((key) => ({ ...shared, address: addressOfKey(key as `0x${string}`) }))
  }
  const [relayerKey = ''] = keys
  const chain = evmChain({
    network,
    rpcUrl,
    asset,
    payTo,
    domain,
    relayerKey,
    gasFloor: gasFloorOf(settles),
    watchesGas: false,
  })
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
