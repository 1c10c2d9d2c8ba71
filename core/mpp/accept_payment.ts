/** The header `Accept-Payment`: which payment methods a client takes. */
import { INTENT } from './method.ts'

/** A request's acceptance of a method. `unasked`: nothing, or nothing that can be read. */
type Acceptance = 'accepted' | 'refused' | 'unasked'

const MAX_HEADER = 4_096
const RANGE = /^([a-z*][a-z0-9:_-]*)\/([a-z*][a-z0-9:_-]*)(?:\s*;\s*q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?))?$/i

/** The most specific range decides. A header that is malformed, or does not match the method, counts as absent. */
export function acceptanceOf(header: string | null, name: string): Acceptance {
  if (header === null || header.length > MAX_HEADER) return 'unasked'
  const ranges = header.split(',').map((text) => RANGE.exec(text.trim()))
  if (ranges.includes(null)) return 'unasked'
  let best: { readonly weight: number; readonly quality: number } | undefined
  for (const [, method = '', intent = '', quality = '1'] of ranges.flatMap((range) => (range ? [range] : []))) {
    const weight = weightOf(method, name, 2) + weightOf(intent, INTENT, 1)
    if (!(weight >= (best?.weight ?? 0))) continue
    best = { weight, quality: Number(quality) }
  }
  if (!best) return 'unasked'
  return best.quality > 0 ? 'accepted' : 'refused'
}

/** NaN if the range does not match. */
function weightOf(range: string, name: string, weight: number): number {
  if (range === '*') return 0
  return range.toLowerCase() === name ? weight : Number.NaN
}
