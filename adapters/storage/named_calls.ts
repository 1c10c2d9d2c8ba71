import { type LedgerEntry, LOOKUP_CHARACTERS } from '../../core/ports/mod.ts'

/** Returns the end of a name, which the indexes hold. Undefined if the name is too short. */
export function tailOf(name: string): string | undefined {
  return name.length < LOOKUP_CHARACTERS ? undefined : name.slice(-LOOKUP_CHARACTERS)
}

/** The entries that really have this name, among those that indexes on its end have found; newest first. */
export function named(
  name: string,
  found: {
    readonly exact: readonly LedgerEntry[]
    readonly byNonce: readonly (LedgerEntry & { readonly key: string })[]
    readonly byTransaction: readonly LedgerEntry[]
  },
  limit: number,
): readonly LedgerEntry[] {
  const byNonce = found.byNonce.filter(({ key }) => key.endsWith(`/${name}`)).map(({ key, ...entry }) => entry)
  const byTransaction = found.byTransaction.filter(({ receipt }) => receipt?.transaction === name)
  const entries = new Map([...found.exact, ...byNonce, ...byTransaction].map((entry) => [entry.id, entry]))
  const newestFirst = (a: LedgerEntry, b: LedgerEntry) => b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1)
  return [...entries.values()].toSorted(newestFirst).slice(0, limit)
}

/** The order of lists of open calls. */
export function oldestFirst(a: LedgerEntry, b: LedgerEntry): number {
  return a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1)
}
