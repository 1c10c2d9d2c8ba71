/** Fields of speech, sound effects and music, and their checks. */
import { Type } from '@sinclair/typebox'
import type { AudioFormat, AudioKind, AudioVendor } from '../../ports/vendors/audio.ts'
import { quoted } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'

export const modelField = Type.Optional(
  Type.String({
    minLength: 1,
    maxLength: 200,
    description: 'Id of an audio model, as listed by /api/v1/audio/models.',
  }),
)

export const formatField = Type.Optional(
  Type.String({
    maxLength: 20,
    description:
      'mp3, opus, pcm or wav, if the vendor supports it. Default: that of the vendor. pcm is 16 bits, little-endian, mono.',
  }),
)

export const noteField = Type.Optional(
  Type.String({ description: 'Set if the audio was not made by a model: how it was made.' }),
)

/** An inline reply. The audio is at its URL, never in the body. */
export const soundResult = Type.Object({
  created: Type.Integer({ description: 'Unix time in seconds.' }),
  model: Type.String(),
  data: Type.Array(
    Type.Object({
      url: Type.String({ description: 'Hosted URL.' }),
      format: Type.String(),
      characters: Type.Optional(Type.Integer({ description: 'Number of characters spoken.' })),
      credits: Type.Optional(Type.Number({ description: 'Credits reported by the vendor.' })),
      duration_seconds: Type.Optional(Type.Number()),
      sample_rate: Type.Optional(Type.Integer({ description: 'For pcm, which has no header.' })),
      note: noteField,
    }),
  ),
})

/** The requested format, or the vendor's default. Throws for one that the vendor does not support. */
export function formatFor(
  kind: AudioKind,
  requested: string | undefined,
  vendor: AudioVendor | undefined,
): AudioFormat {
  const formats = vendor?.makes[kind] ?? ['mp3']
  const [usual = 'mp3'] = formats
  if (requested === undefined) return usual
  const format = formats.find((each) => each === requested.toLowerCase())
  if (format) return format
  throw refused('response_format', `must be one of ${formats.join(', ')} here, got ${quoted(requested)}`)
}

/** Characters without sound: joiners, fillers, direction marks, blank braille. */
const SILENT = /[\p{Default_Ignorable_Code_Point}\u2800]/gu

/** Characters that can be spoken: letters, digits and symbols. */
const SPEAKABLE = /[\p{L}\p{N}\p{S}]/u

/** Checks the length of a text, and that it can be spoken: dots or invisible characters would be paid silence. */
export function checkText(
  path: string,
  text: string,
  { length, max, of }: { length: number; max: number; of: string },
): void {
  if (text.trim() === '') throw refused(path, `must not be blank, got ${quoted(text)}`)
  if (length > max) throw refused(path, `may have at most ${max} characters with ${of}, got ${length}`)
  if (/\p{Cs}/u.test(text))
    throw refused(path, `must be valid Unicode, but has an unpaired surrogate; got ${quoted(text)}`)
  if (!SPEAKABLE.test(text.replace(SILENT, '')))
    throw refused(path, `must contain a letter, a digit or a symbol, got ${quoted(text)}`)
}
