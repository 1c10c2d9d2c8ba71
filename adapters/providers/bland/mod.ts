/** Bland: phone calls. */
import { key, provider, RootUrl } from '../manifest.ts'
import { setting } from '../../settings.ts'
import { bland } from './calls.ts'

export { bland, type BlandConfig } from './calls.ts'

export const manifest = provider({
  name: 'bland',
  title: 'Bland',
  settings: {
    bland_api_key: key('The API key of Bland.'),
    bland_encrypted_key: key('What Bland gives for the Twilio account that rents the numbers.'),
    bland_base_url: setting('Another address of the Bland API.', RootUrl, { usual: 'the public API' }),
  },
  environment: {
    BLAND_API_KEY: 'bland_api_key',
    BLAND_ENCRYPTED_KEY: 'bland_encrypted_key',
    BLAND_BASE_URL: 'bland_base_url',
  },
  serves: {
    voice: {
      requires: { phone: 'people are called from numbers that their callers rent here' },
      create: ({ bland_api_key, bland_encrypted_key, bland_base_url }, { clock, log }) =>
        bland({ key: bland_api_key, encryptedKey: bland_encrypted_key, baseUrl: bland_base_url, clock, log }),
    },
  },
})
