/** The states of channels in use that a process remembers, where no other process changes them. */
import { boundedMap, oncePer } from '../../../../core/lib/mod.ts'
import type { Hex } from '../../lib/hex.ts'
import type { ChannelState } from './state.ts'

const MAX_KNOWN = 10_000

const statesOf = oncePer(() => ({
  states: boundedMap<ChannelState>(MAX_KNOWN),
  dropped: 0,
  /** States that this process has made: none of them is older than what it is storing. */
  advanced: new WeakSet<ChannelState>(),
  /** The same object for states of which each was made from another. Each state that is read has one of its own. */
  origins: new WeakMap<ChannelState, object>(),
}))

/** `nameOf` names a channel among all of the storage. */
export function knownStates(storage: object, nameOf: (channelId: Hex) => string) {
  const known = statesOf(storage)
  const { states, advanced, origins } = known

  function note(before: ChannelState | undefined, next: ChannelState): void {
    advanced.add(next)
    origins.set(next, (before && origins.get(before)) ?? {})
  }

  function drop(name: string): void {
    states.delete(name)
    known.dropped++
  }

  return {
    /** The state that is known, else the one that `read` resolves with. */
    async get(channelId: Hex, read: () => Promise<ChannelState | undefined>): Promise<ChannelState | undefined> {
      const name = nameOf(channelId)
      for (;;) {
        const before = states.get(name)
        if (before) return before
        const { dropped } = known
        const state = await read()
        if (!state) return undefined
        // It may have changed while it was read.
        if (known.dropped !== dropped || states.get(name)) continue
        states.set(name, state)
        origins.set(state, {})
        return state
      }
    },

    /** Storage may answer in another order than it changes: what is not known to be the last is read again. */
    end(before: ChannelState | undefined, next: ChannelState, isStored: boolean): void {
      const name = nameOf(next.channelId)
      note(before, next)
      if (isStored && states.get(name) === before) states.set(name, next)
      else drop(name)
    },

    /**
     * A state of another origin than a change that is being stored may have been read before that change. One that the
     * caller has just made has that of the state in use.
     */
    originOf(state: ChannelState): object | undefined {
      const current = states.get(nameOf(state.channelId))
      return origins.get(state) ?? (current && origins.get(current))
    },

    /** Whether the next change may begin from `next` before it is stored: only where `before` is the state known. */
    advance(before: ChannelState, next: ChannelState): boolean {
      const name = nameOf(next.channelId)
      if (states.get(name) !== before) return false
      note(before, next)
      states.set(name, next)
      return true
    },

    /** A state that was read while the change was not on disk is older, and is dropped. */
    endAdvance(next: ChannelState, isStored: boolean): void {
      const name = nameOf(next.channelId)
      const current = states.get(name)
      const isNewest = isStored && (current === undefined || advanced.has(current))
      if (!isNewest) drop(name)
    },
  }
}
