/** xAI: search, beside the models that its images, videos and chat are made by. */
import { SEARCH_TIMEOUT_MS } from '../lib/search_provider.ts'
import { environmentOnly, key, provider, setting, Url } from '../manifest.ts'
import { Type } from '@sinclair/typebox'
import { XAI_SEARCH, xaiSearch } from './search.ts'

export const manifest = provider({
  name: 'xai',
  title: 'xAI',
  settings: {
    xai_api_key: key('The API key of xAI.'),
    // The address of the maker's chat, images and videos as well; a bad one is told where they are read.
    xai_base_url: environmentOnly('Another address of the xAI API.', Url),
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
      account: 'vendor-c',
      rank: 1,
      create: (
        { xai_api_key: apiKey, xai_base_url: baseUrl = XAI_SEARCH.baseUrl, xai_search_model: model = XAI_SEARCH.model },
        { clock, log },
      ) => xaiSearch({ key: apiKey, baseUrl, model, maker: 'xAI', timeoutMs: SEARCH_TIMEOUT_MS, clock, log }),
    },
  },
})
