/** Which channels an API key pays from: a list for each address, written when a deposit is confirmed. */
import { boundedMap, type Json, oncePer } from '../../../../../core/lib/mod.ts'
import { keySalt } from '../../../../../core/x402/mod.ts'
import type { Hex } from '../../../lib/hex.ts'
import type { ChannelConfig } from '../digests.ts'
import type { ChannelState } from '../state.ts'
import type { ChannelStorage } from '../records.ts'

const KIND = 'channel_key'
const RETENTION_MS = 400 * 86_400_000
/** A list that is used is stored again when this much of its life is left. */
const RENEW_MS = RETENTION_MS / 2
/** Channels of one address: anyone may open one that names it. */
export const MAX_CHANNELS = 4
/** Addresses without a channel that are remembered, so that guessed keys cost no question to storage. */
const MAX_UNKNOWN = 10_000
/** Other processes may take a deposit meanwhile. */
const UNKNOWN_MS = { alone: 30_000, shared: 2_000 } as const
const MAX_RACES = 8

/** Whether a channel is one of an API key. */
export const isKeyChannel = ({ payerAuthorizer, salt }: ChannelConfig): boolean => salt === saltOf(payerAuthorizer)

const salts = boundedMap<Hex>(10_000)

function saltOf(address: Hex): Hex {
  const known = salts.get(address) ?? keySalt(address)
  salts.set(address, known)
  return known
}

/** The addresses and channels that all gateways over a storage remember. */
const indexOf = oncePer(() => ({
  unknown: boundedMap<number>(MAX_UNKNOWN),
  lists: boundedMap<readonly Hex[]>(MAX_UNKNOWN),
}))

export function keyIndex(
  storage: ChannelStorage,
  { network, seller }: { readonly network: string; readonly seller: Hex },
) {
  const nameOf = (address: Hex) => `${network}/${seller}/${address}`
  const unknownMs = storage.isShared ? UNKNOWN_MS.shared : UNKNOWN_MS.alone
  const { unknown, lists } = indexOf(storage)

  /** The channels of an address, oldest first; empty for one that has none here. */
  async function find(address: Hex, now: number): Promise<readonly Hex[]> {
    const name = nameOf(address)
    const known = storage.isShared ? undefined : lists.get(name)
    if (known) return known
    if ((unknown.get(name) ?? 0) > now) return []
    const record = await storage.getRecord(KIND, name, now)
    // A deposit may have added one while it was read.
    const added = lists.get(name)
    if (added) return added
    if (!record) {
      unknown.set(name, now + unknownMs)
      return []
    }
    const ids = idsIn(record.data)
    if (record.expiresAt - now < RENEW_MS)
      await storage.moveRecord({ ...record, expiresAt: now + RETENTION_MS }, record.data, now)
    lists.set(name, ids)
    return ids
  }

  /** Adds a channel. A full list stays as it is: the first channels of a key are its own. */
  async function add({ channelId, config }: Pick<ChannelState, 'channelId' | 'config'>, now: number): Promise<void> {
    const name = nameOf(config.payerAuthorizer)
    for (let race = 0; race < MAX_RACES; race++) {
      const before = await storage.getRecord(KIND, name, now)
      const ids = before ? idsIn(before.data) : []
      if (ids.includes(channelId) || ids.length >= MAX_CHANNELS) return
      const record = {
        kind: KIND,
        id: name,
        owner: `${network}/${seller}`,
        data: { version: 1, data: [...ids, channelId] } as unknown as Json,
        expiresAt: now + RETENTION_MS,
      }
      const isStored = before
        ? await storage.moveRecord(record, before.data, now)
        : await storage.putRecord(record, now)
      if (!isStored) continue
      unknown.delete(name)
      return lists.set(name, [...ids, channelId])
    }
    throw new Error('the list of the channels of a key is changed by others')
  }

  /** The addresses with a channel, in order, after one of them or from the first on. */
  async function list({ now, after, limit }: { readonly now: number; readonly after: string; readonly limit: number }) {
    const from = after === '' ? '' : nameOf(after as Hex)
    const records = await storage.listRecords(KIND, `${network}/${seller}`, { now, after: from, limit })
    return records.map(({ id, data }) => ({ address: id.slice(nameOf('' as Hex).length) as Hex, ids: idsIn(data) }))
  }

  return { find, add, list }
}

export type KeyIndex = ReturnType<typeof keyIndex>

function idsIn(stored: Json): readonly Hex[] {
  const { version, data } = stored as unknown as { readonly version: number; readonly data: readonly Hex[] }
  if (version !== 1) throw new Error(`the channels of a key have version ${version}; this program reads version 1`)
  return data
}
