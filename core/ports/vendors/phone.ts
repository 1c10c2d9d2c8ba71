/** The vendor interfaces for phone calls and phone numbers. */
import type { Fields } from '../../lib/json.ts'

/**
 * A phone call by an AI voice. `from` and `to` are E.164; times are in minutes and milliseconds, as in the endpoint.
 */
export type Ringing = {
  readonly to: string
  readonly from: string
  readonly task: string
  readonly voice: string
  readonly language: string
  readonly maxMinutes: number
  readonly model: string
  readonly firstSentence?: string
  readonly waitForGreeting?: boolean
  readonly interruptionMs?: number
  readonly voicemail?: { readonly action: string; readonly message?: string }
}

/**
 * Places phone calls. A `TimeoutError` or UPSTREAM_FAILED means that the call may have been placed; after any other
 * `ApiError` it was not.
 */
export interface VoiceVendor {
  /** Resolves when the call is accepted for dialing; `handle` finds it from any process. Never retried. */
  ring(call: Ringing, at: { signal: AbortSignal }): Promise<{ readonly handle: string }>
  /** The vendor's record of a call; undefined when it has none. */
  callStatus(handle: string, at: { signal: AbortSignal }): Promise<Fields | undefined>
}

/**
 * A number that the operator rents. `id` is its carrier's; `order` is the name it was bought under, '' when we did not
 * buy it.
 */
export type Line = { readonly number: string; readonly id: string; readonly order: string }

/** Looks up and rents phone numbers. Throws an `ApiError` with a text for the caller. */
export interface PhoneVendor {
  /**
   * Countries in which numbers are rented, ISO 3166. The operator's cost differs by country, and the price here does
   * not.
   */
  readonly countries: readonly string[]
  /** The carrier's record as raw JSON text. */
  lookup(number: string, about: 'carrier' | 'fraud', at: { signal: AbortSignal }): Promise<string>
  /** Buys one number under this order, or returns the one bought under it before. Undefined when none is available. */
  buy(
    wanted: { readonly country: string; readonly areaCode?: string; readonly order: string },
    at: { signal: AbortSignal },
  ): Promise<Line | undefined>
  /** Whether the operator still rents it. */
  has(id: string, at: { signal: AbortSignal }): Promise<boolean>
  /** Releases it. Releasing twice is not an error. */
  release(id: string, at: { signal: AbortSignal }): Promise<void>
  /** All numbers that were bought under an order. */
  lines(at: { signal: AbortSignal }): Promise<readonly Line[]>
}
