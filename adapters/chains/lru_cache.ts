/** A map that forgets what was set longest ago: what buyers make grow must have an end. */
export type LruCache<V> = {
  get(key: string): V | undefined
  /** Makes it the newest as well. */
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
