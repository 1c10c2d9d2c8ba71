import { describe, expect, test } from 'bun:test'
import { minimaxMusic } from '../../../../adapters/providers/minimax/music.ts'
import type { MusicJob } from '../../../../core/mod.ts'
import { audioVendorLaws, BARRED, UPSTREAM_TEXT } from '../../../conformance/audio.ts'
import { runLaws } from '../../../conformance/law.ts'
import { refusals, uri, vendorOn } from '../lib/audio_kit.ts'
import { type Answer, calm, KEY, recorded, replay, type Seen } from '../lib/provider_kit.ts'

const CALM: MusicJob = { model: 'music-2.5+', prompt: 'calm piano', instrumental: true }
const on = (name: string) => vendorOn(minimaxMusic, () => replay(recorded('minimax_music', name)))

describe('requests of minimaxMusic()', () => {
  test('is an instrumental, with the key, asking for a URL', async () => {
    const { server, vendor } = on('made')
    await vendor.compose?.(CALM, calm())
    const [{ method, path, headers, json }] = server.seen as [Seen]
    expect([method, path, headers.get('authorization')]).toEqual(['POST', '/v1/music_generation', `Bearer ${KEY}`])
    expect(json).toEqual({
      model: 'music-2.5+',
      prompt: 'calm piano',
      output_format: 'url',
      audio_setting: { sample_rate: 44_100, bitrate: 256_000, format: 'mp3' },
      is_instrumental: true,
    })
  })

  test('is a song with its lyrics, or with some that are written for it, and the length as words', async () => {
    const { server, vendor } = on('made')
    await vendor.compose?.({ ...CALM, instrumental: false, lyrics: 'la la' }, calm())
    await vendor.compose?.({ ...CALM, instrumental: false, seconds: 30 }, calm())
    const [sung, free] = server.seen.map(({ json }) => json)
    expect([sung.lyrics, 'lyrics_optimizer' in sung, 'is_instrumental' in sung]).toEqual(['la la', false, false])
    expect([free.lyrics_optimizer, free.prompt]).toEqual([true, 'calm piano\nAbout 30 seconds long.'])
    await vendor.compose?.({ ...CALM, prompt: 'x'.repeat(2000), seconds: 240 }, calm())
    expect(server.seen[2]?.json.prompt.length).toBeLessThanOrEqual(2000)
    await vendor.compose?.({ ...CALM, prompt: '🎹'.repeat(1_900), seconds: 240 }, calm())
    expect(server.seen[3]?.json.prompt).toStartWith('🎹'.repeat(1_900))
  })
})

test('what minimaxMusic() reads is a URL, or hex, and how long it is', async () => {
  const { data } = recorded('minimax_music', 'made').body as { data: { audio: string } }
  expect(await on('made').vendor.compose?.(CALM, calm())).toEqual({ url: data.audio, seconds: 92.056 })
  expect(await on('made_hex').vendor.compose?.(CALM, calm())).toEqual({
    url: uri('audio/mpeg', Buffer.from('494433040000000000000000', 'hex')),
    seconds: 1.5,
  })
  expect(await on('made_bare').vendor.compose?.(CALM, calm())).toEqual({ url: 'https://tracks.example/2.mp3' })
})

refusals('minimax_music', minimaxMusic, (vendor) => vendor.compose?.(CALM, calm()) ?? Promise.resolve(), {
  read: ['made', 'made_hex', 'made_bare'],
  refused: {
    empty: 'failure',
    garbled: 'failure',
    unknown_error: 'failure',
    timed_out: 'UPSTREAM_TIMEOUT',
    rate_limited: 'RATE_LIMITED 30',
    tokens_limited: 'RATE_LIMITED 30',
    connections_limited: 'RATE_LIMITED 30',
    wrong_key: 'operator',
    no_balance: 'operator',
    internal: 'failure',
    input_policy: 'CONTENT_POLICY',
    output_policy: 'CONTENT_POLICY',
    system_error: 'failure',
    invisible_characters: 'INVALID_BODY',
    bad_parameters: 'INVALID_BODY',
    new_code: 'failure',
    http_401: 'operator',
  },
})

const studio: Answer = ({ json }) =>
  json.prompt.startsWith(BARRED)
    ? Response.json({ base_resp: { status_code: 1026, status_msg: UPSTREAM_TEXT } })
    : replay(recorded('minimax_music', 'made'))

runLaws('minimaxMusic()', audioVendorLaws, async () => {
  const { vendor } = vendorOn(minimaxMusic, studio)
  return { open: async () => vendor, close: async () => {} }
})
