/** OpenAI's own SDK at the paths beside chat: images as base64, edits, variations and the older completions. */
import { afterAll, describe, expect, test } from 'bun:test'
import OpenAI, { toFile } from 'openai'
import { chunk, DONE, streamAnswer, usageChunk, wholeAnswer } from '../../fakes/chat.ts'
import { PIXEL, scriptedVendor } from '../../fakes/images.ts'
import { KEY, selling } from '../../core/call/keys_kit.ts'
import { SKY } from '../../core/call/stream_kit.ts'
import { png } from '../../samples.ts'

const stops: (() => void)[] = []
afterAll(() => {
  for (const stop of stops) stop()
})

/** The SDK with a key of a gateway at a local port. */
async function served(...[script, options]: Parameters<typeof selling>) {
  const subject = await selling(script, { balance: 1_000_000n, ...options })
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: (request) => subject.gateway.fetch(request, { ip: '127.0.0.1' }),
  })
  stops.push(() => void server.stop(true))
  const client = new OpenAI({ baseURL: `${server.url.origin}/api/v1`, apiKey: KEY, maxRetries: 0 })
  return { ...subject, client }
}

const BYTES = PIXEL.slice(PIXEL.indexOf(',') + 1)
const IMAGE = 'vendor-a/image-1'
const source = () => toFile(png({ width: 6, height: 4 }), 'source.png', { type: 'image/png' })

describe('images of the OpenAI SDK', () => {
  test('are base64 beside the URL where response_format asks (contract 5.53)', async () => {
    const { client } = await served()
    const order = { model: IMAGE, prompt: 'a fox', n: 2 }
    const { data = [] } = await client.images.generate({ ...order, response_format: 'b64_json' })
    expect(data.map(({ b64_json, url }) => [b64_json, typeof url])).toEqual(Array(2).fill([BYTES, 'string']))
    const plain = await client.images.generate(order)
    expect(plain.data?.map(({ b64_json }) => b64_json)).toEqual([undefined, undefined])
  })

  test('are edited at /images/edits, with a form of one file, several, or a mask (contract 5.54)', async () => {
    const vendor = scriptedVendor()
    const { client } = await served(undefined, { vendor })
    const order = { model: IMAGE, prompt: 'make it snow', response_format: 'b64_json' } as const
    const one = await client.images.edit({ ...order, image: await source() })
    const two = await client.images.edit({ ...order, image: [await source(), await source()] })
    const masked = await client.images.edit({ ...order, image: await source(), mask: await source() })
    expect([one, two, masked].map(({ data }) => data?.[0]?.b64_json)).toEqual([BYTES, BYTES, BYTES])
    const jobs = vendor.jobs as readonly { images: readonly string[]; mask?: string }[]
    expect(jobs.map(({ images, mask }) => [images.length, mask !== undefined])).toEqual([
      [1, false],
      [2, false],
      [1, true],
    ])
  })

  test('are varied by models that edit (contract 5.55)', async () => {
    const vendor = scriptedVendor()
    const { client, calls } = await served(undefined, { vendor })
    const { data } = await client.images.createVariation({ model: IMAGE, image: await source(), n: 2 })
    expect(data?.length).toBe(2)
    expect(vendor.jobs[0]).toMatchObject({ n: 2, prompt: expect.stringContaining('variation') })
    const [call] = await calls()
    expect([call?.endpoint, call?.paymentStatus]).toEqual(['images.variations', 'settled'])
    const refused = client.images.createVariation({ model: 'vendor-d/image-cv4', image: await source() })
    await refused.then(
      () => expect.unreachable(),
      ({ status }) => expect(status).toBe(400),
    )
    expect(vendor.jobs.length).toBe(1)
  })

  test('are not made for a key that is used up, and the SDK says why', async () => {
    const vendor = scriptedVendor()
    const { client } = await served(undefined, { vendor, balance: 10n })
    for (const call of [
      () => client.images.generate({ model: IMAGE, prompt: 'a fox', response_format: 'b64_json' }),
      async () => client.images.edit({ model: IMAGE, prompt: 'snow', image: await source() }),
      async () => client.images.createVariation({ model: IMAGE, image: await source() }),
      () => client.completions.create({ model: SKY.model, prompt: 'Why?' }),
    ]) {
      const thrown = await call().then(
        () => ({ status: 200, message: '' }),
        ({ status, message }) => ({ status, message }),
      )
      expect(thrown).toEqual({ status: 402, message: expect.stringContaining('USDC') })
    }
    expect(vendor.jobs).toEqual([])
  })
})

describe('completions of the OpenAI SDK (contract 6.68)', () => {
  test('are a user turn of a chat model, charged as chat', async () => {
    const { client, chat, channel } = await served(async () => wholeAnswer({ content: 'Scattering.' }))
    const made = await client.completions.create({ model: SKY.model, prompt: 'Why is the sky blue?', max_tokens: 100 })
    expect(made).toMatchObject({
      id: 'cmpl-1',
      object: 'text_completion',
      model: SKY.model,
      choices: [{ text: 'Scattering.', index: 0, finish_reason: 'stop', logprobs: null }],
      usage: { total_tokens: 12 },
    })
    expect(chat.orders[0]?.body).toMatchObject({
      max_tokens: 100,
      messages: [{ role: 'user', content: 'Why is the sky blue?' }],
    })
    expect(await channel()).toMatchObject({ charged: 1_017n })
  })

  test.each([false, true])('stream as text (include_usage: %p)', async (include_usage) => {
    const events = [
      chunk({ role: 'assistant', content: '' }),
      chunk({ content: 'Scat' }),
      chunk({ content: 'tering.' }),
      chunk({}, { finish: 'stop' }),
      usageChunk(),
      DONE,
    ]
    const { client, channel } = await served(async () => streamAnswer(events))
    const stream = await client.completions.create({
      model: SKY.model,
      prompt: 'Why?',
      max_tokens: 100,
      stream: true,
      stream_options: { include_usage },
    })
    const chunks = []
    for await (const part of stream) chunks.push(part)
    expect(chunks.map(({ choices }) => choices[0]?.text ?? '').join('')).toBe('Scattering.')
    const finish = chunks.find(({ choices }) => choices[0]?.finish_reason === 'stop')
    const usage = chunks.filter((part) => part.usage).map(({ choices }) => choices.length)
    expect([finish !== undefined, usage]).toEqual([true, include_usage ? [0] : [1]])
    expect((await channel())?.charged as bigint).toBe(1_017n)
  })

  test('refuse what a chat model does not do, before a payment, and drop what the format lacks', async () => {
    const { client, chat } = await served()
    const order = { model: SKY.model, prompt: 'Why?', max_tokens: 100 }
    for (const more of [{ echo: true }, { suffix: 'x' }, { best_of: 2 }, { logprobs: 1 }, { prompt: ['a', 'b'] }]) {
      const status = await client.completions.create({ ...order, ...more }).then(
        () => 200,
        (error) => error.status,
      )
      expect([more, status]).toEqual([more, 400])
    }
    const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }]
    await client.completions.create({ ...order, tools } as never)
    expect(chat.orders.map(({ body }) => body.tools)).toEqual([undefined])
  })
})
