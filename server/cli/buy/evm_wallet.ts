/** A wallet of an EVM chain. Loaded when there is something to sign. */
import { createPublicClient, erc20Abi, http, parseAbi, type Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { optional } from '../../../core/lib/mod.ts'
import { MARGIN_S } from '../../buyer/journal.ts'
import { BUY_COMMAND, type Wallet, type WalletOptions } from './gateway.ts'

const AUTHORIZATION_STATE = parseAbi(['function authorizationState(address, bytes32) view returns (bool)'])

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
    async isUnspent({ network, asset: token, payer, nonce, validBefore }) {
      if (!rpcUrl) return false
      const client = createPublicClient({ transport: http(rpcUrl) })
      const [chainId, { number, timestamp }] = await Promise.all([client.getChainId(), client.getBlock()])
      if (network !== `eip155:${chainId}` || timestamp <= BigInt(validBefore + MARGIN_S)) return false
      const isUsed = await client.readContract({
        address: token as Hex,
        abi: AUTHORIZATION_STATE,
        functionName: 'authorizationState',
        args: [payer as Hex, nonce as Hex],
        blockNumber: number,
      })
      return !isUsed
    },
  }
}
