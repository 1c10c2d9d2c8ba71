/** Rules that the operator may change at run time: lists of wallets, limits, margins and the maintenance switch. */
import { type Static, Type } from '@sinclair/typebox'
import { recordKind } from '../../endpoint/record_kind.ts'

const Usd = Type.String({ pattern: '^\\d{1,9}(\\.\\d{1,6})?$' })

/** Limits of a wallet or of a gateway. Days and months are those of UTC. */
export const Limit = Type.Object(
  {
    usdc_per_day: Type.Optional(Usd),
    usdc_per_month: Type.Optional(Usd),
    requests_per_minute: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 })),
    requests_per_day: Type.Optional(Type.Integer({ minimum: 1, maximum: 100_000_000 })),
  },
  { additionalProperties: false, minProperties: 1 },
)
export type Limit = Static<typeof Limit>

export const MaintenanceSwitch = Type.Object(
  {
    message: Type.Optional(Type.String({ minLength: 1, maxLength: 300 })),
    retry_after_seconds: Type.Optional(Type.Integer({ minimum: 1, maximum: 86_400 })),
  },
  { additionalProperties: false },
)

export const ListedWallet = Type.Object(
  { reason: Type.Optional(Type.String({ minLength: 1, maxLength: 300 })) },
  { additionalProperties: false },
)

export const Margin = Type.Object(
  { percent: Type.String({ pattern: '^(\\d{1,4}|-\\d{1,2})(\\.\\d{1,4})?$' }) },
  { additionalProperties: false },
)

/** `from`: quotes have it from then on, until the next one. The first one is that of before. */
const MarginChange = Type.Object({ percent: Type.String(), from: Type.Integer() })
export type MarginChange = Static<typeof MarginChange>

/** Wallets in lower case. `*` stands for every wallet or gateway without limits of its own. */
export const Rules = Type.Object({
  maintenance: Type.Optional(MaintenanceSwitch),
  blocked: Type.Record(Type.String(), ListedWallet),
  allowed: Type.Record(Type.String(), ListedWallet),
  margins: Type.Record(Type.String(), Type.Array(MarginChange)),
  wallet_limits: Type.Record(Type.String(), Limit),
  gateway_limits: Type.Record(Type.String(), Limit),
})
export type Rules = Static<typeof Rules>

export const NO_RULES: Rules = { blocked: {}, allowed: {}, margins: {}, wallet_limits: {}, gateway_limits: {} }

export const CONTROLS = recordKind({ kind: 'operator_controls', version: 1, schema: Rules })
