/** Keys that nobody uses: what is left goes back to the payer, where purchases have paid for the gas. */
import type { ChannelRefunds } from '../refunds/mod.ts'
import type { ChannelState } from '../state.ts'
import type { ChannelStates } from '../records.ts'
import type { KeyCalls } from './calls.ts'
import { withoutChildren } from './child_calls.ts'
import type { KeyIndex } from './key_index.ts'

type IdleContext = {
  readonly index: Pick<KeyIndex, 'list'>
  readonly states: Pick<ChannelStates, 'get'>
  readonly calls: Pick<KeyCalls, 'reserved'>
  readonly refunds: Pick<ChannelRefunds, 'close' | 'isPaidFor'>
}

type IdleConfig = {
  /** A key that was neither charged nor topped up for so long is closed, in milliseconds. */
  readonly idleMs: number
  /** Cost of a refund, in base units. A smaller rest is not sent. */
  readonly costOfRefund: () => bigint
}

/** Keys that one round looks at, in pages. */
const PAGE = 100
const PAGES = 10

/** Returns one round, which goes on where the last one has ended. */
export function idleKeys(context: IdleContext, { idleMs, costOfRefund }: IdleConfig) {
  const { index, states, calls, refunds } = context
  let after = ''

  function isIdle(state: ChannelState, now: number): boolean {
    const { usedAt, syncedAt, balance, charged, closing } = state
    if (closing || now - (usedAt ?? syncedAt) < idleMs) return false
    if (balance - charged <= costOfRefund() || !refunds.isPaidFor(state, now)) return false
    return calls.reserved(withoutChildren(state), now) === 0n
  }

  return async (now: number): Promise<void> => {
    for (let page = 0; page < PAGES; page++) {
      const keys = await index.list({ now, after, limit: PAGE })
      for (const channelId of keys.flatMap(({ ids }) => ids)) {
        const state = await states.get(channelId, now)
        if (!state || !isIdle(state, now)) continue
        const { config } = state
        await refunds.close({ kind: 'closing', channelId, config, closed: withoutChildren }, { now })
      }
      after = keys.length === PAGE ? (keys.at(-1)?.address ?? '') : ''
      if (after === '') return
    }
  }
}
