/** A wallet that signs payments for the page. None of them sends anything: the gateway does. */
import type { Offer } from '../lib/x402.ts'

export type Wallet = {
  /** Unique on the page. */
  readonly id: string
  readonly name: string
  /** A `data:` picture. */
  readonly icon?: string
  readonly family: 'evm' | 'solana'
  /** Asks for its address; the wallet may ask its owner. Rejects with a sentence for people. */
  connect(): Promise<string>
  /** Signs the offer: the `payload` of a payment. Rejects with a sentence for people. */
  sign(offer: Offer, address: string): Promise<unknown>
  /** Signs typed data of EIP-712, as JSON, on a network. Only wallets of EVM networks can. */
  signTyped?(typedData: string, at: { readonly network: string; readonly address: string }): Promise<string>
  /** Signs a text, to prove whose address it is. */
  signText(text: string, address: string): Promise<string>
}

/** Nothing was signed, so nothing can be charged: a person or a limit said no, or the wallet could not. */
export class NotSigned extends Error {}

const FAMILIES = { eip155: 'evm', solana: 'solana' } as const

/** Whether a wallet of this family has accounts on the network. */
export const isOn = (family: Wallet['family'], network: string): boolean =>
  FAMILIES[network.split(':', 1)[0] as keyof typeof FAMILIES] === family

/** Whether a wallet can open an API key: it signs the deposit as typed data. */
export const opensKeys = ({ family }: Wallet): boolean => family === 'evm'

/** Whether any wallet could sign the offer as this page writes payments. */
export const isSignable = (offer: Offer): boolean => canSign('evm', offer) || canSign('solana', offer)

/** Whether a wallet of this family can sign the offer as this page writes payments. */
export function canSign(family: Wallet['family'], { scheme, network, extra }: Offer): boolean {
  const isBatched = extra?.verifyingContract !== undefined
  return scheme === 'exact' && isOn(family, network) && !isBatched
}
