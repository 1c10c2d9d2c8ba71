/** A storage whose process ends in the middle of a call. */
import type { Storage } from '../../../core/mod.ts'

/** Storage of a process that ends at its k-th write. After it nothing is done, and nothing answers. */
export function ending(storage: Storage, { at, isDone }: { readonly at: number; readonly isDone: boolean }) {
  let [writes, isArmed, isDead] = [0, false, false]
  const never = new Promise<never>(() => {})
  const verbs = Object.entries(storage).map(([name, verb]) => {
    if (typeof verb !== 'function') return [name, verb]
    return [
      name,
      (...given: unknown[]) => {
        if (isDead) return never
        const ask = () => (verb as (...all: unknown[]) => unknown)(...given)
        if (!isArmed || /^(get|list|find|call|is)/.test(name) || ++writes !== at) return ask()
        isDead = true
        if (isDone) void ask()
        return never
      },
    ]
  })
  return { storage: Object.fromEntries(verbs) as Storage, arm: () => (isArmed = true), isDead: () => isDead }
}
