/**
 * How many requests may be under way at each vendor, and at all of them (decision 144). The runtime has one pool of
 * outgoing connections: without limits one vendor that hangs would take those of the chains and of all other vendors.
 */
import type { Clock } from '../../core/mod.ts'

export type VendorSlots = {
  /** Takes a slot at a host; the returned function gives it back. Rejects when `signal` is aborted before. */
  take(host: string, signal: AbortSignal): (() => void) | Promise<() => void>
  /** Whether a new request would have to wait. */
  isFull(host: string): boolean
}

type SlotLimits = {
  /** At one host. */
  readonly each: number
  /** At all hosts together: what the runtime can have under way, without what chains and storages need. */
  readonly all: number
}

type Waiting = { readonly host: string; enter(): void }

export function vendorSlots({ each, all }: SlotLimits): VendorSlots {
  const taken = new Map<string, number>()
  const waiting = new Set<Waiting>()
  let total = 0

  const at = (host: string): number => taken.get(host) ?? 0
  const hasRoom = (host: string): boolean => at(host) < each && total < all

  function enter(host: string): () => void {
    taken.set(host, at(host) + 1)
    total++
    let isLeft = false
    return () => {
      if (isLeft) return
      isLeft = true
      total--
      if (at(host) === 1) taken.delete(host)
      else taken.set(host, at(host) - 1)
      admit()
    }
  }

  /** In order of arrival, those whose host has room. */
  function admit(): void {
    for (const next of waiting) {
      if (total >= all) return
      if (hasRoom(next.host)) next.enter()
    }
  }

  return {
    isFull: (host) => !hasRoom(host),
    take(host, signal) {
      if (hasRoom(host)) return enter(host)
      return new Promise((resolve, reject) => {
        const next: Waiting = {
          host,
          enter() {
            waiting.delete(next)
            signal.removeEventListener('abort', cancel)
            resolve(enter(host))
          },
        }
        const cancel = () => {
          waiting.delete(next)
          reject(signal.reason)
        }
        waiting.add(next)
        signal.addEventListener('abort', cancel, { once: true })
      })
    },
  }
}

const byClock = new WeakMap<Clock, VendorSlots>()

/** Limits all vendors that are built with this clock from now on: one pool of connections, one clock, one process. */
export function limitVendors(clock: Clock, limits: SlotLimits): VendorSlots {
  const slots = vendorSlots(limits)
  byClock.set(clock, slots)
  return slots
}

/** The limits of vendors with this clock; undefined where nobody has set any. */
export const slotsOf = (clock: Clock): VendorSlots | undefined => byClock.get(clock)

/** Host and port; the whole text where it is no URL. */
export function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : url
}
