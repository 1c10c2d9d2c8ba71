/**
 * Payments that were sent for requests whose answer was not delivered (decision 152). A program that repeats such a
 * request sends the same payment again, so it cannot pay twice.
 */
import { createHash } from 'node:crypto'
import type { Channel } from './channels.ts'

export type Sent = {
  /** Field that carries the payment. */
  readonly header: string
  readonly payment: string
  /** The amount that counts as spent, in base units. */
  readonly price: bigint
  /** In milliseconds since 1970: the signature is dead from then on. */
  readonly until: number
  /** The channel of a voucher. */
  readonly channel?: Channel
  /** Balance of the wallet that paid without a channel, in base units. */
  balance?(): Promise<bigint | undefined>
  /** Signs another voucher on the corrected state of the channel. */
  again?(): Promise<Sent>
}

export type Unanswered = {
  /** Takes the payment of an earlier request that was the same. */
  take(key: string): Sent | undefined
  retain(key: string, sent: Sent): void
}

export function unanswered(now: () => number): Unanswered {
  const stored = new Map<string, Sent[]>()
  return {
    take(key) {
      const list = stored.get(key)?.filter(({ until }) => until > now()) ?? []
      const sent = list.shift()
      if (list.length > 0) stored.set(key, list)
      else stored.delete(key)
      return sent
    },
    retain(key, sent) {
      for (const [other, list] of stored) if (list.every(({ until }) => until <= now())) stored.delete(other)
      stored.set(key, [...(stored.get(key) ?? []), sent])
    },
  }
}

/** One name for requests that are the same: method, path, query and body. */
export function keyOf(method: string, { url, body }: { readonly url: string; readonly body: Uint8Array }): string {
  return createHash('sha256').update(`${method} ${url}\n`).update(body).digest('hex')
}
