/**
 * Calls that are paid out of a reservation in their channel: those of an API key, and the vouchers of other clients on
 * a channel of a key. Each is open from its reservation to its charge (decision 151).
 */
import { boundedMap, oncePer } from '../../../../../core/lib/mod.ts'
import type { Hex } from '../../../lib/hex.ts'
import type { Reads } from '../../node/reads.ts'
import type { ChannelConfig, ChannelDigests } from '../digests.ts'
import { type ChannelState, claimableOf, type Mirror, reservedIn } from '../state.ts'
import { type ChannelStates, type ChannelStorage } from '../records.ts'
import type { KeySigner } from './api_key.ts'
import { childLeft, childOf } from './child_calls.ts'

/** A call that a reservation pays. `name` identifies it in its channel. */
export type ReservedCall = {
  readonly channelId: Hex
  readonly config: ChannelConfig
  readonly name: string
  /** In base units. */
  readonly price: bigint
  /** When its reservation ends by itself, in milliseconds. */
  readonly until: number
  /** Its voucher is signed when it is charged. */
  readonly isLate: boolean
  /** The voucher that its buyer has signed. */
  readonly voucher?: { readonly ceiling: bigint; readonly signature: Hex } | undefined
  /** The signer of a key that was presented just now. */
  readonly signer?: KeySigner | undefined
}

export type KeyCallsContext = {
  readonly storage: ChannelStorage
  readonly states: ChannelStates
  readonly digests: ChannelDigests
  readonly reads: Pick<Reads, 'view'>
}

export type KeyCallsConfig = {
  readonly network: string
  /** In seconds. */
  readonly withdrawDelay: number
  readonly lagSeconds: number
}

/** State of `keyCalls`. */
export type KeyCalling = KeyCallsContext &
  KeyCallsConfig & {
    /** How old the mirror of a channel may be, in milliseconds. */
    readonly freshMs: number
    readonly inProcess: ProcessCalls
  }

/** Attempts to change the record of a channel that others change meanwhile. */
export const MAX_RACES = 16

/** State of a call in this process: its signer, and its reservation where no other process has the storage. */
type Open = {
  readonly amount: bigint
  readonly signer?: KeySigner
  /** Its reservation in states of another origin than its charge, which is being stored. */
  readonly charging?: { readonly amount: bigint; readonly origin: object | undefined }
}

/** Far more than are charged until the next charge in the same channel forgets them. */
const MAX_RECORDED = 10_000

/** The calls of keys in this process, of all gateways over a storage. */
export const processCallsOf = oncePer(() => ({
  /** Of each channel, by the name of the call. An amount of 0 is reserved in the record. */
  open: new Map<Hex, Map<string, Open>>(),
  /** Signers that the end of a call closes. */
  signing: new WeakSet<KeySigner>(),
  /** Signers of keys that ask for a call of theirs right now, by channel and name of the call. */
  presented: new Map<string, KeySigner>(),
  /** Charges that the ledger has, by channel and name of the call. */
  recorded: boundedMap<true>(MAX_RECORDED),
  turns: new Map<Hex, Promise<void>>(),
}))

type ProcessCalls = ReturnType<typeof processCallsOf>

/** Changes of one channel take turns, so that those of one process never race. Ends with the returned function. */
export async function turn({ inProcess: { turns } }: KeyCalling, channelId: Hex): Promise<() => void> {
  const before = turns.get(channelId)
  let end = () => {}
  const mine = new Promise<void>((resolve) => (end = resolve))
  turns.set(channelId, mine)
  await before
  return () => {
    if (turns.get(channelId) === mine) turns.delete(channelId)
    end()
  }
}

export async function inTurn<T>(keys: KeyCalling, channelId: Hex, work: () => Promise<T>): Promise<T> {
  const end = await turn(keys, channelId)
  try {
    return await work()
  } finally {
    end()
  }
}

export const openOf = ({ inProcess }: KeyCalling, channelId: Hex, name: string): Open | undefined =>
  inProcess.open.get(channelId)?.get(name)

const idOfCall = (channelId: Hex, name: string): string => `${channelId}/${name}`

