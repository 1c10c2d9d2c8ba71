/** Makes keys and signs deposits. The page loads it when somebody makes a key or pastes one. */
import {
  bytesToHex,
  getTypesForEIP712Domain,
  type LocalAccount,
  serializeTypedData,
  toHex,
  type TypedData,
  type TypedDataDefinition,
  type TypedDataDomain,
} from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { keyText, privateKeyOf, readKey, SEED_BYTES } from '../../../../core/x402/mod.ts'
import { keyDeposit } from '../../../buyer/key_deposit.ts'
import { isTestNetwork } from '../lib/networks.ts'
import type { Offer } from '../lib/x402.ts'
import { NotSigned, type Wallet } from '../wallets/wallet.ts'

/** A key in this page. A child spends a part of the deposit of another key. */
export type Key = { readonly text: string; readonly address: string; readonly isChild: boolean }

/** A new key for deposits on a network. */
export function makeKey(network: string): Key {
  const seed = crypto.getRandomValues(new Uint8Array(SEED_BYTES))
  const text = keyText(seed, isTestNetwork(network) ? 'test' : 'live')
  return { text, address: accountOf(seed).address, isChild: false }
}

/** Reads a pasted key. Throws Error for another text, without repeating it. */
export function openKey(pasted: string): Key {
  const text = pasted.trim()
  const key = readKey(text)
  if (key.kind === 'none') throw new Error('A key begins with sk-fbx-.')
  if (key.kind === 'mistyped') throw new Error('This key is mistyped, or cut off. Copy the whole of it.')
  return { text, address: accountOf(key.seed).address, isChild: key.kind === 'child' }
}

type Depositing = {
  readonly key: Key
  readonly wallet: Wallet
  readonly address: string
  /** In millionths of a USDC. */
  readonly amount: bigint
}

/** The payment for the deposit route, signed by the wallet and by the key. Rejects with a sentence for people. */
export async function signDeposit(offer: Offer, { key, wallet, address, amount }: Depositing): Promise<string> {
  const read = readKey(key.text)
  if (read.kind !== 'key') throw new NotSigned('A child key takes no deposit.')
  const account = accountOf(read.seed)
  const nonce = toHex(crypto.getRandomValues(new Uint8Array(32)))
  const payer = walletSigner(wallet, { address, network: offer.network })
  const payment = await keyDeposit(offer, { wallet: payer, key: account, amount, now: Date.now(), nonce })
  return btoa(JSON.stringify(payment))
}

/** The seed is wiped. */
function accountOf(seed: Uint8Array): LocalAccount {
  try {
    return privateKeyToAccount(bytesToHex(privateKeyOf(seed)))
  } finally {
    seed.fill(0)
  }
}

type Domain = { readonly domain?: TypedDataDomain }
type Signer = Pick<LocalAccount, 'address' | 'signTypedData'>

function walletSigner(wallet: Wallet, at: { readonly network: string; readonly address: string }): Signer {
  const signTypedData = async (data: Omit<TypedDataDefinition<TypedData, string>, 'domain'> & Domain) => {
    // Some wallets sign an empty domain unless its type is there.
    const types = { EIP712Domain: getTypesForEIP712Domain(data), ...data.types }
    const signature = await wallet.signTyped?.(serializeTypedData({ ...data, types } as TypedDataDefinition), at)
    if (signature === undefined) throw new NotSigned('This wallet signs no deposits.')
    return signature
  }
  return { address: at.address as `0x${string}`, signTypedData: signTypedData as LocalAccount['signTypedData'] }
}
