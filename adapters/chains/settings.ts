/** The settings of every way to be paid. Another family of chains is a folder, and a line here. */
import { type Static, type TObject, Type } from '@sinclair/typebox'
import { setting, Url, Variable } from '../settings.ts'
import { BatchedRow, readBatched } from './evm/batched/settings.ts'
import { evmSettings } from './evm/settings.ts'
import { ADDRESS_PATTERN, NETWORK_PATTERN } from './families.ts'
import { FacilitatorRow } from './lib/settings.ts'
import { solanaSettings } from './solana/settings.ts'

export const familySettings = [evmSettings, solanaSettings] as const
/** Deposits that a service batches, and whose wallets make them. */
export const batchedSettings = { row: BatchedRow, read: readBatched, family: evmSettings }

export type PaymentMethod =
  | ReturnType<(typeof familySettings)[number]['read']>
  | ReturnType<(typeof batchedSettings)['read']>

const Address = Type.String({ pattern: ADDRESS_PATTERN })

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
  rpc_url: setting('The URL of a node of the network. Needed also where facilitators settle.', Url),
  rpc_url_env: setting('The variable that holds this URL, which often contains a key.', Variable),
  ...evmSettings.settings,
  ...solanaSettings.settings,
  facilitators: setting(
    'Facilitators that verify and settle instead of your own keys; the first that answers is used. See [facilitators](#facilitators).',
    Type.Array(FacilitatorRow, { minItems: 1, maxItems: 5 }),
  ),
  batched: setting(
    'Accepts deposits in Circle Gateway, settled in batches; alone or beside a network. See [batched](#batched).',
    batchedSettings.row,
  ),
}

export type PaymentRow = Static<TObject<typeof paymentMethodSettings>>
