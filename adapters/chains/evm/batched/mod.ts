import { addressProblem, parseAddress } from '../node/address.ts'
import { evmFamily } from '../family.ts'
import { type CallOptions, type CheckResult, unavailable } from '../../lib/results.ts'
import { chainIdOf } from '../exact/eip3009.ts'
import { boundedMap, type BoundedMap, checksummed } from '../../../../core/lib/mod.ts'
import { type Offer, type Payment, type Receipt, type Terms, type Usdc, usdc } from '../../../../core/x402/mod.ts'
import type { Chain, Fate, Identity, Log, Settlement, Unavailable, Verdict } from '../../../../core/ports/mod.ts'
import {
  BATCHED,
  type BatchedApi,
  batchedApi,
  type BatchedNetwork,
  DOMAINS,
  PAID_STATUSES,
  type BatchedSettleReply,
} from './api.ts'
import {
  batchedPayments,
  type BatchedPayment,
  checkAuthorization,
  checkSignature,
  refused,
  settleRequest,
} from './payload.ts'
import { transferMonitor, type TransferMonitor } from './transfer_monitor.ts'
import { checkValue } from '../exact/payload.ts'
import type { ApiConfig, ApiFailure, ApiResult } from '../../facilitator/api.ts'
import { lower } from '../../lib/hex.ts'
import { type InFlightSettlements, type PendingSettlement, inFlightSettlements } from '../../lib/in_flight.ts'

/** Configuration of one gateway whose payments Circle Gateway batches (nanopayments). */
export type BatchedConfig = {
  /** `https://gateway-api.circle.com`, or the testnet API. It appears in no message. */
  readonly apiUrl: string
  /** CAIP-2 networks, preferred first, at most `MAX_NETWORKS`. Empty: those that the API supports, in its order. */
  readonly networks: readonly string[]
  /** The account credited in the Gateway, on whichever network is paid. */
  readonly payTo: string
  /** Circle's domain numbers of networks missing in `DOMAINS`, by CAIP-2. */
  readonly domains?: Readonly<Record<string, number>>
  /** The resource named in settlements: the gateway's public origin. */
  readonly resource?: string
  /** Deadline of one read. Default 3 s. */
  readonly verifyMs?: number
  /** Deadline of one settlement. Default 20 s: less than the caller has, because the outcome is read afterwards. */
  readonly settleMs?: number
  /** How often `refresh` reads the supported networks (default 5 min) and checks past transfers (default 1 min). */
  readonly networksRefreshMs?: number
  readonly transfersPollMs?: number
  readonly alert: Log['alert']
} & Omit<ApiConfig, 'random'>

export type BatchedChain = Chain &
  Required<Pick<Chain, 'balance'>> & {
    /** Compares the configuration with what the API supports. When it passes, terms open and stay open. */
    check(at: { now: number }): Promise<CheckResult>
    /**
     * Updates the terms, and alerts when a payment that counted as paid has failed or is still pending after a day.
     * Call it every few seconds; it decides itself when work is due. Never rejects.
     */
    refresh(at: { now: number }): Promise<void>
    /** Ends pending requests; pending settlements resolve with `unknown`. */
    close(): void
  }

/**
 * Three headers repeat all offers, and Node's fetch reads 16 KiB of them (decision 45); other payment methods need room
 * too.
 */
export const MAX_NETWORKS = 6

const MAX_REMEMBERED = 10_000

/** Answer of the API about an authorization. */
type TransferSearch =
  | { readonly kind: 'paid'; readonly receipt: Receipt }
  /** Its nonce is used, and not for us. */
  | { readonly kind: 'dead' }
  /** `isExpired` also by the API's own clock, if it reports one: it refuses whatever arrives after this answer. */
  | { readonly kind: 'none'; readonly isExpired: boolean }
  | { readonly kind: 'failure'; readonly reason: string }

/** State of `batchedChain`. */
type BatchedParts = {
  readonly config: BatchedConfig
  readonly payTo: string
  readonly resource: string
  readonly verifyMs: number
  readonly settleMs: number
  readonly networksRefreshMs: number
  readonly transfersPollMs: number
  readonly domainNumbers: { [x: string]: number }
  readonly api: BatchedApi
  readonly monitor: TransferMonitor
  readonly settlements: InFlightSettlements
  /** Payments known to be paid; they stay so, whatever the API shows later. */
  readonly paid: BoundedMap<Receipt>
  /** Authorizations sent to the API and not refused at once: if used, they may have been used by us. */
  readonly submitted: BoundedMap<true>
  supportedNetworks: Map<string, BatchedNetwork>
  terms: readonly Terms[]
  isOpen: boolean
  networksReadAt: number
  transfersPolledAt: number
  /** The latest time passed in. */
  latestNow: number
  closed: boolean
  readonly parse: ReturnType<typeof batchedPayments>['parse']
}

