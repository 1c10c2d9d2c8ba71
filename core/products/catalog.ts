/**
 * The catalog of models, as rows. A row's public id, aliases and upstream id are separate (decision 21).
 */
import type { AudioRow } from '../ports/vendors/audio.ts'
import { audioRows } from './audio/catalog.ts'
import { chatRows } from './chat/catalog/mod.ts'
import type { ChatRow } from '../ports/vendors/chat.ts'
import type { ImageRow } from '../ports/vendors/images.ts'
import { imageRows } from './images/catalog.ts'
import type { VideoRow } from '../ports/vendors/video.ts'
import { videoRows } from './video/catalog.ts'
import type { Catalog, CatalogRow, RowKind, Rows } from '../endpoint/offering.ts'
import { rowKinds } from './mod.ts'

/**
 * Builds a catalog; the built-in rows by default. Pass your own rows to sell other models.
 *
 * @example
 * const ofOne = catalog({ images: imageRows.slice(0, 1) })
 */
export function catalog(
  rows: {
    images?: readonly ImageRow[]
    chat?: readonly ChatRow[]
    video?: readonly VideoRow[]
    audio?: readonly AudioRow[]
    /** Rows of the kinds that products declare, by kind. */
    declared?: ReadonlyMap<string, readonly CatalogRow[]>
  } = {},
  kinds: readonly RowKind[] = rowKinds,
): Catalog {
  return {
    images: index(rows.images ?? imageRows),
    chat: index(rows.chat ?? chatRows),
    video: index(rows.video ?? videoRows),
    audio: index(rows.audio ?? audioRows),
    declared: new Map(
      kinds.map((kind) => [kind.kind, { ...index(rows.declared?.get(kind.kind) ?? kind.builtIn), kind }]),
    ),
  }
}

/**
 * Limits a catalog to these models, by public id or alias. Unknown names are ignored.
 *
 * @example
 * const cheap = narrowed(catalog(), SMALL)
 */
export function narrowed({ images, chat, video, audio, declared }: Catalog, names: readonly string[]): Catalog {
  const isIn = <Row extends { id: string; aliases: readonly string[] }>({ id, aliases }: Row) =>
    names.includes(id) || aliases.some((alias) => names.includes(alias))
  return {
    images: index(images.all.filter(isIn)),
    chat: index(chat.all.filter(isIn)),
    video: index(video.all.filter(isIn)),
    audio: index(audio.all.filter(isIn)),
    declared: new Map([...declared].map(([name, { all, kind }]) => [name, { ...index(all.filter(isIn)), kind }])),
  }
}

/**
 * The names of the cheap models of the kinds that products declare.
 *
 * @example
 * const cheap = narrowed(catalog(), [...SMALL, ...smallOf(catalog())])
 */
export const smallOf = ({ declared }: Catalog): readonly string[] =>
  [...declared.values()].flatMap(({ all }) => all.flatMap(({ id, isSmall }) => (isSmall ? [id] : [])))

/**
 * Whether the catalog has a model of this name, of any kind.
 *
 * @example
 * const isSold = hasModel(catalog(), 'vendor-a/image-1')
 */
export const hasModel = ({ declared, ...rows }: Catalog, name: string): boolean =>
  [...Object.values(rows), ...declared.values()].some((kind) => kind.get(name) !== undefined)

const indexes = new WeakMap<readonly unknown[], Rows<never>>()

/**
 * Indexes rows by name, cached per list (lists do not change). Throws when two rows have one name: a buyer must never
 * get another model than the quoted one.
 */
function index<Row extends { id: string; aliases: readonly string[] }>(all: readonly Row[]): Rows<Row> {
  const known = indexes.get(all)
  if (known) return known
  const byName = new Map<string, Row>()
  for (const row of all) {
    for (const name of [row.id, ...row.aliases]) {
      if (byName.has(name)) throw new RangeError(`two catalog rows have the name ${name}`)
      byName.set(name, row)
    }
  }
  const made: Rows<Row> = { all, get: (id) => byName.get(id) }
  indexes.set(all, made as Rows<never>)
  return made
}
