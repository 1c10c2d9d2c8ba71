/** Shares one request among concurrent callers, and caches its result for a time. */
import { type Clock, ApiError } from '../../core/mod.ts'
import { orAbort } from './or_abort.ts'

type Flight = { readonly landed: Promise<unknown>; readonly wanted: AbortController; riders: number }

/** One request per key at a time; later callers join it. Its signal aborts when the last caller has left. */
export function singleFlight(failed: Kept<unknown>) {
  const flights = new Map<string, Flight>()

  return async <T>(key: string, signal: AbortSignal, begin: (wanted: AbortSignal) => Promise<T>): Promise<T> => {
    const failure = failed.get(key)
    if (failure) throw failure.value
    const flight = flights.get(key) ?? departed(key, begin)
    flight.riders++
    try {
      return await orAbort(flight.landed as Promise<T>, signal)
    } finally {
      flight.riders--
      if (flight.riders === 0) leave(key, flight)
    }
  }

  function departed<T>(key: string, begin: (wanted: AbortSignal) => Promise<T>): Flight {
    const wanted = new AbortController()
    const landed = begin(wanted.signal)
    const flight: Flight = { landed, wanted, riders: 0 }
    flights.set(key, flight)
    landed.then(
      () => arrive(key, flight),
      (error: unknown) => {
        if (!wanted.signal.aborted && !isBusy(error)) failed.keep(key, error)
        arrive(key, flight)
      },
    )
    return flight
  }

  function arrive(key: string, flight: Flight): void {
    if (flights.get(key) === flight) flights.delete(key)
  }

  function leave(key: string, flight: Flight): void {
    if (flights.get(key) !== flight) return
    flights.delete(key)
    flight.wanted.abort(new Error('no caller waits for it any more'))
  }
}

/** BUSY concerns our queue, not the vendor, so it is not cached. */
const isBusy = (error: unknown): boolean => error instanceof ApiError && error.code === 'BUSY'

/** `set` returns the value. */
export type Kept<T> = { get(key: string): { readonly value: T } | undefined; keep(key: string, value: T): T }

/** Caches values for a time, up to a total weight of `maxWeight`; evicts the oldest first. */
export function ttlCache<T>({
  clock,
  ttlMs,
  room,
  weigh,
}: {
  clock: Pick<Clock, 'now'>
  ttlMs: number
  room: number
  weigh: (value: T) => number
}): Kept<T> {
  const kept = new Map<string, { readonly value: T; readonly until: number; readonly weight: number }>()
  let weight = 0

  function drop(key: string): void {
    weight -= kept.get(key)?.weight ?? 0
    kept.delete(key)
  }

  return {
    get(key) {
      const found = kept.get(key)
      return found && clock.now() < found.until ? found : undefined
    },
    keep(key, value) {
      drop(key)
      const entry = { value, until: clock.now() + ttlMs, weight: weigh(value) }
      kept.set(key, entry)
      weight += entry.weight
      for (const [oldest, { until }] of kept) {
        if (weight <= room && until > clock.now()) break
        drop(oldest)
      }
      return value
    },
  }
}
