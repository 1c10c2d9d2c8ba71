/** The gateways of a process, as rows: who is called by which name or port, what is sold there, and how it is paid. */
import { type Static, Type } from '@sinclair/typebox'
import { duplicatesIn } from '../../core/mod.ts'
import {
  labelOf,
  type PaymentMethod,
  paymentMethodSettings,
  type Reading,
  resolvePaymentMethods,
} from './payment_methods.ts'
import { setting } from '../../adapters/providers/manifest.ts'

const Name = Type.String({ pattern: '^[a-z0-9-]{1,40}$' })

export const GatewayRow = Type.Object(
  {
    name: {
      ...Name,
      description: 'The name in the ledger, in metrics and in logs. Do not change it while calls are unsettled.',
    },
    label: setting('What replies call its network.', Name, {
      usual: '`base`, `base-sepolia`, `solana` or `solana-devnet` by its network, else the name',
    }),
    hosts: setting(
      'Host names that it answers to, such as `sol.example.com`. The first gateway also answers to all names that no other one has.',
      Type.Array(Type.String({ minLength: 1 })),
    ),
    port: setting(
      'A port of its own, beside the one that all gateways share.',
      Type.Integer({ minimum: 0, maximum: 65_535 }),
    ),
    public_origin: setting('Its own origin of poll and media URLs.', Type.String({ pattern: '^https?://[^/]+$' }), {
      usual: 'that of the process',
    }),
    catalog: setting(
      'What it sells: `full`, `small` (a few cheap models, for test networks), or a list of model ids.',
      Type.Union([
        Type.Literal('full'),
        Type.Literal('small'),
        Type.Array(Type.String({ minLength: 1 }), { minItems: 1 }),
      ]),
      { usual: '`full`' },
    ),
    hidden: setting(
      'Endpoints that it does not have, by name (`voice.call`) or by the part before the dot (`voice`).',
      Type.Array(Type.String({ minLength: 1 })),
      { usual: 'none' },
    ),
    retired: setting('Answers 404 to every request. Its other settings are then ignored.', Type.Boolean(), {
      usual: '`false`',
    }),
    ...paymentMethodSettings,
  },
  { additionalProperties: false },
)
type Row = Static<typeof GatewayRow>

export type GatewayConfig = {
  readonly name: string
  readonly label: string
  readonly hosts: readonly string[]
  readonly port?: number
  readonly publicOrigin?: string
  readonly catalog: 'full' | 'small' | readonly string[]
  readonly hidden: readonly string[]
  /** Its rails are then not looked at. */
  readonly retired: boolean
  readonly paymentMethods: readonly PaymentMethod[]
}

/** Mistakes are added by name; keys are looked up, never shown. `port` is the one that all of them share. */
export function resolveGateways(
  rows: readonly Row[],
  { env, mistakes, port: shared }: Reading & { readonly port: number },
): readonly GatewayConfig[] {
  const gateways = rows.map((row, index) => resolveGateway(row, `gateways.${index}`, { env, mistakes }))
  for (const [index, row] of gateways.entries())
    mistakes.push(...addressProblems(row, { index, shared }).map((problem) => `gateways.${index}${problem}`))
  for (const name of duplicatesIn(gateways.map((row) => row.name))) mistakes.push(`gateways: two are called ${name}`)
  const hosts = gateways.flatMap((row) => row.hosts.map((host) => host.toLowerCase()))
  for (const host of duplicatesIn(hosts)) mistakes.push(`gateways: two answer for the host ${host}`)
  for (const port of duplicatesIn(gateways.flatMap(({ port }) => (port ? [String(port)] : []))))
    mistakes.push(`gateways: two listen on port ${port}`)
  if (gateways.length > 0 && gateways.every(({ retired }) => retired))
    mistakes.push('gateways: all are retired, and none is left to sell')
  for (const key of sharedKeys(gateways)) mistakes.push(`gateways: ${key}`)
  return gateways
}

function resolveGateway(row: Row, at: string, reading: Reading): GatewayConfig {
  const { name, hosts = [], hidden = [], retired = false, catalog = 'full', port, public_origin: publicOrigin } = row
  const label = row.label ?? labelOf(row.network) ?? name
  const address = { ...(port !== undefined && { port }), ...(publicOrigin && { publicOrigin }) }
  return {
    name,
    label,
    hosts,
    ...address,
    catalog,
    hidden,
    retired,
    paymentMethods: retired ? [] : resolvePaymentMethods(row, at, reading),
  }
}

/**
 * What would keep callers from a gateway. A name counts as a Host header spells it: in punycode, without the port that
 * is usual.
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
    ...(port === shared && port !== 0 ? [`.port: all gateways answer on port ${port} already; name another one`] : []),
    ...(isLost
      ? [': nobody can call it, for the first gateway answers to all names that no other has; name hosts, or a port']
      : []),
  ]
}

/** Two chains that send with one key would take each other's transaction numbers. Rows with the same chain share it. */
function sharedKeys(gateways: readonly GatewayConfig[]): ReadonlySet<string> {
  const users = new Map<string, string>()
  const found = new Set<string>()
  for (const { name, paymentMethods } of gateways) {
    for (const paymentMethod of paymentMethods) {
      if (paymentMethod.kind !== 'evm' || paymentMethod.settles.by !== 'relayer') continue
      for (const key of paymentMethod.settles.keys) {
        const chain = JSON.stringify(paymentMethod)
        const other = users.get(`${paymentMethod.network} ${key}`)
        if (key !== '' && other !== undefined && other !== chain)
          found.add(
            `${name} shares a relayer key with another one on ${paymentMethod.network}, to another pay_to or in another way; give it its own`,
          )
        users.set(`${paymentMethod.network} ${key}`, chain)
      }
    }
  }
  return found
}
