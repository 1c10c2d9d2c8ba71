/** Whatever margins, fee and media margin an operator sets: every list says what the 402 asks. */
import { describe, expect, test } from 'bun:test'
import * as fc from 'fast-check'
import { scriptedAudio } from '../../fakes/audio.ts'
import { scriptedChat } from '../../fakes/chat.ts'
import { scriptedVideo } from '../../fakes/videos.ts'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { isSold, type Sold } from '../../../core/endpoint/mod.ts'
import { trialOf } from '../../../core/endpoint/samples.ts'
import { pathOf } from '../trial_path.ts'
import { catalog, dollars, endpoints } from '../../../core/mod.ts'
import { controls } from '../../../core/payment/control/controls.ts'
import { changedMargin } from '../../../core/payment/control/margin.ts'
import { operationsOf, toolName } from '../../../server/mcp/tools.ts'
import { embedded, kit, ORIGIN, read, testClock } from '../../kit.ts'
import { scaled } from '../../scope.ts'

type Margins = Readonly<Record<string, string>>
type Operator = { readonly margins: Margins; readonly fee: string; readonly mediaPercent: string }

const NONE: Operator = { margins: {}, fee: '0.001', mediaPercent: '5' }
const sold = endpoints.filter(isSold)
const names = [...new Set(sold.flatMap(({ name, tag }) => [name, tag]))]

/** A gateway that sells everything, with the operator's margins in force. */
async function open({ margins, fee, mediaPercent }: Operator = NONE) {
  const clock = testClock()
  const storage = memoryStorage()
  const control = controls({ storage, clock })
  const set = (from: number, values: Margins) =>
    control.change((rules) => ({
      ...rules,
      margins: Object.fromEntries(Object.entries(values).map(([name, percent]) => [name, [{ percent, from }]])),
    }))
  await set(0, margins)
  const swap = {
    feeRecipient: `0x${'11'.repeat(20)}`,
    call: async () => ({ status: 200, body: { ok: true }, text: '{"ok":true}' }),
  }
  const made = kit({
    chatVendor: scriptedChat(),
    video: scriptedVideo(),
    audio: scriptedAudio(),
    controls: control,
    markup: { fee: dollars(fee), mediaPercent: dollars(mediaPercent) },
    ports: { clock, storage, vendors: { ...embedded(clock), swap } },
    allowlists: { generate_content: [`0x${'22'.repeat(20)}`] },
  })
  const get = async (path: string) => {
    const reply = await made.gateway.fetch(new Request(ORIGIN + path), { ip: '192.0.2.1' })
    expect([path, reply.status]).toEqual([path, 200])
    return reply
  }
  const json = async (path: string) => (await read(await get(path))).body
  const text = async (path: string) => await (await get(path)).text()
  return { ...made, clock, control, get, json, text }
}

