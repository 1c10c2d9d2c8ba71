import { usdc } from '../../../core/x402/money.ts'
import type { Chain, Fate, Settlement, Verdict } from '../../../core/ports/mod.ts'
import type { Terms } from '../../../core/x402/offer.ts'
import type { Offer, Payment } from '../../../core/x402/protocol.ts'
import { type Checked, checkEvm } from '../evm/check.ts'
import { chainIdOf, evmIdentity } from '../evm/identity.ts'
import {
  balanceCall,
  type ChainReceipt,
  type Domain,
  paidIn,
  payloadOf,
  readReceipt,
  stateCall,
} from '../evm/payload.ts'
import { evmReads, type Found, type ReadsConfig } from '../evm/reads.ts'
import { evmRpc, type RpcConfig } from '../evm/rpc.ts'
import { settlementOf } from '../evm/settle.ts'
import { type Exact, judgeExact, judgeValue, refused } from '../exact.ts'
import { type ApiConfig, blameIn, deadline, type FacilitatorRow, namedApis, type Said } from './api.ts'
import { readSettleReply, readSupported, type SettleReply } from './replies.ts'
import { firstVerdict, requestOf } from './verdict.ts'
import { flagIn, type Hex, lower, uintIn } from '../evm/hex.ts'
import { type Job, inFlight } from '../in_flight.ts'
import { lruCache } from '../lru_cache.ts'

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
  readonly lookMs?: number
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
    check(at: { now: number }): Promise<Checked>
    /** Ends pending requests; pending settlements resolve with `unknown`. */
    close(): void
  }

const FATE_MS = 8_000
const REMEMBERED = 10_000

