/** The scheme `batch-settlement`: one deposit, then a signed voucher for each call, and claims of many at once. */
import { checksummed } from '../../../../core/lib/mod.ts'
import type {
  DrawDown,
  Fate,
  Identity,
  Refunding,
  RefundOptions,
  Refused,
  Securing,
  Settlement,
  SettleOptions,
  Unavailable,
  Verdict,
} from '../../../../core/ports/mod.ts'
import { type Offer, type Payment, type Receipt, type Terms, usdc } from '../../../../core/x402/mod.ts'
import { domainSeparator, receiveDigestOf, recoverSigner } from '../exact/eip3009.ts'
import { ERC3009_COLLECTOR } from '../node/x402_contracts.ts'
import type { CheckSignature } from '../exact/identity.ts'
import type { Reads } from '../node/reads.ts'
import { type Hex, lower } from '../../lib/hex.ts'
import { type CallOptions, unavailable } from '../../lib/results.ts'
import { mirrorCalls, mirrorIn } from './contract.ts'
import { type ChannelConfig, channelDigests } from './digests.ts'
import {
  type Channeled,
  type Deposit,
  dueOf,
  endOf,
  outOfStep,
  parseChanneled,
  parseRefund,
  PREFIX,
  refusedChannel,
} from './payload.ts'
import type { ChannelCosts } from './costs.ts'
import type { ChannelDeposits } from './deposits.ts'
import { type PublishedCeilings, unreadClaims, withPublished } from './published.ts'
import { BUSY, busy, type ChannelRefunds } from './refunds.ts'
import {
  buyerOf,
  chargedState,
  channelStateOf,
  claimableOf,
  freshMsOf,
  type ChannelState,
  type ChannelStates,
  isRefunding,
  isSpentVoucher,
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
  readonly lagSeconds: number
}

export type ChannelsContext = {
  readonly reads: Pick<Reads, 'view'>
  readonly states: ChannelStates
  readonly deposits: ChannelDeposits
  readonly costs: ChannelCosts
  readonly refunds: ChannelRefunds
  readonly published: PublishedCeilings
  readonly checkSignature: CheckSignature
}

/** Vouchers never expire; a call that is not settled by then never is. */
const VOUCHER_LIFE_MS = 30 * 86_400_000
const MAX_RACES = 8

/** State of `evmChannels`. */
export type VoucherScheme = {
  readonly reads: ChannelsContext['reads']
  readonly states: ChannelsContext['states']
  readonly deposits: ChannelsContext['deposits']
  readonly costs: ChannelsContext['costs']
  readonly refunds: ChannelsContext['refunds']
  readonly published: ChannelsContext['published']
  readonly checkSignature: ChannelsContext['checkSignature']
  readonly config: ChannelsConfig
  readonly network: string
  readonly lagSeconds: number
  readonly digests: ReturnType<typeof channelDigests>
  readonly separator: Hex
  readonly freshMs: number
  readonly unpriced: Terms
  priced: Terms | undefined
  active: number
  /** Each payment is asked about several times, of the same offer mostly. */
  readonly parsedBefore: WeakMap<
    {
      resource?: unknown
      extensions?: unknown
      x402Version: 2
      accepted: {
        extra?: { [x: string]: unknown }
        scheme: string
        network: string
        amount: string
        asset: string
        payTo: string
        maxTimeoutSeconds: number
      }
      payload: { [x: string]: unknown }
    },
    { readonly offer: Offer; readonly parsed: Channeled | Refused }
  >
}

