/** Input of the market endpoints. All of it is text, because it stands in the path and in the query. */
import { type Static, Type } from '@sinclair/typebox'
import { isResolution, type MarketRow } from './catalog.ts'
import { ApiError } from '../../http/errors.ts'
import { clip } from '../../lib/text.ts'
import { type Resolution, RESOLUTIONS, type Session } from '../../ports/vendors/market.ts'

const SESSIONS = ['pre', 'post', 'on'] as const

const text = (description: string) => Type.String({ maxLength: 64, description })

const symbol = text('A symbol of the matching list, in upper or lower case.')

const session = Type.Optional(text('Equities only: `pre`, `post` or `on`; omit for regular hours.'))

export const spotInput = Type.Object({ symbol, session })

export const historyInput = Type.Object({
  symbol,
  resolution: Type.Optional(text(`One of ${RESOLUTIONS.join(', ')}: minutes, day, week, month; D unless told.`)),
  from: text('Unix seconds, positive and in the past.'),
  to: Type.Optional(text('Unix seconds, greater than `from`; now unless told, and now for what is to come.')),
  session,
})

export const listInput = Type.Object({
  q: Type.Optional(text('Keeps what has this in its symbol or description, in upper or lower case.')),
  limit: Type.Optional(text('How many symbols to list, at most 2000; 100 unless told.')),
})

export type ListInput = Static<typeof listInput>

export type HistoryInput = Static<typeof historyInput>

/** A 400 as in contract 3.3. */
export function invalid(path: string, message: string): ApiError {
  return new ApiError('INVALID_BODY', { message: `${path}: ${message}`, param: path, details: [{ path, message }] })
}

/** The session of an exchange. Ignored for other categories, which have none. Throws a 400. */
export function sessionOf({ category }: MarketRow, given: string | undefined): Session | undefined {
  if (category !== 'stocks' || given === undefined) return undefined
  const known = SESSIONS.find((each) => each === given)
  if (!known) throw invalid('session', `must be one of ${SESSIONS.join(', ')}; got ${clip(given)}`)
  return known
}

/** Unix seconds. Values from 10^11 on are taken for milliseconds and refused. */
function secondsOf(path: string, given: string): number {
  const seconds = /^\d{1,12}$/.test(given) ? Number(given) : Number.NaN
  if (seconds > 0 && seconds < 1e11) return seconds
  throw invalid(path, `must be a positive time in unix seconds; got ${clip(given)}`)
}

export type Window = { readonly resolution: Resolution; readonly from: number; readonly to: number | undefined }

/** Checks that do not depend on the current time. Throws a 400. */
export function windowOf({ resolution = 'D', from, to }: Omit<HistoryInput, 'symbol'>): Window {
  if (!isResolution(resolution))
    throw invalid('resolution', `must be one of ${RESOLUTIONS.join(', ')}; got ${clip(resolution)}`)
  const window = { resolution, from: secondsOf('from', from), to: to === undefined ? undefined : secondsOf('to', to) }
  if (window.to !== undefined) checkOrder(window.from, window.to)
  return window
}

function checkOrder(from: number, to: number): void {
  if (to <= from) throw invalid('to', `must be greater than from, which is ${from}; got ${to}`)
}

const DEFAULT_LISTED = 100

const MAX_LISTED = 2000

/** Throws a 400 for a limit that is not positive; larger values are capped. */
export function limitOf(given: string | undefined): number {
  if (given === undefined) return DEFAULT_LISTED
  if (/^\d{1,20}$/.test(given) && Number(given) > 0) return Math.min(Number(given), MAX_LISTED)
  throw invalid('limit', `must be a positive number; got ${clip(given)}`)
}
