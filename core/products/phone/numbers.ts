/** Phone number lookups, and numbers leased to the paying wallet (contract 17.2). */
import { type Static, Type } from '@sinclair/typebox'
import { type Context, type Offering, type Order, paid, type Price } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { forbidden, type CallContext, callContextIn } from '../../endpoint/call_context.ts'
import { quoted } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'
import { usdc } from '../../x402/money.ts'
import { failedAs } from '../lib/passthrough_path.ts'
import type { Json } from '../../lib/json.ts'
import { flatPrice } from '../../x402/pricing.ts'
import {
  endLease,
  forget,
  formerOf,
  releaseUnusedNumbers,
  MAX_NUMBERS,
  NUMBER,
  NUMBER_ORDER,
  type NumberOrder,
  numbersOf,
  type LeasedNumber,
  leaseStatusOf,
  rentOut,
  TERM_MS,
  NO_EXPIRY,
} from './number_leases.ts'
import type { PhoneVendor } from '../../ports/vendors/phone.ts'

/** US dollars before the fee. */
const PER_LOOKUP = '0.01'
const PER_FRAUD = '0.05'
const PER_TERM = '5'
const PER_LIST = '0.001'

export const E164 = '^\\+[1-9][0-9]{6,14}$'
const phoneNumber = Type.String({
  pattern: E164,
  description: 'In E.164: a plus, the code of the country and the number, for example +14155550100.',
})
const named = Type.Object({ phoneNumber })
type Named = Static<typeof named>

const expiresAt = Type.String({ description: 'ISO 8601.' })
const iso = (ms: number): string => new Date(ms).toISOString()

const price =
  (usd: string) =>
  (_input: unknown, { prices }: Context): Price => ({
    amount: flatPrice(usd, prices),
    maxTimeoutSeconds: 300,
    publicPrice: {},
  })
const EXAMPLE = { phoneNumber: '+14155550100' }

/** Unknown fields are 400: a misspelled field would buy the wrong thing. */
const shared = {
  tag: 'phone',
  delivery: 'inline',
  unknownFields: 'refused',
  isAvailable: (_input: unknown, { vendors }: Offering) => vendors.phone !== undefined,
} as const

function phoneIn({ vendors }: Pick<Order<unknown>, 'vendors'>): PhoneVendor {
  if (vendors.phone) return vendors.phone
  throw new ApiError('NOT_CONFIGURED', {
    message: 'phone: the operator has not configured it. Nothing was charged.',
  })
}

// ── lookups ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const lookups = (['carrier', 'fraud'] as const).map((about) =>
  paid({
    ...shared,
    name: about === 'carrier' ? 'phone.lookup' : 'phone.lookup.fraud',
    path: about === 'carrier' ? '/api/v1/phone/lookup' : '/api/v1/phone/lookup/fraud',
    summary: about === 'carrier' ? 'Who carries a phone number' : 'How a phone number stands with fraud',
    description: `${about === 'carrier' ? 'Carrier, kind of line and name of a number' : 'Signs of fraud about a number'}, as the carrier's directory writes it. A number that cannot be is answered with valid: false.`,
    verbatim: true,
    failure: 'Lookup failed',
    input: named,
    output: Type.Object(
      { phone_number: Type.Optional(Type.String()), valid: Type.Optional(Type.Boolean()) },
      { additionalProperties: true },
    ),
    example: EXAMPLE,
    errors: ['PASSED_ON', 'UPSTREAM_FAILED'],
    price: price(about === 'carrier' ? PER_LOOKUP : PER_FRAUD),
    run: async (order) => ({
      result: await phoneIn(order).lookup((order.input as Named).phoneNumber, about, { signal: order.signal }),
    }),
    show: () => ({}),
  }),
)

