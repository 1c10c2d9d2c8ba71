/**
 * The payment methods of a gateway: networks, recipients, and who settles. A gateway may accept a network's own
 * payments, batched ones, or both.
 */
import { addressProblem } from '../../adapters/chains/evm/node/address.ts'
import type { Static } from '@sinclair/typebox'
import { duplicatesIn } from '../../core/mod.ts'
import type { EvmScheme } from '../../adapters/chains/evm/node/x402_contracts.ts'
import { evmFamily, families, networkFacts, solanaFamily } from '../../adapters/chains/families.ts'
import { type ChainFamily, familyOf } from '../../core/ports/mod.ts'
import {
  ASSET_VERSION,
  type BatchedRow,
  channelSettings,
  evmSettings,
  type FacilitatorRow,
  paymentMethodSettings,
  schemeSettings,
  type Settings,
  solanaSettings,
} from './payment_method_settings.ts'
import { defined, type Named, named, without } from './settings.ts'

export type FacilitatorSetting = {
  readonly url: string
  readonly cdp?: { readonly keyId: string; readonly keySecret: string }
  readonly redirectOrigins?: readonly string[]
}

type Facilitated = { readonly by: 'facilitators'; readonly rows: readonly FacilitatorSetting[] }
type OnChain = { readonly network: string; readonly asset: string; readonly payTo: string; readonly rpcUrl: string }

export type EvmPaymentMethod = OnChain & {
  readonly kind: 'evm'
  readonly domain: { readonly name: string; readonly version: string }
  /** Absent: `exact` only. */
  readonly schemes?: readonly EvmScheme[]
  /** Present with the scheme `batch-settlement`. Amounts are in base units. */
  readonly channels?: Named<typeof channelSettings> & { readonly key: string }
  readonly settles:
    | (Named<typeof evmSettings> & { readonly by: 'relayer'; readonly keys: readonly string[] })
    | Facilitated
}
export type SolanaPaymentMethod = OnChain & {
  readonly kind: 'solana'
  readonly settles:
    | (Named<typeof solanaSettings> & { readonly by: 'fee_payer'; readonly keys: readonly string[] })
    | Facilitated
}
/** Empty `networks`: all that the service supports. */
export type BatchedPaymentMethod = {
  readonly kind: 'batched'
  readonly url: string
  readonly networks: readonly string[]
  readonly payTo: string
}
export type PaymentMethod = EvmPaymentMethod | SolanaPaymentMethod | BatchedPaymentMethod

type Settler<Method> = Method extends { readonly settles: { readonly by: infer By extends string } } ? By : never
type Schemes<Method> = Method extends { readonly schemes?: readonly (infer Scheme extends string)[] } ? Scheme : never
/**
 * Every way to pay that can be configured: `evm/exact`, `solana/facilitators`, `batched`. Facilitators settle by
 * `exact` alone.
 */
export type WayToPay<Method extends PaymentMethod = PaymentMethod> = Method extends { readonly settles: unknown }
  ? | `${Method['kind']}/${[Schemes<Method>] extends [never] ? Exclude<Settler<Method>, 'facilitators'> : Schemes<Method>}`
    | `${Method['kind']}/${Settler<Method> & 'facilitators'}`
  : Method['kind']

/** The family of the network that it is paid on directly; undefined for deposits with a service. */
export const familyOfMethod = (method: PaymentMethod): ChainFamily | undefined =>
  method.kind === 'batched' ? undefined : familyOf(families, method.network)

/** The name of a network in replies, where it is known (contract 1.13). */
export const labelOf = (network: string | undefined): string | undefined => networkFacts(network)?.label

export const isTestNetwork = (network: string): boolean => networkFacts(network)?.isTest === true

/** Whether it is paid with test money. */
export function isPlayMoney(paymentMethod: PaymentMethod): boolean {
  if (paymentMethod.kind !== 'batched') return isTestNetwork(paymentMethod.network)
  return (
    paymentMethod.networks.some(isTestNetwork) ||
    (paymentMethod.networks.length === 0 && new URL(paymentMethod.url).hostname.includes('testnet'))
  )
}

export type Reading = { readonly env: Readonly<Record<string, string | undefined>>; readonly mistakes: string[] }

/**
 * In the order of the offers: plain clients cannot distinguish a batched offer from a plain one, and take the first
 * (decision 69).
 */
export function resolvePaymentMethods(row: Settings, at: string, reading: Reading): readonly PaymentMethod[] {
  const { mistakes } = reading
  const plain = plainPaymentMethod(row, at, reading)
  const batched = row.batched && batchedPaymentMethod(row.batched, payToOf(row, at, { mistakes, family: evmFamily }))
  if (!plain && !batched) mistakes.push(`${at}.network: missing; or set batched, for payments through Circle Gateway`)
  return [...(plain ? [plain] : []), ...(batched ? [batched] : [])]
}

