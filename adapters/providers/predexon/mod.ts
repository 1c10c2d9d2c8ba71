/** Predexon: prediction markets of every venue behind one key. */
import { key, provider, RootUrl } from '../manifest.ts'
import { setting } from '../../settings.ts'
import { predexon } from './markets.ts'

export { predexon, type PredexonConfig } from './markets.ts'

export const manifest = provider({
  name: 'predexon',
  title: 'Predexon',
  settings: {
    predexon_api_key: key('The API key of Predexon.'),
    predexon_base_url: setting('Another address of the Predexon API.', RootUrl, { usual: 'the public API' }),
  },
  environment: { PREDEXON_API_KEY: 'predexon_api_key', PREDEXON_BASE_URL: 'predexon_base_url' },
  serves: {
    prediction: {
      rank: 1,
      create: ({ predexon_api_key, predexon_base_url }, { clock, log }) =>
        predexon({ key: predexon_api_key, baseUrl: predexon_base_url, clock, log }),
    },
  },
})
