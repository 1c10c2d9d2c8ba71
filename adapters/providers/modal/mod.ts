/** Modal: sandboxes, with GPUs. */
import { key, provider } from '../manifest.ts'
import { setting } from '../../settings.ts'
import { Type } from '@sinclair/typebox'
import { modalSandbox } from './sandbox.ts'

export { type ModalConfig, type ModalLike, modalSandbox } from './sandbox.ts'

export const manifest = provider({
  name: 'modal',
  title: 'Modal',
  settings: {
    modal_token_id: key('The token id of Modal.'),
    modal_token_secret: key('The token secret of Modal.'),
    modal_app: setting(
      'The Modal app that sandboxes belong to.',
      Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$' }),
      { usual: '`farebox`' },
    ),
  },
  environment: { MODAL_TOKEN_ID: 'modal_token_id', MODAL_TOKEN_SECRET: 'modal_token_secret', MODAL_APP: 'modal_app' },
  serves: {
    sandbox: {
      create: ({ modal_token_id, modal_token_secret, modal_app }, { clock, log }) =>
        modalSandbox({ tokenId: modal_token_id, tokenSecret: modal_token_secret, app: modal_app, clock, log }),
    },
  },
})
