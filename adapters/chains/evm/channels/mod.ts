/** The scheme `batch-settlement`: one deposit, then a signed voucher for each call, and claims of many at once. */
import { checksummed } from '../../../../core/lib/checksum.ts'
import type {
  DrawDown,
  Fate,
  Identity,
  Refunding,
  RefundOptions,
  Refused,
  Settlement,
  SettleOptions,
  Unavailable,
  Verdict,
} from '../../../../core/ports/mod.ts'
import { parseAtomic, usdc } from '../../../../core/x402/money.ts'
import type { Terms } from '../../../../core/x402/offer.ts'
import type { Offer, Payment, Receipt } from '../../../../core/x402/protocol.ts'
import { recoverSigner } from '../../eip3009.ts'
import type { Reads, ViewOptions } from '../reads.ts'
import type { Relayer } from '../relayer.ts'
import { stateCall } from '../token.ts'
import { flagIn, type Hex, lower } from '../../hex.ts'
import { type CallOptions, unavailable } from '../../results.ts'
import { depositCall, mirrorCalls, mirrorIn } from './contract.ts'
import { channelDigests } from './digests.ts'
import {
  type Channeled,
  type Deposit,
  endOf,
  outOfStep,
  parseChanneled,
  parseRefund,
  PREFIX,
  refusedChannel,
} from './payload.ts'
import { BUSY, busy, type ChannelRefunds } from './refunds.ts'
import {
  channelStateOf,
  type ChannelState,
  type ChannelStates,
  isRefunding,
  type Mirror,
  newState,
  withMirror,
} from './state.ts'

export type ChannelsConfig = {
  readonly network: string
  readonly chainId: number
  readonly asset: string
  readonly payTo: string
  /** Name and version of the token's EIP-712 domain. */
  readonly domain: { readonly name: string; readonly version: string }
  /** The address whose key signs claims and refunds. */
  readonly authorizer: Hex
  /** How long a payer has to wait for a withdrawal, in seconds: the time in which its vouchers must be claimed. */
  readonly withdrawDelay: number
  /** The smallest deposit in base units: the gateway pays its gas. */
  readonly minDeposit: bigint
  readonly lagSeconds: number
}

export type ChannelsContext = {
  readonly reads: Pick<Reads, 'view'>
  readonly relayer: Pick<Relayer, 'send'>
  readonly states: ChannelStates
  readonly refunds: ChannelRefunds
}

/** Vouchers never expire; a call that is not settled by then never is. */
const VOUCHER_LIFE_MS = 30 * 86_400_000
/** Gas of a deposit, and of its simulation. */
const DEPOSIT_GAS = 250_000n
/** Least remaining lifetime of a deposit's authorization, in milliseconds (decision 67). */
const LIFE_MS = 6_000
const MAX_RACES = 8

