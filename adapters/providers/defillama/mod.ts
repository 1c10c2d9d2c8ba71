/** DefiLlama: data of DeFi, with or without a key. */
import { key, provider, RootUrl } from '../manifest.ts'
import { setting } from '../../settings.ts'
import { Type } from '@sinclair/typebox'
import { defiLlama } from './defi.ts'

export { defiLlama, type DefiLlamaConfig } from './defi.ts'

export const manifest = provider({
  name: 'defillama',
  title: 'DefiLlama',
  settings: {
    defillama_api_key: Type.Optional(key('The API key of DefiLlama.')),
    defillama_base_url: setting('Another address of the DefiLlama API.', RootUrl, { usual: 'the public API' }),
  },
  environment: { DEFILLAMA_API_KEY: 'defillama_api_key', DEFILLAMA_BASE_URL: 'defillama_base_url' },
  serves: {
    defi: {
      note: 'its key is optional',
      startedBy: ['defillama_api_key'],
      create: ({ defillama_api_key, defillama_base_url }, { clock, log }) =>
        defiLlama({ key: defillama_api_key, baseUrl: defillama_base_url, clock, log }),
    },
  },
})
