/** Shares one request among concurrent callers, and caches its result for a time. */
import { type Clock, ApiError } from '../../core/mod.ts'
import { orAbort } from './or_abort.ts'

type SharedRequest = { readonly result: Promise<unknown>; readonly controller: AbortController; callers: number }

/** One request per key at a time; later callers join it. Its signal aborts when the last caller has left. */
export function singleFlight(failures: TtlCache<unknown>) {
  const requests = new Map<string, SharedRequest>()

  return async <T>(key: string, signal: AbortSignal, begin: (signal: AbortSignal) => Promise<T>): Promise<T> => {
    const failure = failures.get(key)
    if (failure) throw failure.value
    const request = requests.get(key) ?? start(key, begin)
    request.callers++
    try {
      return await orAbort(request.result as Promise<T>, signal)
    } finally {
      request.callers--
      if (request.callers === 0) abandon(key, request)
    }
  }

  function start<T>(key: string, begin: (signal: AbortSignal) => Promise<T>): SharedRequest {
    const controller = new AbortController()
    const result = begin(controller.signal)
    const request: SharedRequest = { result, controller, callers: 0 }
    requests.set(key, request)
    result.then(
      () => finish(key, request),
      (error: unknown) => {
        if (!controller.signal.aborted && !isBusy(error)) failures.set(key, error)
        finish(key, request)
      },
    )
    return request
  }

  function finish(key: string, request: SharedRequest): void {
    if (requests.get(key) === request) requests.delete(key)
  }

  function abandon(key: string, request: SharedRequest): void {
    if (requests.get(key) !== request) return
    requests.delete(key)
    request.controller.abort(new Error('no caller waits for it any more'))
  }
}

/** BUSY concerns our queue, not the vendor, so it is not cached. */
const isBusy = (error: unknown): boolean => error instanceof ApiError && error.code === 'BUSY'

/** `set` returns the value. */
type TtlCache<T> = { get(key: string): { readonly value: T } | undefined; set(key: string, value: T): T }

/** Caches values for a time, up to a total weight of `maxWeight`; evicts the oldest first. */
export function ttlCache<T>({
  clock,
  ttlMs,
  maxWeight,
  weigh,
}: {
  clock: Pick<Clock, 'now'>
  ttlMs: number
  maxWeight: number
  weigh: (value: T) => number
}): TtlCache<T> {
  const entries = new Map<string, { readonly value: T; readonly expiresAt: number; readonly weight: number }>()
  let weight = 0

  function remove(key: string): void {
    weight -= entries.get(key)?.weight ?? 0
    entries.delete(key)
  }

  return {
    get(key) {
      const found = entries.get(key)
      return found && clock.now() < found.expiresAt ? found : undefined
    },
    set(key, value) {
      remove(key)
      const entry = { value, expiresAt: clock.now() + ttlMs, weight: weigh(value) }
      entries.set(key, entry)
      weight += entry.weight
      for (const [oldest, { expiresAt }] of entries) {
        if (weight <= maxWeight && expiresAt > clock.now()) break
        remove(oldest)
      }
      return value
    },
  }
}
