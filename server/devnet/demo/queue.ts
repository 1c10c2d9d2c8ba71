/** One demo order at a time, so that memory stays bounded. */
import { ApiError } from '../../../core/mod.ts'
import { type ConcurrencyLimiter, concurrencyLimiter } from '../../../core/lib/mod.ts'

/** Throws BUSY when `waiting` orders wait already. */
export function demoQueue(waiting: number): ConcurrencyLimiter {
  return concurrencyLimiter(1, { most: waiting, full: () => busy(waiting) })
}

export function busy(waiting: number): ApiError {
  const message = `The demo's queue is full: ${waiting} orders wait. Nothing was charged; retry after 10 s.`
  return new ApiError('BUSY', { message, headers: { 'retry-after': '10' } })
}

export function dataUri(bytes: Uint8Array, type: string): string {
  return `data:${type};base64,${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')}`
}
