/** The channels that a key pays from, and what is in them. */
import { checksummed } from '../../../../../core/lib/mod.ts'
import type { ChainKeys, KeyChannel, OpenedKey } from '../../../../../core/ports/mod.ts'
import { type KeyMode, type Offer, usdc } from '../../../../../core/x402/mod.ts'
import { lower } from '../../../lib/hex.ts'
import type { Rpc } from '../../../lib/json_rpc.ts'
import type { Reads } from '../../node/reads.ts'
import type { ChannelDeposits } from '../deposits.ts'
import type { ChannelDigests } from '../digests.ts'
import type { ChannelRefunds } from '../refunds/mod.ts'
import type { ChannelState } from '../state.ts'
import type { ChannelStates } from '../records.ts'
import type { KeySigner } from './api_key.ts'
import type { KeyCalls } from './calls.ts'
import { childChannel, type ChildKeys, childOfState } from './child_keys.ts'
import { type KeyIndex, MAX_CHANNELS } from './key_index.ts'
import type { KeyedChannels } from './keyed.ts'

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

/** State of `channelKeys`. */
export type KeyParts = ChannelKeysContext & ChannelKeysConfig

/** A key that was opened, with its signer. */
export type Opened = OpenedKey & { readonly signer: KeySigner }

export const isOurs = (
  { network, asset }: Pick<KeyParts, 'network' | 'asset'>,
  offer: Pick<Offer, 'scheme' | 'network' | 'asset'>,
): boolean => offer.scheme === 'batch-settlement' && offer.network === network && lower(offer.asset) === lower(asset)

/** The channels of an address, oldest first. */
export async function statesOf(
  { index, states }: Pick<KeyParts, 'index' | 'states'>,
  address: string,
  now: number,
): Promise<readonly ChannelState[]> {
  const ids = await index.find(lower(address), now)
  const found = await Promise.all(ids.slice(0, MAX_CHANNELS).map((id) => states.get(id, now)))
  return found.filter((state) => state !== undefined)
}

export function channelOf(
  { network, calls }: Pick<KeyParts, 'network' | 'calls'>,
  state: ChannelState,
  now: number,
): KeyChannel {
  const { channelId, config, balance, charged, claimed, withdrawing } = state
  return {
    network,
    channelId,
    payer: checksummed(config.payer),
    deposited: usdc(balance),
    charged: usdc(charged),
    claimed: usdc(claimed),
    reserved: usdc(calls.reserved(state, now)),
    withdrawing: usdc(withdrawing),
    available: usdc(calls.available(state, now)),
  }
}

/** The channels of a key; that of a child is its cap. */
export async function channelsOf(parts: KeyParts, address: string, now: number): Promise<readonly KeyChannel[]> {
  const { children, states } = parts
  const own = await statesOf(parts, address, now)
  const child = own.length > 0 ? undefined : await children.find(address, now)
  const state = child && (await states.get(child.channelId, now))
  if (!child || !state) return own.map((each) => channelOf(parts, each, now))
  return [childChannel(childOfState(child, state, now), channelOf(parts, state, now))]
}

/** A page of all keys, by address. */
export async function listKeys(parts: KeyParts, at: Parameters<ChainKeys['list']>[0]) {
  const { index, states } = parts
  const pages = await index.list(at)
  const found = await Promise.all(
    pages.map(async ({ address, ids }) => {
      const known = await Promise.all(ids.map((id) => states.get(id, at.now)))
      return known.flatMap((state) =>
        state ? [{ ...channelOf(parts, state, at.now), ...usageOf(state), address }] : [],
      )
    }),
  )
  return found.flat()
}

const usageOf = ({ charged, claimed, gasSpent = '0', gasPaid = '0', usedAt }: ChannelState) => ({
  unclaimed: usdc(charged > claimed ? charged - claimed : 0n),
  gasSpent: usdc(BigInt(gasSpent)),
  gasPaid: usdc(BigInt(gasPaid)),
  usedAt,
})
