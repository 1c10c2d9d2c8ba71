import { expect } from 'bun:test'
import { type AudioFormat, type AudioKind, type AudioVendor, ApiError, type MadeAudio } from '../../core/mod.ts'
import { type At, never, stopped } from './abort.ts'
import { law, portLaw, type Law } from './law.ts'

/**
 * For vendors that can be told: one behind a stand-in refuses this text, and puts VENDOR_SAYS into all that it says of
 * the refusal.
 */
export const BARRED = 'is refused at once'
export const UPSTREAM_TEXT = 'upstream text zebra-7431'

type AudioRequest = {
  readonly kind: AudioKind
  readonly format: AudioFormat
  make(text: string, at: At): Promise<MadeAudio>
}

const TEXT = 'Hello from the gateway.'
const TYPES: Readonly<Record<AudioFormat, string>> = {
  mp3: 'audio/mpeg',
  opus: 'audio/ogg',
  pcm: 'audio/pcm',
  wav: 'audio/wav',
}
/** How the bytes of each begin; bare samples begin with anything. */
const HEADS: Readonly<Record<AudioFormat, RegExp>> = {
  mp3: /^(ID3|\xff[\xe0-\xff])/,
  opus: /^OggS/,
  pcm: /^/,
  wav: /^RIFF....WAVE/s,
}

/** Everything that a vendor says it makes. */
function madeBy(vendor: AudioVendor): readonly AudioRequest[] {
  const [voice = 'voice'] = Object.values(vendor.voiceNames.aliases)
  return Object.entries(vendor.makes).flatMap(([kind, formats]) =>
    formats.map((format) => ({
      kind: kind as AudioKind,
      format,
      async make(text: string, at: At) {
        if (kind === 'speech')
          return (await vendor.speak?.(Object.freeze({ model: 'm', text, voice, format, speed: 1 }), at)) as MadeAudio
        if (kind === 'sound-effects')
          return (await vendor.sound?.(Object.freeze({ model: 'm', text, format, seconds: 1 }), at)) as MadeAudio
        return (await vendor.compose?.(
          Object.freeze({ model: 'm', prompt: text, instrumental: true, seconds: 5 }),
          at,
        )) as MadeAudio
      },
    })),
  )
}

const kindsOf = (vendor: AudioVendor): readonly AudioRequest[] =>
  madeBy(vendor).filter(({ kind }, index, all) => all.findIndex((each) => each.kind === kind) === index)

export const audioVendorLaws: readonly Law<AudioVendor>[] = [
  portLaw('makes something, and has a verb for all that it says it makes', async ({ makes, speak, sound, compose }) => {
    const verbs = { speech: speak, 'sound-effects': sound, music: compose }
    const promised = Object.entries(makes)
    expect([
      promised.length > 0,
      promised.filter(([kind, formats]) => formats.length === 0 || verbs[kind as AudioKind] === undefined),
    ]).toEqual([true, []])
  }),
  law('a sound is one of the format that was ordered, by its URL or in a data URI', async (subject) => {
    for (const { kind, format, make } of madeBy(await subject.open())) {
      const { url } = await make(TEXT, never())
      if (/^https?:\/\/[^/]/.test(url)) continue
      const [head = '', payload = ''] = url.split(',')
      expect([kind, head]).toEqual([kind, `data:${TYPES[format]};base64`])
      expect([
        kind,
        format,
        HEADS[format].test(Buffer.from(payload.slice(0, 64), 'base64').toString('latin1')),
      ]).toEqual([kind, format, true])
    }
  }),
  law('says how long a sound is in seconds, or nothing of it; of bare samples their rate as well', async (subject) => {
    for (const { format, make } of madeBy(await subject.open())) {
      const { seconds = 1, sampleRate = format === 'pcm' ? 0 : 1 } = await make(TEXT, never())
      expect([seconds > 0 && seconds < 3600, sampleRate > 0]).toEqual([true, true])
    }
  }),
  portLaw(
    'its voices have names of their own, in lower case, and its other ids are none of these',
    async ({ makes, voiceNames: { aliases, ids } }) => {
      const names = Object.keys(aliases)
      expect(names.filter((name) => name !== name.toLowerCase() || !aliases[name])).toEqual([])
      if (makes.speech) expect([names.length > 0, ids.test('no such voice, at all')]).toEqual([true, false])
    },
  ),
  law('lists each voice once, with labels that are text', async (subject) => {
    const list = await (await subject.open()).voices?.(never())
    const ids = (list ?? []).map(({ id }) => id)
    expect(new Set(ids).size).toBe(ids.length)
    for (const { id, name, labels, previewUrl } of list ?? [])
      expect(
        [
          id,
          typeof name,
          Object.values(labels).every((label) => typeof label === 'string'),
          previewUrl ?? 'https:',
        ].map(String),
      ).toEqual([id, 'string', 'true', expect.stringMatching(/^https?:/)])
  }),
  law('a refused text is a fault, in words that are not the vendor’s', async (subject) => {
    for (const { make } of kindsOf(await subject.open())) {
      const error = await make(BARRED, never()).then(
        () => undefined,
        (reason: unknown) => reason,
      )
      if (error === undefined) continue
      const { message, stack, parts, cause } = error as ApiError
      expect([
        error instanceof ApiError,
        [message, stack, JSON.stringify(parts), String(cause)].join('\n').includes(UPSTREAM_TEXT),
      ]).toEqual([true, false])
    }
  }),
  law('an aborted signal ends work with its reason, before it begins and while it runs', async (subject) => {
    const reason = new Error('out of time')
    for (const { make } of kindsOf(await subject.open())) {
      const begin = (at: At) => make(TEXT, at)
      expect(await begin({ signal: AbortSignal.abort(reason) }).catch((error: unknown) => error)).toBe(reason)
      expect([reason, 'made']).toContain((await stopped(begin, reason)) as Error)
    }
  }),
]