export function evmChannels(
  { reads, states, deposits, costs, refunds, published, checkSignature }: ChannelsContext,
  config: ChannelsConfig,
) {
  const { network, asset, payTo, domain, lagSeconds } = config

  const vouchers: VoucherScheme = {
    reads,
    states,
    deposits,
    costs,
    refunds,
    published,
    checkSignature,
    config,
    network,
    lagSeconds,
    digests: channelDigests(config.chainId),
    separator: domainSeparator(domain, config.chainId, lower(asset)),
    freshMs: freshMsOf(config.withdrawDelay),
    unpriced: {
      scheme: 'batch-settlement',
      network,
      asset,
      payTo,
      extra: {
        ...domain,
        receiverAuthorizer: checksummed(config.authorizer),
        withdrawDelay: config.withdrawDelay,
      },
    },
    priced: undefined,
    active: 0,
    parsedBefore: new WeakMap<Payment, { readonly offer: Offer; readonly parsed: Channeled | Refused }>(),
  }
  return {
    terms: () => terms(vouchers),
    identify: (payment: Payment, offer: Offer, at: CallOptions) => identify(vouchers, payment, offer, at),
    verify: (payment: Payment, offer: Offer, at: CallOptions) => verify(vouchers, payment, offer, at),
    secure: (payment: Payment, offer: Offer, at: CallOptions) => secure(vouchers, payment, offer, at),
    settle: (payment: Payment, offer: Offer, at: SettleOptions) => settle(vouchers, payment, offer, at),
    drawDown: (payment: Payment, offer: Offer, at: Omit<SettleOptions, 'signal'>) =>
      drawDown(vouchers, payment, offer, at),
    fate: (payment: Payment, offer: Offer, at: SettleOptions) => fate(vouchers, payment, offer, at),
    refund: (payment: Payment, offer: Offer, at: RefundOptions) => refund(vouchers, payment, offer, at),
    wrongDepositing: (
      depositing: Pick<Channeled, 'channelId' | 'config' | 'ceiling' | 'signature'> & { readonly deposit: Deposit },
      at: CallOptions,
    ) => wrongDepositing(vouchers, depositing, at),
    isIdle: () => isIdle(vouchers),
  }
}

const claimable = (vouchers: VoucherScheme, mirror: Mirror, now: number) =>
  claimableOf(mirror, { now, withdrawDelay: vouchers.config.withdrawDelay })

/** The same object while the price of gas makes no difference. */
export function terms(vouchers: VoucherScheme): Terms {
  const least = vouchers.costs.refundableFrom()
  const prices = {
    minDeposit: String(vouchers.costs.minDeposit()),
    ...(least > 0n && { refundableFrom: String(least) }),
  }
  const before = vouchers.priced?.extra
  if (!vouchers.priced || before?.minDeposit !== prices.minDeposit || before?.refundableFrom !== prices.refundableFrom)
    vouchers.priced = { ...vouchers.unpriced, extra: { ...vouchers.unpriced.extra, ...prices } }
  return vouchers.priced
}

export function parse(vouchers: VoucherScheme, payment: Payment, offer: Offer): Channeled | Refused {
  const before = vouchers.parsedBefore.get(payment)
  if (before?.offer === offer) return before.parsed
  const parsed = parseChanneled(payment, offer, vouchers.digests)
  vouchers.parsedBefore.set(payment, { offer, parsed })
  return parsed
}

export async function identify(
  vouchers: VoucherScheme,
  payment: Payment,
  offer: Offer,
  { now, signal }: CallOptions,
): Promise<Identity> {
  const parsed = parse(vouchers, payment, offer)
  if (parsed.kind === 'refused') return parsed
  const { config: channel, channelId, deposit, key, fundedBy, base, ceiling } = parsed
  const wrong =
    (await wrongSignature(vouchers, parsed)) ??
    (deposit && (await wrongDeposit(vouchers, channel, deposit, { now, signal })))
  if (wrong) return wrong
  const state = await vouchers.states.get(channelId, now)
  // On the next base it would name the call that is under way there, and its sender as the buyer.
  if (state && base === state.charged && isSpentVoucher(state, ceiling)) return spentVoucher(ceiling)
  const isAlone = channel.payer === channel.payerAuthorizer
  const isSigned = isAlone || deposit !== undefined
  const isPayerProven = isSigned || state?.isPayerProven
  const payer = buyerOf({ config: channel, ...(isPayerProven && { isPayerProven }) })
  const other = isPayerProven ? channel.payerAuthorizer : channel.payer
  const expiresAt = deposit ? Math.min(endOf(deposit), now + VOUCHER_LIFE_MS) : now + VOUCHER_LIFE_MS
  const others = { otherAddress: checksummed(other), signer: checksummed(channel.payerAuthorizer) }
  return { kind: 'known', payer, key, expiresAt, fundedBy, ...(!isAlone && others) }
}

