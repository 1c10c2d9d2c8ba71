/**
 * OpenAI, and its protocols, which many servers implement: chat, images, videos, and speech of an operator's own
 * server.
 */
import { SOUND_TIMEOUT_MS } from '../lib/audio_provider.ts'
import { addressOf, bearerModels, CHAT_STYLES, environmentOnly, key, provider, RootUrl } from '../manifest.ts'
import { needed, oneOf, setting } from '../../settings.ts'
import { Type } from '@sinclair/typebox'
import { openaiChat } from './chat.ts'
import { openaiImages } from './images.ts'
import { openai } from './maker.ts'
import { openaiResponses } from './responses.ts'
import { openaiSpeech } from './speech.ts'
import { openaiVideos } from './videos.ts'

/** Decision 75. */
const ROOT = 'https://api.openai.com/v1'

const Names = Type.Array(Type.String({ pattern: '^[\\w.+:/-]{1,90}$' }), { maxItems: 100 })

export { openai } from './maker.ts'
export { openaiChat, type OpenaiChatConfig } from './chat.ts'
export { openaiImages } from './images.ts'
export { openaiResponses } from './responses.ts'
export { openaiSpeech, type OpenaiSpeechConfig } from './speech.ts'
export { openaiVideos } from './videos.ts'

export const manifest = provider({
  name: 'openai',
  title: 'OpenAI',
  settings: {
    openai_api_key: key('The API key of OpenAI.'),
    openai_base_url: addressOf('OpenAI'),
    openai_chat_style: environmentOnly(
      'Whether a server at `OPENAI_BASE_URL` takes parameters of chat as OpenAI does, or as compatible servers do. Unset: as the family of each model asks.',
      oneOf(...CHAT_STYLES),
    ),
    speech_base_url: needed(
      'A server that speaks the OpenAI speech protocol, such as `http://localhost:8880/v1`.',
      RootUrl,
    ),
    speech_api_key: Type.Optional(key('The API key of the speech server, if it needs one.')),
    speech_models: setting('Models of that server. Each is sold as `local/<model>`.', Names),
    speech_voices: setting('Voices of that server, the default first.', Names),
  },
  environment: {
    OPENAI_API_KEY: 'openai_api_key',
    OPENAI_BASE_URL: 'openai_base_url',
    OPENAI_CHAT_STYLE: 'openai_chat_style',
    SPEECH_BASE_URL: 'speech_base_url',
    SPEECH_API_KEY: 'speech_api_key',
    SPEECH_MODELS: 'speech_models',
    SPEECH_VOICES: 'speech_voices',
  },
  serves: {
    audio: {
      as: 'speech',
      uses: ['speech_base_url', 'speech_api_key', 'speech_models', 'speech_voices'],
      models: ({ speech_models = [] }) => speech_models,
      create: ({ speech_api_key: apiKey, speech_base_url: baseUrl, speech_voices: voices = [] }, { clock, log }) =>
        openaiSpeech({ key: apiKey, baseUrl, voices, maker: 'local', timeoutMs: SOUND_TIMEOUT_MS, clock, log }),
    },
  },
  protocols: {
    images: {
      'openai-images': { baseUrl: ROOT, keyCheck: bearerModels, create: (config) => openaiImages(config) },
    },
    chat: {
      openai: { baseUrl: ROOT, keyCheck: bearerModels, family: 'openai', create: (config) => openai(config) },
      'openai-chat': {
        baseUrl: ROOT,
        keyCheck: bearerModels,
        family: 'openai',
        isCommon: true,
        create: (config) => openaiChat(config),
      },
      'openai-responses': {
        baseUrl: ROOT,
        keyCheck: bearerModels,
        family: 'openai',
        create: (config) => openaiResponses(config),
      },
    },
    // OpenAI has shut down its own video API; only compatible servers use this protocol.
    videos: {
      'openai-videos': {
        baseUrl: ROOT,
        keyCheck: bearerModels,
        isCommon: true,
        create: (config) => openaiVideos(config),
      },
    },
  },
  account: {
    name: 'vendor-a',
    key: 'openai_api_key',
    address: 'openai_base_url',
    chatStyle: 'openai_chat_style',
    speaks: { images: 'openai-images', chat: 'openai' },
  },
})
