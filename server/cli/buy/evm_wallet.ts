/** A wallet of an EVM chain. Loaded when there is something to sign. */
import { createPublicClient, erc20Abi, http, type Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { optional } from '../../../core/lib/optional.ts'
import { BUY_COMMAND, type Wallet, type WalletOptions } from './wallet.ts'

export async function evmWallet(key: Hex, { rpcUrl, offer: { asset } }: WalletOptions): Promise<Wallet> {
  const { ExactEvmScheme } = await optional('@x402/evm', BUY_COMMAND, () => import('@x402/evm'))
  const account = privateKeyToAccount(key)
  return {
    address: account.address,
    scheme: { network: 'eip155:*', client: new ExactEvmScheme(account) },
    async balance() {
      if (!rpcUrl) return undefined
      return await createPublicClient({ transport: http(rpcUrl) }).readContract({
        address: asset as Hex,
        abi: erc20Abi,
        functionName: 'balanceOf',
        args: [account.address],
      })
    },
  }
}
