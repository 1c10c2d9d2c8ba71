/** Finds the channels of API keys in the logs of the chain, after the loss of the database. */
import { randomBytes } from 'node:crypto'
import { chainManifest } from '../../adapters/chains/manifests.ts'
import { systemClock } from '../../adapters/local.ts'
import type { Config } from '../config/mod.ts'
import { openForWriting } from './ledger.ts'

type RecoveredKeys = { readonly network: string; readonly channels: number; readonly toBlock: number }

/**
 * Writes the records of the keys of every network that takes keys, from this block on. A record that is there stays as
 * it is. Throws where another process has the database, and where a node does not answer; it may be repeated.
 */
export async function recoverKeys(
  { database, gateways }: Pick<Config, 'database' | 'gateways'>,
  { fromBlock, network }: { readonly fromBlock: number; readonly network: string | undefined },
): Promise<readonly RecoveredKeys[]> {
  const methods = gateways.flatMap(({ paymentMethods }) =>
    paymentMethods.flatMap((method) =>
      method.kind !== 'batched' && chainManifest(method).takesKeys?.(method) ? [method] : [],
    ),
  )
  const workerId = `recovery-${randomBytes(8).toString('hex')}`
  const { storage, close } = await openForWriting(database)
  try {
    const found: RecoveredKeys[] = []
    for (const method of methods) {
      if (network !== undefined && method.network !== network) continue
      const at = { storage, workerId, now: systemClock.now(), fromBlock }
      const recovered = await chainManifest(method).recoverKeys?.(method, at)
      if (recovered) found.push({ network: method.network, ...recovered })
    }
    return found
  } finally {
    await close()
  }
}