function plainPaymentMethod(row: Settings, at: string, reading: Reading): PaymentMethod | undefined {
  const { mistakes } = reading
  const { network } = row
  const stray = setIn(row, without(paymentMethodSettings, { network, pay_to: true, batched: true }))[0]
  if (!network && stray) mistakes.push(`${at}.${stray}: needs network, which is not set`)
  if (!network) return undefined
  const family = familyOf(families, network) ?? evmFamily
  const known = networkFacts(network)?.usdc
  const rpcUrl = row.rpc_url ?? secret(row.rpc_url_env, `${at}.rpc_url_env`, reading)
  if (!row.rpc_url && !row.rpc_url_env)
    mistakes.push(`${at}.rpc_url: missing; or name an environment variable in rpc_url_env`)
  const asset = row.asset ?? known?.address
  if (!asset) mistakes.push(`${at}.asset: missing; the USDC address on ${network} is not built in`)
  const shared = { network, asset: asset ?? '', payTo: payToOf(row, at, { mistakes, family }), rpcUrl: rpcUrl ?? '' }
  if (family === solanaFamily) return { kind: 'solana', ...shared, settles: settlingOnSolana(row, at, reading) }
  const name = row.asset_name ?? known?.name
  if (!name) mistakes.push(`${at}.asset_name: missing; the token's EIP-712 name on ${network} is not built in`)
  return {
    kind: 'evm',
    ...shared,
    domain: { name: name ?? '', version: row.asset_version ?? ASSET_VERSION },
    ...schemesOf(row, at, reading),
    settles: settlingOnEvm(row, at, reading),
  }
}

/** The names of these settings that a row sets. */
const setIn = (row: Settings, settings: object): readonly string[] =>
  Object.keys(settings).filter((name) => row[name as keyof Settings] !== undefined)

/** The setting of the other family that says the same. */
const TWINS: Readonly<Record<string, string>> = {
  relayer_key_env: 'fee_payer_key_env',
  relayer_floor_wei: 'fee_payer_floor_lamports',
  relayer_floor_settlements: 'fee_payer_floor_lamports',
  fee_payer_key_env: 'relayer_key_env',
  fee_payer_floor_lamports: 'relayer_floor_wei',
}
/** What has no effect where facilitators settle, and why. A key beside them is refused by itself. */
const FACILITATORS_PAY: Readonly<Record<string, string>> = {
  relayer_floor_wei: 'facilitators pay the gas',
  relayer_floor_settlements: 'facilitators pay the gas',
  fee_payer_floor_lamports: 'facilitators pay the fees',
  max_fee_lamports: 'has no effect with facilitators, which pay the fees within their own limits',
  priority_lamports: 'has no effect with facilitators, which pay the fees within their own limits',
}

/** Mistakes of settings that are for the other family, and of those that facilitators make useless. */
function misplaced(
  row: Settings,
  at: string,
  { own, others, family, other }: Readonly<Record<'own' | 'others', object> & Record<'family' | 'other', string>>,
): readonly string[] {
  const useless = row.facilitators ? setIn(row, own).filter((name) => FACILITATORS_PAY[name] !== undefined) : []
  return [
    ...setIn(row, others).map((name) => {
      const twin = TWINS[name]
      return `${at}.${name}: is for ${other}${twin === undefined ? '' : `; on ${family} use ${twin}`}`
    }),
    ...useless.map((name) => `${at}.${name}: ${FACILITATORS_PAY[name]}`),
  ]
}

function schemesOf(row: Settings, at: string, reading: Reading): Pick<EvmPaymentMethod, 'schemes' | 'channels'> {
  const { schemes, facilitators, channel_key_env: variable } = row
  const { mistakes } = reading
  if (schemes && facilitators)
    mistakes.push(`${at}.schemes: is for relayer_key_env; facilitators settle by exact, so remove it`)
  const hasChannels = schemes?.includes('batch-settlement') ?? false
  const [stray] = setIn(row, channelSettings)
  if (stray && !hasChannels) mistakes.push(`${at}.${stray}: needs "batch-settlement" in schemes`)
  if (hasChannels && !variable)
    mistakes.push(`${at}.channel_key_env: missing; "batch-settlement" in schemes needs the key that signs claims`)
  const [key] = hasChannels && variable ? keysOf(variable, `${at}.channel_key_env`, relayerKeys(reading)) : []
  return defined({ schemes, channels: key === undefined ? undefined : { key, ...named(channelSettings, row) } })
}

const relayerKeys = (reading: Reading) => ({
  ...reading,
  isKey: isRelayerKey,
  form: '0x and 64 hex digits, a key of secp256k1',
  spell: (key: string) => key.toLowerCase(),
})

