/** Limits how often an address may be wrong about a secret. Others are never kept out because of it. */
import { boundedMap } from '../lib/bounded_map.ts'
import { isSameSecret } from '../lib/ids.ts'
import { addressKey } from './caller_address.ts'

export type Attempts = {
  /** 0 for an address that may try; the secret of another one must not be looked at. */
  secondsToWait(ip: string): number
  /** Counts a wrong secret. */
  failed(ip: string): void
}

export const MAX_ATTEMPTS = 10
const WINDOW_MS = 60_000
/** Addresses counted at once. When full, the oldest is dropped. */
const REMEMBERED = 10_000

/** Fixed windows by address (contract 4.15), in the memory of one process: enough against guessing a long token. */
export function attemptLimit(clock: { now(): number }): Attempts {
  const counts = boundedMap<{ readonly endsAt: number; failures: number }>(REMEMBERED)

  function countOf(key: string) {
    const known = counts.get(key)
    const left = (known?.endsAt ?? 0) - clock.now()
    return left > 0 && left <= WINDOW_MS ? known : undefined
  }

  return {
    secondsToWait(ip) {
      const count = countOf(addressKey(ip))
      if (!count || count.failures < MAX_ATTEMPTS) return 0
      return Math.ceil((count.endsAt - clock.now()) / 1000)
    },
    failed(ip) {
      const key = addressKey(ip)
      const count = countOf(key) ?? { endsAt: clock.now() + WINDOW_MS, failures: 0 }
      count.failures += 1
      counts.set(key, count)
    },
  }
}

/** Whether a request has the operator's token. An address that was wrong too often is not believed for a while. */
export function operatorCheck(token: string | undefined, attempts: Attempts) {
  return (authorization: string | null, ip: string): boolean => {
    if (token === undefined || authorization === null || attempts.secondsToWait(ip) > 0) return false
    if (isSameSecret(authorization, `Bearer ${token}`)) return true
    attempts.failed(ip)
    return false
  }
}
