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
import type { Rows, Catalog } from '../endpoint/offering.ts'

/** Builds a catalog; the built-in rows by default. Pass your own rows to sell other models. */
export function catalog(
  rows: {
    images?: readonly ImageRow[]
    chat?: readonly ChatRow[]
    video?: readonly VideoRow[]
    audio?: readonly AudioRow[]
  } = {},
): Catalog {
  return {
    images: index(rows.images ?? imageRows),
    chat: index(rows.chat ?? chatRows),
    video: index(rows.video ?? videoRows),
    audio: index(rows.audio ?? audioRows),
  }
}

/** Limits a catalog to these models, by public id or alias. Unknown names are ignored. */
export function narrowed({ images, chat, video, audio }: Catalog, names: readonly string[]): Catalog {
  const isIn = <Row extends { id: string; aliases: readonly string[] }>({ id, aliases }: Row) =>
    names.includes(id) || aliases.some((alias) => names.includes(alias))
  return {
    images: index(images.all.filter(isIn)),
    chat: index(chat.all.filter(isIn)),
    video: index(video.all.filter(isIn)),
    audio: index(audio.all.filter(isIn)),
  }
}

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
