/**
 * Random bodies and payment headers, valid, almost valid and garbage. A failure prints the seed and the path that
 * repeat it.
 */
import { expect, test } from 'bun:test'
import * as fc from 'fast-check'
import { memoryChain } from '../../adapters/chains/evm/memory.ts'
import { PIXEL } from '../fakes/images.ts'
import { imageRows } from '../../core/mod.ts'
import { type Answer, GENERATIONS, kit, ORIGIN, read } from '../kit.ts'
import { dataUri, jpeg, png } from '../samples.ts'
import { scaled } from '../scope.ts'

const EDIT = '/api/v1/images/image2image'
const RUNS = scaled(1_500, 10_000)

// ── what is sent ────────────────────────────────────────────────────────────────────────────────────────────────────

/** A change somewhere in a value: which way to go at each depth, and what to put there; undefined takes it out. */
type Change = { readonly ways: readonly number[]; readonly value: unknown }

function applied(value: unknown, { ways, value: put }: Change): unknown {
  const [way, ...rest] = ways
  if (way === undefined || typeof value !== 'object' || value === null) return put
  const keys = Object.keys(value)
  const key = keys[way % (keys.length + 1)] ?? `extra${way}`
  const changed: Record<string, unknown> = {
    ...value,
    [key]: applied((value as Record<string, unknown>)[key], { ways: rest, value: put }),
  }
  if (changed[key] === undefined) delete changed[key]
  return Array.isArray(value) ? Object.values(changed) : changed
}

const odd = fc.oneof(
  fc.jsonValue({ maxDepth: 2 }),
  fc.constantFrom<unknown>(
    undefined,
    null,
    '',
    ' ',
    0,
    -1,
    1.5,
    11,
    1e308,
    true,
    [],
    {},
    '__proto__',
    'constructor',
    '\u0000',
    '狐',
    '1024x1024',
    'vendor-a/image-1',
    PIXEL,
    'data:image/png;base64,AAAA',
  ),
  fc.string({ unit: 'binary', maxLength: 30 }),
)
const change = fc.record({ ways: fc.array(fc.nat(9), { minLength: 1, maxLength: 4 }), value: odd })

const slow = imageRows.filter((row) => row.slow)
const order = fc.constantFrom(...imageRows, ...slow, ...slow).chain((row) =>
  fc.record(
    {
      model: fc.constant(row.id),
      prompt: fc.string({ minLength: 1, maxLength: 40 }).map((text) => `a ${text}`),
      size: fc.constantFrom(...row.sizes.map(({ size }) => size)),
      n: fc.integer({ min: 1, max: 3 }),
    },
    { requiredKeys: ['model', 'prompt', 'size'] },
  ),
)
const source = fc.constantFrom(
  PIXEL,
  dataUri(png({ width: 2, height: 3 })),
  dataUri(jpeg({ width: 2, height: 3 }), 'image/jpeg'),
)
const edit = fc.constantFrom(...imageRows.filter(({ edits }) => edits)).chain((row) =>
  fc.record(
    {
      model: fc.constant(row.id),
      prompt: fc.constant('make it snow'),
      image: fc.oneof(source, fc.array(source, { minLength: 1, maxLength: 5 })),
      mask: source,
      n: fc.integer({ min: 1, max: 3 }),
    },
    { requiredKeys: ['prompt', 'image'] },
  ),
)

type Content = string | Uint8Array | FormData | null
type Sent = { readonly make: () => Content; readonly type?: string }
const JSON_TYPE = 'application/json'
const field = fc.constantFrom('prompt', 'prompt', 'image', 'image', 'image[]', 'mask', 'n', 'size', 'model', 'other')
const fieldValue = fc.oneof(fc.string({ maxLength: 9 }), source, fc.constant(png()), fc.uint8Array({ maxLength: 40 }))

