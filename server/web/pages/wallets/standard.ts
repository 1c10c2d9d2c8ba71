/** Wallets of the browser that register as the Wallet Standard says, which is how those for Solana do. */
import type { Offer } from '../lib/x402.ts'
import { payOnSolana } from './solana.ts'
import { NotSigned, type Wallet } from './wallet.ts'

type Account = { readonly address: string; readonly chains: readonly string[] }
type Chain = 'solana:mainnet' | 'solana:devnet' | 'solana:testnet'

/** The parts of the standard that a payment needs. */
type StandardWallet = {
  readonly name: string
  readonly icon: string
  readonly accounts: readonly Account[]
  readonly features: {
    readonly 'standard:connect'?: { connect(): Promise<{ readonly accounts: readonly Account[] }> }
    readonly 'solana:signTransaction'?: {
      signTransaction(input: {
        readonly account: Account
        readonly transaction: Uint8Array
        readonly chain: Chain
      }): Promise<readonly { readonly signedTransaction: Uint8Array }[]>
    }
    readonly 'solana:signMessage'?: {
      signMessage(input: {
        readonly account: Account
        readonly message: Uint8Array
      }): Promise<readonly { readonly signature: Uint8Array }[]>
    }
  }
}

/** Calls back for each wallet, now and when one registers later. Returns what stops it. */
export function watchStandard(found: (wallet: Wallet) => void): () => void {
  const api = Object.freeze({
    register(...wallets: readonly StandardWallet[]) {
      for (const wallet of wallets) if (canPay(wallet)) found(standard(wallet))
      return () => {}
    },
  })
  const hear = (event: Event) => (event as CustomEvent<(to: typeof api) => void>).detail(api)
  addEventListener('wallet-standard:register-wallet', hear)
  dispatchEvent(new CustomEvent('wallet-standard:app-ready', { detail: api }))
  return () => removeEventListener('wallet-standard:register-wallet', hear)
}

const canPay = ({ features }: StandardWallet): boolean =>
  features['standard:connect'] !== undefined && features['solana:signTransaction'] !== undefined

function standard(wallet: StandardWallet): Wallet {
  const { name, icon, features } = wallet
  const accountOf = (address: string): Account => {
    const account = wallet.accounts.find((each) => each.address === address)
    if (!account) throw new NotSigned('The wallet no longer lets this page use the account. Connect it again.')
    return account
  }
  return {
    id: `standard:${name}`,
    name,
    ...(icon.startsWith('data:image/') && { icon }),
    family: 'solana',
    async connect() {
      const answer = await answerOf(() => features['standard:connect']?.connect())
      const account = answer?.accounts.find(({ chains }) => chains.some((chain) => chain.startsWith('solana:')))
      if (!account) throw new NotSigned(`${name} gave no account for Solana.`)
      return account.address
    },
    sign: (offer, address) =>
      payOnSolana(offer, address, async (transaction) => {
        const [signed] =
          (await answerOf(() =>
            features['solana:signTransaction']?.signTransaction({
              account: accountOf(address),
              transaction,
              chain: chainOf(offer),
            }),
          )) ?? []
        if (!signed) throw new NotSigned(`${name} gave no signature.`)
        return signed.signedTransaction
      }),
    async signText(text, address) {
      const [signed] =
        (await answerOf(() =>
          features['solana:signMessage']?.signMessage({
            account: accountOf(address),
            message: new TextEncoder().encode(text),
          }),
        )) ?? []
      if (!signed) throw new NotSigned(`${name} cannot sign a text.`)
      return (await import('./solana_transfer.ts')).base58(signed.signature)
    },
  }
}

/** The standard names chains by words, and x402 by the hash of their first block. */
function chainOf({ network }: Offer): Chain {
  if (network === 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp') return 'solana:mainnet'
  return network === 'solana:4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z' ? 'solana:testnet' : 'solana:devnet'
}

const REFUSED = 4001

/**
 * Returns the wallet's answer, or throws its reason as text. The standard has no codes; most wallets use those of
 * EIP-1193.
 */
async function answerOf<Answer>(ask: () => Promise<Answer> | undefined): Promise<Answer | undefined> {
  try {
    return await ask()
  } catch (error) {
    if (error instanceof NotSigned) throw error
    const { code, message = '' } = error as { code?: number; message?: string }
    if (code === REFUSED || /reject|declin|denied|cancel/i.test(message))
      throw new NotSigned('You refused in the wallet. Nothing was signed and nothing was charged.')
    throw new NotSigned(`The wallet answered: ${message || 'no reason given'}`)
  }
}
