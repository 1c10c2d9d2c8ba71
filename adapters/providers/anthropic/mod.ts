/** Anthropic: chat. */
import { addressOf, key, provider } from '../manifest.ts'
import { anthropicMessages } from './messages.ts'

export { anthropicMessages } from './messages.ts'

export const manifest = provider({
  name: 'anthropic',
  title: 'Anthropic',
  settings: {
    anthropic_api_key: key('The API key of Anthropic.'),
    anthropic_base_url: addressOf('Anthropic'),
  },
  environment: {
    ANTHROPIC_API_KEY: 'anthropic_api_key',
    ANTHROPIC_BASE_URL: 'anthropic_base_url',
  },
  serves: {},
  protocols: {
    chat: {
      'anthropic-messages': {
        baseUrl: 'https://api.anthropic.com',
        keyCheck: {
          path: '/v1/models',
          headers: (key) => ({ 'x-api-key': key, 'anthropic-version': '2023-06-01' }),
        },
        create: (config) => anthropicMessages(config),
      },
    },
  },
  account: {
    name: 'vendor-g',
    key: 'anthropic_api_key',
    address: 'anthropic_base_url',
    speaks: { chat: 'anthropic-messages' },
  },
})
