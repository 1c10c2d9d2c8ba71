/**
 * A value that is made once for each owner and is forgotten with it: what the gateways of one process know together
 * belongs to the storage that they share, and what follows from a frozen object belongs to that.
 *
 * @example
 * const seen = oncePer<Storage, Set<string>>(() => new Set())
 * seen(storage).add('call-1')
 */
export function oncePer<Owner extends object, Value>(make: (owner: Owner) => Value): (owner: Owner) => Value {
  const values = new WeakMap<Owner, { readonly value: Value }>()
  return (owner) => {
    const known = values.get(owner)
    if (known) return known.value
    const value = make(owner)
    values.set(owner, { value })
    return value
  }
}
