/** xAI: search, images, videos, and chat with OpenAI's protocol. */
import { SEARCH_TIMEOUT_MS } from '../lib/search_provider.ts'
import { addressOf, bearerModels, key, provider } from '../manifest.ts'
import { setting } from '../../settings.ts'
import { Type } from '@sinclair/typebox'
import { xaiImages } from './images.ts'
import { XAI_SEARCH, xaiSearch } from './search.ts'
import { xaiVideos } from './videos.ts'

/** Decision 75. */
const ROOT = 'https://api.x.ai/v1'
const ACCOUNT = 'vendor-c'

export { XAI_SEARCH, type XaiSearchConfig, xaiSearch } from './search.ts'
export { xaiImages } from './images.ts'
export { xaiVideos } from './videos.ts'

export const manifest = provider({
  name: 'xai',
  title: 'xAI',
  settings: {
    xai_api_key: key('The API key of xAI.'),
    xai_base_url: addressOf('xAI'),
    xai_search_model: setting('The model that searches at xAI.', Type.String({ minLength: 1, maxLength: 100 }), {
      usual: `\`${XAI_SEARCH.model}\``,
    }),
  },
  environment: {
    XAI_API_KEY: 'xai_api_key',
    XAI_BASE_URL: 'xai_base_url',
    XAI_SEARCH_MODEL: 'xai_search_model',
  },
  serves: {
    search: {
      account: ACCOUNT,
      rank: 1,
      create: (
        { xai_api_key: apiKey, xai_base_url: baseUrl = XAI_SEARCH.baseUrl, xai_search_model: model = XAI_SEARCH.model },
        { clock, log },
      ) => xaiSearch({ key: apiKey, baseUrl, model, maker: ACCOUNT, timeoutMs: SEARCH_TIMEOUT_MS, clock, log }),
    },
  },
  protocols: {
    images: {
      'xai-images': { baseUrl: ROOT, keyCheck: bearerModels, create: (config) => xaiImages(config) },
    },
    videos: {
      'xai-videos': { baseUrl: ROOT, keyCheck: bearerModels, create: (config) => xaiVideos(config) },
    },
  },
  account: {
    name: ACCOUNT,
    key: 'xai_api_key',
    address: 'xai_base_url',
    speaks: { images: 'xai-images', chat: 'openai', videos: 'xai-videos' },
    chatBaseUrl: ROOT,
  },
})