type At = { readonly now: number; readonly signal: AbortSignal }

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
  const chainId = chainIdOf(config.network)
  const rpc = evmRpc({ ...config, url: config.rpcUrl })
  const reads = evmReads(rpc, config)
  const lagSeconds = config.lagSeconds ?? 4
  const identity = evmIdentity({ rpc, reads }, { network: config.network, lagSeconds })
  const facilitators = namedApis(config.facilitators, config)
  const verifyMs = config.verifyMs ?? 3_000
  const settleMs = config.settleMs ?? 20_000
  const confirmMs = config.confirmMs ?? 4_000
  const { network, asset, payTo, domain } = config
  const offered: readonly Terms[] = [
    { scheme: 'exact', network, asset, payTo, extra: { name: domain.name, version: domain.version } },
  ]
  const jobs = inFlight()
  /** Authorizations sent to a facilitator and not refused at once: if used, they may have been used by it. */
  const handed = lruCache<true>(REMEMBERED)
  const naps = new Set<() => void>()
  let terms: readonly Terms[] = []
  let closed = false

  async function verify(payment: Payment, offer: Offer, at: At): Promise<Verdict> {
    const given = identity.read(payment, offer)
    if ('kind' in given) return given
    const { exact } = given
    const bad = judgeExact(exact, offer, at.now, config.lookbackSeconds)
    if (bad) return bad
    const [said, holdings] = await Promise.all([
      firstVerdict(facilitators, requestOf(payloadOf(exact), offer), {
        now: at.now,
        timeoutMs: verifyMs,
        signal: at.signal,
      }),
      look(exact, offer, at.signal),
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
    if (said.kind !== 'valid') return said
    return {
      kind: 'valid',
      ...(balance !== undefined && { balance: usdc(balance) }),
      asOf: at.now,
      ...(block !== undefined && { block }),
    }
  }

  /** What our own node knows about the payer; empty when it does not answer in time. */
  async function look(
    exact: Exact,
    offer: Offer,
    signal: AbortSignal,
  ): Promise<{ balance?: bigint | undefined; isUsed?: boolean | undefined; block?: number | undefined }> {
    const token = lower(offer.asset)
    const calls = [
      { to: token, data: balanceCall(exact.from) },
      { to: token, data: stateCall(exact.from, exact.nonce) },
    ]
    const stop = deadline(verifyMs, [signal])
    const seen = await reads.view(calls, { lagSeconds, signal: stop.signal })
    stop.end()
    if (seen.kind === 'trouble') return {}
    return { balance: uintIn(seen.results[0]), isUsed: flagIn(seen.results[1]), block: seen.block }
  }

  async function settle(payment: Payment, offer: Offer, at: At): Promise<Settlement> {
    const given = identity.read(payment, offer)
    if ('kind' in given) return { kind: 'refused', reason: given.reason }
    const { exact, digest } = given
    const bad = judgeValue(exact, offer)
    if (bad) return { kind: 'refused', reason: bad.reason }
    if (at.signal.aborted || closed) return { kind: 'unknown', reason: 'no time left to settle' }
    if (at.now >= exact.expiresAt && !jobs.has(digest)) {
      return ended(await reads.fate(exact, offer, at.signal), exact, {
        kind: 'refused',
        reason: 'the authorization is expired',
      })
    }
    return await jobs.settle(digest, (job) => carry(exact, offer, { now: at.now, job }), at.signal)
  }

  /**
   * Sends it to the first reachable facilitator and to no other afterwards: that one may act on it whatever becomes of
   * its reply.
   */
  async function carry(exact: Exact, offer: Offer, { now, job }: { now: number; job: Job }): Promise<Settlement> {
    const troubles: string[] = []
    let isSent = false
    for (const { name, api } of facilitators) {
      if (job.callers === 0) break
      const said = await api.ask('settle', {
        body: requestOf(payloadOf(exact), offer),
        read: readSettleReply,
        now,
        timeoutMs: settleMs,
      })
      if (said.kind === 'said' ? !said.value.isRefusal : !said.unsent) handed.set(exact.key, true)
      if (said.kind === 'said') {
        job.isOut = false
        return conclude(exact, offer, { name, reply: said.value })
      }
      troubles.push(`${name}: ${said.reason}`)
      isSent = !said.unsent
      if (isSent) break
    }
    job.isOut = false
    return ended(await fateOf(exact, offer), exact, {
      kind: 'unknown',
      reason: `${isSent ? 'it may have been sent' : 'nothing was sent'}: ${troubles.join('; ')}`,
    })
  }

  /**
   * Believes a success once our node shows the transfer, and a refusal when nothing was sent or the transaction
   * reverted.
   */
  async function conclude(
    exact: Exact,
    offer: Offer,
    { name, reply }: { name: string; reply: SettleReply },
  ): Promise<Settlement> {
    const { success, word, transaction, isRefusal } = reply
    const receipt = transaction && (await receiptOf(transaction, success ? confirmMs : 0))
    const paid = receipt && paidIn(receipt, exact, offer)
    if (paid) {
      reads.hint(exact.key, receipt.transactionHash)
      return { kind: 'settled', receipt: paid }
    }
    const fate = await fateOf(exact, offer)
    if (success)
      return ended(fate, exact, {
        kind: 'unknown',
        reason: `${name} reports it as settled, but our node does not show it`,
      })
    const hasReverted = receipt !== undefined && !receipt.success
    return ended(fate, exact, { kind: hasReverted || isRefusal ? 'refused' : 'unknown', reason: `${name}: ${word}` })
  }

  function ended(
    fate: Found,
    { key }: Exact,
    whileOpen: Extract<Settlement, { kind: 'refused' | 'unknown' }>,
  ): Settlement {
    return settlementOf(fate, whileOpen, handed.get(key) === true)
  }

  /** For a shared settlement: a later caller must not wait for a slow node forever. */
  async function fateOf(exact: Exact, offer: Offer): Promise<Found> {
    const stop = deadline(FATE_MS, [])
    const found = await reads.fate(exact, offer, stop.signal)
    stop.end()
    return found
  }

  /** Our node may be some blocks behind the facilitator's. */
  async function receiptOf(transaction: Hex, waitMs: number): Promise<ChainReceipt | undefined> {
    let pause = config.lookMs ?? 100
    for (let waited = 0; ; waited += pause, pause *= 1.5) {
      const answer = await rpc.ask('eth_getTransactionReceipt', [transaction])
      const receipt = answer.kind === 'result' ? readReceipt(answer.value) : undefined
      if (receipt?.transactionHash === transaction) return receipt
      if (closed || waited + pause > waitMs) return undefined
      await nap(pause)
    }
  }

  async function fate(payment: Payment, offer: Offer, at: At): Promise<Fate> {
    const given = identity.read(payment, offer)
    if ('kind' in given) return { kind: 'unknown', reason: given.reason }
    return reads.fate(given.exact, offer, at.signal)
  }

  async function check({ now }: { now: number }): Promise<Checked> {
    const read = (body: unknown, isOk: boolean) => (isOk ? readSupported(body, config) : undefined)
    const [chain, ...replies] = await Promise.all([
      checkEvm(rpc, { ...config, chainId }),
      ...facilitators.map(async ({ name, api }) => ({
        name,
        said: await api.ask('supported', { read, now, timeoutMs: verifyMs }),
      })),
    ])
    const problems = replies.flatMap(({ name, said }) => problemOf(name, said, network))
    if (chain.kind === 'wrong') return { kind: 'wrong', problems: [...chain.problems, ...problems] }
    if (problems.length > 0) return { kind: 'wrong', problems }
    if (chain.kind === 'unavailable') return chain
    const away = replies.flatMap(({ name, said }) => (said.kind === 'trouble' ? [`${name}.url: ${said.reason}`] : []))
    if (away.length === replies.length) return { kind: 'unavailable', reason: away.join('; ') }
    await reads.foundMulticall(chain.multicall)
    terms = offered
    return { ...chain, warnings: [...chain.warnings, ...away] }
  }

  function nap(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer)
        naps.delete(end)
        resolve()
      }
      const timer = setTimeout(end, ms)
      naps.add(end)
    })
  }

  function close(): void {
    closed = true
    for (const { api } of facilitators) api.close()
    for (const end of naps) end()
    rpc.close()
  }

  const balance: FacilitatorChain['balance'] = (address, { signal }) =>
    reads.balance(asset, address, { lagSeconds, signal })
  return { terms: () => terms, identify: identity.identify, verify, settle, fate, balance, check, close }
}

function problemOf(name: string, said: Said<boolean>, network: string): readonly string[] {
  if (said.kind === 'trouble') return blameIn(name, said)
  return said.value ? [] : [`${name}.url: does not settle exact payments of this asset on ${network}`]
}
