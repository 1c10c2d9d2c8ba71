/** A way to be paid, as wiring sees it: how its chain is opened, and which accounts pay for settlements. */
import type { Chain, Json, Storage } from '../../../core/mod.ts'
import type { CheckResult } from './results.ts'

/** An account that pays for settlements, as a running chain sees it. */
export type ServingAccount = {
  readonly unit: 'wei' | 'lamports'
  readonly address: string
  /** Undefined until it was read. */
  readonly balance: bigint | undefined
  /** Why it cannot pay for long. */
  readonly low: string | undefined
  /** Whether this process holds its lease; absent where accounts are not leased. */
  readonly isLeased?: boolean
}

/** An account that pays for settlements, by configuration. It holds no key. */
export type PayingAccount = {
  readonly role: 'relayer' | 'fee payer'
  readonly network: string
  readonly address: string
  /** In wei or lamports; undefined when it cannot be read. */
  readonly balance: bigint | undefined
  readonly unit: ServingAccount['unit']
  /** Why it cannot pay for settlements, or why that is unknown; undefined when it can. */
  readonly problem: string | undefined
}

/** A chain that a process runs. */
export type ServedChain = Chain & {
  check(at: { readonly now: number }): Promise<CheckResult>
  accounts(): readonly ServingAccount[]
  /** Takes or extends the lease of an account; false while there is none. Absent where accounts are not leased. */
  renew?(now: number): Promise<boolean>
  release?(now: number): Promise<void>
  close(): void
}

export type ChainOpening = {
  readonly storage: Storage
  readonly workerId: string
  readonly leaseMs: number
  /** The chain runs on this machine, and makes blocks on demand. */
  readonly isDevnet: boolean
  /** Its coins and tokens are free. */
  readonly isTest: boolean
  readonly random: (bytes: number) => Uint8Array
  readonly alert: (message: string, fields?: Record<string, unknown>) => void
}

/** A payment to the payee. `nonce` is that of its authorization; null for any other transfer. */
export type ChainTransfer = {
  readonly transaction: string
  readonly block: number
  readonly payer: string
  /** In base units. */
  readonly amount: string
  readonly nonce: string | null
  /** It pays out what was claimed of many channels. */
  readonly isClaim: boolean
}

/** Total claimed of a channel, by the last claim of a range. */
export type ChannelClaim = {
  readonly channel: string
  /** In base units. */
  readonly claimed: bigint
  readonly transaction: string
  readonly block: number
}

export type TransferRange = { readonly fromBlock?: number; readonly toBlock?: number }

/** Payments to one payee as the chain has them, for a range of blocks. */
export type ChainSide = Required<TransferRange> & {
  readonly network: string
  readonly asset: string
  readonly payTo: string
  /** When the first block was made, in milliseconds. */
  readonly since: number
  readonly transfers: readonly ChainTransfer[]
  /** The key of the authorization of a payment; undefined where the chain does not tell it. */
  readonly keyOf: (transfer: Pick<ChainTransfer, 'payer' | 'nonce'>) => string | undefined
  /** When a block was made, in milliseconds. */
  readonly timeOf: (block: number) => Promise<number>
  /** Claims that were paid out to the payee, and how to tell from the record of a channel what was lost. */
  readonly claims: {
    readonly list: readonly ChannelClaim[]
    readonly kind: string
    readonly lostIn: (record: Json | undefined, claimed: bigint) => bigint
  }
}

type KeysFound = { readonly channels: number; readonly toBlock: number }

/** `Method`: a payment method of configuration. */
export type ChainManifest<Method> = {
  /** Throws for a key or a URL that is wrong, without quoting it. */
  open(method: Method, at: ChainOpening): Promise<ServedChain>
  /** Reads every account that pays for settlements, or only names them. Never rejects for a node. */
  accounts(method: Method, at: { readonly now: number; readonly isOffline: boolean }): Promise<readonly PayingAccount[]>
  /** Seconds of the newest block; undefined where it cannot be read. Absent: payments are not judged by its time. */
  blockTime?(method: Method, at: { readonly timeoutMs: number }): Promise<number | undefined>
  /** The payments that the chain has. Absent: they cannot be compared with a ledger. */
  chainSide?(method: Method, range: TransferRange): Promise<ChainSide>
  /** Whether the method takes API keys, whose channels can be found in the logs of the chain. */
  takesKeys?(method: Method): boolean
  recoverKeys?(
    method: Method,
    at: Pick<ChainOpening, 'storage' | 'workerId'> & { readonly now: number; readonly fromBlock: number },
  ): Promise<KeysFound>
}
