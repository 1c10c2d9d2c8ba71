import type { CallOptions, CheckResult } from '../lib/results.ts'
import { evmFamily } from './family.ts'
import { chainIdOf, type Domain, payloadOf } from './exact/eip3009.ts'
import { type Offer, type Payment, type Terms, usdc } from '../../../core/x402/mod.ts'
import type { Chain, Fate, Settlement, Verdict } from '../../../core/ports/mod.ts'
import { checkEvm } from './check.ts'
import { evmIdentity, type EvmIdentity } from './exact/identity.ts'
import { balanceCall, type ChainReceipt, findPayment, parseReceipt, stateCall } from './node/token.ts'
import { evmReads, type Reads, type ReadsConfig } from './node/reads.ts'
import { type EvmFate, exactFates, type ExactFates } from './exact/fate.ts'
import { jsonRpc, type Rpc, type RpcConfig } from '../lib/json_rpc.ts'
import { settlementOf } from './exact/settle.ts'
import { type Exact, checkExact, checkValue, refused } from './exact/payload.ts'
import {
  type ApiConfig,
  settingProblems,
  deadline,
  type FacilitatorRow,
  namedApis,
  type ApiResult,
  type NamedApi,
} from '../facilitator/api.ts'
import { parseSettleReply, parseSupported, type SettleReply } from '../facilitator/replies.ts'
import { firstVerdict, requestOf } from '../facilitator/verdict.ts'
import { flagIn, type Hex, lower, uintIn } from '../lib/hex.ts'
import { type InFlightSettlements, type PendingSettlement, inFlightSettlements } from '../lib/in_flight.ts'
import { boundedMap, type BoundedMap } from '../../../core/lib/mod.ts'
import { pause } from '../../machine.ts'

/**
 * Configuration of one gateway whose payments facilitators verify and settle. `fetch` calls the node and the
 * facilitators.
 */
export type FacilitatorConfig = {
  /** CAIP-2, for example `eip155:8453`. */
  readonly network: string
  /** A read-only node, for balances and the fate of payments. */
  readonly rpcUrl: string
  /** A token with EIP-3009, such as USDC. */
  readonly asset: string
  readonly payTo: string
  readonly domain: Domain
  /** Preferred first; the others stand in for one that does not answer. */
  readonly facilitators: readonly FacilitatorRow[]
  /** Deadline of one verification. Default 3 s. */
  readonly verifyMs?: number
  /** Deadline of one settlement. Default 20 s: less than the caller has, because the chain is read afterwards. */
  readonly settleMs?: number
  /** How long our node may take to show a transaction that a facilitator reports as settled. Default 4 s. */
  readonly confirmMs?: number
  /** First pause between two reads of it. Default 100 ms; it grows. */
  readonly pollMs?: number
  /** How many seconds the node may be behind when a balance is read. Default 4. */
  readonly lagSeconds?: number
} & Omit<RpcConfig, 'url'> &
  ReadsConfig &
  ApiConfig

export type FacilitatorChain = Chain &
  Required<Pick<Chain, 'balance'>> & {
    /**
     * Compares the configuration with the chain and with each facilitator's support. When it passes, terms open and
     * stay open.
     */
    check(at: { now: number }): Promise<CheckResult>
    /** Ends pending requests; pending settlements resolve with `unknown`. */
    close(): void
  }

const FATE_MS = 8_000
const MAX_REMEMBERED = 10_000

/** State of `facilitatorChain`. */
type FacilitatorParts = {
  readonly config: FacilitatorConfig
  readonly chainId: number
  readonly rpc: Rpc
  readonly reads: Reads
  readonly fates: ExactFates
  readonly lagSeconds: number
  readonly identity: EvmIdentity
  readonly facilitators: readonly NamedApi[]
  readonly verifyMs: number
  readonly settleMs: number
  readonly confirmMs: number
  readonly network: string
  readonly offered: readonly Terms[]
  readonly settlements: InFlightSettlements
  /** Authorizations sent to a facilitator and not refused at once: if used, they may have been used by it. */
  readonly submitted: BoundedMap<true>
  readonly closing: AbortController
  terms: readonly Terms[]
}

/**
 * USDC on one EVM chain, settled by remote facilitators. Only our own node decides that a payment is paid; a
 * facilitator's reply does not. Throws RangeError, without quoting the value, when a URL or the network is malformed.
 *
 * @example
 * const chain = facilitatorChain({
 *   network: 'eip155:84532',
 *   rpcUrl: 'https://sepolia.base.org',
 *   asset: '0x036CbD53842c5426634e7929541eC2318f3dCF7e',
 *   payTo: '0x209693Bc6afc0C5328bA36FaF03C514EF312287C',
 *   domain: { name: 'USDC', version: '2' },
 *   facilitators: [{ url: 'https://facilitator.example' }],
 *   random: randomBytes,
 * })
 */
