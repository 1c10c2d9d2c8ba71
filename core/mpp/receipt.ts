/** The receipt of a settled `evm/charge`, for the header `Payment-Receipt`. */
import type { Receipt } from '../x402/protocol.ts'
import { CHARGE } from './challenge.ts'
import { encodeUrl } from './codec.ts'

/** `settledAt` in milliseconds since 1970. */
export function chargeReceipt(
  { transaction, network }: Pick<Receipt, 'transaction' | 'network'>,
  { challengeId, settledAt }: { readonly challengeId: string; readonly settledAt: number },
): string {
  return encodeUrl(
    JSON.stringify({
      status: 'success',
      method: CHARGE.method,
      timestamp: new Date(settledAt).toISOString(),
      reference: transaction,
      challengeId,
      chainId: Number(network.slice('eip155:'.length)),
    }),
  )
}