/**
 * USDC from deposits in Circle Gateway. The API holds the money, so its answers are final, and a received transfer
 * counts as paid. Throws RangeError, without quoting the value, when the URL or a network is malformed.
 *
 * @example
 * const chain = batchedChain({
 *   apiUrl: 'https://gateway-api-testnet.circle.com',
 *   networks: ['eip155:84532'],
 *   payTo: '0x209693Bc6afc0C5328bA36FaF03C514EF312287C',
 *   alert: consoleLog.alert,
 * })
 * await chain.check({ now: Date.now() })
 */
export function batchedChain(config: BatchedConfig): BatchedChain {
  const {
    payTo,
    resource = 'https://localhost/',
    verifyMs = 3_000,
    settleMs = 20_000,
    networksRefreshMs = 300_000,
    transfersPollMs = 60_000,
  } = config

  for (const network of config.networks) chainIdOf(network)
  if (config.networks.length > MAX_NETWORKS)
    throw new RangeError(`networks: has ${config.networks.length} entries; at most ${MAX_NETWORKS} are allowed`)
  const api = createApi(config)

  const { parse } = batchedPayments((network) => parts.supportedNetworks.get(network)?.minValiditySeconds)
  const parts: BatchedParts = {
    config,
    payTo,
    resource,
    verifyMs,
    settleMs,
    networksRefreshMs,
    transfersPollMs,
    domainNumbers: { ...DOMAINS, ...config.domains },
    api,
    monitor: transferMonitor(api, { payTo, alert: config.alert }),
    settlements: inFlightSettlements(),
    paid: boundedMap<Receipt>(MAX_REMEMBERED),
    submitted: boundedMap<true>(MAX_REMEMBERED),
    supportedNetworks: new Map<string, BatchedNetwork>(),
    terms: [],
    isOpen: false,
    networksReadAt: 0,
    transfersPolledAt: 0,
    latestNow: 0,
    closed: false,
    parse,
  }
  return {
    families: [evmFamily],
    terms: () => (parts.isOpen ? parts.terms : []),
    identify: (payment, offer) => identify(parts, payment, offer),
    verify: (...args) => verify(parts, ...args),
    settle: (...args) => settle(parts, ...args),
    fate: (...args) => fate(parts, ...args),
    balance: (...args) => balance(parts, ...args),
    check: (...args) => check(parts, ...args),
    refresh: (...args) => refresh(parts, ...args),
    close: () => close(parts),
  }
}

/** The deposit on the network that is offered first. */
async function balance(parts: BatchedParts, address: string, { signal }: { signal: AbortSignal }): Promise<Usdc> {
  const depositor = parseAddress(address)
  const [first] = parts.terms
  const deposit = first
    ? await depositOf(parts, depositor, first.network, { now: parts.latestNow, signal })
    : unavailable('no network is offered yet')
  if (typeof deposit !== 'bigint') throw new Error(deposit.reason)
  return usdc(deposit)
}

async function identify(parts: BatchedParts, payment: Payment, offer: Offer): Promise<Identity> {
  const parsed = parts.parse(payment, offer)
  if ('kind' in parsed) return parsed
  const refusal = await checkSignature(parsed)
  if (refusal) return refusal
  const { exact, key, wallet, endsAt } = parsed
  return { kind: 'known', payer: checksummed(exact.from), key, expiresAt: endsAt, fundedBy: wallet }
}

/** The API's own /verify is not used: it checks neither balance nor nonce, and everything else is checked here. */
async function verify(parts: BatchedParts, payment: Payment, offer: Offer, at: CallOptions): Promise<Verdict> {
  const parsed = parts.parse(payment, offer)
  if ('kind' in parsed) return parsed
  const refusal = checkAuthorization(parsed, offer, at.now)
  if (refusal) return refusal
  parts.latestNow = at.now
  const { exact } = parsed
  const [deposit, found] = await Promise.all([
    depositOf(parts, exact.from, offer.network, at),
    find(parts, parsed, offer, at),
  ])
  if (found.kind !== 'none' && found.kind !== 'failure')
    return refused('PAYMENT_REPLAY', 'nonce_already_used', `${exact.from} has used this nonce`)
  if (found.kind === 'failure') return unavailable(found.reason)
  if (typeof deposit !== 'bigint') return deposit
  if (deposit < exact.value)
    return refused(
      'PAYMENT_UNFUNDED',
      'insufficient_balance',
      `the payer has ${deposit} base units in the Gateway; the price is ${exact.value}`,
    )
  return { kind: 'valid', balance: usdc(deposit), asOf: at.now }
}

