/** NVIDIA: chat with open weights, by the protocol of OpenAI. */
import { addressOf, key, provider } from '../manifest.ts'

export const manifest = provider({
  name: 'nvidia',
  title: 'NVIDIA',
  settings: {
    nvidia_api_key: key('The API key of NVIDIA.'),
    nvidia_base_url: addressOf('NVIDIA'),
  },
  environment: {
    NVIDIA_API_KEY: 'nvidia_api_key',
    NVIDIA_BASE_URL: 'nvidia_base_url',
  },
  serves: {},
  account: {
    name: 'vendor-open',
    key: 'nvidia_api_key',
    address: 'nvidia_base_url',
    speaks: { chat: 'openai-chat' },
    chatBaseUrl: 'https://integrate.api.nvidia.com/v1',
  },
})
