/** The records of channels: one each, listed by what is due, and changed only by compare and set (decision 143). */
import type { Json } from '../../../../core/lib/mod.ts'
import type { Coordination, RecordStorage, StoredRecord } from '../../../../core/ports/mod.ts'
import type { Hex } from '../../lib/hex.ts'
import { knownStates } from './known_states.ts'
import { type ChannelState, isClosed, isDue, type Mirror, withMirror } from './state.ts'

export const CHANNEL_KIND = 'channel'

const DAY_MS = 86_400_000

/** How long a record is kept after its last change. What is due is looked at, and so changed, every few hours. */
const RETENTION_MS = 400 * DAY_MS

/** A channel with nothing in it. No payment of it that is older than 30 days is settled any more. */
const CLOSED_RETENTION_MS = 31 * DAY_MS

/** Owners of the records of earlier versions: the first digits of the channels' ids. */
const DIGITS = [...'0123456789abcdef']

/** Records that are read in one turn of the event loop. */
const PAGE = 100

export type ChannelStorage = Pick<Coordination, 'isShared'> & RecordStorage

/** A storage in this process answers at once: without a turn, all pages would hold the event loop together. */
const nextTurn = (): Promise<void> => new Promise((done) => setTimeout(done, 0))

type StatesOptions = {
  readonly network: string
  /** Who claims: the address that signs claims. */
  readonly seller: Hex
  /** Awaited between two pages. Default: a turn of the event loop. */
  readonly turn?: () => Promise<void>
}

/** Channels of one network. */
export function channelStates(storage: ChannelStorage, { network, seller, turn = nextTurn }: StatesOptions) {
  const nameOf = (channelId: Hex) => `${network}/${channelId}`
  const ownerOf = (name: string) => `${network}/${seller}/${name}`
  /** Channels that need something done have an owner of their own, by which they are listed. */
  const recordOf = (state: ChannelState, now: number): StoredRecord => ({
    kind: CHANNEL_KIND,
    id: nameOf(state.channelId),
    owner: ownerOf(isDue(state) ? 'due' : 'idle'),
    data: encoded(state),
    expiresAt: now + (isClosed(state) ? CLOSED_RETENTION_MS : RETENTION_MS),
  })

  const known = storage.isShared ? undefined : knownStates(storage, nameOf)

  function get(channelId: Hex, now: number): Promise<ChannelState | undefined> {
    const read = async () => {
      const record = await storage.getRecord(CHANNEL_KIND, nameOf(channelId), now)
      return record && decoded(record.data)
    }
    return known ? known.get(channelId, read) : read()
  }

  /** Puts `next` in the place of `before`. False where another process was faster. */
  async function replace(before: ChannelState | undefined, next: ChannelState, now: number): Promise<boolean> {
    let isStored = false
    try {
      const record = recordOf(next, now)
      isStored = before ? await storage.moveRecord(record, encoded(before), now) : await storage.putRecord(record, now)
      return isStored
    } finally {
      known?.end(before, next, isStored)
    }
  }

  return {
    get,
    replace,
    originOf: (state: ChannelState): object | undefined => known?.originOf(state),
    /** The same, for whoever stores it together with something else. */
    moving: (before: ChannelState, next: ChannelState, now: number) => ({
      spent: { record: recordOf(next, now), from: encoded(before) },
      end: (isStored: boolean) => known?.end(before, next, isStored),
    }),
    /**
     * The same for a state that the next change may begin from before it is stored, so that many are stored together:
     * those that follow one which is not stored are not stored either. Undefined where other processes change it.
     */
    advancing(before: ChannelState, next: ChannelState, now: number) {
      if (!known?.advance(before, next)) return undefined
      const spent = { record: recordOf(next, now), from: encoded(before) }
      return { spent, end: (isStored: boolean) => known.endAdvance(next, isStored) }
    },
    /** Notes what the chain says, whatever else happens to the channel meanwhile. Returns the state afterwards. */
    mirror: (channelId: Hex, mirror: Mirror, now: number): Promise<ChannelState | undefined> =>
      change(channelId, now, (state) => withMirror(state, mirror, now)),
    change,
    /** All channels in which something is due or being refunded, in pages. They may change while they are listed. */
    due: (now: number) => pages('due', now),
    /** Gives the records of earlier versions the owner by which they are listed. */
    async adopt(now: number): Promise<void> {
      await Promise.all(
        DIGITS.map(async (digit) => {
          for await (const page of pages(digit, now)) await Promise.all(page.map((state) => replace(state, state, now)))
        }),
      )
    },
  }

  /** Changes a channel, whatever else happens to it meanwhile. Returns the state afterwards. */
  async function change(
    channelId: Hex,
    now: number,
    to: (state: ChannelState) => ChannelState,
  ): Promise<ChannelState | undefined> {
    for (;;) {
      const state = await get(channelId, now)
      if (!state) return undefined
      const next = to(state)
      if (await replace(state, next, now)) return next
    }
  }

  async function* pages(owner: string, now: number): AsyncGenerator<readonly ChannelState[]> {
    for (let after = ''; ;) {
      const page = await storage.listRecords(CHANNEL_KIND, ownerOf(owner), { now, after, limit: PAGE })
      const last = page.at(-1)
      if (last) yield page.map(({ data }) => decoded(data))
      if (!last || page.length < PAGE) return
      after = last.id
      await turn()
    }
  }
}

export type ChannelStates = ReturnType<typeof channelStates>

/** Part of `claimed` that no call in the channel's record was charged. */
export function lostIn(record: Json | undefined, claimed: bigint): bigint {
  if (record === undefined) return claimed
  const { charged, forgotten = '0' } = decoded(record)
  return BigInt(forgotten) + (claimed > charged ? claimed - charged : 0n)
}

function encoded(state: ChannelState): Json {
  const { balance, claimed, withdrawing, refundNonce, charged, ceiling, ...plain } = state
  const amounts = { balance, claimed, withdrawing, refundNonce, charged, ceiling }
  const written = Object.fromEntries(Object.entries(amounts).map(([name, amount]) => [name, String(amount)]))
  return { version: 1, data: { ...plain, ...written } as unknown as Json }
}

function decoded(stored: Json): ChannelState {
  const { version, data } = stored as unknown as { version: number; data: Record<keyof ChannelState, string> }
  if (version !== 1) throw new Error(`a channel has version ${version}; this program reads version 1`)
  const { balance, claimed, withdrawing, refundNonce, charged, ceiling, ...plain } = data
  const amounts = {
    balance: BigInt(balance),
    claimed: BigInt(claimed),
    withdrawing: BigInt(withdrawing),
    refundNonce: BigInt(refundNonce),
    charged: BigInt(charged),
    ceiling: BigInt(ceiling),
  }
  return { ...(plain as unknown as Omit<ChannelState, keyof typeof amounts>), ...amounts }
}
