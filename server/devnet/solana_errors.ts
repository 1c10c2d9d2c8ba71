/** How a Solana node says no: the errors of a transaction as it spells and words them, and those of a JSON-RPC call. */
import type { FailedTransactionMetadata } from 'litesvm'
import * as native from 'litesvm/dist/internal.js'

/** A name, or an object around one: `'BlockhashNotFound'`, `{ InstructionError: [2, { Custom: 1 }] }`. */
export type TransactionError = string | Readonly<Record<string, unknown>>

/** An answer without a result. */
export class RpcError extends Error {
  override readonly name = 'RpcError'
  readonly code: number
  readonly data: unknown
  constructor(code: number, message: string, data?: unknown) {
    super(message)
    this.code = code
    this.data = data
  }
}

export const invalidParams = (message: string): RpcError => new RpcError(-32602, message)

type Names = Readonly<Record<string, number>>
const { TransactionErrorFieldless, InstructionErrorFieldless } = native as unknown as Record<'TransactionErrorFieldless' | 'InstructionErrorFieldless', Names>

/** litesvm numbers what has no fields, and gives the rest as objects that differ by what they carry. */
export function errorOf(failed: FailedTransactionMetadata): TransactionError {
  const error = failed.err() as unknown as number | { index?: number; accountIndex?: number; err?(): number | { code?: number; msg?: string } }
  if (typeof error === 'number') return nameOf(TransactionErrorFieldless, error)
  if (error.err) return { InstructionError: [error.index, instructionErrorOf(error.err())] }
  if (error.accountIndex !== undefined) return { [String(failed.err()).split(' ', 1)[0]?.replace('TransactionError', '') ?? '']: { account_index: error.accountIndex } }
  return { DuplicateInstruction: error.index }
}

function instructionErrorOf(error: number | { code?: number; msg?: string }): TransactionError {
  if (typeof error === 'number') return nameOf(InstructionErrorFieldless, error)
  return error.code === undefined ? 'BorshIoError' : { Custom: error.code }
}

function nameOf(names: Names, value: number): string {
  return Object.keys(names).find((name) => names[name] === value) ?? 'SanitizeFailure'
}

const WORDS: Readonly<Record<string, string>> = {
  AccountNotFound: 'Attempt to debit an account but found no record of a prior credit.',
  AlreadyProcessed: 'This transaction has already been processed',
  BlockhashNotFound: 'Blockhash not found',
  InsufficientFundsForFee: 'Insufficient funds for fee',
  InvalidAccountForFee: 'This account may not be used to pay transaction fees',
  ProgramAccountNotFound: 'Attempt to load a program that does not exist',
  SanitizeFailure: 'Transaction failed to sanitize accounts offsets correctly',
  SignatureFailure: 'Transaction did not pass signature verification',
  InsufficientFunds: 'insufficient funds for instruction',
  InvalidAccountData: 'invalid account data for instruction',
  MissingRequiredSignature: 'missing required signature for instruction',
  ComputationalBudgetExceeded: 'Computational budget exceeded',
}

/** The sentence that follows `Transaction simulation failed: `. */
export function wordsOf(error: TransactionError): string {
  if (typeof error === 'string') return WORDS[error] ?? error
  const [index, cause] = (error['InstructionError'] ?? []) as [number, string | { Custom: number }]
  if (index === undefined) return Object.keys(error).join()
  const said = typeof cause === 'string' ? (WORDS[cause] ?? cause) : `custom program error: 0x${cause.Custom.toString(16)}`
  return `Error processing Instruction ${index}: ${said}`
}
