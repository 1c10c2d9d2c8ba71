import type { Chain, Settlement } from '../../core/ports.ts'
import type { EvmChain } from './evm.ts'

export type RelayerKey = { readonly name: string; readonly key: string }

export type LeasedOptions = {
  /** As many as there are replicas; a replica holds one at a time (house decision 12). */
  readonly keys: readonly RelayerKey[]
  readonly build: (key: string) => EvmChain
  /** Takes or extends a lease that all replicas can see; false while another one holds it. */
  readonly take: (name: string, at: { now: number; until: number }) => Promise<boolean>
  readonly leaseMs: number
}

export type LeasedChain = Chain & {
  check: EvmChain['check']
  /** Keeps the key, or takes a free one. To be called several times per lease. False while every key is held elsewhere. */
  renew(now: number): Promise<boolean>
  /** Gives the key back at once, for another replica to take. */
  release(now: number): Promise<void>
  close(): void
}

type Held = { readonly name: string; readonly sender: EvmChain; until: number }

/** An EVM chain whose relayer key no other replica uses meanwhile. Without a key it offers nothing, and settles nothing: others will. */
export function leasedChain({ keys, build, take, leaseMs }: LeasedOptions): LeasedChain {
  const [first] = keys
  if (!first) throw new RangeError('a relayer key is needed')
  const reader = build(first.key)
  let held: Held | undefined

  async function renew(now: number): Promise<boolean> {
    const until = now + leaseMs
    if (held && held.until <= now) drop() // another replica may have sent with it since
    if (held && (await take(held.name, { now, until }))) {
      held.until = until
      return true
    }
    drop()
    for (const { name, key } of keys) {
      if (!(await take(name, { now, until }))) continue
      const sender = build(key)
      const { kind } = await sender.check()
      if (kind === 'ready') {
        held = { name, sender, until }
        return true
      }
      sender.close()
      await take(name, { now, until: now }) // a replica that cannot ask the chain keeps no key from the others
    }
    return false
  }

  function drop(): void {
    held?.sender.close()
    held = undefined
  }

  const { identify, verify, fate, balance, check } = reader
  return {
    identify,
    verify,
    fate,
    balance,
    check,
    renew,
    terms: (now) => (held && held.until > now ? reader.terms(now) : []),
    async settle(payment, offer, at): Promise<Settlement> {
      if (held && held.until > at.now) return await held.sender.settle(payment, offer, at)
      return { kind: 'unknown', reason: 'this replica holds no relayer key just now; another one will settle' }
    },
    async release(now) {
      const name = held?.name
      drop()
      if (name) await take(name, { now, until: now })
    },
    close() {
      drop()
      reader.close()
    },
  }
}