// ── leases ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const buyInput = Type.Object({
  country: Type.Optional(
    Type.String({
      pattern: '^[A-Z]{2}$',
      description: 'ISO 3166 code of a country in which the operator rents numbers, US unless told.',
    }),
  ),
  areaCode: Type.Optional(
    Type.String({ pattern: '^[2-9][0-9]{2}$', description: 'Three digits, in the US and Canada.' }),
  ),
})
const buy = paid({
  ...shared,
  name: 'phone.numbers.buy',
  path: '/api/v1/phone/numbers/buy',
  summary: 'Rent a phone number for 30 days',
  description:
    'The number belongs to the wallet that pays. It can be renewed until it expires, and is given back then.',
  failure: 'Purchase failed',
  input: buyInput,
  output: Type.Object({
    phone_number: Type.String(),
    expires_at: expiresAt,
    chain: Type.String(),
    message: Type.String(),
  }),
  example: { country: 'US' },
  errors: ['NOT_FOUND', 'NOT_ALLOWED', 'BUSY', 'UPSTREAM_FAILED'],
  price: price(PER_TERM),
  effects: { costsOperator: true, maintenanceTask: releaseUnusedNumbers },
  check({ country = 'US', ...given }, { vendors }) {
    const { countries = [country] } = vendors.phone ?? {}
    if (!countries.includes(country))
      throw refused(
        'country',
        `must be one in which numbers are rented here: ${countries.join(', ')}; got ${quoted(country)}`,
      )
    if (given.areaCode !== undefined && country !== 'US' && country !== 'CA')
      throw refused('areaCode', `has a meaning in the US and CA only; country is ${quoted(country)}`)
    return { country, ...given }
  },

  async run(order) {
    const { country = 'US', areaCode } = order.input as Static<typeof buyInput>
    const { records, label, order: name } = callContextIn(order)
    const { clock, payer, signal } = order
    if ((await numbersOf(payer, { records, now: clock.now() })).length >= MAX_NUMBERS)
      throw forbidden(
        'limit',
        `This wallet rents ${MAX_NUMBERS} numbers, which is the most. Release one first. Nothing was charged.`,
      )
    const ordered = await beginOrder(order, { id: name })
    const line = await phoneIn(order)
      .buy({ country, order: name, ...(areaCode && { areaCode }) }, { signal })
      .catch(failedAs('Purchase failed'))
    const now = clock.now()
    if (!line) {
      await NUMBER_ORDER.move(records, ordered, { expiresAt: now }, now)
      throw new ApiError('NOT_FOUND', {
        error: 'No numbers available',
        message: `There is no number to rent in ${country}${areaCode ? ` with the area code ${areaCode}` : ''} just now. Payment was NOT charged.`,
      })
    }
    const isOurs = await NUMBER_ORDER.move(records, ordered, { data: { ...ordered.data, number: line.number } }, now)
    if (!isOurs || !(await rentOut(records, line, { owner: payer, call: order.id, chain: label, now }))) throw busy()
    return { result: { phone_number: line.number, expires_at: iso(now + TERM_MS), chain: label } }
  },

  show: ({ made }) => ({
    ...(made as Record<string, Json>),
    message: 'Rented for 30 days by the wallet that paid. Renew it at /api/v1/phone/numbers/renew before it expires.',
  }),
})

/**
 * Records the buyer before the purchase, so that the number can be found after a crash: by a repeat of the signed
 * request, or by the maintenance task that releases it.
 */
async function beginOrder(order: Order<unknown>, { id }: { id: string }): Promise<NumberOrder> {
  const { records } = callContextIn(order)
  const { clock, payer } = order
  const now = clock.now()
  const record = { id, owner: payer, data: { call: order.id }, expiresAt: NO_EXPIRY }
  const created = await NUMBER_ORDER.put(records, record, now)
  if (created) return created
  const existing = await NUMBER_ORDER.get(records, id, now)
  const resumed =
    existing && !existing.data.ending ? await NUMBER_ORDER.move(records, existing, record, now) : undefined
  if (!resumed) throw busy()
  return resumed
}

const renew = paid({
  ...shared,
  name: 'phone.numbers.renew',
  path: '/api/v1/phone/numbers/renew',
  summary: 'Rent a phone number for another 30 days',
  description: 'Added to the time that it has left; with the wallet that rents it, before it expires.',
  failure: 'Renewal failed',
  input: named,
  output: Type.Object({ phone_number: Type.String(), expires_at: expiresAt }),
  example: EXAMPLE,
  errors: ['NOT_ALLOWED', 'BUSY', 'UPSTREAM_FAILED'],
  price: price(PER_TERM),

  async run(order) {
    const { records, pollUrl } = callContextIn(order)
    const { clock, payer, signal } = order
    const { phoneNumber: number } = order.input as Named
    const leased = await ownedBy(payer, number, { records, now: clock.now() })
    const { lease, record, expiresAt, unpaid } = leased
    if (unpaid)
      throw forbidden(
        'unpaid',
        'Another renewal of this number is under way, or waits to be paid for. Nothing was charged.',
        { poll_url: await pollUrl(unpaid.id) },
      )
    if (!(await phoneIn(order).has(lease.id, { signal })))
      throw forbidden('not_found', 'The carrier has taken this number back. Nothing was charged.', {
        payer_wallet: payer,
      })
    const now = clock.now()
    const data = { ...lease, terms: Math.round((expiresAt - lease.from) / TERM_MS), payment: order.id }
    if (expiresAt <= now || !(await NUMBER.move(records, record, { data }, now))) throw busy()
    return { result: { phone_number: number, expires_at: iso(expiresAt + TERM_MS) } }
  },

  show: ({ made }) => made as Record<string, Json>,
})

