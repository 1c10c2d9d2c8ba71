/** Operator overrides of the video catalog: rows edited, added, hidden, retired or redirected (decision 21). */
import { dollars, type Dollars } from '../../x402/money.ts'
import { isBelow } from '../../x402/pricing.ts'
import { RESOLUTION_NAMES, videoPrice } from './price.ts'
import { duplicatesIn } from '../../lib/text.ts'
import type { VideoBilling, VideoRow } from '../../ports/vendors/video.ts'
import { videoFamilies } from './catalog.ts'
import { missingOf } from '../lib/row_overrides.ts'

/**
 * Rates in US dollars: by the second (with margin), by the second and resolution (without), or for a million tokens.
 */
type VideoRates =
  | { readonly perSecond: string }
  | { readonly perSecondByResolution: Readonly<Record<string, string>>; readonly perGeneration?: string }
  | { readonly perMillionTokens: string }

/** Changes to one row. `redirect` names the row that serves requests instead. */
export type VideoOverride = Partial<
  Pick<
    VideoRow,
    | 'aliases'
    | 'name'
    | 'maker'
    | 'vendor'
    | 'upstream'
    | 'family'
    | 'seconds'
    | 'resolutions'
    | 'usualResolution'
    | 'capsResolution'
    | 'ratios'
    | 'audio'
    | 'lastFrame'
    | 'references'
    | 'assets'
    | 'hidden'
    | 'retired'
  >
> & {
  readonly id: string
  readonly rates?: VideoRates
  readonly redirect?: string
}

type VideosOverridden = { readonly rows: readonly VideoRow[]; readonly mistakes: readonly string[] }

/**
 * Applies overrides in order. Mistakes name the row and the field; use the rows only if there are none.
 *
 * @example
 * const { rows, mistakes } = overrideVideos(videoRows, [{ id: 'vendor-f/video-1', name: 'Video' }])
 */
export function overrideVideos(rows: readonly VideoRow[], overrides: readonly VideoOverride[]): VideosOverridden {
  const mistakes: string[] = []
  const byId = new Map(rows.map((row) => [row.id, row]))
  for (const id of duplicatesIn(overrides.map((override) => override.id)))
    mistakes.push(`videos: two entries change ${id}`)
  for (const override of overrides) {
    const row = withOverride(byId.get(override.id), override, mistakes)
    if (row) byId.set(row.id, row)
    if (row) mistakes.push(...rowProblems(row))
  }
  if (mistakes.length === 0)
    for (const { id, redirect } of overrides) {
      if (redirect === undefined) continue
      const isChained =
        redirect !== id && overrides.some((other) => other.id === redirect && other.redirect !== undefined)
      if (isChained)
        mistakes.push(`videos ${id}.redirect: ${redirect} is redirected itself; name the row that does the work`)
      const row = redirected(byId.get(id), byId.get(redirect), { redirect, mistakes })
      if (row) byId.set(id, row)
    }
  const all = [...byId.values()]
  for (const name of duplicatesIn(all.flatMap((row) => [row.id, ...row.aliases])))
    mistakes.push(`videos: two rows are called ${name}`)
  return { rows: all, mistakes }
}

/** Changes a row, or adds one, which must set every field without a default in its family. */
function withOverride(
  existing: VideoRow | undefined,
  { id, rates, redirect: _, ...fields }: VideoOverride,
  mistakes: string[],
): VideoRow | undefined {
  const billing = rates && readRates(id, rates, mistakes)
  if (existing) return { ...existing, ...fields, ...(billing && { billing }) }
  const { vendor, upstream, family, maker = vendor } = fields
  const missing = missingOf({ vendor, upstream, family, rates })
  if (missing) mistakes.push(`videos ${id}: ${missing}`)
  if (!vendor || !upstream || !family || !maker) return undefined
  return billing && { ...videoFamilies[family], aliases: [], name: id, ...fields, id, vendor, upstream, maker, billing }
}

function readRates(id: string, rates: VideoRates, mistakes: string[]): VideoBilling | undefined {
  try {
    if ('perSecond' in rates) return { mode: 'per_second_with_margin', rate: dollars(rates.perSecond) }
    if ('perMillionTokens' in rates) return { mode: 'per_token', rate: dollars(rates.perMillionTokens) }
    const { perSecondByResolution, perGeneration = '0' } = rates
    const tiers: Record<string, Dollars> = Object.fromEntries(
      Object.entries(perSecondByResolution).map(([tier, rate]) => [tier, dollars(rate)]),
    )
    return { mode: 'per_second_by_tier', tiers, perGeneration: dollars(perGeneration) }
  } catch (error) {
    mistakes.push(`videos ${id}.rates: ${(error as Error).message}`)
    return undefined
  }
}

