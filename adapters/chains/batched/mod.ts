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

/** One gateway row whose payments Circle Gateway batches: the nano rail. */
export type BatchedConfig = {
  /** `https://gateway-api.circle.com`, or the testnets' one. It never appears in any text. */
  readonly apiUrl: string
  /** CAIP-2, preferred first, at most `MOST_NETWORKS`. None: what the API supports, in its order. */
  readonly networks: readonly string[]
  /** Is credited in the Gateway, on whichever network is paid. */
  readonly payTo: string
  /** Circle's own numbers of networks that `DOMAINS` does not know yet, by CAIP-2. */
  readonly domains?: Readonly<Record<string, number>>
  /** What the API is told is being paid for: the gateway's public origin. */
  readonly resource?: string
  /** Deadline of one question, 3 s unless told. */
  readonly verifyMs?: number
  /** Deadline of one settlement, 20 s unless told: less than the caller has, for afterwards it is asked what became of it. */
  readonly settleMs?: number
  /** How often `refresh` asks what is supported, 5 min unless told, and what became of payments, 1 min unless told. */
  readonly learnMs?: number
  readonly watchMs?: number
  readonly alert: Log['alert']
} & Omit<ApiConfig, 'random'>

export type BatchedChain = Chain &
  Required<Pick<Chain, 'balance'>> & {
    /** Compares the configuration with what the API supports; the terms open when it is ready, and stay open. */
    check(at: { now: number }): Promise<Checked>
    /**
     * Keeps the terms up to date, and calls a person when a payment that counted as paid has failed, or lies for days. To be called every few
     * seconds; it knows itself when there is something to do. Never rejects.
     */
    refresh(at: { now: number }): Promise<void>
    /** Ends what is under way; whoever waits reads unknown. */
    close(): void
  }

/** Three headers hold all offers, and Node's fetch reads 16 KiB of them (decision 45); other rails want room, too. */
export const MAX_NETWORKS = 6

const REMEMBERED = 10_000

type At = { readonly now: number; readonly signal: AbortSignal }

/** What the API knows of an authorization. */
type Found =
  | { readonly kind: 'paid'; readonly receipt: Receipt }
  /** Its nonce is used up, and not for us. */
  | { readonly kind: 'dead' }
  /** `isOver` by the API's own clock too, where it tells: whatever reaches it after this answer is refused. */
  | { readonly kind: 'none'; readonly isOver: boolean }
  | { readonly kind: 'trouble'; readonly reason: string }

/**
 * USDC out of deposits in Circle Gateway. The API holds the money: its word is the truth, and a transfer that it has received counts as paid.
 * Throws, without quoting it, when the URL or a network is malformed.
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
  if (config.networks.length > MAX_NETWORKS) throw new RangeError(`networks: name at most ${MAX_NETWORKS}`)
  const api = apiAt(config)
  const watch = batchedWatch(api, { payTo, alert: config.alert })
  const jobs = inFlight()
  /** What is known to be paid stays so, whatever the API shows later. */
  const paid = lruCache<Receipt>(REMEMBERED)
  /** Authorizations that the API has been sent, and did not at once refuse: whatever used them may have been that one. */
  const handed = lruCache<true>(REMEMBERED)
  let batchings = new Map<string, Batching>()
  let terms: readonly Terms[] = []
  let isOpen = false
  let [learnedAt, watchedAt] = [0, 0]
  /** The newest time that was told. */
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

  /** The API's own /verify is not asked: it looks at neither balance nor nonce, and all else is known here. */
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
        `the payer has ${held} base units in the Gateway, the price is ${exact.value}`,
      )
    return { kind: 'valid', balance: usdc(held), asOf: at.now }
  }

  async function depositOf(depositor: string, network: string, at: At): Promise<bigint | Unavailable> {
    const domain = numbers[network]
    if (domain === undefined) return unavailable(`deposits on ${network} cannot be asked for`)
    const said = await api.deposit({ depositor, domain }, { ...at, timeoutMs: verifyMs })
    return said.kind === 'said' ? said.value : unavailable(said.reason)
  }

  /** A list that holds anything else was not filtered, and proves nothing. */
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
    if (!isIts) return { kind: 'trouble', reason: 'its list of transfers holds others than were asked for' }
    const ours = list.filter(({ toAddress, amount }) => lower(toAddress) === exact.to && BigInt(amount) === exact.value)
    const living = ours.find(({ status }) => LIVING.includes(status))
    if (living) return { kind: 'paid', receipt: noted(given, offer, living.id) }
    const isStrange = ours.some(({ status }) => status !== 'failed')
    return isStrange
      ? { kind: 'trouble', reason: 'its transfer has a status that means nothing here' }
      : { kind: 'dead' }
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
    if (at.signal.aborted || closed) return { kind: 'unknown', reason: 'no time was left to settle' }
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
    const own = contracts.includes(lower(payTo)) ? ['pay_to: it is a contract of the API'] : []
    const unnumbered = names.filter((network) => numbers[network] === undefined)
    const unasked = unnumbered
      .filter((network) => config.networks.includes(network))
      .map((network) => `networks: ${network} needs its number in domains`)
    const wrong = [
      ...missing,
      ...unasked,
      ...own,
      ...(names.length === 0 ? ['api_url: it batches payments on no network'] : []),
    ]
    if (wrong.length > 0) return { kind: 'wrong', problems: wrong }
    const offered = terms.map(({ network }) => network)
    const left = config.networks.length === 0 ? names.filter((network) => !offered.includes(network)) : []
    const warnings =
      left.length > 0
        ? [
            `networks: ${left.join(', ')} are supported, but not on offer; name the ones to offer, at most ${MAX_NETWORKS}`,
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

  /** On the network that is offered first. */
  const balance: BatchedChain['balance'] = async (address, { signal }) => {
    const depositor = addressOf(address)
    const [first] = terms
    const held = first
      ? await depositOf(depositor, first.network, { now: today, signal })
      : unavailable('no network is on offer yet')
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
      reason: 'the authorization is dead: its nonce was used for something else, or its transfer has failed',
    }
  return whileOpen
}

/** Three values. A refusal is none when the authorization may have been taken before: the API looks at the balance before it looks at the nonce. */
function outcomeOf(said: NotAccepted, wasHanded: boolean): Extract<Settlement, { kind: 'refused' | 'unknown' }> {
  if (said.kind === 'trouble')
    return { kind: 'unknown', reason: `${said.unsent ? 'nothing was sent' : 'it may have been sent'}: ${said.reason}` }
  if (said.kind === 'used' || wasHanded)
    return { kind: 'unknown', reason: `${said.word}: the authorization may have been taken before` }
  return { kind: 'refused', reason: `${said.word}: the API refused the payment` }
}

/** What the URL says stays unsaid. */
function apiAt(config: BatchedConfig): BatchedApi {
  try {
    // a verdict is two questions
    return batchedApi(config.apiUrl, { failures: 10, ...config })
  } catch (error) {
    throw new RangeError(`api_${(error as Error).message}`)
  }
}
