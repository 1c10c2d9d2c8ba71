/**
 * What is known of a channel: one record each, changed only by compare and set. It is the only proof of what was
 * charged since the last claim.
 */
import type { Json } from '../../../../core/lib/json.ts'
import type { Storage, StoredRecord } from '../../../../core/ports/mod.ts'
import type { Hex } from '../../hex.ts'
import type { ChannelConfig } from './digests.ts'

/** What the chain says of a channel. Amounts in base units. */
export type Mirror = {
  /** Everything that was deposited and not paid back; claims do not lower it. */
  readonly balance: bigint
  readonly claimed: bigint
  /** What the payer has asked to withdraw, and when, in seconds; 0 where nothing. */
  readonly withdrawing: bigint
  readonly withdrawRequestedAt: number
  readonly refundNonce: bigint
}

/** `claimed <= charged <= ceiling <= balance`, and `signature` is the payer's over `ceiling`. */
export type ChannelState = Mirror & {
  readonly channelId: Hex
  readonly config: ChannelConfig
  readonly charged: bigint
  readonly ceiling: bigint
  readonly signature: Hex
  /** The last deposit that we sent: the nonce of its authorization, and its transaction. */
  readonly deposit: { readonly nonce: Hex; readonly transaction: Hex } | null
  /** When the mirror was read, in milliseconds. */
  readonly syncedAt: number
}

const KIND = 'channel'
/** A channel that nobody has used for so long has been claimed long ago. */
const RETENTION_MS = 400 * 86_400_000
/** Records of an owner are listed whole, so channels have sixteen owners, by the first digit of their id. */
const DIGITS = [...'0123456789abcdef']
const MAX_LISTED = 10_000

export type ChannelStorage = Pick<Storage, 'putRecord' | 'getRecord' | 'moveRecord' | 'listRecords'>

/** Channels of one network. `seller` names who claims: the address that signs claims. */
export function channelStates(storage: ChannelStorage, { network, seller }: { network: string; seller: Hex }) {
  const recordOf = (state: ChannelState, now: number): StoredRecord => ({
    kind: KIND,
    id: `${network}/${state.channelId}`,
    owner: `${network}/${seller}/${state.channelId.slice(2, 3)}`,
    data: encoded(state),
    expiresAt: now + RETENTION_MS,
  })

  async function get(channelId: Hex, now: number): Promise<ChannelState | undefined> {
    const record = await storage.getRecord(KIND, `${network}/${channelId}`, now)
    return record && decoded(record.data)
  }

  /** Puts `next` in the place of `before`. False where another process was faster. */
  async function replace(before: ChannelState | undefined, next: ChannelState, now: number): Promise<boolean> {
    const record = recordOf(next, now)
    return before ? await storage.moveRecord(record, encoded(before), now) : await storage.putRecord(record, now)
  }

  return {
    get,
    replace,
    /** Notes what the chain says, whatever else happens to the channel meanwhile. Returns the state afterwards. */
    async mirror(channelId: Hex, mirror: Mirror, now: number): Promise<ChannelState | undefined> {
      for (;;) {
        const state = await get(channelId, now)
        if (!state) return undefined
        const next = { ...state, ...mirror, syncedAt: now }
        if (await replace(state, next, now)) return next
      }
    },
    async list(now: number): Promise<readonly ChannelState[]> {
      const lists = DIGITS.map((digit) =>
        storage.listRecords(KIND, `${network}/${seller}/${digit}`, { now, limit: MAX_LISTED }),
      )
      return (await Promise.all(lists)).flat().map(({ data }) => decoded(data))
    },
  }
}

export type ChannelStates = ReturnType<typeof channelStates>

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
  return {
    ...(plain as unknown as Pick<
      ChannelState,
      'channelId' | 'config' | 'signature' | 'deposit' | 'syncedAt' | 'withdrawRequestedAt'
    >),
    balance: BigInt(balance),
    claimed: BigInt(claimed),
    withdrawing: BigInt(withdrawing),
    refundNonce: BigInt(refundNonce),
    charged: BigInt(charged),
    ceiling: BigInt(ceiling),
  }
}
