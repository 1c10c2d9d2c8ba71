/**
 * A value that is made once for each owner: what the gateways of one process know together belongs to the storage that
 * they share.
 *
 * @example
 * const seen = oncePer<Storage, Set<string>>(() => new Set())
 * seen(storage).add('call-1')
 */
export function oncePer<Owner extends object, Value>(make: () => Value): (owner: Owner) => Value {
  const values = new WeakMap<Owner, { readonly value: Value }>()
  return (owner) => {
    const known = values.get(owner) ?? { value: make() }
    values.set(owner, known)
    return known.value
  }
}
