/** 0x: swaps with a fee for the operator. */
import { checksummed } from '../../../core/lib/mod.ts'
import { key, provider, RootUrl } from '../manifest.ts'
import { needed, setting } from '../../settings.ts'
import { Type } from '@sinclair/typebox'
import { zerox } from './swap.ts'

export { zerox, type ZeroxConfig } from './swap.ts'

export const manifest = provider({
  name: 'zerox',
  title: '0x',
  settings: {
    zerox_api_key: key('The API key of 0x.'),
    swap_fee_recipient: needed(
      'The address that receives the 0.2% fee of swaps. `ZEROX_API_KEY` needs it.',
      Type.String({ pattern: '^0x[0-9a-fA-F]{40}$' }),
    ),
    zerox_base_url: setting('Another address of the 0x API.', RootUrl, { usual: 'the public API' }),
  },
  environment: {
    ZEROX_API_KEY: 'zerox_api_key',
    SWAP_FEE_RECIPIENT: 'swap_fee_recipient',
    ZEROX_BASE_URL: 'zerox_base_url',
  },
  serves: {
    swap: {
      check: ({ swap_fee_recipient: recipient }) => [
        ...(recipient && /^0x0+$/.test(recipient) ? ['SWAP_FEE_RECIPIENT: the zero address would burn every fee'] : []),
        ...(recipient && isMistyped(recipient)
          ? ['SWAP_FEE_RECIPIENT: its capitals do not match its checksum (EIP-55); a digit may be wrong']
          : []),
      ],
      create: ({ zerox_api_key, swap_fee_recipient, zerox_base_url }, { clock, log }) =>
        zerox({ key: zerox_api_key, feeRecipient: swap_fee_recipient, baseUrl: zerox_base_url, clock, log }),
    },
  },
})

/** An address of one case has no checksum. */
function isMistyped(address: string): boolean {
  const isMixed = /[a-f]/.test(address.slice(2)) && /[A-F]/.test(address.slice(2))
  return isMixed && checksummed(address.toLowerCase()) !== address
}
