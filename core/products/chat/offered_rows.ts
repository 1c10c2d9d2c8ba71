/** Which chat models a gateway sells: by name, as a sample, and whether any of a kind is available. */
import type { ChatRow } from '../../ports/vendors/chat.ts'
import type { Offering } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { unknownModel } from './request.ts'

export function findRow(model: string, { catalog, vendors }: Pick<Offering, 'catalog' | 'vendors'>): ChatRow {
  const row = catalog.chat.get(model)
  if (!row)
    throw unknownModel(
      model,
      catalog.chat.all.filter((other) => vendors.chat(other) !== undefined),
    )
  return row
}

/** Claude Code and Codex retry a 503: in their formats a model without a vendor is 404 (contract 7.32). */
export function servedRow(model: string, offering: Pick<Offering, 'catalog' | 'vendors'>): ChatRow {
  const row = findRow(model, offering)
  const rows = [row, ...(row.fallbacks ?? []).flatMap((id) => offering.catalog.chat.get(id) ?? [])]
  if (rows.some((each) => offering.vendors.chat(each) !== undefined)) return row
  throw new ApiError('MODEL_NOT_FOUND', {
    message: `${row.id}: nobody serves this model here. Nothing was charged. All models: GET /api/v1/models.`,
    param: 'model',
  })
}

export const notConfigured = ({ id }: ChatRow): ApiError =>
  new ApiError('NOT_CONFIGURED', { message: `${id}: the operator has not configured it. Nothing was charged.` })

/**
 * The first available row that fits, a paid one if there is any; else the first that fits, so that the documentation
 * has a price.
 */
export function sampleRow(offering: Offering, fits: (row: ChatRow) => boolean = () => true): ChatRow | undefined {
  const rows = listedRows(offering, fits)
  const served = rows.filter((row) => offering.vendors.chat(row) !== undefined)
  return served.find(isPaid) ?? served[0] ?? rows.find(isPaid)
}

/** Whether any listed row that fits is available. */
export const isChatOffered =
  (fits: (row: ChatRow) => boolean = () => true) =>
  (offering: Offering): boolean =>
    listedRows(offering, fits).some((row) => offering.vendors.chat(row) !== undefined)

const listedRows = ({ catalog }: Offering, fits: (row: ChatRow) => boolean): readonly ChatRow[] =>
  catalog.chat.all.filter((row) => !row.hidden && fits(row))

const isPaid = ({ billing }: ChatRow): boolean => billing.mode !== 'free'