/** A deposit is signed by the payer; its nonce names the channel, and so the key that signs vouchers. */
export async function wrongDeposit(
  vouchers: VoucherScheme,
  { payer }: ChannelConfig,
  deposit: Deposit,
  at: CallOptions,
): Promise<Refused | Unavailable | undefined> {
  const { amount: value, validAfter, validBefore, nonce, signature } = deposit
  const transfer = { from: payer, to: lower(ERC3009_COLLECTOR), value, validAfter, validBefore, nonce }
  const checked = await vouchers.checkSignature(
    { account: payer, digest: receiveDigestOf(transfer, vouchers.separator), signature },
    at,
  )
  if (checked.kind !== 'unsigned') return checked.kind === 'signed' ? undefined : checked
  const text = `deposit.authorization.erc3009Authorization.signature is not of channelConfig.payer: ${checked.problem}`
  return refusedChannel('PAYMENT_INVALID', 'receive_authorization_signature', text)
}

export async function wrongSignature(
  vouchers: VoucherScheme,
  signed: Pick<Channeled, 'channelId' | 'config' | 'ceiling' | 'signature'>,
): Promise<Refused | undefined> {
  const { channelId, config: channel, ceiling, signature } = signed
  const signer = await recoverSigner(vouchers.digests.voucher(channelId, ceiling), signature)
  if (signer === channel.payerAuthorizer) return undefined
  const text = `voucher.signature is of ${signer ?? 'no key'}; it must be of channelConfig.payerAuthorizer, ${channel.payerAuthorizer}`
  return refusedChannel('PAYMENT_INVALID', 'voucher_signature', text)
}

export async function readMirror(
  vouchers: VoucherScheme,
  channelId: Hex,
  signal?: AbortSignal,
): Promise<Mirror | Unavailable> {
  const seen = await vouchers.reads.view(mirrorCalls(channelId), {
    lagSeconds: vouchers.lagSeconds,
    ...(signal && { signal }),
  })
  if (seen.kind === 'failure') return unavailable(seen.reason)
  return mirrorIn(seen.results) ?? unavailable('the settlement contract does not answer on this network')
}

/** Returns the state of the channel, read again if it is old or if `isStale` says so. */
export async function known(
  vouchers: VoucherScheme,
  parsed: Channeled,
  { now, signal }: CallOptions,
  isStale: (state: ChannelState) => boolean = () => false,
): Promise<ChannelState | Unavailable> {
  const state = await vouchers.states.get(parsed.channelId, now)
  if (state && now - state.syncedAt <= vouchers.freshMs && !isStale(state))
    return await withClaims(vouchers, state, now)
  const mirror = await readMirror(vouchers, parsed.channelId, signal)
  if ('kind' in mirror) return mirror
  // No record is made before money is confirmed and spent.
  return await withClaims(
    vouchers,
    (await vouchers.states.mirror(parsed.channelId, mirror, now)) ?? newState(parsed, mirror, now),
    now,
  )
}

export async function withClaims(
  vouchers: VoucherScheme,
  state: ChannelState,
  now: number,
): Promise<ChannelState | Unavailable> {
  const read = await readClaims(vouchers, state)
  if (read?.kind !== 'read') return read ?? state
  return (await vouchers.states.change(state.channelId, now, read.noted)) ?? read.noted(state)
}

/** Reads vouchers that claims have published, if the record is older than the claims (decision 150). */
export async function readClaims(vouchers: VoucherScheme, state: ChannelState) {
  const unread = unreadClaims(state)
  if (!unread) return undefined
  const ceilings = await vouchers.published({ channelId: state.channelId, ...unread })
  if ('kind' in ceilings) return ceilings
  return { kind: 'read', noted: (current: ChannelState) => withPublished(current, ceilings, unread.claimed) } as const
}

