import { usdc } from '../../../core/x402/money.ts'
import type { Chain, Fate, Identity, Log, Settlement, Unavailable, Verdict } from '../../../core/ports/mod.ts'
import type { Terms } from '../../../core/x402/offer.ts'
import type { Offer, Payment, Receipt } from '../../../core/x402/protocol.ts'
import { BATCHED, type BatchedApi, batchedApi, type Batching, DOMAINS, LIVING, type Sent } from './api.ts'
import { batchedPayload, type Given, judge, judgeSignature, refusal, settleRequest } from './payload.ts'
import { batchedWatch } from './watch.ts'
import { addressProblem, type Checked } from '../evm/check.ts'
import { chainIdOf, unavailable } from '../evm/identity.ts'
import { checksummed } from '../evm/payload.ts'
import { addressOf, judgeValue } from '../exact.ts'
import type { ApiConfig, ApiTrouble, Said } from '../facilitator/api.ts'
import { lower } from '../evm/hex.ts'
import { type Job, inFlight } from '../in_flight.ts'
import { lruCache } from '../lru_cache.ts'

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
  readonly learnMs?: number
  readonly watchMs?: number
  readonly alert: Log['alert']
} & Omit<ApiConfig, 'random'>

export type BatchedChain = Chain &
  Required<Pick<Chain, 'balance'>> & {
    /** Compares the configuration with what the API supports. When it passes, terms open and stay open. */
    check(at: { now: number }): Promise<Checked>
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

const REMEMBERED = 10_000

type At = { readonly now: number; readonly signal: AbortSignal }

/** What the API knows about an authorization. */
type Found =
  | { readonly kind: 'paid'; readonly receipt: Receipt }
  /** Its nonce is used, and not for us. */
  | { readonly kind: 'dead' }
  /** `isExpired` also by the API's own clock, if it reports one: it refuses whatever arrives after this answer. */
  | { readonly kind: 'none'; readonly isOver: boolean }
  | { readonly kind: 'trouble'; readonly reason: string }

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
    learnMs = 300_000,
    watchMs = 60_000,
  } = config
  const numbers = { ...DOMAINS, ...config.domains }
  for (const network of config.networks) chainIdOf(network)
  if (config.networks.length > MAX_NETWORKS)
    throw new RangeError(`networks: has ${config.networks.length} entries; at most ${MAX_NETWORKS} are allowed`)
  const api = apiAt(config)
  const watch = batchedWatch(api, { payTo, alert: config.alert })
  const jobs = inFlight()
  /** Payments known to be paid; they stay so, whatever the API shows later. */
  const paid = lruCache<Receipt>(REMEMBERED)
  /** Authorizations sent to the API and not refused at once: if used, they may have been used by us. */
  const handed = lruCache<true>(REMEMBERED)
  let batchings = new Map<string, Batching>()
  let terms: readonly Terms[] = []
  let isOpen = false
  let [learnedAt, watchedAt] = [0, 0]
  /** The latest time passed in. */
  let today = 0
  let closed = false
  const { read } = batchedPayload((network) => batchings.get(network)?.minValiditySeconds)

  async function identify(payment: Payment, offer: Offer): Promise<Identity> {
    const given = read(payment, offer)
    if ('kind' in given) return given
    const bad = await judgeSignature(given)
    if (bad) return bad
    const { exact, key, wallet, endsAt } = given
    return { kind: 'known', payer: checksummed(exact.from), key, expiresAt: endsAt, purse: wallet }
  }

  /** The API's own /verify is not used: it checks neither balance nor nonce, and everything else is checked here. */
  async function verify(payment: Payment, offer: Offer, at: At): Promise<Verdict> {
    const given = read(payment, offer)
    if ('kind' in given) return given
    const bad = judge(given, offer, at.now)
    if (bad) return bad
    today = at.now
    const { exact } = given
    const [held, found] = await Promise.all([depositOf(exact.from, offer.network, at), find(given, offer, at)])
    if (found.kind !== 'none' && found.kind !== 'trouble')
      return refusal('PAYMENT_REPLAY', 'nonce_already_used', `${exact.from} has used this nonce`)
    if (found.kind === 'trouble') return unavailable(found.reason)
    if (typeof held !== 'bigint') return held
    if (held < exact.value)
      return refusal(
        'PAYMENT_UNFUNDED',
        'insufficient_balance',
        `the payer has ${held} base units in the Gateway; the price is ${exact.value}`,
      )
    return { kind: 'valid', balance: usdc(held), asOf: at.now }
  }

  async function depositOf(depositor: string, network: string, at: At): Promise<bigint | Unavailable> {
    const domain = numbers[network]
    if (domain === undefined)
      return unavailable(`the deposit on ${network} cannot be read: its domain number is not configured`)
    const said = await api.deposit({ depositor, domain }, { ...at, timeoutMs: verifyMs })
    return said.kind === 'said' ? said.value : unavailable(said.reason)
  }

  /** Finds the transfer of an authorization. A list with other transfers was not filtered, so it proves nothing. */
  async function find(given: Given, offer: Offer, at: { now: number; signal?: AbortSignal }): Promise<Found> {
    const { exact, endsAt } = given
    const { from, nonce } = exact
    const said = await api.transfers({ from, nonce, network: offer.network }, { ...at, timeoutMs: verifyMs })
    if (said.kind === 'trouble') return { kind: 'trouble', reason: said.reason }
    const { list, clock = at.now } = said.value
    if (list.length === 0) return { kind: 'none', isOver: Math.min(clock, at.now) >= endsAt }
    const isIts = list.every(
      (each) =>
        lower(each.fromAddress) === from && lower(each.nonce) === nonce && each.sendingNetwork === offer.network,
    )
    if (!isIts) return { kind: 'trouble', reason: "the API's list contains other transfers than requested" }
    const ours = list.filter(({ toAddress, amount }) => lower(toAddress) === exact.to && BigInt(amount) === exact.value)
    const living = ours.find(({ status }) => LIVING.includes(status))
    if (living) return { kind: 'paid', receipt: noted(given, offer, living.id) }
    const isStrange = ours.some(({ status }) => status !== 'failed')
    return isStrange ? { kind: 'trouble', reason: "the API's transfer has an unknown status" } : { kind: 'dead' }
  }

  function noted({ key, exact }: Given, { network }: Offer, transaction: string): Receipt {
    const receipt = paid.get(key) ?? {
      transaction,
      network,
      payer: checksummed(exact.from),
      amount: String(exact.value),
    }
    paid.set(key, receipt)
    return receipt
  }

  async function settle(payment: Payment, offer: Offer, at: At): Promise<Settlement> {
    const given = read(payment, offer)
    if ('kind' in given) return { kind: 'refused', reason: given.reason }
    const bad = judgeValue(given.exact, offer)
    if (bad) return { kind: 'refused', reason: bad.reason }
    const receipt = paid.get(given.key)
    if (receipt) return { kind: 'settled', receipt }
    if (at.signal.aborted || closed) return { kind: 'unknown', reason: 'no time left to settle' }
    if (at.now >= given.endsAt && !jobs.has(given.digest))
      return concluded(await find(given, offer, at), { kind: 'refused', reason: 'the authorization is expired' })
    return await jobs.settle(given.digest, (job) => send(given, offer, { now: at.now, job }), at.signal)
  }

  async function send(given: Given, offer: Offer, { now, job }: { now: number; job: Job }): Promise<Settlement> {
    const { key, exact } = given
    const said = await api.settle(settleRequest(exact, offer, resource), { now, timeoutMs: settleMs })
    job.isOut = false
    const sent = said.kind === 'said' ? said.value : said
    if (sent.kind === 'accepted') return { kind: 'settled', receipt: noted(given, offer, sent.transfer) }
    if (sent.kind === 'trouble' && !sent.unsent) handed.set(key, true)
    return concluded(await find(given, offer, { now }), outcomeOf(sent, handed.get(key) === true))
  }

  async function fate(payment: Payment, offer: Offer, at: At): Promise<Fate> {
    const given = read(payment, offer)
    if ('kind' in given) return { kind: 'unknown', reason: given.reason }
    const receipt = paid.get(given.key)
    if (receipt) return { kind: 'paid', receipt }
    const found = await find(given, offer, at)
    if (found.kind === 'none') return { kind: found.isOver ? 'dead' : 'open' }
    return found.kind === 'trouble' ? { kind: 'unknown', reason: found.reason } : found
  }

  async function check({ now }: { now: number }): Promise<Checked> {
    const problems = addressProblem('pay_to', payTo)
    if (problems.length > 0) return { kind: 'wrong', problems }
    const said = await learn(now)
    if (said.kind === 'trouble')
      return said.blame
        ? { kind: 'wrong', problems: [`api_url: ${said.reason}`] }
        : { kind: 'unavailable', reason: said.reason }
    const names = said.value.map(({ network }) => network)
    const missing = config.networks
      .filter((network) => !names.includes(network))
      .map((network) => `networks: ${network} is not supported by the API`)
    const contracts = said.value.flatMap(({ asset, wallet }) => [lower(asset), lower(wallet)])
    const own = contracts.includes(lower(payTo)) ? ['pay_to: must not be a contract of the API'] : []
    const unnumbered = names.filter((network) => numbers[network] === undefined)
    const unasked = unnumbered
      .filter((network) => config.networks.includes(network))
      .map((network) => `networks: ${network} needs its domain number in domains`)
    const wrong = [
      ...missing,
      ...unasked,
      ...own,
      ...(names.length === 0 ? ['api_url: the API supports no network'] : []),
    ]
    if (wrong.length > 0) return { kind: 'wrong', problems: wrong }
    const offered = terms.map(({ network }) => network)
    const left = config.networks.length === 0 ? names.filter((network) => !offered.includes(network)) : []
    const warnings =
      left.length > 0
        ? [
            `networks: ${left.join(', ')} are supported but not offered; list the networks to offer, at most ${MAX_NETWORKS}`,
          ]
        : []
    isOpen = true
    return { kind: 'ready', warnings, multicall: false, sync: false }
  }

  async function learn(now: number): Promise<Said<readonly Batching[]>> {
    learnedAt = today = now
    const said = await api.supported({ now, timeoutMs: verifyMs })
    if (said.kind === 'trouble' || said.value.length === 0) return said
    batchings = new Map(said.value.map((each) => [each.network, each]))
    const wanted = config.networks.length > 0 ? config.networks : [...batchings.keys()]
    const found = wanted.flatMap((network) => (numbers[network] === undefined ? [] : (batchings.get(network) ?? [])))
    terms = found.slice(0, MAX_NETWORKS).map(({ network, asset, wallet, minValiditySeconds }) => {
      return {
        scheme: 'exact',
        network,
        asset,
        payTo,
        extra: { ...BATCHED, verifyingContract: wallet },
        minValiditySeconds,
      }
    })
    return said
  }

  async function refresh({ now }: { now: number }): Promise<void> {
    today = now
    if (isOpen && now >= learnedAt + learnMs) await learn(now)
    if (now < watchedAt + watchMs) return
    watchedAt = now
    await watch.look({ now, timeoutMs: verifyMs })
  }

  /** The deposit on the network that is offered first. */
  const balance: BatchedChain['balance'] = async (address, { signal }) => {
    const depositor = addressOf(address)
    const [first] = terms
    const held = first
      ? await depositOf(depositor, first.network, { now: today, signal })
      : unavailable('no network is offered yet')
    if (typeof held !== 'bigint') throw new Error(held.reason)
    return usdc(held)
  }

  function close(): void {
    closed = true
    api.close()
  }

  return { terms: () => (isOpen ? terms : []), identify, verify, settle, fate, balance, check, refresh, close }
}

type NotAccepted = Exclude<Sent, { kind: 'accepted' }> | ApiTrouble

function concluded(found: Found, whileOpen: Extract<Settlement, { kind: 'refused' | 'unknown' }>): Settlement {
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
function outcomeOf(said: NotAccepted, wasHanded: boolean): Extract<Settlement, { kind: 'refused' | 'unknown' }> {
  if (said.kind === 'trouble')
    return { kind: 'unknown', reason: `${said.unsent ? 'nothing was sent' : 'it may have been sent'}: ${said.reason}` }
  if (said.kind === 'used' || wasHanded)
    return { kind: 'unknown', reason: `${said.word}: the authorization may have been taken before` }
  return { kind: 'refused', reason: `${said.word}: the API refused the payment` }
}

/** Errors never quote the URL. */
function apiAt(config: BatchedConfig): BatchedApi {
  try {
    // a verdict takes two requests
    return batchedApi(config.apiUrl, { failures: 10, ...config })
  } catch (error) {
    throw new RangeError(`api_${(error as Error).message}`)
  }
}