async function depositOf(
  parts: BatchedParts,
  depositor: string,
  network: string,
  at: CallOptions,
): Promise<bigint | Unavailable> {
  const domain = parts.domainNumbers[network]
  if (domain === undefined)
    return unavailable(`the deposit on ${network} cannot be read: its domain number is not configured`)
  const response = await parts.api.deposit({ depositor, domain }, { ...at, timeoutMs: parts.verifyMs })
  return response.kind === 'result' ? response.value : unavailable(response.reason)
}

/** Finds the transfer of an authorization. A list with other transfers was not filtered, so it proves nothing. */
async function find(
  parts: BatchedParts,
  parsed: BatchedPayment,
  offer: Offer,
  at: { now: number; signal?: AbortSignal },
): Promise<TransferSearch> {
  const { exact, endsAt } = parsed
  const { from, nonce } = exact
  const response = await parts.api.transfers(
    { from, nonce, network: offer.network },
    { ...at, timeoutMs: parts.verifyMs },
  )
  if (response.kind === 'failure') return { kind: 'failure', reason: response.reason }
  const { list, clock = at.now } = response.value
  if (list.length === 0) return { kind: 'none', isExpired: Math.min(clock, at.now) >= endsAt }
  const isFiltered = list.every(
    (each) => lower(each.fromAddress) === from && lower(each.nonce) === nonce && each.sendingNetwork === offer.network,
  )
  if (!isFiltered) return { kind: 'failure', reason: "the API's list contains other transfers than requested" }
  const ours = list.filter(({ toAddress, amount }) => lower(toAddress) === exact.to && BigInt(amount) === exact.value)
  const paidTransfer = ours.find(({ status }) => PAID_STATUSES.includes(status))
  if (paidTransfer) return { kind: 'paid', receipt: rememberPaid(parts, parsed, offer, paidTransfer.id) }
  const hasUnknownStatus = ours.some(({ status }) => status !== 'failed')
  return hasUnknownStatus ? { kind: 'failure', reason: "the API's transfer has an unknown status" } : { kind: 'dead' }
}

function rememberPaid(
  parts: BatchedParts,
  { key, exact }: BatchedPayment,
  { network }: Offer,
  transaction: string,
): Receipt {
  const receipt = parts.paid.get(key) ?? {
    transaction,
    network,
    payer: checksummed(exact.from),
    amount: String(exact.value),
  }
  parts.paid.set(key, receipt)
  return receipt
}

async function settle(parts: BatchedParts, payment: Payment, offer: Offer, at: CallOptions): Promise<Settlement> {
  const parsed = parts.parse(payment, offer)
  if ('kind' in parsed) return { kind: 'refused', reason: parsed.reason }
  const refusal = checkValue(parsed.exact, offer)
  if (refusal) return { kind: 'refused', reason: refusal.reason }
  const receipt = parts.paid.get(parsed.key)
  if (receipt) return { kind: 'settled', receipt }
  if (at.signal.aborted || parts.closed) return { kind: 'unknown', reason: 'no time left to settle' }
  if (at.now >= parsed.endsAt && !parts.settlements.has(parsed.digest))
    return settlementFrom(await find(parts, parsed, offer, at), {
      kind: 'refused',
      reason: 'the authorization is expired',
    })
  return await parts.settlements.settle(
    parsed.digest,
    (pending) => send(parts, parsed, offer, { now: at.now, pending }),
    at.signal,
  )
}

async function send(
  parts: BatchedParts,
  parsed: BatchedPayment,
  offer: Offer,
  { now, pending }: { now: number; pending: PendingSettlement },
): Promise<Settlement> {
  const { key, exact } = parsed
  const response = await parts.api.settle(settleRequest(exact, offer, parts.resource), {
    now,
    timeoutMs: parts.settleMs,
  })
  pending.isSending = false
  const sent = response.kind === 'result' ? response.value : response
  if (sent.kind === 'accepted') return { kind: 'settled', receipt: rememberPaid(parts, parsed, offer, sent.transfer) }
  if (sent.kind === 'failure' && !sent.unsent) parts.submitted.set(key, true)
  return settlementFrom(await find(parts, parsed, offer, { now }), outcomeOf(sent, parts.submitted.get(key) === true))
}

async function fate(parts: BatchedParts, payment: Payment, offer: Offer, at: CallOptions): Promise<Fate> {
  const parsed = parts.parse(payment, offer)
  if ('kind' in parsed) return { kind: 'unknown', reason: parsed.reason }
  const receipt = parts.paid.get(parsed.key)
  if (receipt) return { kind: 'paid', receipt }
  const found = await find(parts, parsed, offer, at)
  if (found.kind === 'none') return { kind: found.isExpired ? 'dead' : 'open' }
  return found.kind === 'failure' ? { kind: 'unknown', reason: found.reason } : found
}