/** The signer of a key that was presented again for this call, whose first process may be gone. */
export const presented = ({ inProcess }: KeyCalling, channelId: Hex, name: string): KeySigner | undefined =>
  inProcess.presented.get(idOfCall(channelId, name))

export function present(
  { inProcess }: KeyCalling,
  { channelId, name, signer }: Pick<ReservedCall, 'channelId' | 'name'> & { readonly signer: KeySigner },
): void {
  inProcess.presented.set(idOfCall(channelId, name), signer)
}

/** The request that presented it has ended. */
export function withdraw({ inProcess }: KeyCalling, signer: KeySigner): void {
  for (const [id, each] of inProcess.presented) if (each === signer) inProcess.presented.delete(id)
}

/** The ledger has the charge of this call: its channel need not remember it, and it reserves nothing. */
export function noteRecorded(keys: KeyCalling, channelId: Hex, name: string): void {
  keys.inProcess.recorded.set(idOfCall(channelId, name), true)
  forget(keys, channelId, name)
}

export const isRecorded = ({ inProcess }: KeyCalling, channelId: Hex, name: string): boolean =>
  inProcess.recorded.get(idOfCall(channelId, name)) === true

export function note(
  { inProcess: { open, signing } }: KeyCalling,
  { channelId, name, signer }: Pick<ReservedCall, 'channelId' | 'name' | 'signer'>,
  amount: bigint,
): void {
  const calls = open.get(channelId) ?? new Map<string, Open>()
  open.set(channelId, calls.set(name, { amount, ...(signer && { signer }) }))
  if (signer) signing.add(signer)
}

/**
 * While it is charged, the call reserves nothing in `next` and in what is made from it. The returned function gives it
 * its reservation again.
 */
export function suspend({ inProcess: { open }, states }: KeyCalling, next: ChannelState, name: string): () => void {
  const calls = open.get(next.channelId)
  const call = calls?.get(name)
  if (!calls || !call) return () => {}
  calls.set(name, { ...call, amount: 0n, charging: { amount: call.amount, origin: states.originOf(next) } })
  return () => {
    if (calls.has(name)) calls.set(name, call)
  }
}

/** The call has ended: nothing more is signed for it. */
export function forget({ inProcess: { open } }: KeyCalling, channelId: Hex, name: string): void {
  const calls = open.get(channelId)
  calls?.get(name)?.signer?.close()
  calls?.delete(name)
  if (calls?.size === 0) open.delete(channelId)
}

/** Everything that open calls of this channel may be charged. */
export function reserved({ inProcess: { open }, states }: KeyCalling, state: ChannelState, now: number): bigint {
  let sum = reservedIn(state, now)
  const origin = states.originOf(state)
  for (const { amount, charging } of open.get(state.channelId)?.values() ?? [])
    sum += charging && charging.origin !== origin ? charging.amount : amount
  return sum
}

/** Largest charge of a next call. A key that was closed pays for no new one. */
export function available(keys: KeyCalling, state: ChannelState, now: number): bigint {
  if (state.closing) return 0n
  const left = state.balance - state.withdrawing - state.charged - reserved(keys, state, now)
  return left > 0n ? left : 0n
}

export const coversAll = (keys: KeyCalling, state: ChannelState, now: number): boolean =>
  state.balance - state.withdrawing - state.charged >= reserved(keys, state, now)

/** Largest charge of this call. A child has its cap, unless what is being withdrawn leaves less than all caps. */
export function room(keys: KeyCalling, state: ChannelState, { name, now }: { name: string; now: number }): bigint {
  const child = childOf(name)
  if (child === undefined) return available(keys, state, now)
  return coversAll(keys, state, now) ? (childLeft(state, child, now) ?? 0n) : 0n
}

export const isReserved = (keys: KeyCalling, state: ChannelState, { name, now }: { name: string; now: number }) =>
  (state.reserved?.[name]?.until ?? 0) > now || (openOf(keys, state.channelId, name)?.amount ?? 0n) > 0n

export const claimable = ({ withdrawDelay }: KeyCalling, mirror: Mirror, now: number): bigint =>
  claimableOf(mirror, { now, withdrawDelay })
