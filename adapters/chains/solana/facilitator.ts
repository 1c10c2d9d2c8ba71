import type { CallOptions, CheckResult } from '../lib/results.ts'
import { solanaFamily } from './family.ts'
import { type Offer, type Payment, type Terms, usdc } from '../../../core/x402/mod.ts'
import type { Chain, Fate, Identity, Refused, Settlement, Verdict } from '../../../core/ports/mod.ts'
import { jsonRpc, type Rpc, type RpcConfig } from '../lib/json_rpc.ts'
import {
  type ApiConfig,
  settingProblems,
  deadline,
  type FacilitatorRow,
  type NamedApi,
  namedApis,
} from '../facilitator/api.ts'
import { parseSettleReply, parseSolanaSupport, type SettleReply } from '../facilitator/replies.ts'
import { firstVerdict, requestOf } from '../facilitator/verdict.ts'
import { unknownOnAbort } from '../lib/in_flight.ts'
import { boundedMap, type BoundedMap } from '../../../core/lib/mod.ts'
import { balanceOf, networkOf, type SolanaChain } from './mod.ts'
import { checkSolana } from './check.ts'
import { findByScan, type FateConfig, solanaFates, type TransactionFinder, type SolanaFates } from './exact/fate.ts'
import { BLOCKHASH_LIFE_MS, blockhashTracker, type BlockhashTracker } from './node/blockhash.ts'
import { isValidProof, signedOn } from './node/keys.ts'
import { type FeeLimits, checkPayment, type SolanaExact } from './exact/payload.ts'
import { parseTokenAccount, isPayment, solanaReads, type SolanaReads } from './node/reads.ts'
import { settlementOf } from './exact/settle.ts'
import { pause } from '../../machine.ts'
import { solanaTerms } from './exact/terms.ts'
import {
  nodeProblem,
  bankTime,
  BLOCKHASH_EXPIRED,
  replayed,
  stale,
  unfunded,
  type VerifyConfig,
} from './exact/verify.ts'
import type { Address } from '@solana/kit'
import { parseAddress, fromBase58, serializeTransaction } from './node/transaction.ts'

/**
 * Configuration of one gateway on a Solana cluster whose payments facilitators verify and settle. `fetch` calls the
 * node and the facilitators.
 */
export type SolanaFacilitatorConfig = {
  /** CAIP-2: `solana:` and the first 32 characters of the genesis hash. */
  readonly network: string
  /** A read-only node, for balances and the fate of payments. */
  readonly rpcUrl: string
  readonly mint: string
  /** A wallet whose token account exists. */
  readonly payTo: string
  /** Preferred first. The others stand in for one that does not answer, if they sign for the same fee payer. */
  readonly facilitators: readonly FacilitatorRow[]
  /**
   * The fee payer of every offer. Default: alphabetically first of the first facilitator's signers, as some name
   * another one each time.
   */
  readonly feePayer?: string
  /** Deadline of one verification. Default 3 s. */
  readonly verifyMs?: number
  /** Deadline of one settlement. Default 20 s: less than the caller has, because the chain is read afterwards. */
  readonly settleMs?: number
  /** How long our node may take to show a transaction that a facilitator reports as settled. Default 4 s. */
  readonly confirmMs?: number
  /** First pause between two reads of it. Default 100 ms; it grows. */
  readonly pollMs?: number
} & Omit<RpcConfig, 'url'> &
  VerifyConfig &
  FateConfig &
  ApiConfig

export type SolanaFacilitatorChain = Chain & Omit<SolanaChain, 'feePayers'>

/** Facilitators want the compute limit before its price, and clients of MPP write it after. */
const { charge: _, ...uncharged } = solanaFamily

/** The protocol's own limits: the fee is the facilitator's to judge. */
const FACILITATOR_LIMITS: FeeLimits = {
  maxComputeUnits: 1_400_000,
  maxComputeUnitPrice: 5_000_000,
  maxSignatures: 12,
  maxFeeLamports: Infinity,
  priorityLamportsPerToken: Number.MAX_SAFE_INTEGER,
}
const FATE_MS = 8_000
/** Transactions of a payer to inspect after a refusal: the payment may have been spent. */
const QUICK_SCAN = 10
const MAX_REMEMBERED = 10_000

