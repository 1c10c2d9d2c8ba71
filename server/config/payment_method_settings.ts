/** The settings of a payment method, family by family: what a gateway's row may say of networks and who settles. */
import { type Static, Type } from '@sinclair/typebox'
import { ADDRESS_PATTERN, EVM_NETWORK_PATTERN, NETWORK_PATTERN } from '../../adapters/chains/families.ts'
import { EVM_SCHEMES } from '../../adapters/chains/evm/node/x402_contracts.ts'
import { oneOf, setting, Url } from '../../adapters/providers/manifest.ts'
import { defaulted, Variable } from './settings.ts'

const strict = { additionalProperties: false }
const Address = Type.String({ pattern: ADDRESS_PATTERN })
const Origin = Type.String({ pattern: '^https?://[^/]+$' })
const EvmNetwork = Type.String({ pattern: EVM_NETWORK_PATTERN })

export const FacilitatorRow = Type.Object(
  {
    url: { ...Url, description: 'The root of the facilitator’s API.' },
    cdp_key_id_env: setting(
      'Coinbase CDP: the variable that holds the key id. Goes with `cdp_key_secret_env`.',
      Variable,
    ),
    cdp_key_secret_env: setting('Coinbase CDP: the variable that holds the key secret.', Variable),
    redirect_origins: setting('Origins that a redirect may lead to besides the URL’s own.', Type.Array(Origin), {
      usual: 'none',
    }),
  },
  strict,
)

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
  strict,
)

const Keys = Type.Union([Variable, Type.Array(Variable, { minItems: 1, maxItems: 64 })], {
  words:
    'the name of an environment variable, in capital letters (not the key itself), ' +
    'or a list of 1 to 64 such names, in square brackets',
})

/** The EIP-712 version of USDC. */
export const ASSET_VERSION = '2'

export const evmSettings = {
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
export const solanaSettings = {
  fee_payer_key_env: setting(
    'Solana: the variable with the keypair that pays fees (64 bytes, base58 or a JSON array), or a list of variables. All replicas share the keys; the first one with enough balance is offered, and payments under any of them are accepted.',
    Keys,
  ),
  priority_lamports: setting(
    'Solana: the most that the compute units of a payment may cost the fee payer, in lamports for each whole unit of the price. 1,000 lamports are always taken.',
    Type.Integer({ minimum: 0, maximum: 1_000_000_000 }),
    { usual: '500000' },
  ),
  max_fee_lamports: setting(
    'Solana: the most that one payment may cost the fee payer.',
    Type.Integer({ minimum: 10_000, maximum: 10_000_000 }),
    { usual: '100000' },
  ),
  fee_payer_floor_lamports: setting(
    'Solana: below this balance a fee payer is not offered.',
    Type.Integer({ minimum: 0, maximum: 1_000_000_000_000 }),
    { usual: '2000000' },
  ),
}
export const schemeSettings = {
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
export const channelSettings = {
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
    'EVM: the gas that the gateway pays in an hour for deposits into channels and refunds of one wallet; refunds leave half of it to deposits.',
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

/** The payment settings of a gateway. */
export const paymentMethodSettings = {
  network: setting(
    'The network that it is paid on, in CAIP-2: `eip155:<chain id>` or `solana:<genesis hash>`.',
    Type.String({ pattern: NETWORK_PATTERN }),
  ),
  pay_to: setting('The address that is paid. On Solana, a wallet that already has a USDC account. Required.', Address),
  asset: setting('The address of the token.', Address, {
    usual: 'USDC on Base, Base Sepolia, Solana and Solana devnet; required elsewhere',
  }),
  asset_name: setting('The token’s EIP-712 name (EVM).', Type.String({ minLength: 1 }), {
    usual: 'that of USDC on Base and Base Sepolia; required elsewhere',
  }),
  asset_version: setting('The token’s EIP-712 version (EVM).', Type.String({ minLength: 1 }), {
    usual: `\`${ASSET_VERSION}\``,
  }),
  rpc_url: setting('The URL of a node of the network. Needed also where facilitators settle.', Url),
  rpc_url_env: setting('The variable that holds this URL, which often contains a key.', Variable),
  ...evmSettings,
  ...solanaSettings,
  ...schemeSettings,
  ...channelSettings,
  facilitators: setting(
    'Facilitators that verify and settle instead of your own keys; the first that answers is used. See [facilitators](#facilitators).',
    Type.Array(FacilitatorRow, { minItems: 1, maxItems: 5 }),
  ),
  batched: setting(
    'Accepts deposits in Circle Gateway, settled in batches; alone or beside a network. See [batched](#batched).',
    BatchedRow,
  ),
}
const Settings = Type.Object(paymentMethodSettings)
export type Settings = Static<typeof Settings>
