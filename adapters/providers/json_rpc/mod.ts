/** Blockchain nodes that speak JSON-RPC. */
import { provider } from '../manifest.ts'
import { setting } from '../../settings.ts'
import { Type } from '@sinclair/typebox'
import { rpcNodes } from './nodes.ts'

export { rpcNodes, type RpcNodesConfig } from './nodes.ts'

export const manifest = provider({
  name: 'json_rpc',
  title: 'JSON-RPC nodes',
  settings: {
    rpc: setting(
      'JSON-RPC nodes that `/api/v1/rpc/{network}` sells, by network slug: a URL, or the environment variable that holds one, such as `base-mainnet = "BASE_RPC_URL"`.',
      Type.Record(
        Type.String({ pattern: '^[a-z0-9-]{1,41}$' }),
        Type.String({ pattern: '^(https?://.+|[A-Z][A-Z0-9_]*)$' }),
        { additionalProperties: false },
      ),
      { usual: 'a Solana gateway’s own node; on devnet the local chains' },
    ),
  },
  environment: {},
  serves: {
    rpc: {
      as: 'rpc',
      startedBy: ['rpc'],
      create: ({ rpc: nodes = {} }, { clock, log }) => rpcNodes({ nodes, clock, log }),
    },
  },
})
