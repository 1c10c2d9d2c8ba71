/** Catalog, switches and prices that an endpoint may use before anything is ordered. */
import type { TProperties } from '@sinclair/typebox'
import { ApiError } from '../http/errors.ts'
import { clip } from '../lib/text.ts'
import type { ChainFamily } from '../ports/chain_family.ts'
import type { Vendors } from '../ports/vendors/mod.ts'
import type { Prices } from './prices.ts'
import type { ImageRow } from '../ports/vendors/images.ts'
import type { ChatRow } from '../ports/vendors/chat.ts'
import type { VideoRow } from '../ports/vendors/video.ts'
import type { AudioRow } from '../ports/vendors/audio.ts'

/** Context of the pure functions of an endpoint, besides the input. */
export type Context = {
  readonly catalog: Catalog
  /** The markup on the rates of the catalog. Absent: the standard one, and no margin. */
  readonly prices?: Prices
  /** Features that the operator has switched off for a while; everything is on by default. */
  readonly featureFlags?: { readonly referenceMedia?: boolean }
  /** Networks on which this gateway is paid, as CAIP-2 ids. */
  readonly networks?: readonly string[]
  /** Families of these networks, preferred first. */
  readonly families?: readonly ChainFamily[]
  /** The operator's wallet allowlists, by name. */
  readonly allowlists?: Readonly<Record<string, readonly string[]>>
}

/** The catalogs, and the configured vendors that can serve them. */
export type Offering = Context & { readonly vendors: Vendors }

/** Catalog rows of one kind, found by public id or by alias. */
export type Rows<Row> = { readonly all: readonly Row[]; get(id: string): Row | undefined }

/** Fields of every row of a kind that a product declares. */
export type CatalogRow = {
  /** Public id, as clients send it. */
  readonly id: string
  readonly aliases: readonly string[]
  readonly name: string
  /** The maker, as `owned_by`. */
  readonly maker: string
  /** Which of the operator's vendors serves it, and what that vendor calls it. */
  readonly vendor: string
  readonly upstream: string
  /** Sold, but not listed. */
  readonly hidden?: boolean
  /** Cheap: for sale on gateways with worthless money as well (contract 21.5). */
  readonly isSmall?: boolean
}

export type Catalog = {
  readonly images: Rows<ImageRow>
  readonly chat: Rows<ChatRow>
  readonly video: Rows<VideoRow>
  readonly audio: Rows<AudioRow>
  /** Rows of the kinds that products declare, by kind. */
  readonly declared: ReadonlyMap<string, Rows<CatalogRow> & { readonly kind: RowKind }>
}

// ── rows of a product's own kind ────────────────────────────────────────────────────────────────────────────────────

type RowKindFields<Row extends CatalogRow> = {
  /** Names the table of the configuration, and the member of `Vendors` that serves its rows. */
  readonly kind: string
  /** Rows for sale unless the operator changes them. The first is the default. */
  readonly builtIn: readonly Row[]
  /**
   * Settings of a row beside those that all rows have, each with a description. `max_tokens` in the file is `maxTokens`
   * of the row; a `rate()` is read as exact dollars.
   */
  readonly settings: TProperties
  /** Fields that a row of the operator's own need not name. */
  readonly usual?: Partial<Row>
  /** The vendor that serves a row; undefined where the operator has configured none. */
  vendorOf(row: Row, vendors: Vendors): object | undefined
  /** How /api/v1/models shows a row, beside its id, maker and name. `pricing` is before the operator's margin. */
  entry(row: Row): RowEntry
}

type RowEntry = {
  readonly description: string
  readonly categories: readonly string[]
  readonly billing_mode: string
  readonly pricing: Readonly<Record<string, number>>
  readonly context_window?: number
}

/** A kind of models that a product sells: rows, what an operator may change of them, and how they are found. */
export type RowKind<Row extends CatalogRow = CatalogRow> = RowKindFields<Row> & {
  all(catalog: Catalog): readonly Row[]
  /** The requested row, or the first by default. Throws INVALID_MODEL, which lists the valid ids. */
  find(catalog: Catalog, model: string | undefined): Row
  /** Listed rows that are served here; all listed rows where none is, so that the documentation has a price. */
  available(offering: Offering): readonly Row[]
}

/**
 * Declares the rows of a product. An endpoint that says `rows` with it brings the table of the configuration, the
 * catalog and the list of models; an endpoint's own rules use its methods.
 */
export function rowKind<Row extends CatalogRow>(fields: RowKindFields<Row>): RowKind<Row> {
  const all = ({ declared }: Catalog) => (declared.get(fields.kind)?.all ?? []) as readonly Row[]
  const listed = (catalog: Catalog) => all(catalog).filter(({ hidden }) => !hidden)
  return {
    ...fields,
    all,
    find(catalog, model) {
      const row = model === undefined ? all(catalog)[0] : catalog.declared.get(fields.kind)?.get(model)
      if (row) return row as Row
      const available = listed(catalog).map(({ id }) => id)
      throw new ApiError('INVALID_MODEL', {
        message: `Unknown model: ${clip(model)}. Available models: ${available.join(', ')}.`,
        fields: { available_models: available },
      })
    },
    available({ catalog, vendors }) {
      const served = listed(catalog).filter((row) => fields.vendorOf(row, vendors) !== undefined)
      return served.length > 0 ? served : listed(catalog)
    },
  }
}
