/** Facts of a family of networks that need no node. They stand in the folder of its adapter, and nowhere else. */
import type { ChargeMethod } from '../mpp/method.ts'

/** Facts of one network. */
export type NetworkFacts = {
  /** In replies and configuration (contract 1.13), such as `base`. Absent: the name of the gateway. */
  readonly label?: string
  /** For people, such as `Base`. */
  readonly title: string
  /** Its USDC; `name` is that of the signing domain (EIP-712). Absent: an operator has to configure it. */
  readonly usdc?: { readonly address: string; readonly name?: string }
  /** Start of the page about a transaction. */
  readonly explorer?: string
  /** A public node, by which the wallet of a buyer reads balances where it is told no other. */
  readonly node?: string
  /** Its money is free. */
  readonly isTest?: true
}

/** One family: all networks of one CAIP-2 namespace. */
export type ChainFamily = {
  /** Such as `eip155`. */
  readonly namespace: string
  /** How a text to be signed calls its accounts: `Ethereum` (EIP-4361). */
  readonly accountName: string
  /** How its accounts sign texts, as `sign-in-with-x` names it. */
  readonly proofType: string
  /** Regular expressions of a network in CAIP-2 and of an address, without anchors. */
  readonly networkPattern: string
  readonly addressPattern: string
  /** The form of an address in words, for errors: `0x and 40 hex digits`. */
  readonly addressForm: string
  /** A network, and an address, that configuration takes, in words. */
  readonly networkForm: string
  readonly addressWords: string
  /** Address of a wallet, as an operator knows it: `an EVM address`. */
  readonly walletForm: string
  /** An address for documentation. */
  readonly sampleAddress: string
  /** The canonical spelling of an address; undefined for a text that is none. */
  addressOf(text: string): string | undefined
  /** Its USDC is moved by a signature over typed data (EIP-3009), which anybody may send, to any address. */
  readonly signsTransfers?: true
  /** Clients read from a node before they pay. */
  readonly clientsAskNode?: true
  /** A payment that cannot be verified now is answered by 402, not 503: clients sign again (contract 1.27). */
  readonly retriesByPaying?: true
  /** A signed payment can be sent at least for this long, whatever its offer says. */
  readonly leastValiditySeconds?: number
  /** How its `exact` offers are paid by MPP. Absent where clients of MPP sign what would not be settled. */
  readonly charge?: ChargeMethod
  /** By CAIP-2 id. */
  readonly networks: Readonly<Record<string, NetworkFacts>>
}

/** The family of a network in CAIP-2. */
export function familyOf(families: readonly ChainFamily[], network: string): ChainFamily | undefined {
  return families.find(({ namespace }) => network.startsWith(`${namespace}:`))
}

/** The canonical spelling of an address of any of the families. */
export function addressIn(families: readonly ChainFamily[], text: string): string | undefined {
  for (const family of families) {
    const address = family.addressOf(text)
    if (address !== undefined) return address
  }
  return undefined
}
