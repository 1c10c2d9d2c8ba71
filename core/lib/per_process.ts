/** State that all gateways of one process share. They share a storage, so it is attached to that. */

const valuesByOwner = new WeakMap<object, Map<string, unknown>>()

/** Returns what `make` returned on the first call for this `owner` and `name`. */
export function sharedBy<T>(owner: object, name: string, make: () => T): T {
  const values = valuesByOwner.get(owner) ?? new Map<string, unknown>()
  valuesByOwner.set(owner, values)
  if (!values.has(name)) values.set(name, make())
  return values.get(name) as T
}
