/** ElevenLabs: speech and sound effects. */
import { SOUND_TIMEOUT_MS } from '../lib/audio_provider.ts'
import { key, provider, RootUrl } from '../manifest.ts'
import { setting } from '../../settings.ts'
import { ELEVENLABS, elevenlabs } from './audio.ts'

export { ELEVENLABS, elevenlabs } from './audio.ts'

export const manifest = provider({
  name: 'elevenlabs',
  title: 'ElevenLabs',
  settings: {
    elevenlabs_api_key: key('The API key of ElevenLabs.'),
    elevenlabs_base_url: setting('Another address of the ElevenLabs API (speech, sound effects).', RootUrl, {
      usual: 'the public API',
    }),
  },
  environment: { ELEVENLABS_API_KEY: 'elevenlabs_api_key', ELEVENLABS_BASE_URL: 'elevenlabs_base_url' },
  serves: {
    audio: {
      create: ({ elevenlabs_api_key: apiKey, elevenlabs_base_url: baseUrl = ELEVENLABS.baseUrl }, { clock, log }) =>
        elevenlabs({ key: apiKey, baseUrl, maker: 'elevenlabs', timeoutMs: SOUND_TIMEOUT_MS, clock, log }),
    },
  },
})