/** A body where this kind of order is expected: as it should be, nearly so, or not at all. */
const contentLike = (good: fc.Arbitrary<object>): fc.Arbitrary<Sent> =>
  fc.oneof(
    { weight: 6, arbitrary: good.map((body) => ({ make: () => JSON.stringify(body), type: JSON_TYPE })) },
    {
      weight: 6,
      arbitrary: fc
        .tuple(good, change, fc.option(change))
        .map(([body, first, second]) => jsonOf(second ? applied(applied(body, first), second) : applied(body, first))),
    },
    { weight: 1, arbitrary: odd.map(jsonOf) },
    {
      weight: 1,
      arbitrary: fc
        .tuple(good, fc.nat(120), fc.string({ maxLength: 4 }))
        .map(([body, at, put]) => ({ make: () => spliced(JSON.stringify(body), at, put), type: JSON_TYPE })),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        make: fc.oneof(fc.string(), fc.uint8Array(), fc.constantFrom(null, '')).map((raw) => () => raw),
        type: fc.constantFrom(JSON_TYPE, 'text/plain', 'multipart/form-data; boundary=x', 'multipart/form-data', 'x'),
      }),
    },
    {
      weight: 1,
      arbitrary: fc
        .array(fc.tuple(field, fieldValue), { maxLength: 5 })
        .map((fields) => ({ make: () => formOf([['prompt', 'snow'], ['image', png()], ...fields]) })),
    },
    {
      weight: 1,
      arbitrary: fc
        .array(fc.tuple(field, fieldValue), { maxLength: 6 })
        .map((fields) => ({ make: () => formOf(fields) })),
    },
  )

const jsonOf = (value: unknown): Sent => ({ make: () => JSON.stringify(value) ?? '', type: JSON_TYPE })
const spliced = (text: string, at: number, put: string) => text.slice(0, at) + put + text.slice(at + 1)

function formOf(fields: readonly (readonly [string, string | Uint8Array])[]): FormData {
  const form = new FormData()
  for (const [name, value] of fields)
    form.append(name, typeof value === 'string' ? value : new File([value as BlobPart], 'source'))
  return form
}

/** How a payment differs from the one that was asked for. `forged` ones can never be good. */
const signing = fc.constantFrom<{ how: Record<string, unknown>; isForged: boolean }>(
  { how: {}, isForged: false },
  { how: { value: 1n }, isForged: true },
  { how: { to: `0x${'1'.repeat(40)}` }, isForged: true },
  { how: { by: `0x${'2'.repeat(40)}` }, isForged: true },
  { how: { name: 'USD Coin' }, isForged: true },
  { how: { validBefore: 1n }, isForged: true },
  { how: { validAfter: 1n << 40n }, isForged: true },
  { how: { from: `0x${'3'.repeat(40)}` }, isForged: true },
)
type Paying =
  | { readonly kind: 'none' }
  | { readonly kind: 'raw'; readonly text: string }
  | {
      readonly kind: 'signed'
      readonly signing: { how: Record<string, unknown>; isForged: boolean }
      readonly changes: readonly Change[]
      readonly cut: number
    }
const paying: fc.Arbitrary<Paying> = fc.oneof(
  { weight: 1, arbitrary: fc.constant({ kind: 'none' } as const) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('raw' as const),
      text: fc.oneof(
        fc.string({ unit: fc.constantFrom(...'aZ0+/=_- {}":'), maxLength: 50 }),
        fc.base64String({ maxLength: 60 }),
        fc.json().map((text) => Buffer.from(text).toString('base64')),
      ),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('signed' as const),
      signing: fc.constant({ how: {}, isForged: false }),
      changes: fc.constant([]),
      cut: fc.constant(0),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('signed' as const),
      signing,
      changes: fc.array(change, { maxLength: 2 }),
      cut: fc.constantFrom(0, 0, 0, 1, 7),
    }),
  },
)

const request = fc.record({
  target: fc.oneof(
    { weight: 10, arbitrary: contentLike(order).map((content) => ({ path: GENERATIONS, content })) },
    { weight: 8, arbitrary: contentLike(edit).map((content) => ({ path: EDIT, content })) },
    { weight: 1, arbitrary: contentLike(order).map((content) => ({ path: '/v1/images/generations', content })) },
  ),
  method: fc.oneof(
    { weight: 20, arbitrary: fc.constant('POST') },
    { weight: 1, arbitrary: fc.constantFrom('GET', 'HEAD', 'PUT') },
  ),
  header: fc.constantFrom('payment-signature', 'x-payment'),
  payment: paying,
  later: paying,
})

type RequestContext = typeof request extends fc.Arbitrary<infer Value> ? Value : never

// ── who judges ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** A gateway with one rich buyer, and how many payments its chain has found good. */
function open() {
  const cash = memoryChain()
  const state = { verified: 0 }
  const chain: typeof cash = {
    ...cash,
    async verify(...args) {
      const verdict = await cash.verify(...args)
      if (verdict.kind === 'valid') state.verified++
      return verdict
    },
  }
  const { gateway, vendor, buyer, idle, log } = kit({ chain })
  const alice = buyer()
  cash.fund(alice.wallet, 10n ** 12n)
  return { cash, state, gateway, vendor, alice, idle, log }
}
type World = ReturnType<typeof open>