/** State of `solanaFacilitator`. */
type FacilitatorParts = {
  readonly config: SolanaFacilitatorConfig
  readonly mint: string
  readonly payTo: string
  readonly network: string
  readonly rpc: Rpc
  readonly reads: SolanaReads
  readonly blockhashes: BlockhashTracker
  readonly quickFind: TransactionFinder
  readonly fates: SolanaFates
  readonly facilitators: readonly NamedApi[]
  readonly verifyMs: number
  readonly settleMs: number
  readonly confirmMs: number
  readonly settlements: Map<string, Promise<Settlement>>
  /** Payments sent to a facilitator and not refused at once. */
  readonly submitted: BoundedMap<true>
  readonly closing: AbortController
  feePayer: Address | undefined
  /** Facilitators that sign for the offered fee payer. */
  signingApis: readonly NamedApi[]
  readonly termsFor: ReturnType<typeof solanaTerms>
}

/**
 * USDC on one Solana cluster, settled by remote facilitators. Only our own node decides that a payment is paid; a
 * facilitator's reply does not. Throws RangeError, without quoting the value, when a URL or the network is malformed.
 *
 * @example
 * const chain = solanaFacilitator({
 *   network: 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1',
 *   rpcUrl: 'https://api.devnet.solana.com',
 *   mint: '4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU',
 *   payTo,
 *   facilitators: [{ url: 'https://facilitator.example' }],
 *   random: randomBytes,
 * })
 */
export function solanaFacilitator(config: SolanaFacilitatorConfig): SolanaFacilitatorChain {
  const { mint, payTo } = config
  const network = networkOf(config.network)
  const rpc = jsonRpc({ maxBatch: 1, maxRequests: 32, ...config, url: config.rpcUrl })
  const reads = solanaReads(rpc)
  const blockhashes = blockhashTracker(reads)
  const [find, quickFind] = [findByScan(reads), findByScan(reads, QUICK_SCAN)]

  const [verifyMs, settleMs, confirmMs] = [
    config.verifyMs ?? 3_000,
    config.settleMs ?? 20_000,
    config.confirmMs ?? 4_000,
  ]

  const parts: FacilitatorParts = {
    config,
    mint,
    payTo,
    network,
    rpc,
    reads,
    blockhashes,
    quickFind,
    fates: solanaFates({ reads, find }, { ...config, network }),
    facilitators: namedApis(config.facilitators, config),
    verifyMs,
    settleMs,
    confirmMs,
    settlements: new Map<string, Promise<Settlement>>(),
    submitted: boundedMap<true>(MAX_REMEMBERED),
    closing: new AbortController(),
    feePayer: config.feePayer === undefined ? undefined : parseAddress(config.feePayer),
    signingApis: [],
    termsFor: solanaTerms({ network, mint, payTo }),
  }
  if (config.feePayer !== undefined && !parts.feePayer) throw new RangeError('fee_payer is not an address')
  return {
    families: [uncharged],
    terms: (...args) => terms(parts, ...args),
    identify: (...args) => identify(parts, ...args),
    verify: (...args) => verify(parts, ...args),
    settle: (...args) => settle(parts, ...args),
    fate: (...args) => fate(parts, ...args),
    balance: (...args) => balance(parts, ...args),
    proves: isValidProof,
    hasSigned: signedOn(config.network),
    check: (...args) => check(parts, ...args),
    refresh: ({ now }) => blockhashes.refresh(now),
    close: () => close(parts),
  }
}

function terms(parts: FacilitatorParts, now: number): readonly Terms[] {
  if (parts.signingApis.length === 0) return []
  return parts.termsFor(parts.feePayer, parts.blockhashes.extra(now))
}

