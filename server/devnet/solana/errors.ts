/** Errors of a Solana node: transaction errors as it encodes and words them, and JSON-RPC errors. */
import type { FailedTransactionMetadata } from 'litesvm'

/** A name or an object: `'BlockhashNotFound'`, `{ InstructionError: [2, { Custom: 1 }] }`. */
export type TransactionError = string | Readonly<Record<string, unknown>>

/** A JSON-RPC error response. */
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

/** A name, then an index with a cause and its code, or an account index. */
const PRINTED_ERROR = /\{ err: (\w+)(?:\((\d+)(?:, (\w+)(?:\((\d+)\))?)?\)| \{ account_index: (\d+) \})?, meta/

/** Parses litesvm's printed error, because its objects have numbers instead of names and no table of them. */
export function errorOf(failed: FailedTransactionMetadata): TransactionError {
  const [, name = 'SanitizeFailure', index, cause, code, account] = PRINTED_ERROR.exec(String(failed)) ?? []
  if (account !== undefined) return { [name]: { account_index: Number(account) } }
  if (index === undefined) return name
  if (cause === undefined) return { [name]: Number(index) }
  return { [name]: [Number(index), code === undefined ? cause : { [cause]: Number(code) }] }
}

const MESSAGES: Readonly<Record<string, string>> = {
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

/** The message that follows `Transaction simulation failed: `. */
export function messageOf(error: TransactionError): string {
  if (typeof error === 'string') return MESSAGES[error] ?? error
  const [index, cause] = (error['InstructionError'] ?? []) as [number, string | { Custom: number }]
  if (cause === undefined) return `Transaction results in an error: ${JSON.stringify(error)}`
  const message =
    typeof cause === 'string' ? (MESSAGES[cause] ?? cause) : `custom program error: 0x${cause.Custom.toString(16)}`
  return `Error processing Instruction ${index}: ${message}`
}
