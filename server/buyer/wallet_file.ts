/** Wallets of this machine: one file for real money and one for test money, so that they are never mixed. */
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fieldsOf } from '../../core/lib/mod.ts'

/** Real money, or money of test networks. */
export type Money = 'real' | 'test'

type WalletFile = { readonly address: string; readonly key: string }

/** Private key of an EVM wallet: the file holds no other. */
const KEY = /^0x[0-9a-fA-F]{64}$/

export const walletPath = (home: string, money: Money): string =>
  join(home, '.farebox', money === 'real' ? 'wallet.json' : 'test_wallet.json')

/** Undefined if there is no file. Throws if other users can read it, or if it is not a wallet. Never shows its text. */
export function readWallet(path: string): WalletFile | undefined {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as { code?: string }).code === 'ENOENT') return undefined
    throw new Error(`${path} cannot be read (${(error as { code?: string }).code})`)
  }
  if ((statSync(path).mode & 0o077) !== 0) throw new Error(`Other users can read ${path}. Run: chmod 600 ${path}`)
  try {
    const { address, key } = fieldsOf(JSON.parse(text))
    if (typeof address === 'string' && typeof key === 'string' && KEY.test(key)) return { address, key }
  } catch {
    // The error of the parser would show the text.
  }
  throw new Error(`${path} is not a wallet file`)
}

/** Writes a new file that only its owner can read. Throws if it exists. */
export function writeWallet(path: string, wallet: WalletFile): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  writeFileSync(path, `${JSON.stringify(wallet, null, 2)}\n`, { flag: 'wx', mode: 0o600 })
}
