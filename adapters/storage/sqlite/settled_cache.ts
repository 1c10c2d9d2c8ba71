/**
 * Recent settlements of wallets, in memory: a busy wallet settles hundreds of calls in the time that a balance may lag
 * behind, and every call that it opens would read them all. An entry holds every such call of its wallet, or there is
 * none. One that holds a settlement whose commit failed does no harm: it only makes the cap stricter for a minute.
 */
import { boundedMap } from '../../../core/lib/mod.ts'
import { BALANCE_LAG_MS, type ExposedCall, SETTLED_LOOKBACK_MS } from '../../../core/payment/mod.ts'
import type { Call, Cap } from '../../../core/ports/mod.ts'

type Wallet = Pick<Call, 'payer' | 'asset'>
type Settlements = { readonly hasPaid: boolean; readonly calls: readonly ExposedCall[] }
type Entry = { hasPaid: boolean; calls: ExposedCall[]; from: number }

/** Wallets that are remembered; the one that has not opened a call for the longest goes first. */
const MAX_WALLETS = 10_000
/** How often an entry loses what has become too old. */
const EVERY_MS = 1_000

/** `load` reads all settlements of a wallet since a time. */
export function settledCache(load: (wallet: Wallet, since: number) => Settlements) {
  const entries = boundedMap<Entry>(MAX_WALLETS)
  const nameOf = ({ payer, asset }: Wallet) => `${asset} ${payer}`
  const read = (wallet: Wallet, from: number): Entry => {
    const { hasPaid, calls } = load(wallet, from)
    return { from, hasPaid, calls: [...calls] }
  }

  return {
    /** Whether the wallet has ever paid, and its calls that may be missing from a balance read as `cap` says. */
    of(wallet: Wallet, { asOf, block }: Pick<Cap, 'asOf' | 'block'>): Settlements {
      const [name, from] = [nameOf(wallet), asOf - SETTLED_LOOKBACK_MS]
      const known = entries.get(name)
      const entry = known && known.from <= from ? known : read(wallet, from)
      entries.set(name, entry)
      const isSince = (call: ExposedCall) => (call.settledAt ?? 0) >= from
      if (from - entry.from >= EVERY_MS) {
        entry.calls = entry.calls.filter(isSince)
        entry.from = from
      }
      const isMissing = (call: ExposedCall) =>
        block === undefined || call.block === null ? (call.settledAt ?? 0) >= asOf - BALANCE_LAG_MS : call.block > block
      return { hasPaid: entry.hasPaid, calls: entry.calls.filter((call) => isSince(call) && isMissing(call)) }
    },
    note(wallet: Wallet, call: ExposedCall): void {
      const entry = entries.get(nameOf(wallet))
      if (!entry) return
      entry.hasPaid = true
      entry.calls.push(call)
    },
    /** For when somebody else has written. */
    clear: () => entries.clear(),
  }
}