type Seller = Awaited<ReturnType<typeof open>>
const ask = async ({ gateway }: Seller, method: string, path: string, body?: unknown) =>
  await read(
    await gateway.fetch(
      new Request(ORIGIN + path, {
        method,
        ...(body !== undefined && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
      }),
      { ip: '192.0.2.1' },
    ),
  )

/** The 402 of an endpoint's example. */
async function example(at: Seller, endpoint: Sold) {
  const offering = { catalog: catalog(), vendors: at.ports.vendors, networks: [] }
  const trial = trialOf(endpoint, offering)
  const reply = await ask(at, endpoint.method, pathOf(endpoint, trial), trial.body)
  return reply.status === 402 ? reply.body : undefined
}

/** Every price of every list, by the operation that it is of. */
async function listed(at: Seller) {
  const pricing = await at.json('/api/pricing')
  const openapi = await at.json('/openapi.json')
  const wellKnown = await at.json('/.well-known/x402')
  const tools = await operationsOf(openapi)
  const [llms, full, docs] = [await at.text('/llms.txt'), await at.text('/llms-full.txt'), await at.text('/docs')]
  return new Map<string, any>(
    pricing.endpoints
      .filter(({ price }: any) => price !== 'free')
      .map(({ name, path, methods, price }: any) => {
        const words = price.mode === 'fixed' ? `${price.amount} USDC` : `${price.min} to ${price.max} USDC`
        const operation = openapi.paths[path]?.[methods[0].toLowerCase()]
        const listing = {
          openapi: operation?.['x-payment-info'].price,
          wellKnown: wellKnown.services.find((service: any) => service.name === name)?.pricing,
          llms: llms.split('\n').some((line) => line.includes(`](${ORIGIN}${path})`) && line.endsWith(`${words}.`)),
          full: full.includes(`### ${methods[0]} ${path}\n`) && full.includes(`Price: ${words}.`),
          docs: docs.includes(price.mode === 'fixed' ? Number(price.amount).toString() : Number(price.min).toString()),
          // The same in another format has no tool of its own (contract 19.17).
          tool:
            operation?.['x-variant-of'] !== undefined ||
            tools.get(toolName(name))?.tool.description.includes(words.replace(' USDC', ' USD per call')),
        }
        return [name, { price, listing, operation }]
      }),
  )
}

const micro = (usd: number | string) => Math.round(Number(usd) * 1e6)
/** Rates are numbers and quotes are rounded up, with the margin once more. */
const isAbout = (listing: number, challenge: string) =>
  expect(Math.abs(micro(listing) - micro(challenge))).toBeLessThan(200)

const percent = fc.oneof(
  fc.constantFrom('0', '100', '-50', '12.5', '0.0001', '9999.9999', '-99'),
  fc.tuple(fc.integer({ min: -99, max: 300 }), fc.integer({ min: 0, max: 9_999 })).map(([a, b]) => `${a}.${b}`),
)
const operator = fc.record({
  margins: fc.dictionary(fc.constantFrom(...names), percent, { maxKeys: 12 }),
  fee: fc.constantFrom('0', '0.001', '0.00005', '0.0123', '1'),
  mediaPercent: fc.constantFrom('0', '5', '7.25', '100'),
})

describe('prices', () => {
  test('are the same on every list, page, document and tool, and what the 402 asks, under any margin (contract 1.69)', async () => {
    await fc.assert(
      fc.asyncProperty(operator, async (set) => {
        const at = await open(set)
        const lists = await listed(at)
        expect(lists.size).toBeGreaterThan(30)
        let count = 0
        for (const endpoint of sold) {
          const listing = lists.get(endpoint.name)
          const challenge = listing && (await example(at, endpoint))
          if (!challenge) continue
          count += 1
          const { price } = listing
          expect([endpoint.name, listing.listing]).toEqual([
            endpoint.name,
            { openapi: price, wellKnown: price, llms: true, full: true, docs: true, tool: true },
          ])
          const [least, most] = [price.amount ?? price.min, price.amount ?? price.max].map(micro)
          const amount = micro(challenge.price.amount)
          expect([endpoint.name, amount >= least!, amount <= most!]).toEqual([endpoint.name, true, true])
          expect([endpoint.name, String(amount)]).toEqual([endpoint.name, challenge.accepts[0].amount])
          const documented = JSON.stringify(listing.operation.responses['402'] ?? '')
          if (documented.includes('"price"'))
            expect([endpoint.name, documented]).toEqual([
              endpoint.name,
              expect.stringContaining(JSON.stringify(challenge.price)),
            ])
        }
        expect(count).toBeGreaterThan(30)
      }),
      { numRuns: scaled(6, 60) },
    )
  }, 120_000)

  test('of models are what their 402s are made of, under any margin (contract 1.69, 5.29, 12.39)', async () => {
    await fc.assert(
      fc.asyncProperty(operator, async (set) => {
        const at = await open(set)
        const { data: models } = await at.json('/api/v1/models')
        for (const model of models) await isQuotedAsListed(at, model)
      }),
      { numRuns: scaled(6, 60) },
    )
  }, 120_000)

  test('change everywhere at once, ten seconds after the operator, and no cache holds them longer (contract 1.69)', async () => {
    const at = await open()
    const pages = ['/api/pricing', '/openapi.json', '/.well-known/x402', '/llms.txt', '/llms-full.txt', '/docs']
    const seen = async () => (await Promise.all([...pages, '/api/v1/models'].map(at.text))).join('\n')
    const steady = async () =>
      Math.max(
        ...(await Promise.all(pages.map(at.get))).map((reply) =>
          Number(/max-age=(\d+)/.exec(reply.headers.get('cache-control') ?? '')?.[1]),
        ),
      )
    const before = await seen()
    expect(await steady()).toBeLessThanOrEqual(5)
    await at.control.change((rules) => ({
      ...rules,
      margins: { images: [...changedMargin([], '100', { now: at.clock.now(), quoteMs: 0 })] },
    }))
    await at.clock.advance(8_000)
    expect(await seen()).toBe(before)
    expect(await steady()).toBe(2)
    await at.clock.advance(1_999)
    expect([await seen(), await steady()]).toEqual([before, 0])
    await at.clock.advance(1)
    const { endpoints: after } = await at.json('/api/pricing')
    expect(after.find(({ name }: any) => name === 'images.generations').price.min).toBe('0.033500')
    expect((await listed(at)).get('images.generations').listing).toMatchObject({ llms: true, tool: true, full: true })
    const { data } = await at.json('/api/v1/models')
    expect(data.find(({ id }: any) => id === 'vendor-a/image-1').pricing).toEqual({
      per_image: 0.042,
      transaction_fee: 0.002,
    })
  })
})

/** Orders a model and computes its quote from what the lists say. */
async function isQuotedAsListed(at: Seller, { id, pricing, billing_mode, categories }: any): Promise<void> {
  if (billing_mode === 'free') return
  if (categories.includes('image')) return await imageIsQuoted(at, { id, pricing })
  if (categories.includes('video')) return await videoIsQuoted(at, { id, pricing })
  if (categories.includes('tts')) {
    const { body } = await ask(at, 'POST', '/api/v1/audio/speech', { model: id, input: 'x'.repeat(1_500) })
    const size = billing_mode === 'per_second' ? 100 * pricing.per_second : 1.5 * pricing.per_1k_chars
    return isAbout(size + pricing.transaction_fee, body.price.amount)
  }
  if (categories.includes('sound-effects')) {
    const { body } = await ask(at, 'POST', '/api/v1/audio/sound-effects', { model: id, text: 'rain' })
    return isAbout(pricing.per_generation + pricing.transaction_fee, body.price.amount)
  }
  if (categories.includes('music')) {
    const { price } = (await ask(at, 'POST', '/api/v1/audio/generations', { model: id, prompt: 'a quiet song' })).body
    isAbout(price.pricePerTrack * (1 + price.marginPercent / 100) + price.transactionFee, price.amount)
    return isAbout(pricing.per_track + pricing.transaction_fee, price.amount)
  }
  if (!categories.includes('chat'))
    throw new Error(`${id}: no rule for the category ${categories.join(', ')}: add one to isQuotedAsListed()`)
  const order = { model: id, max_tokens: 900, messages: [{ role: 'user', content: 'one two three' }] }
  const { status, body } = await ask(at, 'POST', '/api/v1/chat/completions', order)
  const estimate = (await ask(at, 'POST', '/api/v1/chat/estimate', order)).body
  expect([id, status, estimate.price]).toEqual([id, 402, body.price])
  if (billing_mode === 'flat') return isAbout(pricing.flat, body.price.amount)
  const { input, output, surcharge, fee, floor_applied, total } = estimate.parts
  expect(total).toBe(body.price.amount)
  const tokens = floor_applied ? pricing.minimum : Number(input) + Number(output)
  isAbout(tokens + Number(surcharge) + Number(fee), total)
  isAbout(pricing.transaction_fee, fee)
  isAbout((pricing.input * estimate.estimate.prompt_tokens) / 1e6, input)
}

async function imageIsQuoted(at: Seller, { id, pricing }: any): Promise<void> {
  const { data } = await at.json('/api/v1/images/models')
  const { sizes } = data.find((model: any) => model.id === id).pricing
  for (const { size, price: rate } of sizes) {
    const { price } = (await ask(at, 'POST', '/api/v1/images/generations', { model: id, prompt: 'a fox', size, n: 2 }))
      .body
    expect([id, size, price.pricePerImage]).toEqual([id, size, rate])
    isAbout(2 * rate * (1 + price.marginPercent / 100) + price.transactionFee, price.amount)
    if (size === '1024x1024') isAbout(2 * pricing.per_image + pricing.transaction_fee, price.amount)
  }
}

async function videoIsQuoted(at: Seller, { id, pricing }: any): Promise<void> {
  const { data } = await at.json('/api/v1/video/models')
  const row = data.find((model: any) => model.id === id)
  const order = { model: id, prompt: 'a fox', duration_seconds: row.default_duration_seconds }
  const { price } = (await ask(at, 'POST', '/api/v1/videos/generations', order)).body
  const { pricePerSecond, perGenerationFee, durationSeconds, marginPercent, transactionFee } = price
  const clip = price.resolution === row.defaultResolution ? durationSeconds * pricePerSecond : Number.NaN
  if (row.price_per_million_tokens === undefined) {
    expect([id, pricePerSecond, perGenerationFee]).toEqual([id, row.pricePerSecond, row.perGenerationFee])
    isAbout(clip * (1 + marginPercent / 100) + perGenerationFee + transactionFee, price.amount)
    isAbout(durationSeconds * pricing.per_second + (pricing.per_call_surcharge ?? 0) + transactionFee, price.amount)
  }
  isAbout(transactionFee, String(pricing.transaction_fee))
  isAbout(transactionFee, String(row.transaction_fee))
}
