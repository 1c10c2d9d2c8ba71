import { afterAll, describe, expect, test } from 'bun:test'
import { LLMock } from '@copilotkit/aimock'
import { openaiSpeech } from '../../../../adapters/providers/openai/speech.ts'
import { wavOf } from '../../../../adapters/providers/lib/wav.ts'
import type { AudioFormat, SpeechJob } from '../../../../core/mod.ts'
import { audioVendorLaws, BARRED, UPSTREAM_TEXT } from '../../../conformance/audio.ts'
import { runLaws } from '../../../conformance/law.ts'
import { refusals, soundReply, SOUNDS, uri, vendorOn } from '../lib/audio_kit.ts'
import { type Answer, calm, KEY, type Seen, setup } from '../lib/provider_kit.ts'

const HELLO: SpeechJob = { model: 'kokoro', text: 'Hello', voice: 'af_heart', format: 'mp3', speed: 1 }

const studio: Answer = ({ json }) =>
  json.input === BARRED
    ? Response.json({ error: { message: UPSTREAM_TEXT, param: 'input' } }, { status: 400 })
    : soundReply(json.response_format as AudioFormat)

describe('openaiSpeech()', () => {
  test('sends a text, a voice and a format, and a speed where it is another', async () => {
    const { server, vendor } = vendorOn(openaiSpeech, studio)
    await vendor.speak?.(HELLO, calm())
    await vendor.speak?.({ ...HELLO, speed: 0.8, format: 'pcm' }, calm())
    const [{ method, path, headers, json }, second] = server.seen as [Seen, Seen]
    expect([method, path, headers.get('authorization'), json]).toEqual([
      'POST',
      '/audio/speech',
      `Bearer ${KEY}`,
      { model: 'kokoro', input: 'Hello', voice: 'af_heart', response_format: 'mp3' },
    ])
    expect([second.json.speed, second.json.response_format]).toEqual([0.8, 'pcm'])
  })

  test('reads a sound; bare samples are 24 kHz', async () => {
    const { vendor } = vendorOn(openaiSpeech, studio)
    expect(await vendor.speak?.(HELLO, calm())).toEqual({ url: uri('audio/mpeg', SOUNDS.mp3) })
    expect(await vendor.speak?.({ ...HELLO, format: 'pcm' }, calm())).toEqual({
      url: uri('audio/pcm', SOUNDS.pcm),
      seconds: 0.1,
      sampleRate: 24_000,
    })
  })

  test('takes no silence for a sound: a WAV without samples, or samples of nothing', async () => {
    const wav = (samples: Uint8Array) => wavOf({ samples, rate: 24_000, channels: 1 })
    for (const [format, bytes] of [
      ['wav', wav(new Uint8Array(0))],
      ['wav', wav(new Uint8Array(480))],
      ['pcm', new Uint8Array(480)],
    ] as const) {
      const { vendor } = vendorOn(
        openaiSpeech,
        () => new Response(bytes as BodyInit, { headers: { 'content-type': 'application/octet-stream' } }),
      )
      await expect(vendor.speak?.({ ...HELLO, format }, calm())).rejects.toThrow('silence')
    }
    const streamed = Uint8Array.from(SOUNDS.wav).fill(0, 40, 44)
    const { vendor } = vendorOn(
      openaiSpeech,
      () => new Response(streamed, { headers: { 'content-type': 'audio/wav' } }),
    )
    expect((await vendor.speak?.({ ...HELLO, format: 'wav' }, calm()))?.url).toBe(uri('audio/wav', streamed))
  })

  test('lists the voices that are configured, the usual one first, or those of the protocol', async () => {
    const { config } = setup('http://127.0.0.1:1')
    const own = openaiSpeech({ ...config, voices: ['af_Heart', 'am_adam'] })
    expect([own.voiceNames.aliases, (await own.voices?.(calm()))?.map(({ id }) => id)]).toEqual([
      { af_heart: 'af_Heart', am_adam: 'am_adam' },
      ['af_Heart', 'am_adam'],
    ])
    expect(Object.keys(openaiSpeech(config).voiceNames.aliases)[0]).toBe('alloy')
  })
})

refusals('openai_speech', openaiSpeech, (vendor) => vendor.speak?.(HELLO, calm()) ?? Promise.resolve(), {
  read: [],
  refused: {
    wrong_voice: 'INVALID_BODY',
    too_long: 'INVALID_BODY',
    bad_format: 'operator',
    wrong_key: 'operator',
    no_quota: 'operator',
    rate_limited: 'RATE_LIMITED 9',
    internal: 'failure',
  },
})

runLaws('openaiSpeech()', audioVendorLaws, async () => {
  const { vendor } = vendorOn(openaiSpeech, studio)
  return { open: async () => vendor, close: async () => {} }
})

test('a stand-in that this project did not write, aimock, speaks', async () => {
  const mock = new LLMock({ port: 0 })
  mock.on(
    { endpoint: 'speech', userMessage: /Hello/ },
    { audio: Buffer.from(SOUNDS.mp3).toString('base64'), format: 'mp3' },
  )
  await mock.start()
  afterAll(() => mock.stop())
  const { config } = setup(`${mock.url}/v1`)
  expect((await openaiSpeech(config).speak?.(HELLO, calm()))?.url).toBe(uri('audio/mpeg', SOUNDS.mp3))
})
