/** API keys on one network: which channels they pay from, deposits that pay for no call, and what is sent back. */
import { checksummed } from '../../../../../core/lib/mod.ts'
import type {
  ChainKeys,
  ChildKey,
  KeyChannel,
  KeyClosing,
  KeyClosingOptions,
  KeyDeposit,
  KeyDepositOptions,
  KeyOrder,
  KeyPayment,
  Lending,
  Lent,
  OpenedKey,
  Refunding,
  Refused,
  Unavailable,
} from '../../../../../core/ports/mod.ts'
import {
  fits,
  type KeyMode,
  type Offer,
  parseAtomic,
  type Payment,
  type Terms,
  usdc,
} from '../../../../../core/x402/mod.ts'
import { type KeySigner, keySigner } from './api_key.ts'
import { lower, numberIn, uintIn } from '../../../lib/hex.ts'
import type { Rpc } from '../../../lib/json_rpc.ts'
import { type CallOptions, unavailable } from '../../../lib/results.ts'
import type { Reads } from '../../node/reads.ts'
import { balanceCall } from '../../node/token.ts'
import { addressOf, childLeft, childName, childrenIn, signedCalls } from './child_calls.ts'
import { childChannel, type ChildKeys, childOfState, type StoredChild } from './child_keys.ts'
import type { ChannelDeposits } from '../deposits.ts'
import type { ChannelDigests } from '../digests.ts'
import type { KeyCalls } from './calls.ts'
import { isKeyChannel, type KeyIndex, MAX_CHANNELS } from './key_index.ts'
import type { KeyedChannels } from './keyed.ts'
import { type Channeled, type Deposit, parseDeposit, refusedChannel } from '../payload.ts'
import type { ChannelRefunds } from '../refunds.ts'
import type { ChannelState, ChannelStates } from '../state.ts'

export type ChannelKeysContext = {
  readonly rpc: Pick<Rpc, 'request'>
  readonly reads: Pick<Reads, 'view'>
  readonly states: ChannelStates
  readonly index: KeyIndex
  readonly children: ChildKeys
  readonly calls: KeyCalls
  readonly channels: KeyedChannels
  readonly deposits: ChannelDeposits
  readonly refunds: ChannelRefunds
  readonly digests: ChannelDigests
}

export type ChannelKeysConfig = {
  readonly network: string
  readonly asset: string
  readonly mode: KeyMode
  readonly lagSeconds: number
}

type Depositing = Pick<Channeled, 'config' | 'channelId' | 'ceiling' | 'signature'> & { readonly deposit: Deposit }

/** Children that have ended count, so that a key fills no database. */
const MAX_LISTED = 100

/** A key that was opened, with its signer. */
type Opened = OpenedKey & { readonly signer: KeySigner }