export async function verify(
  vouchers: VoucherScheme,
  payment: Payment,
  offer: Offer,
  at: CallOptions,
): Promise<Verdict> {
  const parsed = parse(vouchers, payment, offer)
  if (parsed.kind === 'refused') return parsed
  const { base, ceiling, deposit } = parsed
  const coming = deposit?.amount ?? 0n
  const isShort = (state: ChannelState) => ceiling > state.balance + coming - state.withdrawing
  const problem = deposit && (await vouchers.deposits.problem({ ...parsed, deposit }, at))
  if (problem && problem !== 'landed') return problem
  // The balance includes a deposit that has landed.
  const found = await known(vouchers, parsed, at, problem === 'landed' ? () => true : isShort)
  if ('kind' in found) return found
  const state = isRefunding(found) ? await vouchers.refunds.ended(found, at) : found
  if (isRefunding(state)) return busy(state)
  if (base !== state.charged) return outOfStep(parsed.ceiling, state)
  if (isSpentVoucher(state, ceiling)) return spentVoucher(ceiling)
  const added = problem === 'landed' ? 0n : coming
  const free = state.balance + added - state.withdrawing - state.charged
  if (state.balance + added === 0n) {
    const text = 'the channel has no balance on chain; send a payload of type deposit first'
    return refusedChannel('PAYMENT_UNFUNDED', 'channel_not_found', text)
  }
  if (ceiling > state.charged + free) return notCovered(ceiling, { ...state, balance: state.balance + added })
  // Vouchers have no block: what is charged is in the balance as soon as it is settled.
  // The first charge of a channel makes its record.
  const isPrepaid = deposit === undefined && state.ceiling > 0n
  const valid = { kind: 'valid', balance: usdc(free), asOf: at.now, block: 0, holds, isSecured: true } as const
  return { ...valid, ...(isPrepaid && { isPrepaid }) }

  /** A refund that begins from now on sees the call; one that began before is seen here. */
  async function holds({ now }: { now: number }): Promise<boolean> {
    const current = await vouchers.states.get(state.channelId, now)
    return !current || (!isRefunding(current) && current.refundNonce === state.refundNonce)
  }
}

const isFresh = (vouchers: VoucherScheme, state: ChannelState, now: number): boolean =>
  now - state.syncedAt <= vouchers.freshMs

/** Brings the deposit of a payment on chain, before anything is worked on for it. */
export async function secure(
  vouchers: VoucherScheme,
  payment: Payment,
  offer: Offer,
  at: CallOptions,
): Promise<Securing> {
  const parsed = parse(vouchers, payment, offer)
  if (parsed.kind === 'refused') return parsed
  const { deposit, base, ceiling } = parsed
  if (!deposit) return { kind: 'secured' }
  const landing = await vouchers.deposits.land({ ...parsed, deposit }, at)
  if (landing.kind !== 'landed') return landing
  const { state } = landing
  if (base !== state.charged) return outOfStep(ceiling, state)
  if (ceiling > state.balance - state.withdrawing) return notCovered(ceiling, state)
  return { kind: 'secured', extra: { channelState: channelStateOf(state) } }
}

/**
 * One compare and set. A voucher whose base is below what is charged was charged before: its key was bound to one
 * call, and only that call moves the channel from its base. A deposit came before the work (`secure`); that of a poll
 * comes here.
 */
