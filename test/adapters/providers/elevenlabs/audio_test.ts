import { afterAll, describe, expect, test } from 'bun:test'
import { LLMock } from '@copilotkit/aimock'
import { elevenlabs } from '../../../../adapters/providers/elevenlabs/audio.ts'
import { readWav } from '../../../../adapters/providers/lib/wav.ts'
import type { AudioFormat, SpeechJob } from '../../../../core/mod.ts'
import { audioVendorLaws, BARRED, UPSTREAM_TEXT } from '../../../conformance/audio.ts'
import { brokenAudioVendors } from '../../../conformance/broken_audio.ts'
import { runBroken, runLaws } from '../../../conformance/law.ts'
import { refusals, soundReply, SOUNDS, uri, vendorOn } from '../lib/audio_kit.ts'
import { type Answer, calm, KEY, outcome, recorded, replay, type Seen, setup, standIn } from '../lib/provider_kit.ts'

const SARAH = 'EXAVITQu4vr4xnSDxMaL'
const HELLO: SpeechJob = { model: 'eleven_flash_v2_5', text: 'Hello', voice: SARAH, format: 'mp3', speed: 1 }
const RAIN = { model: 'eleven_text_to_sound_v2', text: 'rain', format: 'mp3' } as const

/** Answers in the format that is asked for, and keeps the query. */
function studio() {
  const queries: string[] = []
  const answer: Answer = ({ path, json }, request) => {
    const { searchParams } = new URL(request.url)
    queries.push(String(searchParams))
    if (path === '/v1/voices') return replay(recorded('elevenlabs', 'voices'))
    if (json.text === BARRED)
      return Response.json({ detail: { status: 'content_against_policy', message: UPSTREAM_TEXT } }, { status: 400 })
    return soundReply((searchParams.get('output_format') ?? '').split('_')[0] as AudioFormat, { 'character-cost': '3' })
  }
  return { queries, ...vendorOn(elevenlabs, answer) }
}

describe('requests of elevenlabs()', () => {
  test('is a text to a voice, with the key in its own header, and a speed where it is another', async () => {
    const { server, queries, vendor } = studio()
    await vendor.speak?.(HELLO, calm())
    await vendor.speak?.({ ...HELLO, speed: 1.2, format: 'wav', voice: 'a/b' }, calm())
    const [{ method, path, headers, json }, second] = server.seen as [Seen, Seen]
    expect([method, path, headers.get('xi-api-key'), headers.get('authorization')]).toEqual([
      'POST',
      `/v1/text-to-speech/${SARAH}`,
      KEY,
      null,
    ])
    expect([json, queries[0]]).toEqual([
      { text: 'Hello', model_id: 'eleven_flash_v2_5' },
      'output_format=mp3_44100_128',
    ])
    expect([second.path, second.json.voice_settings, queries[1]]).toEqual([
      '/v1/text-to-speech/a%2Fb',
      { speed: 1.2 },
      'output_format=wav_24000',
    ])
  })

  test('is a sound with what was ordered of it and nothing else', async () => {
    const { server, queries, vendor } = studio()
    await vendor.sound?.(RAIN, calm())
    await vendor.sound?.({ ...RAIN, seconds: 3, promptInfluence: 0.5, format: 'wav' }, calm())
    expect(server.seen.map(({ path, json }) => [path, json])).toEqual([
      ['/v1/sound-generation', { text: 'rain', model_id: 'eleven_text_to_sound_v2' }],
      [
        '/v1/sound-generation',
        { text: 'rain', model_id: 'eleven_text_to_sound_v2', duration_seconds: 3, prompt_influence: 0.5 },
      ],
    ])
    expect(queries).toEqual(['output_format=mp3_44100_128', 'output_format=pcm_24000'])
  })
})

