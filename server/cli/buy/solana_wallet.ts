/** A wallet of Solana. Loaded when there is something to sign. */
import { address, createKeyPairSignerFromBytes, createSolanaRpc, getBase58Encoder } from '@solana/kit'
import { optional } from '../../../core/lib/mod.ts'
import { BUY_COMMAND, type Wallet, type WalletOptions } from './gateway.ts'

export async function solanaWallet(key: string, { rpcUrl, offer: { asset } }: WalletOptions): Promise<Wallet> {
  const { ExactSvmScheme } = await optional('@x402/svm', BUY_COMMAND, () => import('@x402/svm'))
  const signer = await createKeyPairSignerFromBytes(new Uint8Array(getBase58Encoder().encode(key)))
  return {
    address: signer.address,
    scheme: { network: 'solana:*', client: new ExactSvmScheme(signer, { ...(rpcUrl && { rpcUrl }) }) },
    async balance() {
      if (!rpcUrl) return undefined
      const { value } = await createSolanaRpc(rpcUrl)
        .getTokenAccountsByOwner(signer.address, { mint: address(asset) }, { encoding: 'jsonParsed' })
        .send()
      return value.reduce((sum, { account }) => sum + BigInt(account.data.parsed.info.tokenAmount.amount), 0n)
    },
  }
}