function batchedPaymentMethod({ url, networks = [] }: Static<typeof BatchedRow>, payTo: string): BatchedPaymentMethod {
  return { kind: 'batched', url: url.replace(/\/$/, ''), networks, payTo }
}

function payToOf(
  { pay_to: payTo }: Settings,
  at: string,
  { mistakes, family }: { mistakes: string[]; family: ChainFamily },
): string {
  if (payTo === undefined) mistakes.push(`${at}.pay_to: missing; set the address that receives payments`)
  if (payTo !== undefined && family.addressOf(payTo) === undefined)
    mistakes.push(`${at}.pay_to: must be ${family.addressForm}, got ${JSON.stringify(payTo)}`)
  else if (payTo !== undefined && family === evmFamily) mistakes.push(...addressProblem(`${at}.pay_to`, payTo))
  return payTo ?? ''
}

const EVM = 'EVM networks'
const SOLANA = 'Solana'

function settlingOnEvm(row: Settings, at: string, reading: Reading): EvmPaymentMethod['settles'] {
  const { relayer_key_env: variables, facilitators } = row
  const { mistakes } = reading
  mistakes.push(...misplaced(row, at, { own: evmSettings, others: solanaSettings, family: EVM, other: SOLANA }))
  if (!variables === !facilitators)
    mistakes.push(`${at}: set either relayer_key_env or facilitators, to settle payments`)
  if (facilitators) return facilitated(facilitators, at, reading)
  const keys = keysOf(variables, `${at}.relayer_key_env`, relayerKeys(reading))
  return { by: 'relayer', keys, ...named(evmSettings, row) }
}

function settlingOnSolana(row: Settings, at: string, reading: Reading): SolanaPaymentMethod['settles'] {
  const { fee_payer_key_env: variables, facilitators } = row
  const { mistakes } = reading
  const others = { ...evmSettings, ...schemeSettings, ...channelSettings }
  mistakes.push(...misplaced(row, at, { own: solanaSettings, others, family: SOLANA, other: EVM }))
  if (!variables === !facilitators)
    mistakes.push(`${at}: set either fee_payer_key_env or facilitators, to settle payments`)
  if (facilitators) return facilitated(facilitators, at, reading)
  const keys = keysOf(variables, `${at}.fee_payer_key_env`, {
    ...reading,
    isKey: isFeePayerKey,
    form: 'a keypair of 64 bytes, in base58 or as a JSON array',
  })
  return { by: 'fee_payer', keys, ...named(solanaSettings, row) }
}

/** `spell` normalizes a key, so that a key in two variables is detected. */
function keysOf(
  named: Settings['relayer_key_env'],
  at: string,
  {
    isKey,
    form,
    spell = (key) => key,
    ...reading
  }: Reading & { isKey(text: string): boolean; form: string; spell?(key: string): string },
): readonly string[] {
  const { mistakes } = reading
  const variables = typeof named === 'string' ? [named] : (named ?? [])
  const keys = variables.map((variable) => {
    const key = secret(variable, at, reading)
    if (key && !isKey(key)) mistakes.push(`${variable}: must be ${form} (its value is not shown)`)
    return spell(key ?? '')
  })
  if (duplicatesIn(keys.filter(Boolean)).size > 0) mistakes.push(`${at}: two variables hold the same key`)
  return keys
}

/** Valid keys are from 1 to the order of the curve, exclusive (SEC 2, secp256k1). */
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n

function isRelayerKey(text: string): boolean {
  return /^0x[0-9a-fA-F]{64}$/.test(text) && BigInt(text) > 0n && BigInt(text) < ORDER
}

/**
 * 64 bytes take 64 to 88 digits: each leading zero byte takes one. Whether the halves match is checked by the chain's
 * adapter.
 */
function isFeePayerKey(text: string): boolean {
  return /^[1-9A-HJ-NP-Za-km-z]{64,88}$/.test(text) || /^\[\s*\d{1,3}(\s*,\s*\d{1,3}){63}\s*\]$/.test(text)
}

function facilitated(rows: readonly Static<typeof FacilitatorRow>[], at: string, reading: Reading): Facilitated {
  return {
    by: 'facilitators',
    rows: rows.map((row, index) => facilitator(row, `${at}.facilitators.${index}`, reading)),
  }
}

function facilitator(row: Static<typeof FacilitatorRow>, at: string, reading: Reading): FacilitatorSetting {
  const { url, cdp_key_id_env: idVariable, cdp_key_secret_env: secretVariable, redirect_origins: redirectOrigins } = row
  if (!idVariable !== !secretVariable)
    reading.mistakes.push(`${at}: cdp_key_id_env and cdp_key_secret_env must be set together`)
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
