/** Leases and rate windows. */
import type { Bucket } from '../../ports/mod.ts'

export type Lease = { readonly workerId: string; readonly expiresAt: number }

/** Whether a worker may take a lease: it is free, expired, or already its own. */
export function mayLease(current: Lease | undefined, workerId: string, now: number): boolean {
  return !current || current.workerId === workerId || current.expiresAt <= now
}

export type Window = { readonly used: number; readonly resetAt: number }

/**
 * Takes permits from a fixed window, which starts with its first permit. `window` is what to store, if anything
 * changed.
 */
export function takePermits(
  stored: Window | undefined,
  bucket: Bucket,
  request: { take: number; now: number },
): { answer: { granted: number; resetAt: number }; window: Window | undefined } {
  const running = stored && stored.resetAt > request.now ? stored : undefined
  const { used, resetAt } = running ?? { used: 0, resetAt: request.now + bucket.windowMs }
  const granted = Math.max(0, Math.min(request.take, bucket.limit - used))
  return { answer: { granted, resetAt }, window: granted > 0 ? { used: used + granted, resetAt } : undefined }
}
