/** Resolves the setting `rpc` to JSON-RPC nodes. */
import { familyOfMethod } from './payment_methods.ts'
import { networkOf } from '../../core/mod.ts'
import type { GatewayConfig } from './gateways.ts'

/** URLs by slug. */
export type RpcNodes = Readonly<Record<string, string>>
type Reading = { readonly env: Readonly<Record<string, string | undefined>>; readonly mistakes: string[] }

export function resolveRpc(
  { rpc = {} }: { readonly rpc?: RpcNodes | undefined },
  { env, mistakes }: Reading,
): RpcNodes {
  const nodes = Object.entries(rpc).map(([slug, value]) => {
    const url = /^https?:/.test(value) ? value : env[value]
    if (url === undefined || url === '') mistakes.push(`rpc.${slug}: the environment variable ${value} is not set`)
    if (url && !(/^https?:\/\//.test(url) && URL.canParse(url)))
      mistakes.push(`rpc.${slug}: must be an http or https URL (its value is not shown)`)
    return [slug, url ?? ''] as const
  })
  return Object.fromEntries(nodes)
}

/**
 * Clients of Solana ask the gateway itself for what they need before they pay (contract 15.13): its own node answers,
 * unless another one is configured.
 */
export function nodesOf(
  { rpc }: { readonly rpc: RpcNodes },
  rows: readonly GatewayConfig[],
  { isDevnet }: { isDevnet: boolean },
): RpcNodes {
  const own = rows.flatMap(({ paymentMethods }) =>
    paymentMethods.flatMap((paymentMethod) =>
      paymentMethod.kind !== 'batched' && (isDevnet || familyOfMethod(paymentMethod)?.clientsAskNode)
        ? [[networkOf(paymentMethod.network), paymentMethod.rpcUrl] as const]
        : [],
    ),
  )
  const known = own.filter((each): each is readonly [string, string] => each[0] !== undefined)
  return { ...Object.fromEntries(known), ...rpc }
}
