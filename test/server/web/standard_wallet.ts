/** A browser wallet of a test: it registers as the Wallet Standard says, and signs outside of the page. */
import { createKeyPairSignerFromBytes, getBase58Encoder } from '@solana/kit'
import { fromBase58 } from '../../../adapters/chains/solana/node/transaction.ts'
import { fromBase64, toBase64 } from '../../../core/lib/base64.ts'
import { signText, signTransaction } from '../../../server/web/pages/wallets/solana_transfer.ts'
import type { Page } from './browser.ts'

type TestStandardWallet = {
  readonly address: string
  /** The chains of the transactions that it was asked to sign, in order. */
  readonly chains: readonly string[]
  /** The next signature is refused, as by a person. */
  refuseOnce(): void
}

/** Must be called before the page is opened. `key` is a key pair in base58. */
export async function registerWallet(page: Page, key: string): Promise<TestStandardWallet> {
  const { address } = await createKeyPairSignerFromBytes(new Uint8Array(getBase58Encoder().encode(key)))
  const chains: string[] = []
  let isRefusing = false

  await page.exposeFunction('testSign', async ({ chain, transaction }: { chain: string; transaction: string }) => {
    chains.push(chain)
    if (!isRefusing) return toBase64(await signTransaction(fromBase64(transaction), key))
    isRefusing = false
    return undefined
  })
  await page.exposeFunction('testSignText', async (text: string) =>
    toBase64(fromBase58(await signText(text, key), 64) as Uint8Array),
  )
  await page.addInitScript(`
    const account = { address: '${address}', publicKey: new Uint8Array(32), chains: ['solana:devnet'], features: [] }
    const encoded = (bytes) => btoa(String.fromCharCode(...bytes))
    const decoded = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))
    const wallet = {
      version: '1.0.0',
      name: 'Test Solana Wallet',
      icon: 'data:image/svg+xml,<svg xmlns="http://www.w3.org/2000/svg"/>',
      chains: ['solana:devnet'],
      accounts: [],
      features: {
        'standard:connect': {
          version: '1.0.0',
          async connect() {
            wallet.accounts = [account]
            return { accounts: wallet.accounts }
          },
        },
        'solana:signTransaction': {
          version: '1.0.0',
          supportedTransactionVersions: ['legacy', 0],
          async signTransaction({ chain, transaction }) {
            const signed = await window.testSign({ chain, transaction: encoded(transaction) })
            if (!signed) throw Object.assign(new Error('User rejected the request.'), { code: 4001 })
            return [{ signedTransaction: decoded(signed) }]
          },
        },
        'solana:signMessage': {
          version: '1.1.0',
          async signMessage({ message }) {
            const signature = await window.testSignText(new TextDecoder().decode(message))
            return [{ signedMessage: message, signature: decoded(signature) }]
          },
        },
      },
    }
    const register = (api) => api.register(wallet)
    addEventListener('wallet-standard:app-ready', (event) => register(event.detail))
    dispatchEvent(new CustomEvent('wallet-standard:register-wallet', { detail: register }))
  `)
  return { address, chains, refuseOnce: () => (isRefusing = true) }
}