async function check(parts: BatchedParts, { now }: { now: number }): Promise<CheckResult> {
  const problems = addressProblem('pay_to', parts.payTo)
  if (problems.length > 0) return { kind: 'wrong', problems }
  const response = await refreshNetworks(parts, now)
  if (response.kind === 'failure')
    return response.setting
      ? { kind: 'wrong', problems: [`api_url: ${response.reason}`] }
      : { kind: 'unavailable', reason: response.reason }
  const networkNames = response.value.map(({ network }) => network)
  const missing = parts.config.networks
    .filter((network) => !networkNames.includes(network))
    .map((network) => `networks: ${network} is not supported by the API`)
  const contracts = response.value.flatMap(({ asset, wallet }) => [lower(asset), lower(wallet)])
  const payToProblems = contracts.includes(lower(parts.payTo)) ? ['pay_to: must not be a contract of the API'] : []
  const withoutDomain = networkNames.filter((network) => parts.domainNumbers[network] === undefined)
  const missingDomains = withoutDomain
    .filter((network) => parts.config.networks.includes(network))
    .map((network) => `networks: ${network} needs its domain number in domains`)
  const allProblems = [
    ...missing,
    ...missingDomains,
    ...payToProblems,
    ...(networkNames.length === 0 ? ['api_url: the API supports no network'] : []),
  ]
  if (allProblems.length > 0) return { kind: 'wrong', problems: allProblems }
  const offered = parts.terms.map(({ network }) => network)
  const notOffered =
    parts.config.networks.length === 0 ? networkNames.filter((network) => !offered.includes(network)) : []
  const warnings =
    notOffered.length > 0
      ? [`networks: ${notOffered.join(', ')} are not offered; list the networks to offer, at most ${MAX_NETWORKS}`]
      : []
  parts.isOpen = true
  return { kind: 'ready', warnings }
}

async function refreshNetworks(parts: BatchedParts, now: number): Promise<ApiResult<readonly BatchedNetwork[]>> {
  parts.networksReadAt = parts.latestNow = now
  const response = await parts.api.supported({ now, timeoutMs: parts.verifyMs })
  if (response.kind === 'failure' || response.value.length === 0) return response
  parts.supportedNetworks = new Map(response.value.map((each) => [each.network, each]))
  const wanted = parts.config.networks.length > 0 ? parts.config.networks : [...parts.supportedNetworks.keys()]
  const found = wanted.flatMap((network) =>
    parts.domainNumbers[network] === undefined ? [] : (parts.supportedNetworks.get(network) ?? []),
  )
  parts.terms = found.slice(0, MAX_NETWORKS).map(({ network, asset, wallet, minValiditySeconds }) => {
    return {
      scheme: 'exact',
      network,
      asset,
      payTo: parts.payTo,
      extra: { ...BATCHED, verifyingContract: wallet },
      minValiditySeconds,
    }
  })
  return response
}

async function refresh(parts: BatchedParts, { now }: { now: number }): Promise<void> {
  parts.latestNow = now
  if (parts.isOpen && now >= parts.networksReadAt + parts.networksRefreshMs) await refreshNetworks(parts, now)
  if (now < parts.transfersPolledAt + parts.transfersPollMs) return
  parts.transfersPolledAt = now
  await parts.monitor.poll({ now, timeoutMs: parts.verifyMs })
}

function close(parts: BatchedParts): void {
  parts.closed = true
  parts.api.close()
}

type NotAccepted = Exclude<BatchedSettleReply, { kind: 'accepted' }> | ApiFailure

function settlementFrom(
  found: TransferSearch,
  whileOpen: Extract<Settlement, { kind: 'refused' | 'unknown' }>,
): Settlement {
  if (found.kind === 'paid') return { kind: 'settled', receipt: found.receipt }
  if (found.kind === 'dead')
    return {
      kind: 'refused',
      reason: 'the authorization is dead: its nonce was used for another transfer, or its transfer failed',
    }
  return whileOpen
}

/**
 * A refusal is not final if the authorization may have been accepted before: the API checks the balance before the
 * nonce.
 */
function outcomeOf(response: NotAccepted, wasSubmitted: boolean): Extract<Settlement, { kind: 'refused' | 'unknown' }> {
  if (response.kind === 'failure')
    return {
      kind: 'unknown',
      reason: `${response.unsent ? 'nothing was sent' : 'it may have been sent'}: ${response.reason}`,
    }
  if (response.kind === 'used' || wasSubmitted)
    return { kind: 'unknown', reason: `${response.reason}: the authorization may have been taken before` }
  return { kind: 'refused', reason: `${response.reason}: the API refused the payment` }
}

/** Errors never quote the URL. */
function createApi(config: BatchedConfig): BatchedApi {
  try {
    // a verdict takes two requests
    return batchedApi(config.apiUrl, { failures: 10, ...config })
  } catch (error) {
    throw new RangeError(`api_${(error as Error).message}`)
  }
}
