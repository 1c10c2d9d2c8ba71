/** E2B: sandboxes. */
import { key, provider, RootUrl } from '../manifest.ts'
import { setting } from '../../settings.ts'
import { Type } from '@sinclair/typebox'
import { e2bSandbox } from './sandbox.ts'

export { type E2bConfig, e2bSandbox } from './sandbox.ts'

export const manifest = provider({
  name: 'e2b',
  title: 'E2B',
  settings: {
    e2b_api_key: key('The API key of E2B.'),
    e2b_base_url: setting('Another address of the E2B API.', RootUrl, { usual: 'the public API' }),
    e2b_template: setting(
      'The E2B template of new sandboxes.',
      Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._/:-]{0,99}$' }),
      { usual: '`code-interpreter-v1`' },
    ),
  },
  environment: { E2B_API_KEY: 'e2b_api_key', E2B_BASE_URL: 'e2b_base_url', E2B_TEMPLATE: 'e2b_template' },
  serves: {
    sandbox: {
      create: ({ e2b_api_key, e2b_base_url, e2b_template }, { clock, log }) =>
        e2bSandbox({ key: e2b_api_key, baseUrl: e2b_base_url, template: e2b_template, clock, log }),
    },
  },
})