const list = paid({
  ...shared,
  name: 'phone.numbers.list',
  path: '/api/v1/phone/numbers/list',
  summary: 'The phone numbers of a wallet',
  description: 'Those that the paying wallet rents, and for 30 days those that it has had.',
  input: Type.Object({}),
  output: Type.Object({
    numbers: Type.Array(
      Type.Object({ phone_number: Type.String(), chain: Type.String(), expires_at: expiresAt, active: Type.Boolean() }),
    ),
    count: Type.Integer(),
  }),
  example: {},
  price: price(PER_LIST),

  async run(order) {
    const { records } = callContextIn(order)
    const at = { records, now: order.clock.now() }
    const leased = (await numbersOf(order.payer, at)).filter(isPaidFor)
    const former = await formerOf(order.payer, at)
    const numbers = [
      ...leased.map(({ number, lease, expiresAt: end, isActive }) => ({
        phone_number: number,
        chain: lease.chain,
        expires_at: iso(end),
        active: isActive,
      })),
      ...former.map(({ number, chain, expiresAt: end }) => ({
        phone_number: number,
        chain,
        expires_at: iso(end),
        active: false,
      })),
    ]
    return { result: { numbers, count: numbers.length } }
  },

  show: ({ made }) => made as Record<string, Json>,
})

const release = paid({
  ...shared,
  name: 'phone.numbers.release',
  path: '/api/v1/phone/numbers/release',
  summary: 'Give a phone number back',
  description:
    'Free: sign an authorization of nothing, which proves the wallet and is never sent. What is left of its term is not paid back.',
  failure: 'Release failed',
  input: named,
  output: Type.Object({ released: Type.Literal(true), phone_number: Type.String() }),
  example: EXAMPLE,
  errors: ['NOT_FOUND', 'BUSY', 'UPSTREAM_FAILED'],
  price: () => ({ amount: usdc(0n), maxTimeoutSeconds: 300, publicPrice: {} }),

  async run(order) {
    const { records } = callContextIn(order)
    const { clock, payer, signal } = order
    const { phoneNumber: number } = order.input as Named
    const none = () =>
      new ApiError('NOT_FOUND', {
        message: `This wallet, ${payer}, rents no number ${number}.`,
        fields: { payer_wallet: payer },
      })
    const leased = await ownedBy(payer, number, { records, now: clock.now() }).catch((error: unknown) => {
      if (error instanceof ApiError) throw none()
      throw error
    })
    // Otherwise a renewal that is being settled would buy nothing.
    const { unpaid } = leased
    if (unpaid && (unpaid.workStatus !== 'completed' || unpaid.paymentStatus === 'settling')) throw busy()
    const ended = await endLease(records, leased, clock.now())
    if (!ended) throw none()
    await phoneIn(order)
      .release(leased.lease.id, { signal })
      .catch(async (error: unknown) => {
        // The wallet keeps the number and can release it again; after a crash here maintenance releases it.
        await NUMBER.move(records, ended, { data: leased.lease }, clock.now())
        throw error
      })
    await forget(records, ended, { expiresAt: leased.expiresAt, now: clock.now() })
    return { result: { released: true, phone_number: number } }
  },

  show: ({ made }) => made as Record<string, Json>,
})

export const phone = [...lookups, buy, renew, list, release]

// ── ownership ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Whether a number is paid for. Unpaid numbers have no owner and are not listed. */
const isPaidFor = ({ expiresAt: end, lease }: LeasedNumber): boolean => end > lease.from

/** A number that this wallet may use. Throws a 403 with a reason: wrong_wallet, expired or not_found. */
export async function ownedBy(
  wallet: string,
  number: string,
  { records, now }: { records: CallContext['records']; now: number },
): Promise<LeasedNumber> {
  const record = await NUMBER.get(records, number, now)
  const leased = record && (await leaseStatusOf(record, { records, now }))
  if (leased && isPaidFor(leased) && !leased.lease.ending) {
    if (record.owner !== wallet)
      throw forbidden('wrong_wallet', `Another wallet rents ${number}. Nothing was charged.`, { payer_wallet: wallet })
    if (!leased.isActive)
      throw forbidden('expired', `${number} expired at ${iso(leased.expiresAt)}. Nothing was charged.`, {
        payer_wallet: wallet,
      })
    return leased
  }
  const former = (await formerOf(wallet, { records, now })).find((each) => each.number === number)
  if (former)
    throw forbidden('expired', `${number} ended at ${iso(former.expiresAt)}. Nothing was charged.`, {
      payer_wallet: wallet,
    })
  throw forbidden('not_found', `${number} is not a number that was rented here. Nothing was charged.`, {
    payer_wallet: wallet,
  })
}

/** The wallet's numbers that it may call from. */
export async function activeOf(
  wallet: string,
  at: { records: CallContext['records']; now: number },
): Promise<readonly string[]> {
  return (await numbersOf(wallet, at)).filter(({ isActive }) => isActive).map(({ number }) => number)
}

const busy = (): ApiError =>
  new ApiError('BUSY', {
    message: 'Another request is changing this number. Nothing was charged; send the same request again.',
    headers: { 'retry-after': '2' },
  })
