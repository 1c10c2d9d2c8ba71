/** The receipt of a settled charge, for the header `Payment-Receipt`. */
import type { Receipt } from '../x402/protocol.ts'
import { encodeUrl } from './codec.ts'
import type { ChargeMethod } from './method.ts'

type ReceiptOf = {
  readonly method: Pick<ChargeMethod, 'name' | 'receipt'>
  readonly challengeId: string
  /** In milliseconds since 1970. */
  readonly settledAt: number
}

export const chargeReceipt = (
  { transaction, network }: Pick<Receipt, 'transaction' | 'network'>,
  { method, challengeId, settledAt }: ReceiptOf,
): string =>
  encodeUrl(
    JSON.stringify({
      status: 'success',
      method: method.name,
      timestamp: new Date(settledAt).toISOString(),
      reference: transaction,
      challengeId,
      ...method.receipt(network),
    }),
  )
