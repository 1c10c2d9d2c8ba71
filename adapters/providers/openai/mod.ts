/** The protocols of OpenAI, which many servers speak: here speech, from a server of the operator's. */
import { SOUND_TIMEOUT_MS } from '../lib/audio_provider.ts'
import { key, needed, provider, RootUrl, setting } from '../manifest.ts'
import { Type } from '@sinclair/typebox'
import { openaiSpeech } from './speech.ts'

const Names = Type.Array(Type.String({ pattern: '^[\\w.+:/-]{1,90}$' }), { maxItems: 100 })

export const manifest = provider({
  name: 'openai',
  title: 'OpenAI',
  settings: {
    speech_base_url: needed(
      'A server that speaks the OpenAI speech protocol, such as `http://localhost:8880/v1`.',
      RootUrl,
    ),
    speech_api_key: Type.Optional(key('The API key of that server, if it needs one.')),
    speech_models: setting('Models of that server. Each is sold as `local/<model>`.', Names),
    speech_voices: setting('Voices of that server, the default first.', Names),
  },
  environment: {
    SPEECH_BASE_URL: 'speech_base_url',
    SPEECH_API_KEY: 'speech_api_key',
    SPEECH_MODELS: 'speech_models',
    SPEECH_VOICES: 'speech_voices',
  },
  serves: {
    audio: {
      as: 'speech',
      models: ({ speech_models = [] }) => speech_models,
      create: ({ speech_api_key: apiKey, speech_base_url: baseUrl, speech_voices: voices = [] }, { clock, log }) =>
        openaiSpeech({ key: apiKey, baseUrl, voices, maker: 'local', timeoutMs: SOUND_TIMEOUT_MS, clock, log }),
    },
  },
})
