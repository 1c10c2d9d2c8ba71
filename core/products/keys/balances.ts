/** The balance of a key, in the shapes that tools already ask for (contract 23.10). Nothing is read on chain. */
import { Type } from '@sinclair/typebox'
import { free } from '../../endpoint/mod.ts'
import { json } from '../../http/reply.ts'
import { checksummed } from '../../lib/checksum.ts'
import type { Usdc } from '../../x402/money.ts'
import { channelOf, KEY_ERRORS, labelOf, PRIVATE } from './presented.ts'

const LIMIT = { requests: 120, windowMs: 60_000, bucket: 'keys' }
const usd = (amount: Usdc): number => Number(amount) / 1e6
const common = { tag: 'keys', limit: LIMIT, errors: [...KEY_ERRORS], hidden: true as const }

const NullableNumber = Type.Union([Type.Number(), Type.Null()])

/** As OpenRouter answers it. */
const key = free({
  ...common,
  name: 'keys.key',
  path: '/api/v1/key',
  aliases: ['/api/v1/auth/key', '/v1/key', '/v1/auth/key'],
  summary: 'What an API key has used and has left',
  description: 'In US dollars. Sums by day, week and month are null: they are not kept for a key.',
  output: Type.Object({
    data: Type.Object({
      label: Type.String(),
      limit: Type.Number(),
      limit_remaining: Type.Number(),
      limit_reset: Type.Null(),
      usage: Type.Number(),
      usage_daily: NullableNumber,
      usage_weekly: NullableNumber,
      usage_monthly: NullableNumber,
      byok_usage: Type.Number(),
      include_byok_in_limit: Type.Boolean(),
      is_free_tier: Type.Boolean(),
      is_management_key: Type.Boolean(),
      is_provisioning_key: Type.Boolean(),
      expires_at: Type.Null(),
    }),
  }),
  async answer(request, context) {
    const { address, deposited, charged, available } = await channelOf(request, context)
    const data = {
      label: labelOf(address),
      limit: usd(deposited),
      limit_remaining: usd(available),
      limit_reset: null,
      usage: usd(charged),
      usage_daily: null,
      usage_weekly: null,
      usage_monthly: null,
      byok_usage: 0,
      include_byok_in_limit: false,
      is_free_tier: false,
      is_management_key: false,
      is_provisioning_key: false,
      expires_at: null,
    }
    return json(200, { data }, PRIVATE)
  },
})

const credits = free({
  ...common,
  name: 'keys.credits',
  path: '/api/v1/credits',
  aliases: ['/v1/credits'],
  summary: 'What was deposited for an API key, and what it has used',
  description: 'In US dollars; the difference is left, less what open calls reserve.',
  output: Type.Object({ data: Type.Object({ total_credits: Type.Number(), total_usage: Type.Number() }) }),
  async answer(request, context) {
    const { deposited, charged } = await channelOf(request, context)
    return json(200, { data: { total_credits: usd(deposited), total_usage: usd(charged) } }, PRIVATE)
  },
})

const subscription = free({
  ...common,
  name: 'keys.subscription',
  path: '/api/v1/dashboard/billing/subscription',
  aliases: ['/v1/dashboard/billing/subscription', '/dashboard/billing/subscription'],
  summary: 'The deposit of an API key, as older dashboards ask for it',
  description: 'Limits are what was deposited, in US dollars. A key does not expire: access_until is a year from now.',
  output: Type.Object({
    object: Type.Literal('billing_subscription'),
    has_payment_method: Type.Boolean(),
    soft_limit_usd: Type.Number(),
    hard_limit_usd: Type.Number(),
    system_hard_limit_usd: Type.Number(),
    access_until: Type.Integer({ description: 'Unix seconds.' }),
  }),
  async answer(request, context) {
    const { deposited } = await channelOf(request, context)
    const limit = usd(deposited)
    const limits = { soft_limit_usd: limit, hard_limit_usd: limit, system_hard_limit_usd: limit }
    const until = Math.floor(context.clock.now() / 1000) + 31_536_000
    return json(
      200,
      { object: 'billing_subscription', has_payment_method: true, ...limits, access_until: until },
      PRIVATE,
    )
  },
})

const usage = free({
  ...common,
  name: 'keys.usage',
  path: '/api/v1/dashboard/billing/usage',
  aliases: ['/v1/dashboard/billing/usage', '/dashboard/billing/usage'],
  summary: 'What an API key has used, as older dashboards ask for it',
  description: 'In cents, since its first deposit; dates are ignored.',
  output: Type.Object({ object: Type.Literal('list'), total_usage: Type.Number({ description: 'In cents.' }) }),
  async answer(request, context) {
    const { charged } = await channelOf(request, context)
    return json(200, { object: 'list', total_usage: Number(charged) / 1e4 }, PRIVATE)
  },
})

/** As LiteLLM answers it. */
const info = free({
  ...common,
  name: 'keys.info',
  path: '/key/info',
  summary: 'The budget of an API key, as LiteLLM answers it',
  description: 'In US dollars. `key` is the address of the key, never a part of it.',
  output: Type.Object({
    key: Type.String(),
    info: Type.Object({
      key_name: Type.String(),
      spend: Type.Number(),
      max_budget: Type.Number(),
      expires: Type.Null(),
      models: Type.Array(Type.String()),
      budget_duration: Type.Null(),
      user_id: Type.String(),
      team_id: Type.Null(),
    }),
  }),
  async answer(request, context) {
    const { address, charged, deposited, payer } = await channelOf(request, context)
    const budget = { spend: usd(charged), max_budget: usd(deposited), expires: null, models: [], budget_duration: null }
    return json(
      200,
      { key: checksummed(address), info: { key_name: labelOf(address), ...budget, user_id: payer, team_id: null } },
      PRIVATE,
    )
  },
})

export const keyBalances = [key, credits, subscription, usage, info]
