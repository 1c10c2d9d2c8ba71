/** The settings of Solana: the keypairs that pay fees, and what they may pay. */
import { type Static, type TObject, Type } from '@sinclair/typebox'
import { type Named, named, setting } from '../../settings.ts'
import {
  type Facilitated,
  facilitated,
  type FamilySettings,
  Keys,
  keysOf,
  type OnChain,
  type Reading,
} from '../lib/settings.ts'
import { solanaFamily } from './family.ts'

const settings = {
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
type Row = Static<TObject<typeof settings>> & { readonly facilitators?: Parameters<typeof facilitated>[0] | undefined }

export type SolanaMethod = OnChain & {
  readonly kind: 'solana'
  readonly settles:
    | (Named<typeof settings> & { readonly by: 'fee_payer'; readonly keys: readonly string[] })
    | Facilitated
}

const OWN_LIMITS = 'has no effect with facilitators, which pay the fees within their own limits'

export const solanaSettings = {
  family: solanaFamily,
  words: 'Solana',
  settings,
  roles: { fee_payer_key_env: 'key', fee_payer_floor_lamports: 'floor' },
  withoutFacilitators: {
    fee_payer_floor_lamports: 'facilitators pay the fees',
    max_fee_lamports: OWN_LIMITS,
    priority_lamports: OWN_LIMITS,
  },
  wrongPayee: () => [],
  read: (row: Row, at, reading): SolanaMethod => ({
    kind: 'solana',
    ...reading.shared,
    settles: settling(row, at, reading),
  }),
} as const satisfies FamilySettings<SolanaMethod>

function settling(row: Row, at: string, reading: Reading): SolanaMethod['settles'] {
  const { fee_payer_key_env: variables, facilitators } = row
  const { mistakes } = reading
  if (!variables === !facilitators)
    mistakes.push(`${at}: set either fee_payer_key_env or facilitators, to settle payments`)
  if (facilitators) return facilitated(facilitators, at, reading)
  const keys = keysOf(variables, `${at}.fee_payer_key_env`, {
    ...reading,
    isKey: isFeePayerKey,
    form: 'a keypair of 64 bytes, in base58 or as a JSON array',
  })
  return { by: 'fee_payer', keys, ...named(settings, row) }
}

/**
 * 64 bytes take 64 to 88 digits: each leading zero byte takes one. Whether the halves match is checked by the chain's
 * adapter.
 */
function isFeePayerKey(text: string): boolean {
  return /^[1-9A-HJ-NP-Za-km-z]{64,88}$/.test(text) || /^\[\s*\d{1,3}(\s*,\s*\d{1,3}){63}\s*\]$/.test(text)
}
