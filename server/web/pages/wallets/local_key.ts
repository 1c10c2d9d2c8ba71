/** Signs with a key that the page has. Only the play wallet does: real keys stay in wallets. */
import { privateKeyToAccount } from 'viem/accounts'
import type { Offer } from '../lib/x402.ts'
import { transferOf } from './eip3009.ts'

export async function signTransfer(offer: Offer, key: `0x${string}`): Promise<unknown> {
  const { authorization, typedData } = transferOf(offer, privateKeyToAccount(key).address)
  return { signature: await signTyped(JSON.stringify(typedData), key), authorization }
}

/** `typedData` as `eth_signTypedData_v4` takes it. */
export async function signTyped(typedData: string, key: `0x${string}`): Promise<string> {
  const { types, ...data } = JSON.parse(typedData) as { readonly types: Readonly<Record<string, unknown>> }
  const { EIP712Domain: _, ...own } = types
  return await privateKeyToAccount(key).signTypedData({ ...data, types: own } as never)
}

export const signMessage = (message: string, key: `0x${string}`): Promise<string> =>
  privateKeyToAccount(key).signMessage({ message })
