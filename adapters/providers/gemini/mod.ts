/** Gemini: chat and images. */
import { addressOf, key, type KeyCheck, provider } from '../manifest.ts'
import { geminiChat } from './chat.ts'
import { geminiImages } from './images.ts'

/** Decision 75. */
const ROOT = 'https://generativelanguage.googleapis.com'

const keyCheck: KeyCheck = { path: '/v1beta/models?pageSize=1', headers: (key) => ({ 'x-goog-api-key': key }) }
export { geminiChat } from './chat.ts'
export { geminiImages } from './images.ts'

export const manifest = provider({
  name: 'gemini',
  title: 'Gemini',
  settings: {
    gemini_api_key: key('The API key of Gemini.'),
    gemini_base_url: addressOf('Gemini'),
  },
  environment: {
    GEMINI_API_KEY: 'gemini_api_key',
    GEMINI_BASE_URL: 'gemini_base_url',
    GOOGLE_API_KEY: 'gemini_api_key',
    GOOGLE_BASE_URL: 'gemini_base_url',
  },
  serves: {},
  protocols: {
    images: {
      'gemini-images': { baseUrl: ROOT, keyCheck, create: (config) => geminiImages(config) },
    },
    chat: {
      gemini: { baseUrl: ROOT, keyCheck, create: (config) => geminiChat(config) },
    },
  },
  account: {
    name: 'vendor-b',
    key: 'gemini_api_key',
    address: 'gemini_base_url',
    speaks: { images: 'gemini-images', chat: 'gemini' },
  },
})
