import { CHANNEL_KIND, lostIn } from '../../adapters/chains/evm/channels/state.ts'
import { readTransfers, type TransferRange } from '../../adapters/chains/evm/transfers.ts'
import type { EvmPaymentMethod } from '../config/payment_methods.ts'
import type { ChainSide } from '../operator/reconcile.ts'

/** Reads the payments to the payee of this method from the chain. */
export async function chainSide(method: EvmPaymentMethod, range: TransferRange): Promise<ChainSide> {
  const { network, asset, payTo } = method
  const { claims, ...transfers } = await readTransfers(method, range)
  return { network, asset, payTo, ...transfers, claims: { list: claims, kind: CHANNEL_KIND, lostIn } }
}