describe('replies to elevenlabs()', () => {
  test('is a sound as a data URI, and what it cost in credits', async () => {
    expect(await studio().vendor.speak?.(HELLO, calm())).toEqual({ url: uri('audio/mpeg', SOUNDS.mp3), credits: 3 })
    expect(await studio().vendor.speak?.({ ...HELLO, format: 'pcm' }, calm())).toEqual({
      url: uri('audio/pcm', SOUNDS.pcm),
      credits: 3,
      seconds: 0.1,
      sampleRate: 24_000,
    })
  })

  test('are the samples of a sound, put into a WAV', async () => {
    const made = await studio().vendor.sound?.({ ...RAIN, format: 'wav' }, calm())
    const wav = readWav(Buffer.from(made?.url.split(',')[1] ?? '', 'base64'))
    expect([
      wav?.rate,
      wav?.channels,
      made?.seconds,
      Buffer.from(wav?.samples ?? []).equals(Buffer.from(SOUNDS.pcm)),
    ]).toEqual([24_000, 1, 0.1, true])
  })

  test('are voices, with what is known of each', async () => {
    expect(await studio().vendor.voices?.(calm())).toEqual([
      {
        id: SARAH,
        name: 'Sarah',
        category: 'premade',
        labels: { accent: 'american', gender: 'female', age: 'young', language: 'en', descriptive: 'professional' },
        previewUrl: 'https://storage.googleapis.com/eleven-public-prod/premade/voices/EXAVITQu4vr4xnSDxMaL/sample.mp3',
      },
      { id: 'abcdefghij0123456789', name: 'Mine', category: 'cloned', labels: {}, previewUrl: null },
    ])
    const { vendor, log } = vendorOn(elevenlabs, () => replay(recorded('elevenlabs', 'voices_other_shape')))
    expect(await outcome(vendor.voices?.(calm()) ?? Promise.resolve(), log)).toBe('failure')
  })

  test.each([
    ['a page', () => new Response('<html>', { headers: { 'content-type': 'text/html' } })],
    ['nothing', () => new Response('', { headers: { 'content-type': 'audio/mpeg' } })],
    ['another format', () => soundReply('wav')],
  ])('is no sound where it is %s', async (_, answer) => {
    const { vendor, log } = vendorOn(elevenlabs, answer)
    expect(await outcome(vendor.speak?.(HELLO, calm()) ?? Promise.resolve(), log)).toBe('failure')
  })
})

refusals('elevenlabs', elevenlabs, (vendor) => vendor.speak?.(HELLO, calm()) ?? Promise.resolve(), {
  read: ['voices', 'voices_other_shape'],
  refused: {
    wrong_key: 'operator',
    quota: 'operator',
    too_long: 'INVALID_BODY',
    voice_not_found: 'INVALID_BODY',
    too_many: 'RATE_LIMITED 30',
    busy: 'RATE_LIMITED 7',
    unprocessable: 'INVALID_BODY',
    unprocessable_other: 'operator',
    policy: 'CONTENT_POLICY',
    internal: 'failure',
  },
})

runLaws('elevenlabs()', audioVendorLaws, async () => {
  const { vendor } = studio()
  return { open: async () => vendor, close: async () => {} }
})
runBroken('an audio vendor', audioVendorLaws, brokenAudioVendors)

/** A stand-in that this project did not write. */
describe('against aimock', async () => {
  const mock = new LLMock({ port: 0 })
  const audio = { b64Json: Buffer.from(SOUNDS.mp3).toString('base64'), contentType: 'audio/mpeg' }
  mock.on({ endpoint: 'elevenlabs-tts', userMessage: /Hello/ }, { audio })
  mock.on({ endpoint: 'audio-gen', userMessage: /rain/ }, { audio })
  mock.on({ endpoint: 'audio-gen', userMessage: /slow/ }, { error: { message: 'slow' }, status: 429, retryAfter: 17 })
  await mock.start()
  afterAll(() => mock.stop())
  const { config, log } = setup(mock.url)
  const vendor = elevenlabs(config)

  test('a text is spoken and a sound is made', async () => {
    expect((await vendor.speak?.(HELLO, calm()))?.url).toBe(uri('audio/mpeg', SOUNDS.mp3))
    expect((await vendor.sound?.(RAIN, calm()))?.url).toBe(uri('audio/mpeg', SOUNDS.mp3))
  })

  test('a rate limit is read, and so is what nobody expected', async () => {
    expect(await outcome(vendor.sound?.({ ...RAIN, text: 'slow' }, calm()) ?? Promise.resolve(), log)).toBe(
      'RATE_LIMITED 17',
    )
    expect(await outcome(vendor.speak?.({ ...HELLO, text: 'unforeseen' }, calm()) ?? Promise.resolve(), log)).toBe(
      'operator',
    )
  })
})

test('a vendor that hangs is given up at its time, as a time-out', async () => {
  const { config, log, clock } = setup(standIn(() => new Promise<Response>(() => {})).url)
  const work = elevenlabs(config).speak?.(HELLO, calm()) ?? Promise.resolve()
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
  clock.expire()
  expect(await outcome(work, log)).toBe('UPSTREAM_TIMEOUT')
})
