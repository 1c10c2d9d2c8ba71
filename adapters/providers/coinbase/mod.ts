/** Coinbase: links to buy USDC. */
import { key, provider, RootUrl } from '../manifest.ts'
import { setting } from '../../settings.ts'
import { coinbaseOnramp } from './onramp.ts'

export { coinbaseOnramp, type CoinbaseOnrampConfig } from './onramp.ts'

export const manifest = provider({
  name: 'coinbase',
  title: 'Coinbase',
  settings: {
    cdp_api_key_id: key('The id of the Coinbase API key (developer platform).'),
    // PEM has line breaks.
    cdp_api_key_secret: key('The secret of the Coinbase API key.', { pattern: '[^]' }),
    onramp_base_url: setting('Another address of the Coinbase API.', RootUrl, { usual: 'the public API' }),
  },
  environment: {
    CDP_API_KEY_ID: 'cdp_api_key_id',
    CDP_API_KEY_SECRET: 'cdp_api_key_secret',
    ONRAMP_BASE_URL: 'onramp_base_url',
  },
  serves: {
    onramp: {
      create: ({ cdp_api_key_id: keyId, cdp_api_key_secret: keySecret, onramp_base_url }, { clock, log, cdpBearer }) =>
        coinbaseOnramp({ bearer: cdpBearer({ keyId, keySecret }), baseUrl: onramp_base_url, clock, log }),
    },
  },
})
