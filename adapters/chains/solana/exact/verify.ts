import type { Address } from '@solana/kit'
import { usdc } from '../../../../core/x402/mod.ts'
import type { Refused, Verdict } from '../../../../core/ports/mod.ts'
import type { RpcFailure } from '../../lib/json_rpc.ts'
import { unavailable } from '../../lib/results.ts'
import type { TransactionFinder, SearchResult } from './fate.ts'
import { refused, type SolanaExact } from './payload.ts'
import { type Accounts, parseTokenAccount, type SolanaReads } from '../node/reads.ts'
import { serializeTransaction } from '../node/transaction.ts'

export type VerifyConfig = {
  /**
   * How many seconds the node's confirmed bank may be behind. Default 30; an older bank says too little about balances
   * and blockhashes.
   */
  readonly lagSeconds?: number
}

/** `search` is the search for the transaction, if one is under way. */
type VerifyOptions = {
  readonly now: number
  readonly signal: AbortSignal
  readonly search?: Promise<SearchResult>
}

export type SolanaVerifier = {
  /** Checks whether a validated transaction would succeed now. */
  verify(exact: SolanaExact, at: VerifyOptions): Promise<Verdict>
}

/** A blockhash that we offered and with this much life left is known to every node that is not behind. */
const YOUNG_BLOCKHASH_MS = 20_000

/** Errors of the fee payer, then of the node: nothing that the buyer could fix. */
const FEE_PAYER_ERRORS = /^(AccountNotFound|InsufficientFundsForFee|InvalidAccountForFee|InsufficientFundsForRent 0)$/
const NODE_ERRORS =
  /^(AccountInUse|ClusterMaintenance|CommitCancelled|ProgramCacheHitMaxLimit|ProgramExecutionTemporarilyRestricted.*|ResanitizationNeeded|WouldExceed.*)$/

/** Simulates payments on a node. `endOf` returns when a blockhash expires, if known. */
export function solanaVerifier(
  {
    reads,
    find,
    expiryOf,
    reportUnderfunded,
  }: {
    reads: SolanaReads
    find: TransactionFinder
    expiryOf: (blockhash: string) => number | undefined
    reportUnderfunded?: (feePayer: Address) => void
  },
  config: VerifyConfig,
): SolanaVerifier {
  const lagSeconds = config.lagSeconds ?? 30

  async function verify(
    exact: SolanaExact,
    { now, signal, search = find(exact, { signal }) }: VerifyOptions,
  ): Promise<Verdict> {
    const [simulation, bank, found] = await Promise.all([
      reads.simulate(serializeTransaction(exact.tx), signal),
      reads.accounts([exact.source], { commitment: 'confirmed', signal }),
      search,
    ])
    const problem = nodeProblem(bank, { now, lagSeconds })
    if (problem || bank.kind === 'failure') return unavailable(problem ?? 'the node does not answer')
    if (simulation.kind === 'failure') return unavailable(simulation.reason)
    if (found.kind === 'failure') return unavailable(found.reason)
    const error = simulation.err === null ? undefined : errorIn(simulation.err)
    if (found.kind !== 'none' || error === 'AlreadyProcessed') return replayed()
    const end = expiryOf(exact.tx.blockhash)
    const balance = parseTokenAccount(bank.found[0], exact.mint)?.amount ?? 0n
    if (error === 'BlockhashNotFound' && end !== undefined && end > now + YOUNG_BLOCKHASH_MS)
      return unavailable('the node does not know a blockhash that it returned itself')
    if (error === 'BlockhashNotFound') return stale(BLOCKHASH_EXPIRED)
    if (error && FEE_PAYER_ERRORS.test(error)) {
      reportUnderfunded?.(exact.feePayer)
      return unavailable(FEE_UNPAID)
    }
    if (error && NODE_ERRORS.test(error)) return unavailable(`the node cannot run it at the moment: ${error}`)
    if (balance < exact.amount) return unfunded(exact, balance)
    if (error)
      return refused('PAYMENT_INVALID', 'transaction_simulation_failed', `the transaction would fail: ${error}`)
    return { kind: 'valid', balance: usdc(balance), asOf: bankTime(bank, now), block: bank.slot }
  }

  return { verify }
}

/** Why the node's answer does not count; undefined if it does. */
export function nodeProblem(
  bank: Accounts | RpcFailure,
  { now, lagSeconds }: { now: number; lagSeconds: number },
): string | undefined {
  if (bank.kind === 'failure') return bank.reason
  const behind = Math.floor(now / 1000 - bank.time)
  return behind > lagSeconds ? `the node is ${behind} s behind` : undefined
}

/** A balance is as old as its bank: later settlements must still be counted against it (decision 18). */
export function bankTime({ time }: Accounts, now: number): number {
  return Math.min(now, time * 1000)
}

/** A transaction error in one line, in the terms of nodes: `BlockhashNotFound`, `InstructionError 2 Custom 1`. */
function errorIn(err: unknown): string {
  const words =
    JSON.stringify(err)
      .replace(/account_index/g, '')
      .match(/[A-Za-z0-9_]+/g) ?? []
  return words.join(' ').slice(0, 120)
}

export function unfunded(exact: SolanaExact, balance: bigint): Refused {
  return refused(
    'PAYMENT_UNFUNDED',
    'insufficient_balance',
    `the payer has ${balance} base units; the price is ${exact.amount}`,
  )
}

export const FEE_UNPAID = 'the fee payer cannot pay the fee at the moment'
export const BLOCKHASH_EXPIRED = 'the blockhash of the transaction is expired or unknown'
/** Clients sign again when they read this code, or the word blockhash. */
export const stale = (text: string): Refused =>
  refused('PAYMENT_BLOCKHASH_STALE', 'transaction_simulation_failed', text)
export const replayed = (): Refused =>
  refused('PAYMENT_REPLAY', 'transaction_simulation_failed', 'the transaction was already processed')
