/** BytePlus ModelArk: images, videos, and characters for videos. Its control plane uses other keys than its models. */
import { addressOf, key, provider, RootUrl } from '../manifest.ts'
import { setting } from '../../settings.ts'
import { Type } from '@sinclair/typebox'
import { arkAssets } from './assets.ts'
import { seedream } from './images.ts'
import { seedance } from './videos.ts'

/** Decision 75. */
const ROOT = 'https://ark.ap-southeast.bytepluses.com/api/v3'
const ACCOUNT = 'vendor-e'

export { arkAssets, type ArkAssetsConfig } from './assets.ts'
export { seedance } from './videos.ts'
export { seedream } from './images.ts'

export const manifest = provider({
  name: 'bytedance',
  title: 'ModelArk',
  settings: {
    ark_api_key: key('The API key of ModelArk.'),
    ark_base_url: addressOf('ModelArk'),
    ark_access_key: key('The access key of the ModelArk control plane.'),
    ark_secret_key: key('The secret key of the ModelArk control plane.'),
    ark_assets_base_url: setting(
      'Another address of the ModelArk control plane, where characters for video are enrolled.',
      RootUrl,
      { usual: 'BytePlus' },
    ),
    ark_assets_region: setting('The region of that control plane.', Type.String({ pattern: '^[a-z0-9-]{2,40}$' }), {
      usual: '`ap-southeast-1`',
    }),
  },
  environment: {
    ARK_API_KEY: 'ark_api_key',
    ARK_BASE_URL: 'ark_base_url',
    ARK_ACCESS_KEY: 'ark_access_key',
    ARK_SECRET_KEY: 'ark_secret_key',
    ARK_ASSETS_BASE_URL: 'ark_assets_base_url',
    ARK_ASSETS_REGION: 'ark_assets_region',
  },
  serves: {
    characters: {
      as: 'ark-assets',
      uses: ['ark_access_key', 'ark_secret_key', 'ark_assets_base_url', 'ark_assets_region'],
      create: ({ ark_access_key, ark_secret_key, ark_assets_base_url, ark_assets_region }, { clock, log }) =>
        arkAssets({
          accessKey: ark_access_key,
          secretKey: ark_secret_key,
          baseUrl: ark_assets_base_url,
          region: ark_assets_region,
          maker: ACCOUNT,
          clock,
          log,
        }),
    },
  },
  protocols: {
    images: {
      seedream: { baseUrl: ROOT, create: (config) => seedream(config) },
    },
    videos: {
      seedance: { baseUrl: ROOT, create: (config) => seedance(config) },
    },
  },
  account: {
    name: ACCOUNT,
    key: 'ark_api_key',
    address: 'ark_base_url',
    speaks: { images: 'seedream', videos: 'seedance' },
  },
})
