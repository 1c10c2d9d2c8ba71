/** Copies the values that go into and out of a storage, so that callers cannot change what is stored. */

/** Copies plain data as `structuredClone` does, at a tenth of its cost. Anything else goes to `structuredClone`. */
export function copied<T>(value: T): T {
  if (typeof value === 'function' || typeof value === 'symbol') return structuredClone(value)
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(copied) as T
  // Assigning to `__proto__` would set the prototype instead.
  if (Object.getPrototypeOf(value) !== Object.prototype || Object.hasOwn(value, '__proto__'))
    return structuredClone(value)
  const copy: Record<string, unknown> = {}
  for (const key in value) copy[key] = copied(value[key])
  return copy as T
}
