/** BytePlus ModelArk: characters for video. Its control plane has other keys than its models. */
import { key, provider, RootUrl, setting } from '../manifest.ts'
import { Type } from '@sinclair/typebox'
import { arkAssets } from './assets.ts'

export const manifest = provider({
  name: 'bytedance',
  title: 'ModelArk',
  settings: {
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
    ARK_ACCESS_KEY: 'ark_access_key',
    ARK_SECRET_KEY: 'ark_secret_key',
    ARK_ASSETS_BASE_URL: 'ark_assets_base_url',
    ARK_ASSETS_REGION: 'ark_assets_region',
  },
  serves: {
    portraits: {
      as: 'ark-assets',
      create: ({ ark_access_key, ark_secret_key, ark_assets_base_url, ark_assets_region }, { clock, log }) =>
        arkAssets({
          accessKey: ark_access_key,
          secretKey: ark_secret_key,
          baseUrl: ark_assets_base_url,
          region: ark_assets_region,
          maker: 'vendor-e',
          clock,
          log,
        }),
    },
  },
})