export async function settle(
  vouchers: VoucherScheme,
  payment: Payment,
  offer: Offer,
  at: SettleOptions,
): Promise<Settlement> {
  const parsed = parse(vouchers, payment, offer)
  if (parsed.kind === 'refused') return { kind: 'refused', reason: parsed.reason }
  const due = dueOf(offer, at.charge)
  const { channelId, base, ceiling, signature, deposit } = parsed
  let hasLanded = false
  vouchers.active++
  try {
    for (let race = 0; race < MAX_RACES; race++) {
      const before = await vouchers.states.get(channelId, at.now)
      if (before && base < before.charged) return { kind: 'settled', receipt: receiptOf(vouchers, parsed, before, due) }
      if (before?.refund?.status === 'sent') return { kind: 'refused', reason: BUSY }
      const state = await chargeable(vouchers, parsed, before, { ...at, due })
      if ('kind' in state) return { kind: 'unknown', reason: state.reason }
      if (base !== state.charged) return { kind: 'refused', reason: outOfStep(ceiling, state).reason }
      const isShort = state.charged + due > claimable(vouchers, state, at.now)
      if (isShort && (!deposit || hasLanded))
        return { kind: 'refused', reason: `${PREFIX}insufficient_balance: the channel has ${state.balance}` }
      if (isShort && deposit) {
        const landing = await vouchers.deposits.land({ ...parsed, deposit }, at)
        if (landing.kind === 'refused') return { kind: 'refused', reason: landing.reason }
        if (landing.kind !== 'landed') return landing
        hasLanded = true
        continue
      }
      // Whoever waits for it has given up, and asks for its fate.
      if (at.signal.aborted) return { kind: 'unknown', reason: 'no time left to settle' }
      const proven = deposit && { isPayerProven: true as const }
      const next = chargedState({ ...state, ...proven }, { due, ceiling, signature })
      if (await vouchers.states.replace(before, next, at.now))
        return { kind: 'settled', receipt: receiptOf(vouchers, parsed, next, due) }
    }
    return { kind: 'unknown', reason: 'the record of the channel is changed by others' }
  } finally {
    vouchers.active--
  }
}

/** Returns the state of the channel, read again if it is old or does not cover the charge. */
export async function chargeable(
  vouchers: VoucherScheme,
  parsed: Channeled,
  before: ChannelState | undefined,
  { now, signal, due }: CallOptions & { readonly due: bigint },
): Promise<ChannelState | Unavailable> {
  if (before && isFresh(vouchers, before, now) && before.charged + due <= claimable(vouchers, before, now))
    return before
  const mirror = await readMirror(vouchers, parsed.channelId, signal)
  if ('kind' in mirror) return mirror
  const state = before ? withMirror(before, mirror, now) : newState(parsed, mirror, now)
  const read = await readClaims(vouchers, state)
  return read?.kind === 'read' ? read.noted(state) : (read ?? state)
}

/** Only for a channel with a record: the first charge of one is stored by `settle`. */
export async function drawDown(
  vouchers: VoucherScheme,
  payment: Payment,
  offer: Offer,
  at: Omit<SettleOptions, 'signal'>,
): Promise<DrawDown | undefined> {
  const parsed = parse(vouchers, payment, offer)
  if (parsed.kind === 'refused' || parsed.deposit) return undefined
  const before = await vouchers.states.get(parsed.channelId, at.now)
  const due = dueOf(offer, at.charge)
  if (!before || parsed.base !== before.charged || before.refund?.status === 'sent') return undefined
  if (!isFresh(vouchers, before, at.now) || before.charged + due > claimable(vouchers, before, at.now)) return undefined
  const { ceiling, signature } = parsed
  const next = chargedState(before, { due, ceiling, signature })
  return { ...vouchers.states.moving(before, next, at.now), receipt: receiptOf(vouchers, parsed, next, due) }
}

