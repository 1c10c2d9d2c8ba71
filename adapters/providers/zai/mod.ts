/** Z.ai: images by a protocol of its own, and chat. */
import { addressOf, key, provider } from '../manifest.ts'
import { cogview } from './images.ts'

/** Decision 75. */
const ROOT = 'https://api.z.ai/api/paas/v4'

export { cogview } from './images.ts'

export const manifest = provider({
  name: 'zai',
  title: 'Z.ai',
  settings: {
    zai_api_key: key('The API key of Z.ai.'),
    zai_base_url: addressOf('Z.ai'),
  },
  environment: {
    ZAI_API_KEY: 'zai_api_key',
    ZAI_BASE_URL: 'zai_base_url',
    ZHIPU_API_KEY: 'zai_api_key',
    ZHIPU_BASE_URL: 'zai_base_url',
  },
  serves: {},
  protocols: {
    images: {
      cogview: { baseUrl: ROOT, create: (config) => cogview(config) },
    },
  },
  account: {
    name: 'vendor-d',
    key: 'zai_api_key',
    address: 'zai_base_url',
    speaks: { images: 'cogview', chat: 'openai-chat' },
    chatBaseUrl: ROOT,
  },
})
