/** The web UI of Stable Diffusion, on a machine of the operator's: images. It has no public address. */
import { provider } from '../manifest.ts'
import { sdapi } from './images.ts'

export { sdapi } from './images.ts'

export const manifest = provider({
  name: 'sdapi',
  title: 'Stable Diffusion web UI',
  settings: {},
  environment: {},
  serves: {},
  protocols: {
    images: {
      sdapi: { baseUrl: 'http://127.0.0.1:7860', create: (config) => sdapi(config) },
    },
  },
})