/** Problems of a row: it needs a price for every resolution and a valid default. */
function rowProblems({ id, seconds, resolutions, usualResolution, billing }: VideoRow): readonly string[] {
  const found: string[] = []
  const { min, max, usual, only } = seconds
  const isWhole = [min, max, usual, ...(only ?? [])].every((each) => Number.isSafeInteger(each) && each > 0)
  const isUsualAllowed = only
    ? only.includes(usual) && only.every((each) => each >= min && each <= max)
    : usual >= min && usual <= max
  if (!isWhole || !isUsualAllowed)
    found.push(`videos ${id}.seconds: whole numbers are needed, min <= usual <= max, and usual one of only`)
  if (!resolutions.includes(usualResolution))
    found.push(`videos ${id}.usualResolution: must be one of its resolutions, got ${usualResolution}`)
  for (const resolution of resolutions) {
    if (!RESOLUTION_NAMES.includes(resolution))
      found.push(`videos ${id}.resolutions: must be of ${RESOLUTION_NAMES.join(', ')}, got ${resolution}`)
    else if (!hasRate(billing, resolution)) found.push(`videos ${id}.rates: none for ${resolution}`)
  }
  return found
}

const hasRate = (billing: VideoBilling, resolution: string): boolean =>
  billing.mode !== 'per_second_by_tier' || Object.hasOwn(billing.tiers, resolution)

type RedirectOptions = { readonly redirect: string; readonly mistakes: string[] }

/**
 * Keeps the row's names and the capabilities that both have, at the fallback's rates, which must be the same or lower
 * (contract 21.11).
 */
function redirected(
  row: VideoRow | undefined,
  fallback: VideoRow | undefined,
  { redirect, mistakes }: RedirectOptions,
): VideoRow | undefined {
  if (!row) return undefined
  if (!fallback || fallback.id === row.id) {
    mistakes.push(`videos ${row.id}.redirect: there is no other row called ${redirect}`)
    return undefined
  }
  const seconds = sharedSeconds(row.seconds, fallback.seconds)
  const resolutions = row.resolutions.filter((resolution) => fallback.resolutions.includes(resolution))
  const [first] = resolutions
  if (!seconds || first === undefined) {
    mistakes.push(`videos ${row.id}.redirect: ${redirect} makes none of its ${seconds ? 'resolutions' : 'lengths'}`)
    return undefined
  }
  const moreExpensive = resolutions.filter((resolution) =>
    isMoreExpensive(fallback.billing, row.billing, { seconds, resolution }),
  )
  if (moreExpensive.length > 0)
    mistakes.push(`videos ${row.id}.redirect: ${redirect} costs more at ${moreExpensive.join(', ')}`)
  const { vendor, upstream, family, ratios, billing } = fallback
  const both = (capability: 'audio' | 'lastFrame' | 'references' | 'assets') => row[capability] && fallback[capability]
  const usualResolution = resolutions.includes(row.usualResolution) ? row.usualResolution : first
  const can = {
    audio: both('audio'),
    lastFrame: both('lastFrame'),
    references: both('references'),
    assets: both('assets'),
  }
  return {
    ...row,
    vendor,
    upstream,
    family,
    seconds,
    resolutions,
    usualResolution,
    ratios,
    billing,
    ...can,
    servedBy: fallback.id,
  }
}

/** The lengths that both make; undefined where there are none. */
function sharedSeconds(a: VideoRow['seconds'], b: VideoRow['seconds']): VideoRow['seconds'] | undefined {
  const [min, max] = [Math.max(a.min, b.min), Math.min(a.max, b.max)]
  if (min > max) return undefined
  const only = (a.only ?? b.only)?.filter((each) => each >= min && each <= max && (b.only ?? [each]).includes(each))
  const usual = only && !only.includes(a.usual) ? only[0] : Math.min(Math.max(a.usual, min), max)
  return usual === undefined ? undefined : { min, max, usual, ...(only && { only }) }
}

/** At the shortest or the longest clip: prices grow evenly in between. */
function isMoreExpensive(
  fallback: VideoBilling,
  own: VideoBilling,
  { seconds, resolution }: { seconds: VideoRow['seconds']; resolution: string },
): boolean {
  const priceOf = (billing: VideoBilling, length: number): Dollars => ({
    num: videoPrice({ billing, seconds: length, resolution }),
    den: 1n,
  })
  return [seconds.min, seconds.max].some((length) => isBelow(priceOf(own, length), priceOf(fallback, length)))
}
