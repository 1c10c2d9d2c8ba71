/** The catalog: what the operator has for sale, as rows. A row's public id, alias ids and upstream id are separate (decision 21). */
import { type AudioRow, audioRows } from './audio/catalog.ts'
import { chatRows } from './chat/catalog.ts'
import type { ChatRow } from './chat/row.ts'
import { type ImageRow, imageRows } from './images/catalog.ts'
import { type VideoRow, videoRows } from './video/catalog.ts'

export { AUDIO_KINDS, type AudioBilling, type AudioKind, type AudioRow, audioRows } from './audio/catalog.ts'
export { type AudioOverride, overrideAudio } from './audio/overrides.ts'
export { chatRows } from './chat/catalog.ts'
export { type ChatOverride, overrideChat } from './chat/overrides.ts'
export { type ChatBilling, type ChatRow, EFFORTS, type Effort, type EffortRules, type ImageTokens } from './chat/row.ts'
export { type ImageRow, imageRows } from './images/catalog.ts'
export { networkNamed, networkOf, type NetworkRow, networkRows } from './rpc/networks.ts'
export { type ImageOverride, overrideImages } from './overrides.ts'
export { overrideVideos, type VideoOverride } from './video/overrides.ts'
export { SMALL } from './catalog_small.ts'
export { type VideoBilling, type VideoRow, videoRows } from './video/catalog.ts'

/** Rows of one kind, found by public id or by any alias. */
export type Rows<Row> = { readonly all: readonly Row[]; get(id: string): Row | undefined }

export type Catalog = {
  readonly images: Rows<ImageRow>
  readonly chat: Rows<ChatRow>
  readonly video: Rows<VideoRow>
  readonly audio: Rows<AudioRow>
}

/** The catalog of the contract; pass rows of your own to sell other models. */
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

/** The rows of these models, by public id or alias. Names that no row has are nobody's. */
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

/** Made once for each list; lists do not change. Throws when two rows claim one name: a buyer must never get another model than the one that was quoted. */
function index<Row extends { id: string; aliases: readonly string[] }>(all: readonly Row[]): Rows<Row> {
  const known = indexes.get(all)
  if (known) return known
  const byName = new Map<string, Row>()
  for (const row of all) {
    for (const name of [row.id, ...row.aliases]) {
      if (byName.has(name)) throw new RangeError(`two catalog rows are called ${name}`)
      byName.set(name, row)
    }
  }
  const made: Rows<Row> = { all, get: (id) => byName.get(id) }
  indexes.set(all, made as Rows<never>)
  return made
}
