/** Calls to a Solana node and the parsing of its answers. Nothing here rejects; an unreadable answer is a failure. */
import { TOKEN_PROGRAM_ADDRESS } from '@solana-program/token'
import { type Address, address } from '@solana/kit'
import { fromBase64 } from '../../../../core/lib/mod.ts'
import { type Rpc, type RpcFailure, failure, asFailure } from '../../lib/json_rpc.ts'
import { encodeAddress, parseTransaction, type SolanaTransaction } from './transaction.ts'

export const TOKEN = TOKEN_PROGRAM_ADDRESS
export const TOKEN_2022 = address('TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb')

type Commitment = 'processed' | 'confirmed' | 'finalized'

/** An account as stored on chain. */
export type Account = {
  readonly owner: string
  readonly lamports: number
  readonly executable: boolean
  readonly data: Uint8Array
}
/** Accounts of one bank; `time` is that bank's, in seconds. */
export type Accounts = {
  readonly kind: 'accounts'
  readonly slot: number
  readonly time: number
  readonly found: readonly (Account | undefined)[]
}
/** `err` is null if the transaction would succeed. */
type Simulation = { readonly kind: 'simulated'; readonly err: unknown }
type Status =
  /** It has run, at least on the node's fork. */
  | { readonly kind: 'seen'; readonly failed: boolean; readonly isConfirmed: boolean }
  /** Not known at that slot. */
  | { readonly kind: 'unseen'; readonly slot: number }
/** A transaction in a confirmed block. `tokenChange` is by how much the token account at an index changed. */
type ConfirmedTransaction = {
  readonly kind: 'landed'
  readonly id: string
  readonly slot: number
  readonly failed: boolean
  tokenChange(index: number, mint: string): bigint
}
type Absent = { readonly kind: 'absent' }
export type Latest = { readonly kind: 'latest'; readonly blockhash: string; readonly lastValid: number }
type Validity = { readonly kind: 'validity'; readonly valid: boolean; readonly slot: number }
type Signatures = {
  readonly kind: 'signatures'
  readonly found: readonly {
    readonly signature: string
    readonly time: number | undefined
    readonly memo: string | undefined
  }[]
}

export type SolanaReads = {
  /** Simulates it over its own blockhash, without checking signatures. */
  simulate(transaction: string, signal?: AbortSignal): Promise<Simulation | RpcFailure>
  accounts(
    addresses: readonly Address[],
    at: { commitment: Commitment; signal?: AbortSignal | undefined },
  ): Promise<Accounts | RpcFailure>
  status(signature: string, signal?: AbortSignal): Promise<Status | RpcFailure>
  transaction(signature: string, signal?: AbortSignal): Promise<ConfirmedTransaction | Absent | RpcFailure>
  latest(signal?: AbortSignal): Promise<Latest | RpcFailure>
  validity(blockhash: string, commitment: Commitment, signal?: AbortSignal): Promise<Validity | RpcFailure>
  /** Transactions of an address, newest first, one page at a time. Fails when the node is behind the slot `since`. */
  signatures(
    address: Address,
    page: { before: string | undefined; limit: number; since: number | undefined },
    signal?: AbortSignal,
  ): Promise<Signatures | RpcFailure>
  /** Sends without preflight. `rejected`: the node could not accept it as a transaction, and forwarded nothing. */
  send(
    transaction: string,
    signal?: AbortSignal,
  ): Promise<{ readonly kind: 'sent' } | { readonly kind: 'rejected'; readonly reason: string } | RpcFailure>
}

/** The Clock sysvar, which tells the time of its bank. */
const CLOCK = 'SysvarC1ock11111111111111111111111111111111' as Address

/** Error codes of a node that could not parse it or found a bad signature. */
const REJECTED_CODES = [-32602, -32003]

/** Parses a result; an error from the node or an unreadable answer is a failure. */
async function call<T>(
  rpc: Rpc,
  [method, params]: readonly [method: string, params: readonly unknown[]],
  { signal, read }: { signal?: AbortSignal | undefined; read: (result: unknown) => T | undefined },
): Promise<T | RpcFailure> {
  const answer = await rpc.request(method, params, signal)
  if (answer.kind !== 'result') return asFailure(method, answer)
  try {
    return read(answer.value) ?? failure(`${method}: the answer cannot be read`)
  } catch {
    return failure(`${method}: the answer cannot be read`)
  }
}