export function channelKeys(context: ChannelKeysContext, config: ChannelKeysConfig): ChainKeys {
  const { rpc, reads, states, index, children, calls, channels, deposits, refunds, digests } = context
  const { network, asset, mode, lagSeconds } = config

  async function open(seed: Uint8Array, { isChild } = { isChild: false }): Promise<Opened> {
    const signer = await keySigner(seed)
    const end = () => {
      if (!calls.isSigning(signer)) signer.close()
    }
    return { address: signer.address, isChild, signer, end }
  }

  /** The channels of an address, oldest first. */
  async function statesOf(address: string, now: number): Promise<readonly ChannelState[]> {
    const ids = await index.find(lower(address), now)
    const found = await Promise.all(ids.slice(0, MAX_CHANNELS).map((id) => states.get(id, now)))
    return found.filter((state) => state !== undefined)
  }

  async function pay(key: OpenedKey, order: KeyOrder, at: CallOptions): Promise<KeyPayment | undefined> {
    const offer = order.offers.find(isOurs)
    if (key.isChild) return offer && (await payAsChild(key.address, { order, offer }, at))
    const found = await statesOf(key.address, at.now)
    const price = parseAtomic(offer?.amount ?? '0') ?? 0n
    const state = found.find((each) => calls.available(each, at.now) >= price) ?? found[0]
    if (!offer || !state) return undefined
    const { signer } = key as Opened
    const named = { name: `key/${order.name}`, isLate: order.isLate, until: order.until }
    return { kind: 'payment', payment: channels.payment({ offer, config: state.config, signer }, named), offer }
  }

  /** The voucher of a child's calls was signed with its cap, so nothing is signed with its key. */
  async function payAsChild(
    address: string,
    { order, offer }: { readonly order: KeyOrder; readonly offer: Offer },
    { now }: CallOptions,
  ): Promise<KeyPayment | undefined> {
    const child = await children.find(address, now)
    const state = child && (await states.get(child.channelId, now))
    if (!state || childLeft(state, childName(address), now) === undefined) return undefined
    const named = { name: `${childName(address)}/${order.name}`, isLate: false, until: order.until }
    return { kind: 'payment', payment: channels.payment({ offer, config: state.config }, named), offer }
  }

  async function payAgain(
    key: OpenedKey,
    { key: authorization, offer }: { readonly key: string; readonly offer: Offer },
    { now }: CallOptions,
  ): Promise<KeyPayment | undefined> {
    const call = channels.callOf(network, authorization)
    const isOwn = call?.name.startsWith(key.isChild ? `${childName(key.address)}/` : 'key/')
    const state = call && isOwn ? await states.get(call.channelId, now) : undefined
    if (!call || !state || (!key.isChild && state.config.payerAuthorizer !== key.address)) return undefined
    const named = { name: call.name, isLate: false, until: now }
    const paying = { offer, config: state.config, ...(!key.isChild && { signer: (key as Opened).signer }) }
    return { kind: 'payment', payment: channels.payment(paying, named), offer }
  }

  const isOurs = (offer: Pick<Offer, 'scheme' | 'network' | 'asset'>): boolean =>
    offer.scheme === 'batch-settlement' && offer.network === network && lower(offer.asset) === lower(asset)

  function channelOf(state: ChannelState, now: number): KeyChannel {
    const { channelId, config: channel, balance, charged, claimed, withdrawing } = state
    return {
      network,
      channelId,
      payer: checksummed(channel.payer),
      deposited: usdc(balance),
      charged: usdc(charged),
      claimed: usdc(claimed),
      reserved: usdc(calls.reserved(state, now)),
      withdrawing: usdc(withdrawing),
      available: usdc(calls.available(state, now)),
    }
  }

  /** Checks a deposit as one that pays for a call, and that its key can be nobody's wallet; then brings it on chain. */
  async function deposit(payment: Payment, at: KeyDepositOptions): Promise<KeyDeposit> {
    const terms = channels.terms()
    if (!fits(terms, payment.accepted))
      return refusedChannel('PAYMENT_INVALID', 'network_mismatch', `this is not ${network}`)
    const parsed = parseDeposit(payment, offerOf(terms), digests)
    if ('kind' in parsed) return parsed
    const bad = notOfKey(parsed) ?? (await channels.wrongDepositing(parsed, at)) ?? (await walletProblem(parsed, at))
    if (bad) return bad
    at.requireListed?.(parsed.config.payer, parsed.config.payerAuthorizer)
    const problem = await deposits.problem(parsed, at)
    if (problem && problem !== 'landed') return problem
    const landing = await deposits.land(parsed, at)
    if (landing.kind !== 'landed') return landing
    await index.add(landing.state, at.now)
    const { transaction = '' } = landing.state.deposit ?? {}
    return { kind: 'deposited', channel: channelOf(landing.state, at.now), transaction }
  }

  function notOfKey({ config: channel }: Depositing): Refused | undefined {
    if (channel.payer === channel.payerAuthorizer)
      return refusedChannel('PAYMENT_INVALID', 'key', 'channelConfig.payerAuthorizer is the payer; it must be a key')
    if (isKeyChannel(channel)) return undefined
    const text = 'channelConfig.salt must be keccak256("farebox key v1" and the 20 bytes of payerAuthorizer)'
    return refusedChannel('PAYMENT_INVALID', 'key', text)
  }

  /** The address of a key owns nothing: whoever reads the key could sign it away. Asked before the first deposit. */
  async function walletProblem(
    { channelId, config: channel }: Depositing,
    { now, signal }: CallOptions,
  ): Promise<Refused | Unavailable | undefined> {
    if (await states.get(channelId, now)) return undefined
    const address = channel.payerAuthorizer
    const [code, count, seen] = await Promise.all([
      rpc.request('eth_getCode', [address, 'latest'], signal),
      rpc.request('eth_getTransactionCount', [address, 'latest'], signal),
      reads.view([{ to: lower(asset), data: balanceCall(address) }], { lagSeconds, signal }),
    ])
    if (code.kind !== 'result' || count.kind !== 'result' || seen.kind === 'failure')
      return unavailable('the address of the key cannot be read')
    const balance = uintIn(seen.results[0]) ?? 0n
    const isUsed = (code.value !== '0x' && code.value !== '0x0') || numberIn(count.value) !== 0 || balance > 0n
    if (!isUsed) return undefined
    const text = `${address} has code, transactions or a balance, so it is a wallet; make a key with farebox key new`
    return refusedChannel('PAYMENT_INVALID', 'key', text)
  }

  async function close({ address, payer }: KeyClosing, at: KeyClosingOptions): Promise<Refunding | undefined> {
    const all = await statesOf(address, at.now)
    const found = payer === undefined ? all : all.filter((state) => state.config.payer === lower(payer))
    const before = found.find(({ balance, charged }) => balance > charged) ?? found[0]
    if (!before) return undefined
    const { channelId, config: channel } = before
    await calls.endChildren(channelId, at.now)
    // A thief may have ordered what nobody collects; its result is charged now, so that nothing waits for it.
    for (const name of signedCalls(before, at.now))
      await at.settleFinished(channels.keyOf(network, { channelId, name }), (offer) =>
        channels.payment({ offer, config: channel }, { name, isLate: false, until: at.now }),
      )
    const request = { kind: 'refund', config: channel, channelId, ceiling: undefined, signature: '0x' } as const
    const ours = { ...request, key: '', fundedBy: '', amount: undefined }
    // The key or its wallet was shown, so nobody else has asked.
    return await refunds.refund(ours, { ...at, isFree: async () => true, isFrom: async () => true })
  }

  /** The record comes before the reservation: one that nobody knows would hold money for its whole life. */
  async function lend(key: OpenedKey, lending: Lending, at: CallOptions): Promise<Lent | undefined> {
    const found = await statesOf(key.address, at.now)
    const state = found.find((each) => calls.available(each, at.now) >= lending.cap) ?? found[0]
    if (!state) return undefined
    const { channelId, config: channel } = state
    const listed = await children.list(lower(key.address), { now: at.now, limit: MAX_LISTED })
    if (listed.length >= MAX_LISTED)
      return refusedChannel(
        'PAYMENT_INVALID',
        'children',
        `a key has made ${MAX_LISTED} children; ended ones are forgotten after thirty days`,
      )
    const lent = { ...lending, address: lower(lending.address), lender: lower(key.address), channelId }
    const child: StoredChild = { ...lent, cap: String(lending.cap) }
    const name = childName(child.address)
    const cap = { channelId, config: channel, name, price: lending.cap, until: lending.until, isLate: false }
    const { signer } = key as Opened
    const verdict = await calls.verify({ ...cap, signer }, at)
    if (verdict.kind !== 'valid') return verdict
    if (!(await children.add(child, at.now))) return unavailable('a child key of this address exists')
    const reserved = await calls.secure({ ...cap, signer }, at)
    if (reserved.kind !== 'secured') {
      await children.drop(child, at.now)
      return reserved
    }
    return { kind: 'lent', child: childOfState(child, await states.get(channelId, at.now), at.now) }
  }

  async function withState(child: StoredChild, now: number): Promise<ChildKey> {
    return childOfState(child, await states.get(child.channelId, now), now)
  }

  /** The channels of a key; that of a child is its cap. */
  async function channelsOf(address: string, now: number): Promise<readonly KeyChannel[]> {
    const own = await statesOf(address, now)
    const child = own.length > 0 ? undefined : await children.find(address, now)
    const state = child && (await states.get(child.channelId, now))
    if (!child || !state) return own.map((each) => channelOf(each, now))
    return [childChannel(childOfState(child, state, now), channelOf(state, now))]
  }

  return {
    modes: [mode],
    open,
    lend,
    async child(address, { now }) {
      const child = await children.find(lower(address), now)
      return child && (await withState(child, now))
    },
    async children(address, { now }) {
      const names = (await statesOf(address, now)).flatMap((state) => childrenIn(state, now))
      const active = await Promise.all(names.map((name) => children.find(addressOf(name), now)))
      const all = [...active, ...(await children.list(lower(address), { now, limit: MAX_LISTED }))]
      const found = new Map(all.flatMap((child) => (child ? [[child.address, child] as const] : [])))
      return await Promise.all([...found.values()].slice(0, MAX_LISTED).map((child) => withState(child, now)))
    },
    async revoke(lender, address, { now }) {
      const child = await children.find(lower(address), now)
      if (child?.lender !== lower(lender)) return false
      return await calls.endChildren(child.channelId, now, childName(child.address))
    },
    pay,
    payAgain,
    deposit,
    close,
    async list(at) {
      const pages = await index.list(at)
      const found = await Promise.all(
        pages.map(async ({ address, ids }) => {
          const known = await Promise.all(ids.map((id) => states.get(id, at.now)))
          return known.flatMap((state) => (state ? [{ ...channelOf(state, at.now), ...usageOf(state), address }] : []))
        }),
      )
      return found.flat()
    },
    channels: async (address, { now }) => await channelsOf(address, now),
    async release(authorization, now) {
      const call = channels.callOf(network, authorization)
      if (call) await calls.release(call.channelId, call.name, now)
    },
  }
}

const usageOf = ({ charged, claimed, gasSpent = '0', usedAt }: ChannelState) => ({
  unclaimed: usdc(charged > claimed ? charged - claimed : 0n),
  gasSpent: usdc(BigInt(gasSpent)),
  usedAt,
})

/** The terms as an offer that nothing is bought with. */
const offerOf = (terms: Terms): Offer => ({ ...terms, amount: '0', maxTimeoutSeconds: 300, extra: terms.extra })