const seen = new Map<number, number>()
let visits = 0
let world = open()
/** Price that a payment is signed for where the order itself has no price. */
const elsewhere = await world.alice.ask()

/** Another one now and then: the storage of tests looks at every row that it has. */
function nextWorld(): World {
  if (++visits % 200 === 0) world = open()
  return world
}

async function send(
  { gateway }: World,
  {
    method,
    path,
    content,
    headers,
  }: { method: string; path: string; content: Content; headers: Record<string, string> },
): Promise<Answer> {
  const hasBody = method !== 'GET' && method !== 'HEAD'
  const answer = await read(
    await gateway.fetch(new Request(ORIGIN + path, { method, headers, ...(hasBody && { body: content as BodyInit }) })),
  )
  const { status, body } = answer
  seen.set(status, (seen.get(status) ?? 0) + 1)
  if (status >= 500 || (status >= 400 && method !== 'HEAD' && typeof body.error !== 'string'))
    throw new Error(`${status} ${JSON.stringify(body)}`)
  return answer
}

function headerOf({ alice }: World, payment: Paying, challenge: Answer): string | undefined {
  if (payment.kind === 'none') return undefined
  if (payment.kind === 'raw') return payment.text.trim()
  const signed = payment.changes.reduce<unknown>(
    applied,
    alice.sign(challenge.body?.accepts ? challenge : elsewhere, payment.signing.how),
  )
  return Buffer.from(JSON.stringify(signed) ?? '')
    .toString('base64')
    .slice(payment.cut)
}

const isForged = (payment: Paying): boolean => payment.kind !== 'signed' || payment.signing.isForged

async function requestContext({
  target: { path, content },
  method,
  header,
  payment,
  later,
}: RequestContext): Promise<void> {
  const now = nextWorld()
  const { cash, vendor, state, alice, idle, log } = now
  const type = content.type === undefined ? {} : { 'content-type': content.type }
  const before = { jobs: vendor.jobs.length, transfers: cash.transfers.length, verified: state.verified }
  const made = () => vendor.jobs.length - before.jobs

  const challenge =
    payment.kind === 'signed' ? await send(now, { method, path, content: content.make(), headers: type }) : elsewhere
  expect([made(), cash.transfers.length]).toEqual([0, before.transfers])
  const paid = headerOf(now, payment, challenge)
  const answer = await send(now, {
    method,
    path,
    content: content.make(),
    headers: { ...type, ...(paid !== undefined && { [header]: paid }) },
  })
  await idle()
  expect(made()).toBe(answer.status === 200 || answer.status === 202 ? 1 : 0)
  expect(made()).toBeLessThanOrEqual(state.verified - before.verified)
  if (isForged(payment)) expect(made()).toBe(0)
  expect(cash.transfers.length - before.transfers).toBe(answer.status === 200 ? 1 : 0)
  expect(log.lines.filter(({ level }) => level === 'alert')).toEqual([])
  if (made() === 0) return

  const again = headerOf(now, later, challenge)
  const poll = await send(now, {
    method: 'GET',
    path: `${GENERATIONS}/${answer.body.id}`,
    content: null,
    headers: again === undefined ? {} : { [header]: again },
  })
  const isPaid = answer.status === 200 || poll.body.payment?.status === 'settled'
  const quote = { from: alice.wallet, value: BigInt(challenge.body.accepts[0].amount) }
  expect(cash.transfers.slice(before.transfers).map(({ from, value }) => ({ from: String(from), value }))).toEqual(
    isPaid ? [quote] : [],
  )
  expect(made()).toBe(1)
}

test(`${RUNS} random bodies and payments give no 5xx, never reach a vendor unpaid, and move exactly what was quoted`, async () => {
  const report = await fc.check(fc.asyncProperty(request, requestContext), {
    numRuns: RUNS,
  })
  if (report.failed) throw new Error(fc.defaultReportMessage(report))
  expect(report.numRuns).toBe(RUNS)
  for (const status of [200, 202, 400, 402, 404, 405])
    expect([status, (seen.get(status) ?? 0) > 5]).toEqual([status, true])
}, 300_000)