export function solanaReads(rpc: Rpc): SolanaReads {
  return {
    simulate: (transaction, signal) =>
      call(
        rpc,
        [
          'simulateTransaction',
          [
            transaction,
            { encoding: 'base64', sigVerify: false, replaceRecentBlockhash: false, commitment: 'confirmed' },
          ],
        ],
        { signal, read: parseSimulation },
      ),
    accounts: (addresses, { commitment, signal }) =>
      call(rpc, ['getMultipleAccounts', [[...addresses, CLOCK], { encoding: 'base64', commitment }]], {
        signal,
        read: (result) => parseAccounts(result, addresses.length),
      }),
    status: (signature, signal) =>
      call(rpc, ['getSignatureStatuses', [[signature], { searchTransactionHistory: true }]], {
        signal,
        read: parseStatus,
      }),
    transaction: (signature, signal) =>
      call(
        rpc,
        [
          'getTransaction',
          [signature, { encoding: 'base64', commitment: 'confirmed', maxSupportedTransactionVersion: 0 }],
        ],
        { signal, read: (result) => (result === null ? { kind: 'absent' as const } : parseConfirmed(result)) },
      ),
    latest: (signal) => call(rpc, ['getLatestBlockhash', [{ commitment: 'confirmed' }]], { signal, read: parseLatest }),
    validity: (blockhash, commitment, signal) =>
      call(rpc, ['isBlockhashValid', [blockhash, { commitment }]], { signal, read: parseValidity }),
    signatures: (address, { before, limit, since }, signal) =>
      call(
        rpc,
        [
          'getSignaturesForAddress',
          [
            address,
            {
              commitment: 'confirmed',
              limit,
              ...(before && { before }),
              ...(since !== undefined && { minContextSlot: since }),
            },
          ],
        ],
        { signal, read: parseSignatures },
      ),
    async send(transaction, signal) {
      const answer = await rpc.request(
        'sendTransaction',
        [transaction, { encoding: 'base64', skipPreflight: true }],
        signal,
      )
      if (answer.kind === 'result') return { kind: 'sent' }
      if (answer.kind === 'error' && REJECTED_CODES.includes(answer.code))
        return { kind: 'rejected', reason: answer.message }
      return asFailure('sendTransaction', answer)
    },
  }
}

// The parsers return undefined for, or throw at, an answer that cannot be read.

function parseSimulation(result: unknown): Simulation | undefined {
  const { err } = field(result, 'value') as { err?: unknown }
  return err === undefined ? undefined : { kind: 'simulated', err }
}

/** The last account is the clock's. */
function parseAccounts(result: unknown, count: number): Accounts | undefined {
  const [clock, ...others] = (field(result, 'value') as readonly unknown[]).map(parseAccount).toReversed()
  if (!clock || clock.data.length < 40 || others.length !== count) return undefined
  return {
    kind: 'accounts',
    slot: slotIn(result),
    time: Number(view(clock.data).getBigInt64(32, true)),
    found: others.toReversed(),
  }
}

function parseStatus(result: unknown): Status | undefined {
  const [status] = field(result, 'value') as readonly (
    | { err?: unknown; confirmations?: unknown; confirmationStatus?: unknown }
    | null
    | undefined
  )[]
  if (status === null) return { kind: 'unseen', slot: slotIn(result) }
  if (status?.err === undefined) return undefined
  const { err, confirmations, confirmationStatus } = status
  // No count of confirmations means finalized.
  const isConfirmed = confirmations === null || confirmationStatus === 'confirmed' || confirmationStatus === 'finalized'
  return { kind: 'seen', failed: err !== null, isConfirmed }
}

function parseLatest(result: unknown): Latest | undefined {
  const { blockhash, lastValidBlockHeight } = field(result, 'value') as {
    blockhash?: unknown
    lastValidBlockHeight?: unknown
  }
  return typeof blockhash === 'string'
    ? { kind: 'latest', blockhash, lastValid: parseCount(lastValidBlockHeight) }
    : undefined
}

