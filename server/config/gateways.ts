/** The gateways of a process: their names, hosts and ports, what they sell, and how they are paid (decision 7). */
import { type Static, Type } from '@sinclair/typebox'
import type { Reading } from '../../adapters/chains/lib/settings.ts'
import { type PaymentMethod, paymentMethodSettings } from '../../adapters/chains/settings.ts'
import { labelOf, resolvePaymentMethods } from './payment_methods.ts'
import { defaulted, named, type Named, setting } from '../../adapters/settings.ts'

const Name = Type.String({ pattern: '^[a-z0-9-]{1,40}$' })

const rowSettings = {
  name: {
    ...Name,
    description: 'The name in the ledger, in metrics and in logs. Do not change it while calls are unsettled.',
  },
  label: setting('The name of its network in replies.', Name, {
    usual: '`base`, `base-sepolia`, `solana` or `solana-devnet`, by its network; otherwise the name',
  }),
  hosts: defaulted(
    'Host names that it answers to, such as `sol.example.com`. The first gateway also answers to all other names.',
    Type.Array(Type.String({ minLength: 1 }), { default: [], usual: '' }),
  ),
  port: setting('A port of its own, in addition to the shared one.', Type.Integer({ minimum: 0, maximum: 65_535 })),
  public_origin: setting('The origin of its poll and media URLs.', Type.String({ pattern: '^https?://[^/]+$' }), {
    usual: 'that of the process',
  }),
  catalog: defaulted(
    'What it sells: `full`, `small` (a few cheap models, for test networks), or a list of model ids.',
    Type.Union(
      [Type.Literal('full'), Type.Literal('small'), Type.Array(Type.String({ minLength: 1 }), { minItems: 1 })],
      { default: 'full' },
    ),
  ),
  hidden: defaulted(
    'Endpoints to leave out, by name (`voice.call`) or by the part before the dot (`voice`).',
    Type.Array(Type.String({ minLength: 1 }), { default: [], usual: 'none' }),
  ),
  retired: defaulted(
    'Answers 404 to every request. Its other settings are then ignored.',
    Type.Boolean({ default: false }),
  ),
  mpp: defaulted(
    'Takes the Machine Payments Protocol beside x402, where it is paid by `exact` on an EVM network, or on Solana by a fee payer of its own. See [MPP](gateways_and_chains.md#mpp).',
    Type.Boolean({ default: true }),
  ),
}
export const GatewayRow = Type.Object({ ...rowSettings, ...paymentMethodSettings }, { additionalProperties: false })
type Row = Static<typeof GatewayRow>

export type GatewayConfig = Omit<Named<typeof rowSettings>, 'label'> & {
  readonly label: string
  /** Of a retired gateway they are not checked. */
  readonly paymentMethods: readonly PaymentMethod[]
}

/** Adds mistakes by name; keys are looked up, never shown. `port` is the shared one. */
export function resolveGateways(
  rows: readonly Row[],
  { env, mistakes, port: shared }: Reading & { readonly port: number },
): readonly GatewayConfig[] {
  const gateways = rows.map((row, index) => resolveGateway(row, `gateways.${index}`, { env, mistakes }))
  for (const [index, row] of gateways.entries())
    mistakes.push(...addressProblems(row, { index, shared }).map((problem) => `gateways.${index}${problem}`))
  mistakes.push(
    ...taken(gateways, ({ name }) => [['name', name]]),
    ...taken(gateways, ({ hosts }) => hosts.map((host, index) => [`hosts.${index}`, host.toLowerCase()])),
    ...taken(gateways, ({ port }) => (port ? [['port', String(port)]] : [])),
  )
  if (gateways.length > 0 && gateways.every(({ retired }) => retired))
    mistakes.push('gateways: all are retired; at least one must sell')
  mistakes.push(...sharedKeys(gateways))
  return gateways
}

/** Values that an earlier row has as well. `valuesOf` gives the settings of a row with their values. */
function taken(
  gateways: readonly GatewayConfig[],
  valuesOf: (row: GatewayConfig) => readonly (readonly [setting: string, value: string])[],
): readonly string[] {
  const first = new Map<string, string>()
  return gateways.flatMap((row, index) =>
    valuesOf(row).flatMap(([setting, value]) => {
      const at = `gateways.${index}.${setting}`
      const other = first.get(value)
      if (other === undefined) first.set(value, at)
      return other === undefined ? [] : [`${at}: ${value} is used by ${other} as well; each must have its own`]
    }),
  )
}

function resolveGateway(row: Row, at: string, reading: Reading): GatewayConfig {
  return {
    ...named(rowSettings, row),
    label: row.label ?? labelOf(row.network) ?? row.name,
    paymentMethods: row.retired ? [] : resolvePaymentMethods(row, at, reading),
  }
}

/**
 * Mistakes that would make a gateway unreachable. A host is spelled as in a Host header: in punycode, without the
 * default port.
 */
function addressProblems(
  { hosts, port, retired }: GatewayConfig,
  { index, shared }: { index: number; shared: number },
): readonly string[] {
  const bad = hosts.findIndex((host) => URL.parse(`http://${host}`)?.host !== host.toLowerCase())
  const isLost = index > 0 && !retired && hosts.length === 0 && port === undefined
  return [
    ...(bad >= 0
      ? [
          `.hosts.${bad}: must be a name as callers send it, such as pay.example or pay.example:8080, got ${JSON.stringify(hosts[bad])}`,
        ]
      : []),
    ...(port === shared && port !== 0 ? [`.port: ${port} is the shared port; choose another one`] : []),
    ...(isLost ? [': is unreachable, because the first gateway answers to all other names; set hosts or port'] : []),
  ]
}

/** Two chains that send with the same key would compete for its nonces. Gateways with the same chain share it. */
function sharedKeys(gateways: readonly GatewayConfig[]): ReadonlySet<string> {
  const users = new Map<string, { readonly chain: string; readonly index: number }>()
  const found = new Set<string>()
  for (const [index, { paymentMethods }] of gateways.entries()) {
    for (const paymentMethod of paymentMethods) {
      if (paymentMethod.kind === 'batched' || paymentMethod.settles.by !== 'relayer') continue
      for (const key of paymentMethod.settles.keys) {
        const chain = JSON.stringify(paymentMethod)
        const other = users.get(`${paymentMethod.network} ${key}`)
        if (key !== '' && other !== undefined && other.chain !== chain)
          found.add(
            `gateways.${index}.relayer_key_env: shares a key with gateways.${other.index} on ${paymentMethod.network}, which has another pay_to or other settings; give it its own key`,
          )
        users.set(`${paymentMethod.network} ${key}`, { chain, index })
      }
    }
  }
  return found
}
