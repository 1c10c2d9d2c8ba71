/** A bounded map that evicts the entry that was set least recently. Use it for data that callers can make grow. */
export type LruCache<V> = {
  get(key: string): V | undefined
  /** Also marks the entry as the most recent. */
  set(key: string, value: V): void
  delete(key: string): void
  clear(): void
}

export function lruCache<V>(limit: number): LruCache<V> {
  const entries = new Map<string, V>()
  return {
    get: (key) => entries.get(key),
    set(key, value) {
      entries.delete(key)
      entries.set(key, value)
      const oldest = entries.size > limit ? entries.keys().next().value : undefined
      if (oldest !== undefined) entries.delete(oldest)
    },
    delete: (key) => void entries.delete(key),
    clear: () => entries.clear(),
  }
}
