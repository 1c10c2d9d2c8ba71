/** The image models that this gateway can sell. */
import type { ImageRow, ImageVendor } from '../../ports/vendors/images.ts'
import type { Context, Offering } from '../../endpoint/mod.ts'
import { ApiError, rateLimited } from '../../http/errors.ts'
import type { Usdc } from '../../x402/money.ts'
import { mediaPrice } from '../../x402/pricing.ts'
import { priceRangeOf } from '../lib/price_range.ts'
import { DEFAULT_SIZE, type ImageOrder } from './order.ts'

const FULL_RETRY_SECONDS = 10

/** 400 that lists the model ids that this gateway sells. */
export function invalidModel(problem: string, offering: Offering, requirement: Requirement): ApiError {
  const available = servedRows(offering, requirement).map(({ id }) => id)
  return new ApiError('INVALID_MODEL', {
    message: `${problem} Available models: ${available.join(', ') || 'none'}.`,
    fields: { available_models: available },
  })
}

/** Requirements of a request on the row and on its vendor. */
export type Requirement = { matches(row: ImageRow): boolean; isServedBy(vendor: ImageVendor): boolean }

/** The listed rows that are available here; all matching rows where none is, so that the documentation has a price. */
export function availableRows(offering: Offering, requirement: Requirement): readonly ImageRow[] {
  const available = servedRows(offering, requirement)
  return available.length > 0 ? available : offering.catalog.images.all.filter(requirement.matches)
}

/** The listed rows that are available here. */
export function servedRows({ catalog, vendors }: Offering, { matches, isServedBy }: Requirement): readonly ImageRow[] {
  return catalog.images.all.filter((row) => {
    const vendor = row.hidden || !matches(row) ? undefined : vendors.images(row)
    return vendor !== undefined && isServedBy(vendor)
  })
}

/** The example, adapted to the first of these rows if its model is not among them. */
export function sampleOf<Order extends ImageOrder>(example: Order, rows: readonly ImageRow[]): Order | undefined {
  const row = rows.find(({ id }) => id === example.model) ?? rows[0]
  const sizeRow = row?.sizes.find(({ size }) => size === DEFAULT_SIZE) ?? row?.sizes[0]
  return row && sizeRow && { ...example, model: row.id, size: sizeRow.size }
}

/** Lowest and highest quote over the rows; the fee alone if there are none. */
export function imagePriceRange(rows: readonly ImageRow[], { prices }: Context): { min: Usdc; max: Usdc } {
  const amounts = rows.flatMap((row) =>
    row.sizes.flatMap(({ rate }) => [mediaPrice(rate, 1, prices), mediaPrice(rate, 10, prices)]),
  )
  return priceRangeOf(amounts, { prices })
}

/** Throws RATE_LIMITED where the vendor has as many orders as it takes. */
export function admitImage(order: ImageOrder, { catalog, vendors }: Pick<Offering, 'catalog' | 'vendors'>): void {
  const row = catalog.images.get(order.model ?? '')
  if (row && vendors.images(row)?.isFull?.()) throw rateLimited(row.maker, FULL_RETRY_SECONDS)
}
