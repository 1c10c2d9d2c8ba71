/** Exa: search, and web pages. */
import { SEARCH_TIMEOUT_MS } from '../lib/search_provider.ts'
import { key, provider, RootUrl } from '../manifest.ts'
import { setting } from '../../settings.ts'
import { EXA_SEARCH, exaSearch } from './search.ts'
import { exaWeb } from './web.ts'

export { EXA_SEARCH, type ExaSearchConfig, exaSearch } from './search.ts'
export { type ExaWebConfig, exaWeb } from './web.ts'

export const manifest = provider({
  name: 'exa',
  title: 'Exa',
  settings: {
    exa_api_key: key('The API key of Exa.'),
    exa_base_url: setting('Another address of the Exa API.', RootUrl, { usual: 'the public API' }),
  },
  environment: { EXA_API_KEY: 'exa_api_key', EXA_BASE_URL: 'exa_base_url' },
  serves: {
    search: {
      create: ({ exa_api_key: apiKey, exa_base_url: baseUrl = EXA_SEARCH.baseUrl }, { clock, log }) =>
        exaSearch({ key: apiKey, baseUrl, maker: 'exa', timeoutMs: SEARCH_TIMEOUT_MS, clock, log }),
    },
    websearch: {
      create: ({ exa_api_key: apiKey, exa_base_url: baseUrl = EXA_SEARCH.baseUrl }, { clock, log }) =>
        exaWeb({ key: apiKey, baseUrl, clock, log }),
    },
  },
})
