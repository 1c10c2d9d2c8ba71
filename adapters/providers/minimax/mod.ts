/** MiniMax: music. */
import { MUSIC_TIMEOUT_MS } from '../lib/audio_provider.ts'
import { key, provider, RootUrl } from '../manifest.ts'
import { setting } from '../../settings.ts'
import { MINIMAX, minimaxMusic } from './music.ts'

export { MINIMAX, minimaxMusic } from './music.ts'

export const manifest = provider({
  name: 'minimax',
  title: 'MiniMax',
  settings: {
    minimax_api_key: key('The API key of MiniMax.'),
    minimax_base_url: setting('Another address of the MiniMax API (music).', RootUrl, { usual: 'the public API' }),
  },
  environment: { MINIMAX_API_KEY: 'minimax_api_key', MINIMAX_BASE_URL: 'minimax_base_url' },
  serves: {
    audio: {
      create: ({ minimax_api_key: apiKey, minimax_base_url: baseUrl = MINIMAX.baseUrl }, { clock, log }) =>
        minimaxMusic({ key: apiKey, baseUrl, maker: 'minimax', timeoutMs: MUSIC_TIMEOUT_MS, clock, log }),
    },
  },
})
