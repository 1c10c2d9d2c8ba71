/** What all gateways of one process share: they have one storage, so what is counted per process is kept beside it. */

const valuesByOwner = new WeakMap<object, Map<string, unknown>>()

/** Returns what `make` made the first time that `owner` was asked for `name`. */
export function sharedBy<T>(owner: object, name: string, make: () => T): T {
  const values = valuesByOwner.get(owner) ?? new Map<string, unknown>()
  valuesByOwner.set(owner, values)
  if (!values.has(name)) values.set(name, make())
  return values.get(name) as T
}
