/** Token360: video models of others, resold. */
import { provider } from '../manifest.ts'
import { resellerVideos } from './videos.ts'

export { resellerVideos } from './videos.ts'

export const manifest = provider({
  name: 'token360',
  title: 'Token360',
  settings: {},
  environment: {},
  serves: {},
  protocols: {
    videos: {
      'reseller-videos': { baseUrl: 'https://api.token360.ai/v1', create: (config) => resellerVideos(config) },
    },
  },
})
