/** 402s that were written before. One depends only on the price, the offers and the URL. */
import type { Reply } from '../http/reply.ts'
import type { Offer } from '../x402/protocol.ts'
import { boundedMap } from '../lib/bounded_map.ts'
import type { Price } from './prices.ts'
import { publicPrice } from './demands.ts'

export type QuoteCache = {
  /** One frozen price for all that are equal: what is derived from it is found by it. */
  shared(price: Price): Price
  /** The 402 of a shared price, as long as the offers are the ones that it was written for. */
  find(price: Price, key: string, offers: readonly Offer[]): Reply | undefined
  store(price: Price, key: string, written: Written): void
}

/** A finished 402 and the offers that it makes. */
type Written = { readonly offers: readonly Offer[]; readonly reply: Reply }

/** Maximum number of cached 402s, about 8 KB each, and of prices that are kept to find them by. */
const MAX_WRITTEN = 500

/** Equal for prices whose 402s are equal. Most prices of chat are an amount and nothing else. */
function keyOf(price: Price): string {
  const { amount, maxTimeoutSeconds, also, rates, publicPrice: listed } = price
  const isPlain = also === undefined && rates === undefined && !hasMembers(listed)
  return isPlain
    ? `${maxTimeoutSeconds} ${amount}`
    : `${maxTimeoutSeconds} ${JSON.stringify([publicPrice(price), also])}`
}

function hasMembers(fields: object): boolean {
  for (const _ in fields) return true
  return false
}

export function quoteCache(): QuoteCache {
  const prices = boundedMap<Price>(MAX_WRITTEN)
  let written = new WeakMap<Price, Map<string, Written>>()
  let count = 0

  return {
    shared(price) {
      if (Object.isFrozen(price)) return price
      const key = keyOf(price)
      const before = prices.get(key)
      if (before) return before
      const first = Object.freeze({ ...price })
      prices.set(key, first)
      return first
    },

    find(price, key, offers) {
      const known = written.get(price)?.get(key)
      return known?.offers === offers ? known.reply : undefined
    },

    store(price, key, made) {
      if (count >= MAX_WRITTEN) written = new WeakMap()
      count = count >= MAX_WRITTEN ? 1 : count + 1
      const ofPrice = written.get(price) ?? new Map<string, Written>()
      written.set(price, ofPrice.set(key, made))
    },
  }
}
