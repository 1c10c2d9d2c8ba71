/** The settings of payments that Circle Gateway batches. */
import { type Static, Type } from '@sinclair/typebox'
import { defaulted, type Named, named, setting, Url } from '../../../settings.ts'
import { EVM_NETWORK_PATTERN } from '../../families.ts'

const EvmNetwork = Type.String({ pattern: EVM_NETWORK_PATTERN })

/** Circle Gateway, or another service with its API. */
export const BatchedRow = Type.Object(
  {
    url: defaulted('The root of the batching service’s API.', { ...Url, default: 'https://gateway-api.circle.com' }),
    networks: setting(
      'Networks that are accepted, such as `["eip155:8453"]`.',
      Type.Array(EvmNetwork, { minItems: 1, maxItems: 50 }),
      { usual: 'all that the service supports' },
    ),
  },
  { additionalProperties: false },
)

/** Empty `networks`: all that the service supports. */
export type BatchedMethod = Omit<Named<typeof BatchedRow.properties>, 'networks'> & {
  readonly kind: 'batched'
  readonly networks: readonly string[]
  readonly payTo: string
}

export const readBatched = (row: Static<typeof BatchedRow>, payTo: string): BatchedMethod => ({
  kind: 'batched',
  ...named(BatchedRow.properties, row),
  url: row.url.replace(/\/$/, ''),
  networks: row.networks ?? [],
  payTo,
})