/** Offers are our own: each names the fee payer pinned when it was made. */
function parse(
  parts: FacilitatorParts,
  payment: Payment,
  offer: Offer,
  limits?: FeeLimits,
): Promise<SolanaExact | Refused> {
  const named = parseAddress(offer.extra?.feePayer)
  return checkPayment(payment, offer, {
    network: parts.network,
    feePayers: named ? [named] : [],
    ...(limits && { limits }),
  })
}

async function identify(
  parts: FacilitatorParts,
  payment: Payment,
  offer: Offer,
  { now }: CallOptions,
): Promise<Identity> {
  const exact = await parse(parts, payment, offer)
  if (exact.kind === 'refused') return exact
  const { payer, key, tx } = exact
  const first = parts.fates.firstSeenAt(key, now)
  return { kind: 'known', payer, key, expiresAt: parts.blockhashes.expiryOf(tx.blockhash) ?? first + BLOCKHASH_LIFE_MS }
}

async function verify(parts: FacilitatorParts, payment: Payment, offer: Offer, at: CallOptions): Promise<Verdict> {
  const exact = await parse(parts, payment, offer, FACILITATOR_LIMITS)
  if (exact.kind === 'refused') return exact
  const { key, source, tx, amount } = exact
  parts.fates.firstSeenAt(key, at.now)
  const end = parts.fates.finalFate(key)
  if (end) return end.kind === 'dead' && end.code ? stale(BLOCKHASH_EXPIRED) : replayed()
  const stop = deadline(parts.verifyMs, [at.signal])
  const requests = [
    firstVerdict(parts.signingApis, requestOf({ transaction: serializeTransaction(tx) }, offer), {
      now: at.now,
      timeoutMs: parts.verifyMs,
      signal: at.signal,
    }),
    parts.reads.accounts([source], { commitment: 'confirmed', signal: stop.signal }),
    parts.reads.validity(tx.blockhash, 'confirmed', stop.signal),
  ] as const
  const [response, bank, validity] = await Promise.all(requests)
  stop.end()
  const fresh =
    bank.kind === 'accounts' &&
    nodeProblem(bank, { now: at.now, lagSeconds: parts.config.lagSeconds ?? 30 }) === undefined
      ? bank
      : undefined
  const balance = fresh && (parseTokenAccount(fresh.found[0], exact.mint)?.amount ?? 0n)
  if (response.kind !== 'valid' && validity.kind === 'validity' && fresh && !validity.valid)
    return stale(BLOCKHASH_EXPIRED)
  if (balance !== undefined && balance < amount) return unfunded(exact, balance)
  if (response.kind !== 'valid')
    return response.kind === 'refused' && parts.fates.conclude(exact, await parts.quickFind(exact, at))
      ? replayed()
      : response
  return {
    kind: 'valid',
    ...(balance !== undefined && { balance: usdc(balance) }),
    asOf: fresh ? bankTime(fresh, at.now) : at.now,
    ...(fresh && { block: fresh.slot }),
  }
}

async function settle(
  parts: FacilitatorParts,
  payment: Payment,
  offer: Offer,
  { now, signal }: CallOptions,
): Promise<Settlement> {
  const exact = await parse(parts, payment, offer, FACILITATOR_LIMITS)
  if (exact.kind === 'refused') return { kind: 'refused', reason: exact.reason }
  parts.fates.firstSeenAt(exact.key, now)
  const end = parts.fates.finalFate(exact.key)
  if (end) return settlementOf(end)
  if (signal.aborted || parts.closing.signal.aborted) return unknown('no time left to settle')
  const order = { offer, now }
  const earlier = parts.settlements.get(exact.key)
  const outcome = await wait(earlier ?? begin(parts, exact, order), signal)
  if (!earlier || outcome.kind !== 'unknown' || signal.aborted) return outcome
  return await wait(parts.settlements.get(exact.key) ?? begin(parts, exact, order), signal)
}

