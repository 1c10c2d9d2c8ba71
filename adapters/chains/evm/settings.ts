/** The settings of EVM networks: the keys that settle, the schemes, and channels. */
import { type Static, type TObject, Type } from '@sinclair/typebox'
import { type Named, named, oneOf, setting, Variable } from '../../settings.ts'
import { networkFacts } from '../families.ts'
import {
  type Facilitated,
  facilitated,
  type FamilySettings,
  Keys,
  keysOf,
  type OnChain,
  type Reading,
} from '../lib/settings.ts'
import { evmFamily } from './family.ts'
import { addressProblem } from './node/address.ts'
import { EVM_SCHEMES, type EvmScheme } from './node/x402_contracts.ts'

/** The EIP-712 version of USDC. */
const ASSET_VERSION = '2'

const tokenSettings = {
  asset_name: setting('The token’s EIP-712 name (EVM).', Type.String({ minLength: 1 }), {
    usual: 'that of USDC on Base and Base Sepolia; required elsewhere',
  }),
  asset_version: setting('The token’s EIP-712 version (EVM).', Type.String({ minLength: 1 }), {
    usual: `\`${ASSET_VERSION}\``,
  }),
}
const relayerSettings = {
  relayer_key_env: setting(
    'EVM: the variable with the private key that sends settlements and pays their gas, or a list of variables. Each replica uses one key at a time, so give as many as there are replicas and a spare one.',
    Keys,
  ),
  relayer_floor_wei: setting(
    'EVM: below this balance, in wei and as text, a key is not used. The higher one of both floors counts.',
    Type.String({ pattern: '^[0-9]{1,30}$' }),
    { usual: '`"50000000000000"`' },
  ),
  relayer_floor_settlements: setting(
    'EVM: the same floor as a number of settlements at the current price of gas.',
    Type.Integer({ minimum: 0, maximum: 1_000_000 }),
    { usual: '50' },
  ),
}

const schemeSettings = {
  schemes: setting(
    'EVM: the schemes that it sells by, preferred first. `upto` charges what was used, through Permit2; the key that made an offer has to settle it, so keep its gas topped up. `batch-settlement` charges what was used by signed vouchers of a channel. See [channels](gateways_and_chains.md#channels).',
    Type.Array(oneOf(...EVM_SCHEMES), {
      minItems: 1,
      maxItems: EVM_SCHEMES.length,
      uniqueItems: true,
    }),
    { usual: '`["exact"]`; all on devnet' },
  ),
}

/** With the scheme `batch-settlement`. */
const channelSettings = {
  channel_key_env: setting(
    'EVM: the variable with the private key that signs claims and refunds of channels. It holds no money. Required for `batch-settlement`.',
    Variable,
  ),
  channel_withdraw_seconds: setting(
    'EVM: how long a buyer waits for a withdrawal from a channel: the time to claim what is due. Another value makes other channels.',
    Type.Integer({ minimum: 900, maximum: 2_592_000 }),
    { usual: '86400' },
  ),
  channel_min_deposit: setting(
    'EVM: the smallest deposit into a channel, in base units of the token; the gateway pays its gas.',
    Type.Integer({ minimum: 1, maximum: 1_000_000_000_000 }),
    { usual: '100000' },
  ),
  channel_gas_per_wallet: setting(
    'EVM: the gas that the gateway pays in an hour for deposits into channels and refunds of one wallet; refunds leave half of it to deposits. First deposits that revert may take five times as much, of all wallets together, and so may later ones.',
    Type.Integer({ minimum: 540_000, maximum: 1_000_000_000 }),
    { usual: '2000000; unlimited where `coin_price` is 0' },
  ),
  channel_claim_above: setting(
    'EVM: claims of channels are sent when so much is due in all, in base units of the token.',
    Type.Integer({ minimum: 1, maximum: 1_000_000_000_000 }),
    { usual: '1000000' },
  ),
  keys: setting(
    'EVM: takes API keys that pay from channels of their own. Needs `batch-settlement` in `schemes`. See [keys](gateways_and_chains.md#keys).',
    Type.Boolean(),
    { usual: 'false' },
  ),
  key_idle_days: setting(
    'EVM: an API key that bought nothing and was not topped up for so many days is closed: what is left goes back to its wallet, if its purchases have paid for the gas.',
    Type.Integer({ minimum: 1, maximum: 365 }),
    { usual: 'never' },
  ),
  coin_price: setting(
    'EVM: what one coin of the network, in which gas is paid, costs in whole units of the token. Deposits, refunds and claims of channels have to be worth their gas by it; 0 turns that off.',
    Type.Number({ minimum: 0, maximum: 1_000_000 }),
    { usual: '4000; 0 on test networks' },
  ),
}

