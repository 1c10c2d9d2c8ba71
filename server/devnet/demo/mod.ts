/** The products of devnet without an account: small, and labelled as demos. */
import { provider } from '../../../adapters/providers/manifest.ts'
import { demoAudio } from './audio.ts'
import { echoVendor } from './chat.ts'
import { demoDefi, demoPrediction } from './data.ts'
import { demoImages } from './images.ts'
import { demoMarket } from './market.ts'
import { demoSearch, demoWeb } from './search.ts'
import { demoCharacters, demoVideos } from './videos.ts'

const sample = { as: 'sample', note: 'made-up data', isOnDevnet: true, isSample: true } as const
const corpus = { as: 'corpus', note: 'bundled documents', isOnDevnet: true, isSample: true } as const

export const manifest = provider({
  name: 'demo',
  title: 'The demo',
  settings: {},
  environment: {},
  serves: {
    search: { ...corpus, note: 'a few bundled documents, alone only', create: () => demoSearch() },
    websearch: { ...corpus, create: () => demoWeb() },
    market: { ...sample, note: 'made-up prices', create: (_settings, { clock }) => demoMarket({ clock }) },
    prediction: { ...sample, create: (_settings, { clock }) => demoPrediction({ clock }) },
    defi: { ...sample, create: (_settings, { clock }) => demoDefi({ clock }) },
    characters: { isOnDevnet: true, create: (_settings, { random }) => demoCharacters({ random }) },
    audio: { as: 'embedded', isOnDevnet: true, create: () => demoAudio() },
  },
  protocols: {
    images: {
      demo: { baseUrl: '', isDemo: true, create: () => demoImages() },
    },
    chat: {
      echo: {
        baseUrl: '',
        isDemo: true,
        // The demo never replaces a chat model.
        standsInFor: 'embedded',
        create: (_config, { countTokens, clock }) => echoVendor({ countTokens, now: clock.now }),
      },
    },
    videos: {
      demo: { baseUrl: '', isDemo: true, create: (_config, { log }) => demoVideos({ log }) },
    },
  },
})