function wait(settlement: Promise<Settlement>, signal: AbortSignal): Promise<Settlement> {
  return Promise.race([settlement, unknownOnAbort(signal, settlement, 'no outcome in time')])
}

/** Runs to its end whether or not a caller still waits; a payment under way is not sent twice. */
function begin(parts: FacilitatorParts, exact: SolanaExact, order: { offer: Offer; now: number }): Promise<Settlement> {
  const settlement = send(parts, exact, order).catch(() => unknown('its outcome could not be determined'))
  parts.settlements.set(exact.key, settlement)
  void settlement.then(() => parts.settlements.delete(exact.key))
  return settlement
}

/**
 * Sends it to the first reachable facilitator and to no other afterwards: that one may act on it whatever becomes of
 * its reply.
 */
async function send(
  parts: FacilitatorParts,
  exact: SolanaExact,
  { offer, now }: { offer: Offer; now: number },
): Promise<Settlement> {
  if (parts.submitted.get(exact.key)) {
    const fate = await fateOf(parts, exact, now)
    if (fate.kind === 'paid' || fate.kind === 'dead') return settlementOf(fate)
  }
  const failures: string[] = []
  for (const { name, api } of parts.signingApis) {
    const response = await api.request('settle', {
      body: requestOf({ transaction: serializeTransaction(exact.tx) }, offer),
      read: parseSettleReply,
      now,
      timeoutMs: parts.settleMs,
    })
    if (response.kind === 'result' ? !response.value.isRefusal : !response.unsent) parts.submitted.set(exact.key, true)
    if (response.kind === 'result') return await conclude(parts, exact, { name, reply: response.value, now })
    failures.push(`${name}: ${response.reason}`)
    if (!response.unsent) break
  }
  const fate = await fateOf(parts, exact, now)
  if (fate.kind === 'paid' || fate.kind === 'dead') return settlementOf(fate)
  return unknown(
    `${parts.submitted.get(exact.key) ? 'it may have been sent' : 'nothing was sent'}: ${failures.join('; ')}`,
  )
}

/** Believes a success once our node shows the transfer, and a refusal when nothing can have been sent. */
async function conclude(
  parts: FacilitatorParts,
  exact: SolanaExact,
  { name, reply, now }: { name: string; reply: SettleReply; now: number },
): Promise<Settlement> {
  const { success, reason, named, isRefusal } = reply
  const signature = named !== undefined && fromBase58(named, 64) ? named : undefined
  const end = signature && (await endIn(parts, exact, signature, success ? parts.confirmMs : 0))
  if (end) return settlementOf(end)
  const fate = await fateOf(parts, exact, now)
  if (fate.kind === 'paid' || fate.kind === 'dead') return settlementOf(fate)
  if (success) return unknown(`${name} reports it as settled, but our node does not show it`)
  if (!isRefusal || parts.submitted.get(exact.key)) return unknown(`${name}: ${reason}`)
  const validity = await parts.reads.validity(exact.tx.blockhash, 'confirmed')
  return {
    kind: 'refused',
    reason: `${name}: ${reason}`,
    ...(validity.kind === 'validity' && !validity.valid && { code: 'PAYMENT_BLOCKHASH_STALE' as const }),
  }
}

/**
 * Outcome of the transaction that a facilitator named, if it is this payment's. Our node may be some blocks behind.
 */
async function endIn(parts: FacilitatorParts, exact: SolanaExact, signature: string, waitMs: number) {
  let pauseMs = parts.config.pollMs ?? 100
  for (let waitedMs = 0; ; waitedMs += pauseMs, pauseMs *= 1.5) {
    const result = await parts.reads.transaction(signature)
    if (result.kind === 'landed' && result.id !== exact.tx.id) return undefined
    if (result.kind === 'landed')
      return parts.fates.conclude(
        exact,
        isPayment(result, exact) ? { kind: 'paid', transaction: signature, slot: result.slot } : { kind: 'failed' },
      )
    if (parts.closing.signal.aborted || waitedMs + pauseMs > waitMs) return undefined
    await pause(pauseMs, parts.closing.signal)
  }
}

