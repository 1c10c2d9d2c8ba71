/** What buyers of the model buy. */
import type { Offer } from '../../core/mod.ts'

/**
 * What is sold: `fast` answers inline where it can, `slow` is always a job; `talk` and `stream` are answered before
 * their money has moved.
 */
export type Product = {
  readonly name: 'fast' | 'slow' | 'talk' | 'stream'
  readonly path: string
  readonly body: string
  readonly offer: Offer
}
export const isLive = ({ name }: Product): boolean => name === 'talk' || name === 'stream'
