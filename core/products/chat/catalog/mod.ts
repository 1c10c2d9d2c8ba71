/** The built-in chat catalog: list prices of November 2026, which operators can override in their configuration. */
import type { ChatRow } from '../../../ports/vendors/chat.ts'
import { embedded } from './echo.ts'
import { flatPriced, free } from './open_weights.ts'
import { vendorA } from './vendor_a.ts'
import { vendorB } from './vendor_b.ts'
import { vendorC } from './vendor_c.ts'
import { vendorD } from './vendor_d.ts'
import { vendorG } from './vendor_g.ts'
import { vendorH } from './vendor_h.ts'

const idsBut = (row: ChatRow, rows: readonly ChatRow[]): readonly string[] =>
  rows.filter((other) => other !== row).map(({ id }) => id)

/**
 * Free models fall back to each other (contract 20.4).
 *
 * @example
 * const ids = chatRows.map(({ id }) => id)
 */
export const chatRows: readonly ChatRow[] = [
  ...vendorA,
  ...vendorB,
  ...vendorC,
  ...vendorD,
  ...vendorG,
  ...vendorH,
  ...flatPriced,
  ...free.map((row) => ({ ...row, fallbacks: idsBut(row, free) })),
  ...embedded,
]