export async function fate(vouchers: VoucherScheme, payment: Payment, offer: Offer, at: SettleOptions): Promise<Fate> {
  const parsed = parse(vouchers, payment, offer)
  if (parsed.kind === 'refused') return { kind: 'unknown', reason: parsed.reason }
  const voucher = parsed
  const { base, deposit, channelId } = parsed
  const { now, signal } = at
  const state = await vouchers.states.get(channelId, now)
  const due = dueOf(offer, at.charge)
  if (state && base < state.charged) return { kind: 'paid', receipt: receiptOf(vouchers, parsed, state, due) }
  if (state && base > state.charged) return { kind: 'dead' }
  if (state && isSpentVoucher(state, parsed.ceiling)) return { kind: 'dead', code: 'PAYMENT_REPLAY' }
  const covers = (mirror: Mirror) => base >= mirror.claimed && base + due <= claimable(vouchers, mirror, now)
  if (!deposit) {
    if (state && isFresh(vouchers, state, now) && covers(state)) return { kind: 'open' }
    const mirror = await readMirror(vouchers, channelId, signal)
    if ('kind' in mirror) return { kind: 'unknown', reason: mirror.reason }
    if (!covers(mirror)) return await dead(mirror)
    const known = await withClaims(
      vouchers,
      state ? withMirror(state, mirror, now) : newState(parsed, mirror, now),
      now,
    )
    if ('kind' in known) return { kind: 'unknown', reason: known.reason }
    return isSpentVoucher(known, parsed.ceiling) ? { kind: 'dead', code: 'PAYMENT_REPLAY' } : { kind: 'open' }
  }
  const seen = await vouchers.deposits.seen({ ...parsed, deposit }, { lagSeconds: 0, signal })
  if ('kind' in seen) return { kind: 'unknown', reason: seen.reason }
  // The token accepts it before `validBefore`, not in that second. What has landed is settled by the next attempt.
  const isOver = seen.used || BigInt(seen.time) >= deposit.validBefore
  if (!isOver || covers(seen.mirror)) return { kind: 'open' }
  return seen.used ? await dead(seen.mirror) : { kind: 'dead' }

  /**
   * Whoever still settles it, by what it has read before, finds another record and reads again. A channel without a
   * record gets none: a poll would store it for nothing, and money that a settlement counts on stays for minutes.
   */
  async function dead(mirror: Mirror): Promise<Fate> {
    const noted = await vouchers.states.mirror(channelId, mirror, now)
    const isPaid = noted && base < noted.charged
    return isPaid ? { kind: 'paid', receipt: receiptOf(vouchers, voucher, noted, due) } : { kind: 'dead' }
  }
}

export function receiptOf(vouchers: VoucherScheme, { deposit }: Channeled, state: ChannelState, due: bigint): Receipt {
  const isOurs = deposit !== undefined && state.deposit?.nonce === deposit.nonce
  return {
    transaction: isOurs ? (state.deposit?.transaction ?? '') : '',
    network: vouchers.network,
    payer: buyerOf(state),
    amount: String(due),
    block: 0,
    extra: { chargedAmount: String(due), channelState: channelStateOf(state) },
  }
}

export async function refund(
  vouchers: VoucherScheme,
  payment: Payment,
  offer: Offer,
  at: RefundOptions,
): Promise<Refunding> {
  const parsed = parseRefund(payment, offer, vouchers.digests)
  if (parsed.kind === 'refused') return parsed
  return (await wrongSignature(vouchers, parsed)) ?? (await vouchers.refunds.refund(parsed, at))
}

const isIdle = (vouchers: VoucherScheme) =>
  vouchers.active === 0 && vouchers.refunds.isIdle() && vouchers.deposits.isIdle()

/** Whether both have signed: the payer the deposit, and the key of its channel the voucher. */
const wrongDepositing = async (
  vouchers: VoucherScheme,
  depositing: Pick<Channeled, 'channelId' | 'config' | 'ceiling' | 'signature'> & { readonly deposit: Deposit },
  at: CallOptions,
) =>
  (await wrongSignature(vouchers, depositing)) ??
  (await wrongDeposit(vouchers, depositing.config, depositing.deposit, at))

function spentVoucher(ceiling: bigint): Refused {
  const text = `a voucher of ${ceiling} has paid before, and others may have read it; order at another price, for example with another max_tokens`
  return refusedChannel('PAYMENT_REPLAY', 'voucher_spent', text)
}

function notCovered(ceiling: bigint, { balance, withdrawing }: Mirror): Refused {
  const text = `voucher.maxClaimableAmount is ${ceiling}; the channel covers ${balance - withdrawing}, ${withdrawing} of it are being withdrawn: deposit more`
  return refusedChannel('PAYMENT_UNFUNDED', 'cumulative_exceeds_balance', text)
}
export type EvmChannels = ReturnType<typeof evmChannels>
