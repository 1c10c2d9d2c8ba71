/** The part of the configuration that says where money arrives: gateways, their chains, and who settles. */
import { type Static, Type } from '@sinclair/typebox'
import { Variable } from './config_vendors.ts'

const strict = { additionalProperties: false }
const Address = Type.String({ pattern: '^0x[0-9a-fA-F]{40}$' })
const Origin = Type.String({ pattern: '^https?://[^/]+$' })

const FacilitatorRow = Type.Object(
  {
    url: Type.String({ pattern: '^https?://' }),
    /** Coinbase CDP: both, or neither. */
    cdp_key_id_env: Type.Optional(Variable),
    cdp_key_secret_env: Type.Optional(Variable),
    /** Origins that a redirect may lead to besides the URL's own. */
    redirect_origins: Type.Optional(Type.Array(Origin)),
  },
  strict,
)

export const GatewayRow = Type.Object(
  {
    name: Type.String({ pattern: '^[a-z0-9-]{1,40}$' }),
    /** CAIP-2; EVM networks for now. */
    network: Type.String({ pattern: '^eip155:[0-9]{1,12}$' }),
    label: Type.Optional(Type.String({ pattern: '^[a-z0-9-]{1,40}$' })),
    hosts: Type.Optional(Type.Array(Type.String({ minLength: 1 }))),
    pay_to: Address,
    asset: Type.Optional(Address),
    asset_name: Type.Optional(Type.String({ minLength: 1 })),
    asset_version: Type.Optional(Type.String({ minLength: 1 })),
    rpc_url: Type.Optional(Type.String({ pattern: '^https?://' })),
    rpc_url_env: Type.Optional(Variable),
    /** Who settles: we, with one of these keys at a time and as many as there are replicas, or the facilitators, the first that answers. */
    relayer_key_env: Type.Optional(Type.Union([Variable, Type.Array(Variable, { minItems: 1, maxItems: 64 })])),
    facilitators: Type.Optional(Type.Array(FacilitatorRow, { minItems: 1, maxItems: 5 })),
  },
  strict,
)

export type FacilitatorSetting = {
  readonly url: string
  readonly cdp?: { readonly keyId: string; readonly keySecret: string }
  readonly redirectOrigins?: readonly string[]
}

export type GatewayConfig = {
  readonly name: string
  readonly label: string
  readonly hosts: readonly string[]
  readonly network: string
  readonly asset: string
  readonly payTo: string
  readonly domain: { readonly name: string; readonly version: string }
  readonly rpcUrl: string
  readonly settles: { readonly by: 'relayer'; readonly keys: readonly string[] } | { readonly by: 'facilitators'; readonly rows: readonly FacilitatorSetting[] }
}

type Row = Static<typeof GatewayRow>
type Environment = Readonly<Record<string, string | undefined>>

/** USDC where the reference gives its address and signing domain (x402 2.1). Elsewhere the row has to say them. */
const usdc: Readonly<Record<string, { label: string; asset: string; name: string }>> = {
  'eip155:8453': { label: 'base', asset: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913', name: 'USD Coin' },
  'eip155:84532': { label: 'base-sepolia', asset: '0x036CbD53842c5426634e7929541eC2318f3dCF7e', name: 'USDC' },
}

/** Mistakes are added by name; keys are looked up, never shown. */
export function resolveGateways(rows: readonly Row[], env: Environment, mistakes: string[]): readonly GatewayConfig[] {
  const gateways = rows.map((row, index) => resolveGateway(row, `gateways.${index}`, { env, mistakes }))
  for (const name of twice(gateways.map((row) => row.name))) mistakes.push(`gateways: two are called ${name}`)
  const hosts = gateways.flatMap((row) => row.hosts.map((host) => host.toLowerCase()))
  for (const host of twice(hosts)) mistakes.push(`gateways: two answer for the host ${host}`)
  return gateways
}

const twice = (names: readonly string[]): Set<string> => new Set(names.filter((name, index) => names.indexOf(name) !== index))

type Reading = { readonly env: Environment; readonly mistakes: string[] }

function resolveGateway(row: Row, at: string, reading: Reading): GatewayConfig {
  const { mistakes } = reading
  const known = usdc[row.network]
  const rpcUrl = row.rpc_url ?? secret(row.rpc_url_env, `${at}.rpc_url_env`, reading)
  if (!row.rpc_url && !row.rpc_url_env) mistakes.push(`${at}.rpc_url: missing; or name an environment variable in rpc_url_env`)
  const asset = row.asset ?? known?.asset
  const name = row.asset_name ?? known?.name
  if (!asset) mistakes.push(`${at}.asset: missing; USDC on ${row.network} is not known here`)
  if (!name) mistakes.push(`${at}.asset_name: missing; the token's EIP-712 name on ${row.network} is not known here`)
  return {
    name: row.name,
    label: row.label ?? known?.label ?? row.name,
    hosts: row.hosts ?? [],
    network: row.network,
    asset: asset ?? '',
    payTo: row.pay_to,
    domain: { name: name ?? '', version: row.asset_version ?? '2' },
    rpcUrl: rpcUrl ?? '',
    settles: resolveSettling(row, at, reading),
  }
}

function resolveSettling({ relayer_key_env: named, facilitators }: Row, at: string, reading: Reading): GatewayConfig['settles'] {
  const { mistakes } = reading
  if (!named === !facilitators) mistakes.push(`${at}: name either relayer_key_env or facilitators, who settles its payments`)
  if (facilitators) return { by: 'facilitators', rows: facilitators.map((row, index) => resolveFacilitator(row, `${at}.facilitators.${index}`, reading)) }
  const variables = typeof named === 'string' ? [named] : (named ?? [])
  const keys = variables.map((variable) => {
    const key = secret(variable, `${at}.relayer_key_env`, reading)
    if (key && !isPrivateKey(key)) mistakes.push(`${variable}: must be 0x and 64 hex digits, a key of secp256k1 (its value is not shown)`)
    return key ?? ''
  })
  if (twice(keys.filter(Boolean)).size > 0) mistakes.push(`${at}.relayer_key_env: two variables hold the same key`)
  return { by: 'relayer', keys }
}

/** Keys are the numbers from 1 to the order of the curve, exclusive (SEC 2, secp256k1). */
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n

function isPrivateKey(text: string): boolean {
  return /^0x[0-9a-fA-F]{64}$/.test(text) && BigInt(text) > 0n && BigInt(text) < ORDER
}

function resolveFacilitator(row: Static<typeof FacilitatorRow>, at: string, reading: Reading): FacilitatorSetting {
  const { url, cdp_key_id_env: idVariable, cdp_key_secret_env: secretVariable, redirect_origins: redirectOrigins } = row
  if (!idVariable !== !secretVariable) reading.mistakes.push(`${at}: cdp_key_id_env and cdp_key_secret_env come together`)
  const keyId = secret(idVariable, `${at}.cdp_key_id_env`, reading)
  const keySecret = secret(secretVariable, `${at}.cdp_key_secret_env`, reading)
  return { url, ...(keyId && keySecret && { cdp: { keyId, keySecret } }), ...(redirectOrigins && { redirectOrigins }) }
}

function secret(variable: string | undefined, at: string, { env, mistakes }: Reading): string | undefined {
  if (!variable) return undefined
  const value = env[variable]
  if (!value) mistakes.push(`${at}: the environment variable ${variable} is not set`)
  return value
}