export function evmChannels({ reads, relayer, states, refunds }: ChannelsContext, config: ChannelsConfig) {
  const { network, asset, payTo, domain, lagSeconds } = config
  const digests = channelDigests(config.chainId)
  const freshMs = Math.min(300_000, Math.max(30_000, (config.withdrawDelay * 1000) / 3))
  const terms: Terms = {
    scheme: 'batch-settlement',
    network,
    asset,
    payTo,
    extra: {
      ...domain,
      receiverAuthorizer: checksummed(config.authorizer),
      withdrawDelay: config.withdrawDelay,
      minDeposit: String(config.minDeposit),
    },
  }
  let active = 0

  /** Each payment is asked about several times, of the same offer mostly. */
  const parsedBefore = new WeakMap<Payment, { readonly offer: Offer; readonly parsed: Channeled | Refused }>()

  function parse(payment: Payment, offer: Offer): Channeled | Refused {
    const before = parsedBefore.get(payment)
    if (before?.offer === offer) return before.parsed
    const parsed = parseChanneled(payment, offer, digests)
    parsedBefore.set(payment, { offer, parsed })
    return parsed
  }

  async function identify(payment: Payment, offer: Offer, { now }: { now: number }): Promise<Identity> {
    const parsed = parse(payment, offer)
    if (parsed.kind === 'refused') return parsed
    const { config: channel, deposit, key, fundedBy } = parsed
    const wrong = await wrongSignature(parsed)
    if (wrong) return wrong
    const expiresAt = deposit ? Math.min(endOf(deposit), now + VOUCHER_LIFE_MS) : now + VOUCHER_LIFE_MS
    return { kind: 'known', payer: checksummed(channel.payer), key, expiresAt, fundedBy }
  }

  async function wrongSignature(
    signed: Pick<Channeled, 'channelId' | 'config' | 'ceiling' | 'signature'>,
  ): Promise<Refused | undefined> {
    const { channelId, config: channel, ceiling, signature } = signed
    const signer = await recoverSigner(digests.voucher(channelId, ceiling), signature)
    if (signer === channel.payerAuthorizer) return undefined
    const text = `voucher.signature is of ${signer ?? 'no key'}; it must be of channelConfig.payerAuthorizer, ${channel.payerAuthorizer}`
    return refusedChannel('PAYMENT_INVALID', 'voucher_signature', text)
  }

  async function readMirror(channelId: Hex, signal?: AbortSignal): Promise<Mirror | Unavailable> {
    const seen = await reads.view(mirrorCalls(channelId), { lagSeconds, ...(signal && { signal }) })
    if (seen.kind === 'failure') return unavailable(seen.reason)
    return mirrorIn(seen.results) ?? unavailable('the settlement contract does not answer on this network')
  }

  /** What is known of the channel, and read again where that is old or `isStale` says so. */
  async function known(
    parsed: Channeled,
    { now, signal }: CallOptions,
    isStale: (state: ChannelState) => boolean = () => false,
  ): Promise<ChannelState | Unavailable> {
    const state = await states.get(parsed.channelId, now)
    if (state && now - state.syncedAt <= freshMs && !isStale(state)) return state
    const mirror = await readMirror(parsed.channelId, signal)
    if ('kind' in mirror) return mirror
    // No record is made before money is confirmed and spent.
    return (await states.mirror(parsed.channelId, mirror, now)) ?? newState(parsed, mirror, now)
  }

  async function verify(payment: Payment, offer: Offer, at: CallOptions): Promise<Verdict> {
    const parsed = parse(payment, offer)
    if (parsed.kind === 'refused') return parsed
    const { base, ceiling, deposit } = parsed
    const coming = deposit?.amount ?? 0n
    const isShort = (state: ChannelState) => ceiling > state.balance + coming - state.withdrawing
    const problem = deposit && (await depositProblem(parsed, deposit, at))
    if (problem && problem !== 'landed') return problem
    // What has landed is in the balance by now.
    const found = await known(parsed, at, problem === 'landed' ? () => true : isShort)
    if ('kind' in found) return found
    const state = isRefunding(found) ? await refunds.ended(found, at) : found
    if (isRefunding(state)) return busy(state)
    if (base !== state.charged) return outOfStep(parsed.ceiling, state)
    const added = problem === 'landed' ? 0n : coming
    const free = state.balance + added - state.withdrawing - state.charged
    if (state.balance + added === 0n) {
      const text = 'the channel has no balance on chain; send a payload of type deposit first'
      return refusedChannel('PAYMENT_UNFUNDED', 'channel_not_found', text)
    }
    if (ceiling > state.charged + free) {
      const text = `voucher.maxClaimableAmount is ${ceiling}; the channel covers ${state.charged + free}, ${state.withdrawing} of it are being withdrawn: deposit more`
      return refusedChannel('PAYMENT_UNFUNDED', 'cumulative_exceeds_balance', text)
    }
    // Vouchers have no block: what is charged is in the balance as soon as it is settled.
    // The first charge of a channel makes its record.
    const isPrepaid = deposit === undefined && state.ceiling > 0n
    return { kind: 'valid', balance: usdc(free), asOf: at.now, block: 0, holds, ...(isPrepaid && { isPrepaid }) }

    /** A refund that begins from now on sees the call; one that began before is seen here. */
    async function holds({ now }: { now: number }): Promise<boolean> {
      const current = await states.get(state.channelId, now)
      return !current || (!isRefunding(current) && current.refundNonce === state.refundNonce)
    }
  }

  /** Undefined when it would be taken now; `landed` when it is in the channel already. */
  async function depositProblem(
    { channelId, config: channel }: Channeled,
    deposit: Deposit,
    { now, signal }: CallOptions,
  ): Promise<Refused | Unavailable | 'landed' | undefined> {
    const used = await isUsed(channel.payer, deposit, signal)
    if (typeof used === 'object') return used
    if (used) return 'landed'
    if (deposit.amount < config.minDeposit) {
      const text = `deposit.amount is ${deposit.amount}; it must be at least ${config.minDeposit}`
      return refusedChannel('PAYMENT_INVALID', 'deposit_below_min_deposit', text)
    }
    if (endOf(deposit) < now + LIFE_MS) {
      const text = `deposit.authorization.validBefore is ${deposit.validBefore}; it must be at least 6 seconds after now, ${Math.ceil(now / 1000)}`
      return refusedChannel('PAYMENT_UNFUNDED', 'payload_authorization_valid_before', text)
    }
    const call = depositCall(channel, deposit)
    const seen = await reads.view([call], { lagSeconds, signal, gas: DEPOSIT_GAS, direct: true })
    if (seen.kind === 'failure') return unavailable(seen.reason)
    if (seen.results[0]?.ok) return undefined
    const text = `the deposit of ${deposit.amount} base units into ${channelId} would revert: check its signature, its times and the payer's balance`
    return refusedChannel('PAYMENT_UNFUNDED', 'deposit_simulation_failed', text)
  }

  const isFresh = (state: ChannelState, now: number): boolean => now - state.syncedAt <= freshMs

  /** What can be claimed in all. A withdrawal that may end before the next claims counts as paid back. */
  function claimable({ balance, withdrawing, withdrawRequestedAt }: Mirror, now: number): bigint {
    const end = (withdrawRequestedAt + config.withdrawDelay) * 1000
    return withdrawing > 0n && now > end - freshMs ? balance - withdrawing : balance
  }

  type DepositSeen = { readonly used: boolean; readonly mirror: Mirror; readonly time: number }

  /** A deposit and its channel in the same block: where it is used, it is in the balance, or was taken out again. */
  async function depositSeen(
    { channelId, config: { payer } }: Pick<Channeled, 'channelId' | 'config'>,
    { nonce }: Deposit,
    at: Pick<ViewOptions, 'lagSeconds' | 'signal'>,
  ): Promise<DepositSeen | Unavailable> {
    const seen = await reads.view([{ to: lower(asset), data: stateCall(payer, nonce) }, ...mirrorCalls(channelId)], at)
    if (seen.kind === 'failure') return unavailable(seen.reason)
    const [flag, ...rest] = seen.results
    const [used, mirror] = [flagIn(flag), mirrorIn(rest)]
    if (used === undefined) return unavailable('authorizationState() of the token cannot be read')
    if (!mirror) return unavailable('the settlement contract does not answer on this network')
    return { used, mirror, time: seen.time }
  }

  async function isUsed(payer: Hex, { nonce }: Deposit, signal?: AbortSignal): Promise<boolean | Unavailable> {
    const call = { to: lower(asset), data: stateCall(payer, nonce) }
    const seen = await reads.view([call], { lagSeconds, ...(signal && { signal }) })
    if (seen.kind === 'failure') return unavailable(seen.reason)
    return flagIn(seen.results[0]) ?? unavailable('authorizationState() of the token cannot be read')
  }

  /**
   * The charge and the deposit first, then one compare and set. A voucher whose base is below what is charged was
   * charged before: its key was bound to one call, and only that call moves the channel from its base.
   */
  async function settle(payment: Payment, offer: Offer, at: SettleOptions): Promise<Settlement> {
    const parsed = parse(payment, offer)
    if (parsed.kind === 'refused') return { kind: 'refused', reason: parsed.reason }
    const due = dueOf(offer, at.charge)
    active++
    try {
      for (let race = 0; race < MAX_RACES; race++) {
        const before = await states.get(parsed.channelId, at.now)
        if (before && parsed.base < before.charged) return { kind: 'settled', receipt: receiptOf(parsed, before, due) }
        if (before?.refund?.status === 'sent') return { kind: 'refused', reason: BUSY }
        const funded = await fundedState(parsed, before, { ...at, due })
        if (funded.kind !== 'funded') return funded
        const { state, isLanded } = funded
        if (parsed.base !== state.charged) return { kind: 'refused', reason: outOfStep(parsed.ceiling, state).reason }
        const isShort = state.charged + due > claimable(state, at.now)
        // A node that is behind does not see the deposit yet.
        if (isShort && parsed.deposit && !isLanded)
          return { kind: 'unknown', reason: 'the deposit is not in the balance that the node shows' }
        if (isShort)
          return { kind: 'refused', reason: `${PREFIX}insufficient_balance: the channel has ${state.balance}` }
        // Whoever waits for it has given up, and asks for its fate.
        if (at.signal.aborted) return { kind: 'unknown', reason: 'no time left to settle' }
        const { ceiling, signature } = parsed
        const next = { ...state, charged: state.charged + due, ceiling, signature }
        if (await states.replace(before, next, at.now))
          return { kind: 'settled', receipt: receiptOf(parsed, next, due) }
      }
      return { kind: 'unknown', reason: 'the record of the channel is changed by others' }
    } finally {
      active--
    }
  }

  /** Only for a channel with a record: the first charge of one is stored by `settle`. */
  async function drawDown(
    payment: Payment,
    offer: Offer,
    at: Omit<SettleOptions, 'signal'>,
  ): Promise<DrawDown | undefined> {
    const parsed = parse(payment, offer)
    if (parsed.kind === 'refused' || parsed.deposit) return undefined
    const before = await states.get(parsed.channelId, at.now)
    const due = dueOf(offer, at.charge)
    if (!before || parsed.base !== before.charged || before.refund?.status === 'sent') return undefined
    if (!isFresh(before, at.now) || before.charged + due > claimable(before, at.now)) return undefined
    const { ceiling, signature } = parsed
    const next = { ...before, charged: before.charged + due, ceiling, signature }
    return { ...states.moving(before, next, at.now), receipt: receiptOf(parsed, next, due) }
  }

  type Funded = { readonly kind: 'funded'; readonly state: ChannelState; readonly isLanded?: boolean }

  /**
   * The channel with its deposit, where there is one, confirmed on chain. What is known is enough while it is new. A
   * deposit that can never be in it is not needed where the balance covers the charge without it.
   */
  async function fundedState(
    parsed: Channeled,
    before: ChannelState | undefined,
    { now, signal, due }: CallOptions & { readonly due: bigint },
  ): Promise<Funded | Exclude<Settlement, { kind: 'settled' }>> {
    const { deposit, channelId, config: channel } = parsed
    if (!deposit && before && isFresh(before, now) && before.charged + due <= claimable(before, now))
      return { kind: 'funded', state: before }
    const funded = (mirror: Mirror, transaction?: Hex): Funded => {
      const state = before ?? newState(parsed, mirror, now)
      const noted = deposit && transaction ? { nonce: deposit.nonce, transaction } : state.deposit
      return { kind: 'funded', state: { ...withMirror(state, mirror, now), deposit: noted } }
    }
    const covers = (mirror: Mirror) => (before?.charged ?? mirror.claimed) + due <= claimable(mirror, now)
    if (deposit) {
      const seen = await depositSeen(parsed, deposit, { lagSeconds, signal })
      if ('kind' in seen) return { kind: 'unknown', reason: seen.reason }
      const noted = before?.deposit?.nonce === deposit.nonce ? before.deposit.transaction : undefined
      if (seen.used) return { ...funded(seen.mirror, noted), isLanded: true }
      if (endOf(deposit) <= now)
        return covers(seen.mirror)
          ? { ...funded(seen.mirror), isLanded: true }
          : { kind: 'refused', reason: `${PREFIX}payload_authorization_valid_before: the deposit is over, unsent` }
      if (signal.aborted) return { kind: 'unknown', reason: 'no time left to settle' }
    }
    const sent = deposit && (await relayer.send({ ...depositCall(channel, deposit), gas: DEPOSIT_GAS }, now))
    if (sent?.kind === 'rejected') return unavailable(`nothing was sent: ${sent.reason}`)
    const transaction = sent?.kind === 'mined' && sent.receipt.success ? sent.receipt.transactionHash : undefined
    if (deposit && !transaction) {
      const seen = await depositSeen(parsed, deposit, { lagSeconds })
      const isIn = 'kind' in seen ? undefined : seen.used
      if (!isIn && (sent?.kind !== 'mined' || sent.hasOtherNonces || isIn === undefined))
        return { kind: 'unknown', reason: 'the deposit was sent, and may still be mined' }
      if ('mirror' in seen && (isIn || covers(seen.mirror))) return { ...funded(seen.mirror), isLanded: true }
      return { kind: 'refused', reason: `${PREFIX}deposit_transaction_failed: the deposit reverted: nothing moved` }
    }
    const mirror = await readMirror(channelId)
    return 'kind' in mirror ? { kind: 'unknown', reason: mirror.reason } : funded(mirror, transaction)
  }

  async function fate(payment: Payment, offer: Offer, at: SettleOptions): Promise<Fate> {
    const parsed = parse(payment, offer)
    if (parsed.kind === 'refused') return { kind: 'unknown', reason: parsed.reason }
    const voucher = parsed
    const { base, deposit, channelId } = parsed
    const { now, signal } = at
    const state = await states.get(channelId, now)
    const due = dueOf(offer, at.charge)
    if (state && base < state.charged) return { kind: 'paid', receipt: receiptOf(parsed, state, due) }
    if (state && base > state.charged) return { kind: 'dead' }
    const covers = (mirror: Mirror) => base >= mirror.claimed && base + due <= claimable(mirror, now)
    if (!deposit) {
      if (state && isFresh(state, now) && covers(state)) return { kind: 'open' }
      const mirror = await readMirror(channelId, signal)
      if ('kind' in mirror) return { kind: 'unknown', reason: mirror.reason }
      return covers(mirror) ? { kind: 'open' } : await dead(mirror)
    }
    const seen = await depositSeen(parsed, deposit, { lagSeconds: 0, signal })
    if ('kind' in seen) return { kind: 'unknown', reason: seen.reason }
    // The token accepts it before `validBefore`, not in that second. What has landed is settled by the next attempt.
    const isOver = seen.used || BigInt(seen.time) >= deposit.validBefore
    if (!isOver || covers(seen.mirror)) return { kind: 'open' }
    return seen.used ? await dead(seen.mirror) : { kind: 'dead' }

    /** Whoever still settles it, by what it has read before, finds another record and reads again. */
    async function dead(mirror: Mirror): Promise<Fate> {
      const noted = await states.mirror(channelId, mirror, now)
      const isNoted = noted ?? (await states.replace(undefined, newState(voucher, mirror, now), now))
      if (!isNoted) return { kind: 'unknown', reason: 'the record of the channel is changed by others' }
      const isPaid = noted && base < noted.charged
      return isPaid ? { kind: 'paid', receipt: receiptOf(voucher, noted, due) } : { kind: 'dead' }
    }
  }

  function receiptOf({ deposit, config: channel }: Channeled, state: ChannelState, due: bigint): Receipt {
    const isOurs = deposit !== undefined && state.deposit?.nonce === deposit.nonce
    return {
      transaction: isOurs ? (state.deposit?.transaction ?? '') : '',
      network,
      payer: checksummed(channel.payer),
      amount: String(due),
      block: 0,
      extra: { chargedAmount: String(due), channelState: channelStateOf(state) },
    }
  }

  async function refund(payment: Payment, offer: Offer, at: RefundOptions): Promise<Refunding> {
    const parsed = parseRefund(payment, offer, digests)
    if (parsed.kind === 'refused') return parsed
    return (await wrongSignature(parsed)) ?? (await refunds.refund(parsed, at))
  }

  return { terms, identify, verify, settle, drawDown, fate, refund, isIdle: () => active === 0 && refunds.isIdle() }
}

/** What a purchase moves the channel by. Never nothing: a base that does not move would pay for two calls. */
function dueOf(offer: Offer, charge: bigint | undefined): bigint {
  const price = parseAtomic(offer.amount) ?? 0n
  const due = charge ?? price
  if (due < 1n) return 1n
  return due > price ? price : due
}
