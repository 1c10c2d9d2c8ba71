/** Operator overrides of the image catalog: rows edited, added, hidden or redirected (decision 21). */
import type { Dollars } from '../../x402/money.ts'
import { missingOf } from '../lib/row_overrides.ts'
import { imageSizes } from './price.ts'
import { duplicatesIn } from '../../lib/text.ts'
import type { ImageRow } from '../../ports/vendors/images.ts'

/**
 * Changes to one row. `sizes` maps sizes to rates in US dollars; `redirect` names the row that serves requests instead.
 */
export type ImageOverride = {
  readonly id: string
  readonly aliases?: readonly string[]
  readonly name?: string
  readonly maker?: string
  readonly vendor?: string
  readonly upstream?: string
  readonly sizes?: Readonly<Record<string, string>>
  readonly edits?: { readonly maxImages: number; readonly mask: boolean }
  readonly slow?: boolean
  readonly hidden?: boolean
  readonly redirect?: string
}

type Overridden = { readonly rows: readonly ImageRow[]; readonly mistakes: readonly string[] }

/**
 * Applies overrides in order. Mistakes name the row and the field; use the rows only if there are none.
 *
 * @example
 * const { rows, mistakes } = overrideImages(imageRows, [{ id: 'vendor-a/image-1', name: 'Image' }])
 */
export function overrideImages(rows: readonly ImageRow[], overrides: readonly ImageOverride[]): Overridden {
  const mistakes: string[] = []
  const byId = new Map(rows.map((row) => [row.id, row]))
  for (const id of duplicatesIn(overrides.map((override) => override.id)))
    mistakes.push(`images: two entries change ${id}`)
  for (const override of overrides) {
    const row = withOverride(byId.get(override.id), override, mistakes)
    if (row) byId.set(row.id, row)
  }
  for (const { id, redirect } of overrides) {
    if (redirect === undefined) continue
    const isChained =
      redirect !== id && overrides.some((other) => other.id === redirect && other.redirect !== undefined)
    if (isChained)
      mistakes.push(`images ${id}.redirect: ${redirect} is redirected itself; name the row that does the work`)
    const row = redirected(byId.get(id), byId.get(redirect), { redirect, mistakes })
    if (row) byId.set(id, row)
  }
  const all = [...byId.values()]
  for (const name of duplicatesIn(all.flatMap((row) => [row.id, ...row.aliases])))
    mistakes.push(`images: two rows are called ${name}`)
  return { rows: all, mistakes }
}

/** Changes a row, or adds one, which must set every field without a default. */
function withOverride(
  existing: ImageRow | undefined,
  { id, sizes, redirect: _, ...fields }: ImageOverride,
  mistakes: string[],
): ImageRow | undefined {
  const parsed = sizes && readSizes(id, sizes, mistakes)
  if (existing) return { ...existing, ...fields, ...(parsed && { sizes: parsed }) }
  const { vendor, upstream, maker = vendor } = fields
  const missing = missingOf({ vendor, upstream, sizes })
  if (missing) mistakes.push(`images ${id}: ${missing}`)
  if (!vendor || !upstream || !maker || !parsed) return undefined
  return { aliases: [], name: id, slow: false, ...fields, id, vendor, upstream, maker, sizes: parsed }
}

function readSizes(
  id: string,
  sizes: Readonly<Record<string, string>>,
  mistakes: string[],
): ImageRow['sizes'] | undefined {
  try {
    const read = imageSizes(sizes)
    if (read.length > 0) return read
    mistakes.push(`images ${id}.sizes: at least one is needed`)
  } catch (error) {
    mistakes.push(`images ${id}.sizes: ${(error as Error).message}`)
  }
  return undefined
}

/**
 * Keeps the row's names and the sizes that both support, at the fallback's rates, which must be the same or lower
 * (contract 21.11).
 */
function redirected(
  row: ImageRow | undefined,
  fallback: ImageRow | undefined,
  { redirect, mistakes }: { redirect: string; mistakes: string[] },
): ImageRow | undefined {
  if (!row) return undefined
  if (!fallback || fallback.id === row.id) {
    mistakes.push(`images ${row.id}.redirect: there is no other row called ${redirect}`)
    return undefined
  }
  const shared = row.sizes.flatMap((own) => {
    const fallbackSize = fallback.sizes.find(({ size }) => size === own.size)
    if (fallbackSize && isAbove(fallbackSize.rate, own.rate))
      mistakes.push(`images ${row.id}.redirect: ${redirect} costs more at ${own.size}`)
    return fallbackSize ?? []
  })
  if (shared.length === 0) mistakes.push(`images ${row.id}.redirect: ${redirect} makes none of its sizes`)
  const { vendor, upstream, slow } = fallback
  const { edits: _, ...fields } = row
  const edits = row.edits &&
    fallback.edits && {
      maxImages: Math.min(row.edits.maxImages, fallback.edits.maxImages),
      mask: row.edits.mask && fallback.edits.mask,
    }
  return { ...fields, vendor, upstream, slow, sizes: shared, servedBy: fallback.id, ...(edits && { edits }) }
}

const isAbove = (a: Dollars, b: Dollars): boolean => a.num * b.den > b.num * a.den
