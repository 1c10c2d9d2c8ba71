/** DeepSeek: chat, by the protocol of OpenAI. */
import { addressOf, key, provider } from '../manifest.ts'

export const manifest = provider({
  name: 'deepseek',
  title: 'DeepSeek',
  settings: {
    deepseek_api_key: key('The API key of DeepSeek.'),
    deepseek_base_url: addressOf('DeepSeek'),
  },
  environment: {
    DEEPSEEK_API_KEY: 'deepseek_api_key',
    DEEPSEEK_BASE_URL: 'deepseek_base_url',
  },
  serves: {},
  account: {
    name: 'vendor-h',
    key: 'deepseek_api_key',
    address: 'deepseek_base_url',
    speaks: { chat: 'openai-chat' },
    chatBaseUrl: 'https://api.deepseek.com',
  },
})