export function facilitatorChain(config: FacilitatorConfig): FacilitatorChain {
  const rpc = jsonRpc({ ...config, url: config.rpcUrl })
  const reads = evmReads(rpc, config)
  const lagSeconds = config.lagSeconds ?? 4
  const identity = evmIdentity({ rpc, reads }, { network: config.network, lagSeconds })

  const { network, asset, payTo, domain } = config

  const balance: FacilitatorChain['balance'] = (address, { signal }) =>
    reads.balance(asset, address, { lagSeconds, signal })
  const { identify, hasSigned } = identity
  const parts: FacilitatorParts = {
    config,
    chainId: chainIdOf(config.network),
    rpc,
    reads,
    fates: exactFates({ rpc, reads }, config),
    lagSeconds,
    identity,
    facilitators: namedApis(config.facilitators, config),
    verifyMs: config.verifyMs ?? 3_000,
    settleMs: config.settleMs ?? 20_000,
    confirmMs: config.confirmMs ?? 4_000,
    network,
    offered: [{ scheme: 'exact', network, asset, payTo, extra: { name: domain.name, version: domain.version } }],
    settlements: inFlightSettlements(),
    submitted: boundedMap<true>(MAX_REMEMBERED),
    closing: new AbortController(),
    terms: [],
  }
  return {
    families: [evmFamily],
    terms: () => parts.terms,
    identify,
    hasSigned,
    verify: (...args) => verify(parts, ...args),
    settle: (...args) => settle(parts, ...args),
    fate: (...args) => fate(parts, ...args),
    balance,
    check: (...args) => check(parts, ...args),
    close: () => close(parts),
  }
}

async function verify(parts: FacilitatorParts, payment: Payment, offer: Offer, at: CallOptions): Promise<Verdict> {
  const parsed = parts.identity.parse(payment, offer)
  if ('kind' in parsed) return parsed
  const { exact } = parsed
  const refusal = checkExact(exact, offer, at.now, parts.config.lookbackSeconds)
  if (refusal) return refusal
  const [response, holdings] = await Promise.all([
    firstVerdict(parts.facilitators, requestOf(payloadOf(exact), offer), {
      now: at.now,
      timeoutMs: parts.verifyMs,
      signal: at.signal,
    }),
    readHoldings(parts, exact, offer, at.signal),
  ])
  const { balance, isUsed, block } = holdings
  if (isUsed) return refused('PAYMENT_REPLAY', 'nonce_already_used', 'the authorization is used or canceled on chain')
  if (balance !== undefined && balance < exact.value) {
    return refused(
      'PAYMENT_UNFUNDED',
      'insufficient_balance',
      `the payer has ${balance} base units; the price is ${exact.value}`,
    )
  }
  if (response.kind !== 'valid') return response
  return {
    kind: 'valid',
    ...(balance !== undefined && { balance: usdc(balance) }),
    asOf: at.now,
    ...(block !== undefined && { block }),
  }
}

/** Reads the payer's balance and the state of the nonce from our own node; empty if it does not answer in time. */
async function readHoldings(
  parts: FacilitatorParts,
  exact: Exact,
  offer: Offer,
  signal: AbortSignal,
): Promise<{ balance?: bigint | undefined; isUsed?: boolean | undefined; block?: number | undefined }> {
  const token = lower(offer.asset)
  const calls = [
    { to: token, data: balanceCall(exact.from) },
    { to: token, data: stateCall(exact.from, exact.nonce) },
  ]
  const stop = deadline(parts.verifyMs, [signal])
  const seen = await parts.reads.view(calls, { lagSeconds: parts.lagSeconds, signal: stop.signal })
  stop.end()
  if (seen.kind === 'failure') return {}
  return { balance: uintIn(seen.results[0]), isUsed: flagIn(seen.results[1]), block: seen.block }
}

async function settle(parts: FacilitatorParts, payment: Payment, offer: Offer, at: CallOptions): Promise<Settlement> {
  const parsed = parts.identity.parse(payment, offer)
  if ('kind' in parsed) return { kind: 'refused', reason: parsed.reason }
  const { exact, digest } = parsed
  const refusal = checkValue(exact, offer)
  if (refusal) return { kind: 'refused', reason: refusal.reason }
  if (at.signal.aborted || parts.closing.signal.aborted) return { kind: 'unknown', reason: 'no time left to settle' }
  if (at.now >= exact.expiresAt && !parts.settlements.has(digest)) {
    return settlementFrom(parts, await parts.fates.fate(exact, offer, at.signal), exact, {
      kind: 'refused',
      reason: 'the authorization is expired',
    })
  }
  return await parts.settlements.settle(
    digest,
    (pending) => send(parts, exact, offer, { now: at.now, pending }),
    at.signal,
  )
}

/**
 * Sends it to the first reachable facilitator and to no other afterwards: that one may act on it whatever becomes of
 * its reply.
 */