/** For a shared settlement: a later caller must not wait for a slow node forever. */
async function fateOf(parts: FacilitatorParts, exact: SolanaExact, now: number): Promise<Fate> {
  const stop = deadline(FATE_MS, [parts.closing.signal])
  const fate = await parts.fates.fate(exact, { now, signal: stop.signal })
  stop.end()
  return fate
}

async function fate(
  parts: FacilitatorParts,
  payment: Payment,
  offer: Offer,
  at: CallOptions & { readonly expiresAt?: number },
): Promise<Fate> {
  const exact = await parse(parts, payment, offer)
  return exact.kind === 'refused' ? unknown(exact.reason) : await parts.fates.fate(exact, at)
}

async function check(parts: FacilitatorParts, { now }: { now: number }): Promise<CheckResult> {
  const read = (body: unknown, isOk: boolean) => (isOk ? parseSolanaSupport(body, parts.network) : undefined)
  const [chain, ...replies] = await Promise.all([
    checkSolana(
      { rpc: parts.rpc, reads: parts.reads },
      { ...parts.config, network: parts.network, feePayers: [] },
      now,
    ),
    ...parts.facilitators.map(async (row) => ({
      row,
      response: await row.api.request('supported', { read, now, timeoutMs: parts.verifyMs }),
    })),
  ])
  const [first] = replies
  const pinned =
    parts.feePayer ??
    (first?.response.kind === 'result'
      ? first.response.value.signers.map(parseAddress).find((signer) => signer !== undefined)
      : undefined)
  const capable = replies
    .filter(
      ({ response }) =>
        response.kind === 'result' &&
        response.value.isSupported &&
        pinned !== undefined &&
        response.value.signers.includes(pinned),
    )
    .map(({ row }) => row)
  const problems = replies.flatMap(({ row: { name }, response }) => {
    if (response.kind === 'failure') return settingProblems(name, response)
    return response.value.isSupported ? [] : [`${name}.url: does not settle exact payments on ${parts.network}`]
  })
  if (chain.kind === 'wrong') return { kind: 'wrong', problems: [...chain.problems, ...problems] }
  if (problems.length > 0) return { kind: 'wrong', problems }
  if (chain.kind === 'unavailable') return chain
  const unreachable = replies.flatMap(({ row: { name }, response }) =>
    response.kind === 'failure' ? [`${name}.url: ${response.reason}`] : [],
  )
  if (!pinned && first?.response.kind === 'failure') return { kind: 'unavailable', reason: unreachable.join('; ') }
  if (!pinned) return { kind: 'wrong', problems: ['facilitators.0.url: names no fee payer'] }
  if (pinned === parts.payTo)
    return { kind: 'wrong', problems: [`pay_to: must not be the fee payer ${pinned}, which only pays fees`] }
  if (capable.length === 0 && unreachable.length > 0) return { kind: 'unavailable', reason: unreachable.join('; ') }
  if (capable.length === 0) return { kind: 'wrong', problems: [`fee_payer: no facilitator signs for ${pinned}`] }
  const others = replies
    .filter(({ row, response }) => response.kind === 'result' && !capable.includes(row))
    .map(({ row: { name } }) => `${name}.url: does not sign for the fee payer ${pinned}, so it cannot stand in`)
  await parts.blockhashes.refresh(now)
  parts.feePayer = pinned
  parts.signingApis = capable
  return { ...chain, warnings: [...chain.warnings, ...unreachable, ...others] }
}

function close(parts: FacilitatorParts): void {
  parts.closing.abort()
  for (const { api } of parts.facilitators) api.close()
  parts.rpc.close()
}

const balance = (parts: FacilitatorParts, address: string, { signal }: { signal: AbortSignal }) =>
  balanceOf(parts.reads, { address, mint: parts.mint }, signal)

const unknown = (reason: string): { kind: 'unknown'; reason: string } => ({ kind: 'unknown', reason })
