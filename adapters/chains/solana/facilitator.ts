import type { CallOptions, CheckResult } from '../lib/results.ts'
import { solanaFamily } from './family.ts'
import { type Offer, type Payment, type Terms, usdc } from '../../../core/x402/mod.ts'
import type { Chain, Fate, Identity, Refused, Settlement, Verdict } from '../../../core/ports/mod.ts'
import { jsonRpc, type RpcConfig } from '../lib/json_rpc.ts'
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
import { boundedMap } from '../../../core/lib/mod.ts'
import { balanceOf, networkOf, type SolanaChain } from './mod.ts'
import { checkSolana } from './check.ts'
import { findByScan, type FateConfig, solanaFates } from './exact/fate.ts'
import { BLOCKHASH_LIFE_MS, blockhashTracker } from './node/blockhash.ts'
import { isValidProof, signedOn } from './node/keys.ts'
import { type FeeLimits, checkPayment, type SolanaExact } from './exact/payload.ts'
import { parseTokenAccount, isPayment, solanaReads } from './node/reads.ts'
import { settlementOf, sleep } from './exact/settle.ts'
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
  const fates = solanaFates({ reads, find }, { ...config, network })
  const facilitators = namedApis(config.facilitators, config)
  const [verifyMs, settleMs, confirmMs] = [
    config.verifyMs ?? 3_000,
    config.settleMs ?? 20_000,
    config.confirmMs ?? 4_000,
  ]
  const settlements = new Map<string, Promise<Settlement>>()
  /** Payments sent to a facilitator and not refused at once. */
  const submitted = boundedMap<true>(MAX_REMEMBERED)
  const closing = new AbortController()
  let feePayer = config.feePayer === undefined ? undefined : parseAddress(config.feePayer)
  if (config.feePayer !== undefined && !feePayer) throw new RangeError('fee_payer is not an address')
  /** Facilitators that sign for the offered fee payer. */
  let signingApis: readonly NamedApi[] = []

  const termsFor = solanaTerms({ network, mint, payTo })

  function terms(now: number): readonly Terms[] {
    if (signingApis.length === 0) return []
    return termsFor(feePayer, blockhashes.extra(now))
  }

  /** Offers are our own: each names the fee payer pinned when it was made. */
  function parse(payment: Payment, offer: Offer, limits?: FeeLimits): Promise<SolanaExact | Refused> {
    const named = parseAddress(offer.extra?.feePayer)
    return checkPayment(payment, offer, { network, feePayers: named ? [named] : [], ...(limits && { limits }) })
  }

  async function identify(payment: Payment, offer: Offer, { now }: CallOptions): Promise<Identity> {
    const exact = await parse(payment, offer)
    if (exact.kind === 'refused') return exact
    const { payer, key, tx } = exact
    const first = fates.firstSeenAt(key, now)
    return { kind: 'known', payer, key, expiresAt: blockhashes.expiryOf(tx.blockhash) ?? first + BLOCKHASH_LIFE_MS }
  }

  async function verify(payment: Payment, offer: Offer, at: CallOptions): Promise<Verdict> {
    const exact = await parse(payment, offer, FACILITATOR_LIMITS)
    if (exact.kind === 'refused') return exact
    const { key, source, tx, amount } = exact
    fates.firstSeenAt(key, at.now)
    const end = fates.finalFate(key)
    if (end) return end.kind === 'dead' && end.code ? stale(BLOCKHASH_EXPIRED) : replayed()
    const stop = deadline(verifyMs, [at.signal])
    const requests = [
      firstVerdict(signingApis, requestOf({ transaction: serializeTransaction(tx) }, offer), {
        now: at.now,
        timeoutMs: verifyMs,
        signal: at.signal,
      }),
      reads.accounts([source], { commitment: 'confirmed', signal: stop.signal }),
      reads.validity(tx.blockhash, 'confirmed', stop.signal),
    ] as const
    const [response, bank, validity] = await Promise.all(requests)
    stop.end()
    const fresh =
      bank.kind === 'accounts' && nodeProblem(bank, { now: at.now, lagSeconds: config.lagSeconds ?? 30 }) === undefined
        ? bank
        : undefined
    const balance = fresh && (parseTokenAccount(fresh.found[0], exact.mint)?.amount ?? 0n)
    if (response.kind !== 'valid' && validity.kind === 'validity' && fresh && !validity.valid)
      return stale(BLOCKHASH_EXPIRED)
    if (balance !== undefined && balance < amount) return unfunded(exact, balance)
    if (response.kind !== 'valid')
      return response.kind === 'refused' && fates.conclude(exact, await quickFind(exact, at)) ? replayed() : response
    return {
      kind: 'valid',
      ...(balance !== undefined && { balance: usdc(balance) }),
      asOf: fresh ? bankTime(fresh, at.now) : at.now,
      ...(fresh && { block: fresh.slot }),
    }
  }

  async function settle(payment: Payment, offer: Offer, { now, signal }: CallOptions): Promise<Settlement> {
    const exact = await parse(payment, offer, FACILITATOR_LIMITS)
    if (exact.kind === 'refused') return { kind: 'refused', reason: exact.reason }
    fates.firstSeenAt(exact.key, now)
    const end = fates.finalFate(exact.key)
    if (end) return settlementOf(end)
    if (signal.aborted || closing.signal.aborted) return unknown('no time left to settle')
    const order = { offer, now }
    const earlier = settlements.get(exact.key)
    const outcome = await wait(earlier ?? begin(exact, order), signal)
    if (!earlier || outcome.kind !== 'unknown' || signal.aborted) return outcome
    return await wait(settlements.get(exact.key) ?? begin(exact, order), signal)
  }

  function wait(settlement: Promise<Settlement>, signal: AbortSignal): Promise<Settlement> {
    return Promise.race([settlement, unknownOnAbort(signal, settlement, 'no outcome in time')])
  }

  /** Runs to its end whether or not a caller still waits; a payment under way is not sent twice. */
  function begin(exact: SolanaExact, order: { offer: Offer; now: number }): Promise<Settlement> {
    const settlement = send(exact, order).catch(() => unknown('its outcome could not be determined'))
    settlements.set(exact.key, settlement)
    void settlement.then(() => settlements.delete(exact.key))
    return settlement
  }

  /**
   * Sends it to the first reachable facilitator and to no other afterwards: that one may act on it whatever becomes of
   * its reply.
   */
  async function send(exact: SolanaExact, { offer, now }: { offer: Offer; now: number }): Promise<Settlement> {
    if (submitted.get(exact.key)) {
      const fate = await fateOf(exact, now)
      if (fate.kind === 'paid' || fate.kind === 'dead') return settlementOf(fate)
    }
    const failures: string[] = []
    for (const { name, api } of signingApis) {
      const response = await api.request('settle', {
        body: requestOf({ transaction: serializeTransaction(exact.tx) }, offer),
        read: parseSettleReply,
        now,
        timeoutMs: settleMs,
      })
      if (response.kind === 'result' ? !response.value.isRefusal : !response.unsent) submitted.set(exact.key, true)
      if (response.kind === 'result') return await conclude(exact, { name, reply: response.value, now })
      failures.push(`${name}: ${response.reason}`)
      if (!response.unsent) break
    }
    const fate = await fateOf(exact, now)
    if (fate.kind === 'paid' || fate.kind === 'dead') return settlementOf(fate)
    return unknown(`${submitted.get(exact.key) ? 'it may have been sent' : 'nothing was sent'}: ${failures.join('; ')}`)
  }

  /** Believes a success once our node shows the transfer, and a refusal when nothing can have been sent. */
  async function conclude(
    exact: SolanaExact,
    { name, reply, now }: { name: string; reply: SettleReply; now: number },
  ): Promise<Settlement> {
    const { success, reason, named, isRefusal } = reply
    const signature = named !== undefined && fromBase58(named, 64) ? named : undefined
    const end = signature && (await endIn(exact, signature, success ? confirmMs : 0))
    if (end) return settlementOf(end)
    const fate = await fateOf(exact, now)
    if (fate.kind === 'paid' || fate.kind === 'dead') return settlementOf(fate)
    if (success) return unknown(`${name} reports it as settled, but our node does not show it`)
    if (!isRefusal || submitted.get(exact.key)) return unknown(`${name}: ${reason}`)
    const validity = await reads.validity(exact.tx.blockhash, 'confirmed')
    return {
      kind: 'refused',
      reason: `${name}: ${reason}`,
      ...(validity.kind === 'validity' && !validity.valid && { code: 'PAYMENT_BLOCKHASH_STALE' as const }),
    }
  }

  /**
   * Outcome of the transaction that a facilitator named, if it is this payment's. Our node may be some blocks behind.
   */
  async function endIn(exact: SolanaExact, signature: string, waitMs: number) {
    let pauseMs = config.pollMs ?? 100
    for (let waitedMs = 0; ; waitedMs += pauseMs, pauseMs *= 1.5) {
      const result = await reads.transaction(signature)
      if (result.kind === 'landed' && result.id !== exact.tx.id) return undefined
      if (result.kind === 'landed')
        return fates.conclude(
          exact,
          isPayment(result, exact) ? { kind: 'paid', transaction: signature, slot: result.slot } : { kind: 'failed' },
        )
      if (closing.signal.aborted || waitedMs + pauseMs > waitMs) return undefined
      await sleep(pauseMs, closing.signal)
    }
  }

  /** For a shared settlement: a later caller must not wait for a slow node forever. */
  async function fateOf(exact: SolanaExact, now: number): Promise<Fate> {
    const stop = deadline(FATE_MS, [closing.signal])
    const fate = await fates.fate(exact, { now, signal: stop.signal })
    stop.end()
    return fate
  }

  async function fate(
    payment: Payment,
    offer: Offer,
    at: CallOptions & { readonly expiresAt?: number },
  ): Promise<Fate> {
    const exact = await parse(payment, offer)
    return exact.kind === 'refused' ? unknown(exact.reason) : await fates.fate(exact, at)
  }

  async function check({ now }: { now: number }): Promise<CheckResult> {
    const read = (body: unknown, isOk: boolean) => (isOk ? parseSolanaSupport(body, network) : undefined)
    const [chain, ...replies] = await Promise.all([
      checkSolana({ rpc, reads }, { ...config, network, feePayers: [] }, now),
      ...facilitators.map(async (row) => ({
        row,
        response: await row.api.request('supported', { read, now, timeoutMs: verifyMs }),
      })),
    ])
    const [first] = replies
    const pinned =
      feePayer ??
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
      return response.value.isSupported ? [] : [`${name}.url: does not settle exact payments on ${network}`]
    })
    if (chain.kind === 'wrong') return { kind: 'wrong', problems: [...chain.problems, ...problems] }
    if (problems.length > 0) return { kind: 'wrong', problems }
    if (chain.kind === 'unavailable') return chain
    const unreachable = replies.flatMap(({ row: { name }, response }) =>
      response.kind === 'failure' ? [`${name}.url: ${response.reason}`] : [],
    )
    if (!pinned && first?.response.kind === 'failure') return { kind: 'unavailable', reason: unreachable.join('; ') }
    if (!pinned) return { kind: 'wrong', problems: ['facilitators.0.url: names no fee payer'] }
    if (pinned === payTo)
      return { kind: 'wrong', problems: [`pay_to: must not be the fee payer ${pinned}, which only pays fees`] }
    if (capable.length === 0 && unreachable.length > 0) return { kind: 'unavailable', reason: unreachable.join('; ') }
    if (capable.length === 0) return { kind: 'wrong', problems: [`fee_payer: no facilitator signs for ${pinned}`] }
    const others = replies
      .filter(({ row, response }) => response.kind === 'result' && !capable.includes(row))
      .map(({ row: { name } }) => `${name}.url: does not sign for the fee payer ${pinned}, so it cannot stand in`)
    await blockhashes.refresh(now)
    feePayer = pinned
    signingApis = capable
    return { ...chain, warnings: [...chain.warnings, ...unreachable, ...others] }
  }

  function close(): void {
    closing.abort()
    for (const { api } of facilitators) api.close()
    rpc.close()
  }

  const balance = (address: string, { signal }: { signal: AbortSignal }) => balanceOf(reads, { address, mint }, signal)
  return {
    families: [solanaFamily],
    terms,
    identify,
    verify,
    settle,
    fate,
    balance,
    proves: isValidProof,
    hasSigned: signedOn(config.network),
    check,
    refresh: ({ now }) => blockhashes.refresh(now),
    close,
  }
}

const unknown = (reason: string): { kind: 'unknown'; reason: string } => ({ kind: 'unknown', reason })