async function send(
  parts: FacilitatorParts,
  exact: Exact,
  offer: Offer,
  { now, pending }: { now: number; pending: PendingSettlement },
): Promise<Settlement> {
  const failures: string[] = []
  let isSent = false
  for (const { name, api } of parts.facilitators) {
    if (pending.callers === 0) break
    const response = await api.request('settle', {
      body: requestOf(payloadOf(exact), offer),
      read: parseSettleReply,
      now,
      timeoutMs: parts.settleMs,
    })
    if (response.kind === 'result' ? !response.value.isRefusal : !response.unsent) parts.submitted.set(exact.key, true)
    if (response.kind === 'result') {
      pending.isSending = false
      return conclude(parts, exact, offer, { name, reply: response.value })
    }
    failures.push(`${name}: ${response.reason}`)
    isSent = !response.unsent
    if (isSent) break
  }
  pending.isSending = false
  return settlementFrom(parts, await fateOf(parts, exact, offer), exact, {
    kind: 'unknown',
    reason: `${isSent ? 'it may have been sent' : 'nothing was sent'}: ${failures.join('; ')}`,
  })
}

/**
 * Believes a success once our node shows the transfer, and a refusal when nothing was sent or the transaction
 * reverted.
 */
async function conclude(
  parts: FacilitatorParts,
  exact: Exact,
  offer: Offer,
  { name, reply }: { name: string; reply: SettleReply },
): Promise<Settlement> {
  const { success, reason, transaction, isRefusal } = reply
  const receipt = transaction && (await receiptOf(parts, transaction, success ? parts.confirmMs : 0))
  const paid = receipt && findPayment(receipt, exact, offer)
  if (paid) {
    parts.fates.rememberTransaction(exact.key, receipt.transactionHash)
    return { kind: 'settled', receipt: paid }
  }
  const fate = await fateOf(parts, exact, offer)
  if (success)
    return settlementFrom(parts, fate, exact, {
      kind: 'unknown',
      reason: `${name} reports it as settled, but our node does not show it`,
    })
  const hasReverted = receipt !== undefined && !receipt.success
  return settlementFrom(parts, fate, exact, {
    kind: hasReverted || isRefusal ? 'refused' : 'unknown',
    reason: `${name}: ${reason}`,
  })
}

function settlementFrom(
  parts: FacilitatorParts,
  fate: EvmFate,
  { key }: Exact,
  whileOpen: Extract<Settlement, { kind: 'refused' | 'unknown' }>,
): Settlement {
  return settlementOf(fate, whileOpen, parts.submitted.get(key) === true)
}

/** For a shared settlement: a later caller must not wait for a slow node forever. */
async function fateOf(parts: FacilitatorParts, exact: Exact, offer: Offer): Promise<EvmFate> {
  const stop = deadline(FATE_MS, [])
  const found = await parts.fates.fate(exact, offer, stop.signal)
  stop.end()
  return found
}

/** Our node may be some blocks behind the facilitator's. */
async function receiptOf(parts: FacilitatorParts, transaction: Hex, waitMs: number): Promise<ChainReceipt | undefined> {
  let pauseMs = parts.config.pollMs ?? 100
  for (let waitedMs = 0; ; waitedMs += pauseMs, pauseMs *= 1.5) {
    const answer = await parts.rpc.request('eth_getTransactionReceipt', [transaction])
    const receipt = answer.kind === 'result' ? parseReceipt(answer.value) : undefined
    if (receipt?.transactionHash === transaction) return receipt
    if (parts.closing.signal.aborted || waitedMs + pauseMs > waitMs) return undefined
    await pause(pauseMs, parts.closing.signal)
  }
}

async function fate(parts: FacilitatorParts, payment: Payment, offer: Offer, at: CallOptions): Promise<Fate> {
  const parsed = parts.identity.parse(payment, offer)
  if ('kind' in parsed) return { kind: 'unknown', reason: parsed.reason }
  return parts.fates.fate(parsed.exact, offer, at.signal)
}

async function check(parts: FacilitatorParts, { now }: { now: number }): Promise<CheckResult> {
  const read = (body: unknown, isOk: boolean) => (isOk ? parseSupported(body, parts.config) : undefined)
  const [chain, ...replies] = await Promise.all([
    checkEvm(parts.rpc, { ...parts.config, chainId: parts.chainId }),
    ...parts.facilitators.map(async ({ name, api }) => ({
      name,
      response: await api.request('supported', { read, now, timeoutMs: parts.verifyMs }),
    })),
  ])
  const problems = replies.flatMap(({ name, response }) => supportProblems(name, response, parts.network))
  if (chain.kind === 'wrong') return { kind: 'wrong', problems: [...chain.problems, ...problems] }
  if (problems.length > 0) return { kind: 'wrong', problems }
  if (chain.kind === 'unavailable') return chain
  const unreachable = replies.flatMap(({ name, response }) =>
    response.kind === 'failure' ? [`${name}.url: ${response.reason}`] : [],
  )
  if (unreachable.length === replies.length) return { kind: 'unavailable', reason: unreachable.join('; ') }
  await parts.reads.setMulticall(chain.multicall)
  parts.terms = parts.offered
  return { ...chain, warnings: [...chain.warnings, ...unreachable] }
}

function close(parts: FacilitatorParts): void {
  for (const { api } of parts.facilitators) api.close()
  parts.closing.abort()
  parts.rpc.close()
}

function supportProblems(name: string, response: ApiResult<boolean>, network: string): readonly string[] {
  if (response.kind === 'failure') return settingProblems(name, response)
  return response.value ? [] : [`${name}.url: does not settle exact payments of this asset on ${network}`]
}
