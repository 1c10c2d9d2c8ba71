import type { Address } from '@solana/kit'
import type { Rpc } from '../lib/json_rpc.ts'
import { type CheckResult, confirmedCheck } from '../lib/results.ts'
import { tokenAccount } from './exact/payload.ts'
import { type Account, addressAt, parseTokenAccount, type SolanaReads, TOKEN, TOKEN_2022 } from './node/reads.ts'
import { nodeProblem } from './exact/verify.ts'
import { parseAddress } from './node/transaction.ts'

export type CheckConfig = {
  readonly network: string
  readonly mint: string
  readonly payTo: string
  /** Our fee payers; empty when others pay the fees. */
  readonly feePayers: readonly Address[]
  /** Warns below this fee payer balance in lamports. Default 0.01 SOL. */
  readonly minFeePayerLamports?: number
  readonly lagSeconds?: number
}

const SYSTEM = '11111111111111111111111111111111'
const NEVER = '1'.repeat(64) // 64 zero bytes, never a valid signature

/** Reads everything that a misconfigured gateway would otherwise find out by losing money or payments. */
export async function checkSolana(node: Node, config: CheckConfig, now: number): Promise<CheckResult> {
  const [mint, payTo] = [parseAddress(config.mint), parseAddress(config.payTo)]
  if (!mint || !payTo)
    return {
      kind: 'wrong',
      problems: [...addressProblem('mint', config.mint), ...addressProblem('pay_to', config.payTo)],
    }
  return await confirmedCheck(() => checkOnce(node, { ...config, now, mint, payTo }))
}

type Node = { readonly rpc: Rpc; readonly reads: SolanaReads }
type Round = CheckConfig & { readonly now: number; readonly mint: Address; readonly payTo: Address }

async function checkOnce({ rpc, reads }: Node, config: Round): Promise<CheckResult> {
  const { network, feePayers, mint, payTo, now } = config
  const payToProblems = config.feePayers.flatMap((feePayer, i) =>
    feePayer === payTo ? [`pay_to: must not be the account of fee_payer_keys.${i}, which only pays fees`] : [],
  )
  const holders = await Promise.all([TOKEN, TOKEN_2022].map((program) => tokenAccount(payTo, mint, program)))
  const [genesis, bank, history] = await Promise.all([
    rpc.request('getGenesisHash', []),
    reads.accounts([mint, payTo, ...holders, ...feePayers], { commitment: 'confirmed' }),
    reads.transaction(NEVER),
  ])
  if (genesis.kind === 'failure') return { kind: 'unavailable', reason: genesis.reason }
  if (genesis.kind !== 'result' || typeof genesis.value !== 'string')
    return { kind: 'unavailable', reason: 'the node does not answer like a Solana node' }
  const served = `solana:${genesis.value.slice(0, 32)}`
  if (served !== network)
    return { kind: 'wrong', problems: [`network: the configured network is ${network}, but the node serves ${served}`] }
  const problem = nodeProblem(bank, { now, lagSeconds: config.lagSeconds ?? 30 })
  if (problem || bank.kind === 'failure') return { kind: 'unavailable', reason: problem ?? 'the node does not answer' }
  if (history.kind === 'failure') return { kind: 'unavailable', reason: history.reason }

  const [token, wallet, ...rest] = bank.found
  const program = token && [TOKEN, TOKEN_2022].find((known) => known === token.owner)
  if (!token || !program)
    return { kind: 'wrong', problems: [...payToProblems, `mint: ${mint} is not a token on ${network}`] }
  const destination = rest[program === TOKEN ? 0 : 1]
  const feePayerAccounts = rest.slice(2)
  const problems = [
    ...payToProblems,
    ...mintProblems(token),
    ...walletProblems(payTo, wallet),
    ...holderProblems(payTo, { mint, destination }),
    ...feePayerAccounts.flatMap((account, i) => payerProblems(i, account)),
    ...(feePayerAccounts.length > 0 && feePayerAccounts.every((account) => !account?.lamports)
      ? ['fee_payer_keys.0: its account has no SOL to pay fees; top it up']
      : []),
  ]
  if (problems.length > 0) return { kind: 'wrong', problems }
  const low = config.minFeePayerLamports ?? 10_000_000
  const warnings = feePayerAccounts.flatMap((account, i) =>
    (account?.lamports ?? 0) < low ? [`fee_payer_keys.${i}: account ${feePayers[i]} is running out of SOL`] : [],
  )
  return { kind: 'ready', warnings }
}

function addressProblem(setting: string, text: string): readonly string[] {
  return parseAddress(text)
    ? []
    : [`${setting}: ${JSON.stringify(text.slice(0, 60))} is not an address; it must be 32 bytes in base58`]
}

/**
 * Finds mints whose transfers would deliver less than they say, or need more accounts than a plain payment. Extensions
 * start after byte 166.
 */
function mintProblems({ data, owner }: Account): readonly string[] {
  const isMint = data.length === 82 || (owner === TOKEN_2022 && data.length > 166 && data[165] === 1)
  if (!isMint || data[45] !== 1) return ['mint: it is a token account, not a mint']
  const problems = data[44] === 6 ? [] : [`mint: it has ${data[44]} decimals; it must have 6`]
  for (let at = 166; at + 4 <= data.length;) {
    const [type, length] = [u16(data, at), u16(data, at + 2)]
    const value = data.subarray(at + 4, at + 4 + length)
    if (type === 1 && (u16(value, 88) > 0 || u16(value, 106) > 0))
      problems.push('mint: it charges a transfer fee, so less arrives than is paid')
    if (type === 9) problems.push('mint: it is non-transferable')
    if (type === 14 && value.subarray(32, 64).some((byte) => byte !== 0))
      problems.push('mint: it has a transfer hook, which payments do not support')
    at += 4 + length
  }
  return problems
}

function walletProblems(payTo: string, wallet: Account | undefined): readonly string[] {
  if (wallet?.executable) return [`pay_to: ${payTo} is a program`]
  if (wallet && (wallet.owner === TOKEN || wallet.owner === TOKEN_2022))
    return [`pay_to: ${payTo} is a token account; use the wallet that owns it`]
  return []
}

/** Payers never create the token account: without it every payment fails (decision 68). */
function holderProblems(
  payTo: string,
  { mint, destination }: { mint: string; destination: Account | undefined },
): readonly string[] {
  const state = parseTokenAccount(destination, mint)
  if (!state) return [`pay_to: ${payTo} has no token account for ${mint}; create it before selling`]
  if (addressAt(state.owner, 0) !== payTo) return [`pay_to: the token account of ${payTo} belongs to another owner`]
  return state.isFrozen ? [`pay_to: the token account of ${payTo} is frozen`] : []
}

/** A fee payer without SOL is not offered until topped up; payments under it wait. */
function payerProblems(index: number, account: Account | undefined): readonly string[] {
  if (account && (account.owner !== SYSTEM || account.data.length > 0))
    return [`fee_payer_keys.${index}: its account is not a plain wallet, so it cannot pay fees`]
  return []
}

const u16 = (bytes: Uint8Array, at: number): number => (bytes[at] ?? 0) + 256 * (bytes[at + 1] ?? 0)
