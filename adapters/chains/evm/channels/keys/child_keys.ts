/** Records of child keys: whose cap they spend, what they may buy, and until when (contract 23.14). */
import type { ChildKey, KeyChannel } from '../../../../../core/ports/mod.ts'
import { boundedMap, type Json, oncePer } from '../../../../../core/lib/mod.ts'
import { usdc } from '../../../../../core/x402/mod.ts'
import type { Hex } from '../../../lib/hex.ts'
import { childLeft, childName, childOpen } from './child_calls.ts'
import type { ChannelState } from '../state.ts'
import type { ChannelStorage } from '../records.ts'

const KIND = 'channel_child_key'
/** Ended children are listed for a while. */
const ENDED_MS = 30 * 86_400_000

/** A child as it is stored. `lender` is the address of its parent. */
export type StoredChild = Pick<ChildKey, 'address' | 'name' | 'models' | 'perMinute' | 'until'> & {
  readonly lender: Hex
  readonly channelId: Hex
  /** In base units. */
  readonly cap: string
}

/** Addresses without a child, which all gateways over a storage remember, and until when. */
const unknownOf = oncePer(() => boundedMap<number>(10_000))

export function childKeys(
  storage: ChannelStorage,
  { network, seller }: { readonly network: string; readonly seller: Hex },
) {
  const idOf = (address: string) => `${network}/${seller}/${address}`

  /** Guessed keys cost one question to storage each; another process may have made one meanwhile. */
  const unknownMs = storage.isShared ? 2_000 : 30_000
  const unknown = unknownOf(storage)

  async function find(address: string, now: number): Promise<StoredChild | undefined> {
    const id = idOf(address)
    if ((unknown.get(id) ?? 0) > now) return undefined
    const record = await storage.getRecord(KIND, id, now)
    if (!record) unknown.set(id, now + unknownMs)
    return record && childIn(record.data)
  }

  const recordOf = (child: StoredChild) => {
    const data = { version: 1, data: child } as unknown as Json
    return { kind: KIND, id: idOf(child.address), owner: idOf(child.lender), data, expiresAt: child.until + ENDED_MS }
  }

  /** Stores a child before its cap is reserved: a reservation that nobody knows would hold money for its whole life. */
  async function add(child: StoredChild, now: number): Promise<boolean> {
    unknown.delete(idOf(child.address))
    return await storage.putRecord(recordOf(child), now)
  }

  /** Ends the record of a child that got no cap. */
  async function drop(child: StoredChild, now: number): Promise<void> {
    const record = recordOf(child)
    await storage.moveRecord({ ...record, expiresAt: now }, record.data, now)
  }

  async function list(lender: string, { now, limit }: { readonly now: number; readonly limit: number }) {
    const records = await storage.listRecords(KIND, idOf(lender), { now, limit })
    return records.map(({ data }) => childIn(data))
  }

  return { find, add, drop, list }
}

export type ChildKeys = ReturnType<typeof childKeys>

/** A child with what it has left. Absent from the channel, it was revoked, or never got its cap. */
export function childOfState(child: StoredChild, state: ChannelState | undefined, now: number): ChildKey {
  const { address, name, models, perMinute, until, cap } = child
  const left = state && childLeft(state, childName(address), now)
  const reserved = state && left !== undefined ? childOpen(state, childName(address), now) : 0n
  const ended = until > now ? 'revoked' : 'expired'
  const status = left === undefined ? ended : 'active'
  const amounts = { cap: usdc(BigInt(cap)), reserved: usdc(reserved), available: usdc(left ?? 0n) }
  const charged = left === undefined ? {} : { charged: usdc(BigInt(cap) - reserved - left) }
  return { address, name, models, perMinute, until, status, ...amounts, ...charged }
}

/** The balance of a child in the shape of that of a key: its cap is what was deposited for it. */
export function childChannel(
  { cap, reserved, available, charged = usdc(0n) }: ChildKey,
  { network, channelId, payer }: Pick<KeyChannel, 'network' | 'channelId' | 'payer'>,
): KeyChannel {
  const none = usdc(0n)
  return { network, channelId, payer, deposited: cap, charged, claimed: none, reserved, withdrawing: none, available }
}

function childIn(stored: Json): StoredChild {
  const { version, data } = stored as unknown as { readonly version: number; readonly data: StoredChild }
  if (version !== 1) throw new Error(`a child key has version ${version}; this program reads version 1`)
  return data
}
