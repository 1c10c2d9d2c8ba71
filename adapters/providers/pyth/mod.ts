/** Pyth: prices and their history. */
import { key, provider, RootUrl } from '../manifest.ts'
import { setting } from '../../settings.ts'
import { Type } from '@sinclair/typebox'
import { pythMarket } from './market.ts'

export { type PythConfig, pythMarket } from './market.ts'

export const manifest = provider({
  name: 'pyth',
  title: 'Pyth',
  settings: {
    pyth_api_key: Type.Optional(key('The API key of Pyth.')),
    pyth_hermes_url: setting(
      'Another address of Pyth Hermes (latest prices). With `pyth_history_url` no key is needed.',
      RootUrl,
      { usual: 'the public API' },
    ),
    pyth_history_url: setting('Another address of the Pyth price history.', RootUrl, { usual: 'the public API' }),
  },
  environment: {
    PYTH_API_KEY: 'pyth_api_key',
    PYTH_HERMES_URL: 'pyth_hermes_url',
    PYTH_HISTORY_URL: 'pyth_history_url',
  },
  serves: {
    market: {
      startedBy: ['pyth_api_key'],
      check: ({ pyth_api_key, pyth_hermes_url, pyth_history_url }) =>
        pyth_api_key || (pyth_hermes_url && pyth_history_url)
          ? []
          : [
              'market: pyth needs the environment variable PYTH_API_KEY, which is not set; without a key, name both pyth_hermes_url and pyth_history_url',
            ],
      create: ({ pyth_api_key, pyth_hermes_url, pyth_history_url }, { clock, log }) =>
        pythMarket({ key: pyth_api_key, hermesUrl: pyth_hermes_url, historyUrl: pyth_history_url, clock, log }),
    },
  },
})
