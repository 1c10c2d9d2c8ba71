/** Child keys: made, listed and revoked by their parent, without a transaction (contract 23.14 to 23.16). */
import { type Static, Type } from '@sinclair/typebox'
import { free } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { json } from '../../http/reply.ts'
import { inputParser, refused } from '../../http/request_body.ts'
import { unknownKey } from '../../identity/presented_key.ts'
import { within } from '../../lib/timers.ts'
import type { ChainKeys, ChildKey, Lent, OpenedKey } from '../../ports/mod.ts'
import { keyText, SEED_BYTES } from '../../x402/api_key.ts'
import { print, roundUp, dollars } from '../../x402/money.ts'
import { KEY_ERRORS, notDone, PRIVATE, READ_MS, withKey } from './presented.ts'

const DAY_MS = 86_400_000
const DEFAULT_DAYS = 30
const MAX_DAYS = 365
const Amount = Type.String({ description: 'In USDC, six decimals.' })

const Child = {
  object: Type.Literal('key.child'),
  address: Type.String(),
  name: Type.String(),
  status: Type.Union([Type.Literal('active'), Type.Literal('revoked'), Type.Literal('expired')]),
  cap: Amount,
  charged: Type.Union([Type.String(), Type.Null()], { description: 'In USDC; null once a child has ended.' }),
  reserved: Amount,
  available: Amount,
  models: Type.Array(Type.String(), { description: 'Empty for all.' }),
  per_minute: Type.Union([Type.Integer(), Type.Null()]),
  expires_at: Type.Integer({ description: 'Unix seconds.' }),
}

const NewChild = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 80, description: 'Whose key it is, or what for.' }),
  cap: Type.String({
    pattern: '^[0-9]{1,9}(\\.[0-9]{1,6})?$',
    description: 'The most that it may spend, in USDC: reserved in the deposit of its parent.',
  }),
  expires_at: Type.Optional(
    Type.Integer({ minimum: 0, description: `Unix seconds; in ${DEFAULT_DAYS} days by default, ${MAX_DAYS} at most.` }),
  ),
  models: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 200 }), {
      maxItems: 50,
      description: 'The ids of the models that it may buy; any by default.',
    }),
  ),
  per_minute: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000, description: 'Calls in a minute.' })),
})
const readNew = inputParser(NewChild)

const LIMIT = { requests: 60, windowMs: 60_000, bucket: 'keys.children' }
const common = { tag: 'keys', limit: LIMIT, hidden: true as const }

const make = free({
  ...common,
  name: 'keys.child',
  method: 'POST',
  path: '/api/v1/keys',
  summary: 'Make a child key that spends a part of the deposit of this one',
  description:
    'The parent key signs a voucher that covers the cap, once: after that the gateway could claim the cap, and charges what the child has used. The key is in the reply alone.',
  errors: [...KEY_ERRORS, 'INVALID_BODY', 'INSUFFICIENT_BALANCE', 'NOT_ALLOWED', 'NOT_READY'],
  input: NewChild,
  output: Type.Object({ ...Child, key: Type.String({ description: 'Shown once.' }) }),
  async answer(request, context) {
    const { clock, random } = context
    const order = readNew(await request.json()) as Static<typeof NewChild>
    const now = clock.now()
    const until = untilOf(order.expires_at, now)
    const cap = roundUp(dollars(order.cap))
    if (cap === 0n) throw refused('cap', 'must be more than 0')
    return await withKey(request, context, async (key, keys) => {
      mustBeParent(key)
      const seed = random(SEED_BYTES)
      try {
        const { name, models = [], per_minute: perMinute } = order
        const address = await addressOf(keys, seed)
        const limits = { ...(perMinute !== undefined && { perMinute }) }
        const lending = { address, name, models, until, cap, ...limits }
        const lent = await within(clock, READ_MS, (signal) => keys.lend(key, lending, { now, signal })).catch(
          (error: Error): Lent => ({ kind: 'unavailable', reason: error.message }),
        )
        if (!lent) throw unknownKey()
        if (lent.kind !== 'lent') throw notDone(lent)
        return json(200, { ...publicChild(lent.child), key: keyText(seed, 'child') }, PRIVATE)
      } finally {
        seed.fill(0)
      }
    })
  },
})

const list = free({
  ...common,
  name: 'keys.children',
  path: '/api/v1/keys',
  summary: 'The child keys of an API key',
  description: 'At most a hundred; those that have ended stay in the list for thirty days.',
  errors: [...KEY_ERRORS, 'NOT_ALLOWED'],
  output: Type.Object({ object: Type.Literal('list'), data: Type.Array(Type.Object(Child)) }),
  async answer(request, context) {
    const { clock } = context
    return await withKey(request, context, async (key, keys) => {
      mustBeParent(key)
      const at = { now: clock.now() }
      const found = await within(clock, READ_MS, (signal) => keys.children(key.address, { ...at, signal }))
      return json(200, { object: 'list', data: found.map(publicChild) }, PRIVATE)
    })
  },
})

const revoke = free({
  ...common,
  name: 'keys.revoke',
  method: 'POST',
  path: '/api/v1/keys/{address}/revoke',
  summary: 'End a child key',
  description: 'What is left of its cap is its parent’s again. Its open calls go on, and are charged.',
  errors: [...KEY_ERRORS, 'NOT_ALLOWED'],
  output: Type.Object({ object: Type.Literal('key.revoked'), address: Type.String() }),
  async answer(request, context) {
    const { clock } = context
    const { address = '' } = request.params
    return await withKey(request, context, async (key, keys) => {
      mustBeParent(key)
      const at = { now: clock.now() }
      const isEnded = await within(clock, READ_MS, (signal) => keys.revoke(key.address, address, { ...at, signal }))
      if (isEnded) return json(200, { object: 'key.revoked', address }, PRIVATE)
      throw new ApiError('NOT_FOUND', { message: 'This key has no active child of this address.' })
    })
  },
})

function mustBeParent({ isChild }: OpenedKey): void {
  if (isChild) throw new ApiError('NOT_ALLOWED', { message: 'A child key makes, lists and revokes no keys.' })
}

async function addressOf(keys: ChainKeys, seed: Uint8Array): Promise<string> {
  const child = await keys.open(seed, { isChild: true })
  child.end()
  return child.address
}

function untilOf(seconds: number | undefined, now: number): number {
  if (seconds === undefined) return now + DEFAULT_DAYS * DAY_MS
  const until = seconds * 1000
  if (until > now && until <= now + MAX_DAYS * DAY_MS) return until
  throw refused('expires_at', `must be after now and within ${MAX_DAYS} days, in Unix seconds`)
}

function publicChild({ address, name, status, models, perMinute, until, ...amounts }: ChildKey) {
  const { cap, reserved, available } = amounts
  return {
    object: 'key.child',
    address,
    name,
    status,
    cap: print(cap),
    charged: amounts.charged === undefined ? null : print(amounts.charged),
    reserved: print(reserved),
    available: print(available),
    models,
    per_minute: perMinute ?? null,
    expires_at: Math.floor(until / 1000),
  }
}

export const childKeys = [make, list, revoke]
