/** Operator overrides of the audio catalog: rows edited, added or hidden (decision 21). */
import { dollars } from '../../x402/money.ts'
import { duplicatesIn } from '../../lib/text.ts'
import type { AudioBilling, AudioKind, AudioRow } from '../../ports/vendors/audio.ts'
import { missingOf } from '../lib/row_overrides.ts'

/**
 * Changes to one row. `rate` in US dollars: per 1,000 characters of speech, or per second if the row is billed so; else
 * per call.
 */
export type AudioOverride = {
  readonly id: string
  readonly aliases?: readonly string[]
  readonly name?: string
  readonly kind?: AudioKind
  readonly maker?: string
  readonly vendor?: string
  readonly upstream?: string
  readonly rate?: string
  readonly maxCharacters?: number
  readonly hidden?: boolean
}

const MODES: Readonly<Record<AudioKind, AudioBilling['mode']>> = {
  speech: 'per_character',
  'sound-effects': 'per_generation',
  music: 'per_track',
}
/** Default limits: OpenAI's for speech, the contract's for the others. */
const DEFAULT_MAX_CHARACTERS: Readonly<Record<AudioKind, number>> = {
  speech: 4_096,
  'sound-effects': 1_000,
  music: 2_000,
}

/**
 * Applies overrides in order. Mistakes name the row and the field; use the rows only if there are none.
 *
 * @example
 * const { rows, mistakes } = overrideAudio(audioRows, [{ id: 'elevenlabs/flash-v2.5', name: 'Flash' }])
 */
export function overrideAudio(
  rows: readonly AudioRow[],
  overrides: readonly AudioOverride[],
): { readonly rows: readonly AudioRow[]; readonly mistakes: readonly string[] } {
  const mistakes: string[] = []
  const byId = new Map(rows.map((row) => [row.id, row]))
  for (const id of duplicatesIn(overrides.map((override) => override.id)))
    mistakes.push(`audio: two entries change ${id}`)
  for (const override of overrides) {
    const existing = byId.get(override.id)
    const row = existing ? withOverride(existing, override) : newRow(override, mistakes)
    if (row) byId.set(row.id, row)
  }
  const all = [...byId.values()]
  for (const name of duplicatesIn(all.flatMap((row) => [row.id, ...row.aliases])))
    mistakes.push(`audio: two rows are called ${name}`)
  return { rows: all, mistakes }
}

/** Changing the kind changes the billing mode. */
function withOverride(row: AudioRow, { rate, kind = row.kind, ...fields }: AudioOverride): AudioRow {
  const mode = kind === row.kind ? row.billing.mode : MODES[kind]
  return { ...row, ...fields, kind, billing: { mode, rate: rate === undefined ? row.billing.rate : dollars(rate) } }
}

function newRow({ kind, vendor, upstream, rate, ...fields }: AudioOverride, mistakes: string[]): AudioRow | undefined {
  const missing = missingOf({ kind, vendor, upstream, rate })
  if (missing) mistakes.push(`audio ${fields.id}: ${missing}`)
  if (!kind || !vendor || !upstream || rate === undefined) return undefined
  return {
    aliases: [],
    name: fields.id,
    maker: vendor,
    maxCharacters: DEFAULT_MAX_CHARACTERS[kind],
    ...fields,
    kind,
    vendor,
    upstream,
    billing: { mode: MODES[kind], rate: dollars(rate) },
  }
}