const settings = { ...tokenSettings, ...relayerSettings, ...schemeSettings, ...channelSettings }
type Row = Static<TObject<typeof settings>> & { readonly facilitators?: Parameters<typeof facilitated>[0] | undefined }

export type EvmMethod = OnChain & {
  readonly kind: 'evm'
  readonly domain: { readonly name: string; readonly version: string }
  /** Absent: `exact` only. */
  readonly schemes?: readonly EvmScheme[]
  /** Present with the scheme `batch-settlement`. Amounts are in base units. */
  readonly channels?: Named<typeof channelSettings> & { readonly key: string }
  readonly settles:
    | (Named<typeof relayerSettings> & { readonly by: 'relayer'; readonly keys: readonly string[] })
    | Facilitated
}

export const evmSettings = {
  family: evmFamily,
  words: 'EVM networks',
  settings,
  roles: { relayer_key_env: 'key', relayer_floor_wei: 'floor', relayer_floor_settlements: 'floor' },
  withoutFacilitators: {
    relayer_floor_wei: 'facilitators pay the gas',
    relayer_floor_settlements: 'facilitators pay the gas',
  },
  wrongPayee: addressProblem,
  read(row: Row, at, reading): EvmMethod {
    const { shared, mistakes } = reading
    const name = row.asset_name ?? networkFacts(shared.network)?.usdc?.name
    if (!name) mistakes.push(`${at}.asset_name: missing; the token's EIP-712 name on ${shared.network} is not built in`)
    return {
      kind: 'evm',
      ...shared,
      domain: { name: name ?? '', version: row.asset_version ?? ASSET_VERSION },
      ...schemesOf(row, at, reading),
      settles: settling(row, at, reading),
    }
  },
} as const satisfies FamilySettings<EvmMethod>

function schemesOf(row: Row, at: string, reading: Reading): Pick<EvmMethod, 'schemes' | 'channels'> {
  const { schemes, facilitators, channel_key_env: variable } = row
  const { mistakes } = reading
  if (schemes && facilitators)
    mistakes.push(`${at}.schemes: is for relayer_key_env; facilitators settle by exact, so remove it`)
  const hasChannels = schemes?.includes('batch-settlement') ?? false
  const stray = Object.keys(channelSettings).find((name) => row[name as keyof Row] !== undefined)
  if (stray && !hasChannels) mistakes.push(`${at}.${stray}: needs "batch-settlement" in schemes`)
  if (hasChannels && !variable)
    mistakes.push(`${at}.channel_key_env: missing; "batch-settlement" in schemes needs the key that signs claims`)
  const [key] = hasChannels && variable ? keysOf(variable, `${at}.channel_key_env`, relayerKeys(reading)) : []
  return {
    ...(schemes && { schemes }),
    ...(key !== undefined && { channels: { key, ...named(channelSettings, row) } }),
  }
}

function settling(row: Row, at: string, reading: Reading): EvmMethod['settles'] {
  const { relayer_key_env: variables, facilitators } = row
  const { mistakes } = reading
  if (!variables === !facilitators)
    mistakes.push(`${at}: set either relayer_key_env or facilitators, to settle payments`)
  if (facilitators) return facilitated(facilitators, at, reading)
  const keys = keysOf(variables, `${at}.relayer_key_env`, relayerKeys(reading))
  return { by: 'relayer', keys, ...named(relayerSettings, row) }
}

const relayerKeys = (reading: Reading) => ({
  ...reading,
  isKey: isRelayerKey,
  form: '0x and 64 hex digits, a key of secp256k1',
  spell: (key: string) => key.toLowerCase(),
})

/** Valid keys are from 1 to the order of the curve, exclusive (SEC 2, secp256k1). */
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n

function isRelayerKey(text: string): boolean {
  return /^0x[0-9a-fA-F]{64}$/.test(text) && BigInt(text) > 0n && BigInt(text) < ORDER
}
