/** One answer for all who ask the same thing at the same time, or soon after: flights that are shared, and a shelf of what they brought. */
import { type Clock, ApiError } from '../../core/mod.ts'
import { orAbort } from './or_abort.ts'

type Flight = { readonly landed: Promise<unknown>; readonly wanted: AbortController; riders: number }

/** One flight for each key at a time; who comes while it is under way rides along, and `wanted` aborts when the last of them has left. */
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
    flight.wanted.abort(new Error('nobody waits for it any more'))
  }
}

/** Says something of us, and nothing of the feed. */
const isBusy = (error: unknown): boolean => error instanceof ApiError && error.code === 'BUSY'

/** `keep` answers with the value. */
export type Kept<T> = { get(key: string): { readonly value: T } | undefined; keep(key: string, value: T): T }

/** Keeps values for a time, and together at most `room` in weight: the oldest go first. */
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
