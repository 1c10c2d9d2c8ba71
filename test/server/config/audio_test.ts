/** Who speaks and who composes: by key, by file, and by mistake. */
import { describe, expect, test } from 'bun:test'
import { audioRows } from '../../../core/mod.ts'
import { realVendors } from '../../../server/config/mod.ts'
import { good, mistakes, servedBy } from './config_kit.ts'

describe('audio', () => {
  test('has the rows of the contract and no vendor when nothing is said', () => {
    expect(good('').audio).toEqual({ rows: audioRows })
    expect(servedBy(good(''), 'audio')).toEqual(['embedded'])
  })

  test('keys bring vendors to life, at their makers’ addresses unless told', () => {
    const config = good('minimax_base_url = "http://music.lan"', { ELEVENLABS_API_KEY: 'e', MINIMAX_API_KEY: 'm' })
    expect(config.services.audio).toMatchObject([
      { by: 'elevenlabs', settings: { elevenlabs_api_key: 'e' } },
      { by: 'minimax', settings: { minimax_api_key: 'm', minimax_base_url: 'http://music.lan' } },
      { by: 'embedded' },
    ])
    expect(realVendors(config)).toEqual(['elevenlabs', 'minimax'])
  })

  test('a server of the operator’s serves its models as rows of its own', () => {
    const { audio, services } = good('', {
      SPEECH_BASE_URL: 'http://127.0.0.1:8880/v1',
      SPEECH_MODELS: 'kokoro, tts-1',
      SPEECH_VOICES: 'af_heart',
    })
    expect(services.audio?.[0]?.settings).toEqual({
      speech_base_url: 'http://127.0.0.1:8880/v1',
      speech_models: ['kokoro', 'tts-1'],
      speech_voices: ['af_heart'],
    })
    expect(audio.rows.slice(audioRows.length)).toMatchObject([
      { id: 'local/kokoro', kind: 'speech', vendor: 'speech', upstream: 'kokoro', maxCharacters: 4_096 },
      { id: 'local/tts-1', upstream: 'tts-1' },
    ])
  })

  test('rows can be edited, added, and given to another vendor', () => {
    const { audio } = good(
      '[[audio]]\nid = "bytedance/seed-audio-1.0"\nvendor = "speech"\nupstream = "kokoro"\nrate = "0.002"\nmax_characters = 900\n[[audio]]\nid = "house/rain"\nkind = "sound-effects"\nvendor = "embedded"\nupstream = "rain"\nrate = "0.01"\nhidden = true',
    )
    expect(audio.rows.find(({ id }) => id === 'bytedance/seed-audio-1.0')).toMatchObject({
      vendor: 'speech',
      upstream: 'kokoro',
      billing: { mode: 'per_second' },
      maxCharacters: 900,
    })
    expect(audio.rows.at(-1)).toMatchObject({
      id: 'house/rain',
      kind: 'sound-effects',
      maker: 'embedded',
      billing: { mode: 'per_generation' },
      hidden: true,
    })
  })

  test('mistakes are told by the name of their setting', () => {
    expect(mistakes('elevenlabs_base_url = "http://x"')).toEqual([
      'elevenlabs_base_url (ELEVENLABS_BASE_URL): has no effect without ELEVENLABS_API_KEY',
    ])
    expect(mistakes('', { SPEECH_API_KEY: 's3cret' })).toEqual([
      'SPEECH_API_KEY: has no effect without speech_base_url (SPEECH_BASE_URL)',
    ])
    expect(mistakes('', { SPEECH_MODELS: 'kokoro' })).toEqual([
      'speech_models (SPEECH_MODELS): has no effect without speech_base_url (SPEECH_BASE_URL)',
    ])
    expect(mistakes('', { ELEVENLABS_API_KEY: 'a b' })).toEqual([
      'ELEVENLABS_API_KEY: contains a blank, a line break or another character that no key has (its value is not shown)',
    ])
    expect(mistakes('[[audio]]\nid = "elevenlabs/v3"\nvendor = "nobody"')).toEqual([
      expect.stringMatching(/^audio elevenlabs\/v3\.vendor: must be one of .*minimax.*, embedded, got "nobody"$/),
    ])
    expect(mistakes('[[audio]]\nid = "new"')).toEqual([
      'audio new: not in the built-in catalog, so kind, vendor, upstream and rate are required',
    ])
    expect(mistakes('', { HOST: '0.0.0.0', MINIMAX_API_KEY: 'm' })).toEqual([
      expect.stringContaining('minimax (MINIMAX_API_KEY)'),
    ])
  })
})
