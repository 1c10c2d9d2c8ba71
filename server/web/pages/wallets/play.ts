/**
 * The play wallet of a devnet: the buyer whose key the local gateway shows. It never asks, and its money is worth
 * nothing.
 */
import { devnet } from './devnet.ts'
import { payOnSolana } from './solana.ts'
import type { Wallet } from './wallet.ts'

/** The play wallet for a network; undefined where there is no devnet. The code that signs is loaded when it signs. */
export async function playWallet(network: string): Promise<Wallet | undefined> {
  const gateway = (await devnet())?.gateways.find((each) => each.network === network)
  if (!gateway?.buyer) return undefined
  const { address, private_key: key } = gateway.buyer
  const shared = { id: `play:${network}`, name: 'Play wallet', connect: () => Promise.resolve(address) }
  if (network.startsWith('solana:'))
    return {
      ...shared,
      family: 'solana',
      sign: (offer) =>
        payOnSolana(offer, address, async (transaction) =>
          (await import('./solana_transfer.ts')).signTransaction(transaction, key),
        ),
      signText: async (text) => (await import('./solana_transfer.ts')).signText(text, key),
    }
  return {
    ...shared,
    family: 'evm',
    sign: async (offer) => (await import('./local_key.ts')).signTransfer(offer, key as `0x${string}`),
    signTyped: async (typedData) => (await import('./local_key.ts')).signTyped(typedData, key as `0x${string}`),
    signText: async (text) => (await import('./local_key.ts')).signMessage(text, key as `0x${string}`),
  }
}