function parseValidity(result: unknown): Validity | undefined {
  const valid = field(result, 'value')
  return typeof valid === 'boolean' ? { kind: 'validity', valid, slot: slotIn(result) } : undefined
}

function parseSignatures(result: unknown): Signatures | undefined {
  const rows = result as readonly { signature?: unknown; blockTime?: unknown; memo?: unknown }[]
  if (!rows.every(({ signature }) => typeof signature === 'string')) return undefined
  const found = rows.map(({ signature, blockTime, memo }) => {
    return {
      signature: signature as string,
      time: typeof blockTime === 'number' ? blockTime : undefined,
      memo: typeof memo === 'string' ? memo : undefined,
    }
  })
  return { kind: 'signatures', found }
}

/** Parses a token account. Undefined for an account of another mint, or none of a token. */
export function parseTokenAccount(
  account: Account | undefined,
  mint: string | undefined,
): { readonly amount: bigint; readonly owner: Uint8Array; readonly isFrozen: boolean } | undefined {
  if (!account || account.data.length < 165 || (account.owner !== TOKEN && account.owner !== TOKEN_2022))
    return undefined
  const { data } = account
  if (mint !== undefined && addressAt(data, 0) !== mint) return undefined
  return { amount: view(data).getBigUint64(64, true), owner: data.subarray(32, 64), isFrozen: data[108] === 2 }
}

/** The transfer that a transaction is expected to make. */
type Transfer = {
  readonly tx: SolanaTransaction
  readonly destination: Address
  readonly mint: Address
  readonly amount: bigint
}

/** Whether the transaction ran without error and left exactly the amount in the destination. */
export function isPayment(
  { failed, tokenChange }: ConfirmedTransaction,
  { tx, destination, mint, amount }: Transfer,
): boolean {
  return !failed && tokenChange(tx.accounts.indexOf(destination), mint) === amount
}

/** Id of a transaction that cannot be parsed, so not a payment of ours. */
const UNREADABLE = ''

function parseConfirmed(result: unknown): ConfirmedTransaction | undefined {
  const { transaction, slot, meta } = result as {
    transaction: readonly unknown[]
    slot: unknown
    meta: { err?: unknown; preTokenBalances?: unknown; postTokenBalances?: unknown }
  }
  const tx = parseTransaction(transaction[0])
  if (meta.err === undefined) return undefined
  const [before, after] = [parseBalances(meta.preTokenBalances), parseBalances(meta.postTokenBalances)]
  const at = (balances: ReadonlyMap<string, bigint>, index: number, mint: string) =>
    balances.get(`${index} ${mint}`) ?? 0n
  return {
    kind: 'landed',
    id: typeof tx === 'string' ? UNREADABLE : tx.id,
    slot: parseCount(slot),
    failed: meta.err !== null,
    tokenChange: (index, mint) => at(after, index, mint) - at(before, index, mint),
  }
}

function parseBalances(rows: unknown): ReadonlyMap<string, bigint> {
  const entries = rows as readonly { accountIndex: number; mint: string; uiTokenAmount: { amount: string } }[]
  return new Map(
    entries.map(({ accountIndex, mint, uiTokenAmount }) => [`${accountIndex} ${mint}`, BigInt(uiTokenAmount.amount)]),
  )
}

/** Throws TypeError for anything that is not an account; undefined when there is none. */
function parseAccount(value: unknown): Account | undefined {
  if (value === null) return undefined
  const { owner, lamports, executable, data } = value as {
    owner: unknown
    lamports: unknown
    executable: unknown
    data: readonly unknown[]
  }
  if (typeof owner !== 'string' || data[1] !== 'base64') throw new TypeError('not an account in base64')
  return { owner, lamports: parseCount(lamports), executable: executable === true, data: fromBase64(String(data[0])) }
}

function slotIn(result: unknown): number {
  return parseCount(field(field(result, 'context'), 'slot'))
}

function parseCount(value: unknown): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0) return value
  throw new TypeError('not a count')
}

const view = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
export const addressAt = (bytes: Uint8Array, at: number): Address => encodeAddress(bytes.subarray(at, at + 32))

function field(value: unknown, name: string): unknown {
  return (value as Readonly<Record<string, unknown>>)[name]
}
