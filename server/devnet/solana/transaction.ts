/** Parses transactions, and describes the outcome of running them. */
import {
  type Address,
  type CompiledTransactionMessage,
  type EncodedAccount,
  getBase58Decoder,
  getCompiledTransactionMessageDecoder,
  getTransactionDecoder,
  type Transaction,
} from '@solana/kit'
import { FailedTransactionMetadata, type InnerInstruction, type TransactionMetadata } from 'litesvm'
import { errorOf, type TransactionError } from './errors.ts'

/** `signature` is the first one, which identifies the transaction. */
export type Parsed = {
  readonly wire: Uint8Array
  readonly transaction: Transaction
  readonly message: Message
  readonly signature: string
}

export type Instruction = {
  readonly programIdIndex: number
  readonly accounts: readonly number[]
  readonly data: Uint8Array
  readonly stackHeight: number
}
/** Addresses from lookup tables are not included, because no table exists here. */
export type Message = Pick<CompiledTransactionMessage, 'header'> & {
  readonly version: 'legacy' | 0
  readonly keys: readonly Address[]
  readonly blockhash: string
  readonly instructions: readonly Instruction[]
}
/** Inner instructions, by the index of the instruction that invoked them. */
export type Inner = { readonly index: number; readonly instructions: readonly Instruction[] }

/** The outcome of running a transaction, or of simulating it. */
export type Outcome = {
  readonly err: TransactionError | null
  readonly logs: readonly string[]
  readonly unitsConsumed: number
  readonly inner: readonly Inner[]
  readonly returnData: { readonly programId: Uint8Array; readonly data: Uint8Array } | null
  /** The writable accounts after the run; only for a successful simulation. */
  readonly accounts: readonly EncodedAccount[]
}

/** Throws when the bytes are not a transaction. */
export function parse(wire: Uint8Array): Parsed {
  const transaction = getTransactionDecoder().decode(wire)
  const compiled = getCompiledTransactionMessageDecoder().decode(transaction.messageBytes)
  if (compiled.version === 1 || !compiled.lifetimeToken) throw new TypeError('unsupported transaction version')
  const { version, header, staticAccounts: keys, lifetimeToken: blockhash } = compiled
  const instructions = compiled.instructions.map(({ programAddressIndex, accountIndices = [], data = [] }) => {
    return {
      programIdIndex: programAddressIndex,
      accounts: accountIndices,
      data: Uint8Array.from(data),
      stackHeight: 1,
    }
  })
  const signature = Object.values(transaction.signatures)[0] ?? new Uint8Array(64)
  return {
    wire,
    transaction,
    message: { version, header, keys, blockhash, instructions },
    signature: getBase58Decoder().decode(signature),
  }
}

/** The result of litesvm for a transaction, run or simulated. */
export type Ran =
  | TransactionMetadata
  | FailedTransactionMetadata
  | { meta(): TransactionMetadata; postAccounts(): EncodedAccount[] }

export function outcomeOf(ran: Ran): Outcome {
  const meta = 'meta' in ran ? ran.meta() : ran
  const err = ran instanceof FailedTransactionMetadata ? errorOf(ran) : null
  const returned = meta.returnData()
  return {
    err,
    logs: meta.logs(),
    unitsConsumed: Number(meta.computeUnitsConsumed()),
    inner: meta
      .innerInstructions()
      .map(innerOf)
      .filter(({ instructions }) => instructions.length > 0),
    returnData: returned.data().length > 0 ? { programId: returned.programId(), data: returned.data() } : null,
    accounts: 'postAccounts' in ran ? ran.postAccounts() : [],
  }
}

function innerOf(instructions: readonly InnerInstruction[], index: number): Inner {
  const read = (each: InnerInstruction) => {
    const instruction = each.instruction()
    return {
      programIdIndex: instruction.programIdIndex(),
      accounts: [...instruction.accounts()],
      data: instruction.data(),
      stackHeight: each.stackHeight(),
    }
  }
  return { index, instructions: instructions.map(read) }
}

/** The outcome of a transaction that was refused without being run. */
export function failure(err: TransactionError): Outcome {
  return { err, logs: [], unitsConsumed: 0, inner: [], returnData: null, accounts: [] }
}

/** Whether every signature is present; wrong ones are found by running it. */
export const isSigned = ({ transaction }: Parsed): boolean =>
  Object.values(transaction.signatures).every((signature) => signature !== null)
