/** Who places phone calls, and who rents numbers. */
import type { Fields } from '../../lib/json.ts'

/**
 * A call to a person, by a voice. `from` and `to` are E.164; times in minutes and milliseconds, as the endpoint has
 * them.
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
 * Rings people up. A failure after which it is not known whether somebody is rung is a `TimeoutError` or
 * UPSTREAM_FAILED; any other `ApiError` rang nobody.
 */
export interface VoiceVendor {
  /** Resolves when the call is accepted for dialing; `handle` finds it from any process. Sent once. */
  ring(call: Ringing, at: { signal: AbortSignal }): Promise<{ readonly handle: string }>
  /** The vendor's own record of a call; undefined where it knows none. */
  callStatus(handle: string, at: { signal: AbortSignal }): Promise<Fields | undefined>
}

/**
 * A number that the operator rents, `id` by its carrier; `order` is what it was bought under, '' where that was not by
 * us.
 */
export type Line = { readonly number: string; readonly id: string; readonly order: string }

/** Knows about phone numbers, and rents them. Throws an `ApiError` for what the caller should hear of. */
export interface PhoneVendor {
  /**
   * Where numbers are rented, ISO 3166: what one costs its operator differs by country, and its price here does not.
   */
  readonly countries: readonly string[]
  /** The carrier's record as it came, JSON as text. */
  lookup(number: string, about: 'carrier' | 'fraud', at: { signal: AbortSignal }): Promise<string>
  /**
   * Buys one number under this order, or finds the one that was bought under it before. Undefined where there is none
   * to be had.
   */
  buy(
    wanted: { readonly country: string; readonly areaCode?: string; readonly order: string },
    at: { signal: AbortSignal },
  ): Promise<Line | undefined>
  /** Whether the operator still has it. */
  has(id: string, at: { signal: AbortSignal }): Promise<boolean>
  /** Gives it back; one that has gone already is given back. */
  release(id: string, at: { signal: AbortSignal }): Promise<void>
  /** All that were bought under an order. */
  lines(at: { signal: AbortSignal }): Promise<readonly Line[]>
}
