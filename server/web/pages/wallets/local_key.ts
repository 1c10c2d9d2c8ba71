/** Signs with a key that the page has. Only the play wallet does: real keys stay in wallets. */
import { privateKeyToAccount } from 'viem/accounts'
import type { Offer } from '../lib/x402.ts'
import { transferOf } from './eip3009.ts'

export async function signTransfer(offer: Offer, key: `0x${string}`): Promise<unknown> {
  const account = privateKeyToAccount(key)
  const { authorization, typedData } = transferOf(offer, account.address)
  const { domain, types, primaryType, message } = typedData
  const signature = await account.signTypedData({
    domain: { ...domain, verifyingContract: domain.verifyingContract as `0x${string}` },
    types: { TransferWithAuthorization: types.TransferWithAuthorization },
    primaryType,
    message: { ...message },
  })
  return { signature, authorization }
}

export const signMessage = (message: string, key: `0x${string}`): Promise<string> =>
  privateKeyToAccount(key).signMessage({ message })
