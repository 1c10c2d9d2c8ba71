import { describe, expect, test } from 'bun:test'
import {
  audioRows,
  catalog,
  type ChatRow,
  chatRows,
  type ChatVendor,
  imageRows,
  type VideoRow,
  videoRows,
} from '../../../../core/mod.ts'
import { scriptedVendor } from '../../../fakes/images.ts'
import { scriptedAudio } from '../../../fakes/audio.ts'
import { scriptedVideo } from '../../../fakes/videos.ts'
import { kit, type KitOptions, ORIGIN, read, START } from '../../../kit.ts'

const chatVendor: ChatVendor = { format: 'chat', ask: () => Promise.reject(new Error('nothing is asked here')) }
const get = (options: KitOptions = {}) =>
  kit({ chatVendor, video: scriptedVideo(), audio: scriptedAudio(), ...options }).gateway.fetch(
    new Request(`${ORIGIN}/api/v1/models`),
  )
const listed = async (options: KitOptions = {}): Promise<any[]> => (await read(await get(options))).body.data
const entry = async (id: string) => (await listed()).find((model) => model.id === id)

describe('GET /api/v1/models', () => {
  test('lists every row that is not hidden, chat, images, videos and sounds, without payment (contract 8.1, 8.3, 8.6)', async () => {
    const { status, headers, body } = await read(await get())
    expect([status, headers.get('content-type'), body.object]).toEqual([200, 'application/json', 'list'])
    const listed = [...chatRows, ...imageRows, ...videoRows, ...audioRows]
      .filter(({ hidden }) => !hidden)
      .map(({ id }) => id)
    expect(body.data.map(({ id }: { id: string }) => id)).toEqual(listed)
    expect(listed.length).toBeLessThan(chatRows.length + imageRows.length + videoRows.length + audioRows.length)
  })

  test('leaves out deprecated models, which are quoted all the same (contract 21.11)', async () => {
    const deprecated = chatRows.filter(({ hidden }) => hidden).map(({ id }) => id)
    expect(deprecated.length).toBeGreaterThan(2)
    const visible = (await listed()).map(({ id }) => id)
    const alice = kit({ chatVendor }).buyer()
    for (const model of deprecated) {
      const { status } = await alice.ask(
        { model, messages: [{ role: 'user', content: 'Hi' }] },
        { path: '/api/v1/chat/completions' },
      )
      expect([model, visible.includes(model), status]).toEqual([model, false, 402])
    }
  })

  test('gives every field of a paid model, with its list prices as numbers (contract 8.2, 8.5, 8.6)', async () => {
    expect(await entry('vendor-a/chat-6-small')).toEqual({
      id: 'vendor-a/chat-6-small',
      object: 'model',
      created: Date.UTC(2026, 8, 22) / 1000,
      owned_by: 'vendor-a',
      name: 'Chat 6 Small',
      aliases: ['openai/gpt-6-luna', 'gpt-6-luna'],
      description: 'High volume at low cost: chat, classification, light agents.',
      context_window: 1_050_000,
      max_output: 128_000,
      categories: ['chat', 'reasoning', 'coding', 'vision'],
      input_modalities: ['text', 'image', 'file'],
      billing_mode: 'paid',
      pricing: {
        input: 0.1,
        output: 0.5,
        cache_read: 0.01,
        cache_write: 0.125,
        output_share: 0.1,
        minimum: 0.001,
        transaction_fee: 0.001,
        long_context: { from_prompt_tokens: 272_001, input: 0.2, output: 0.75 },
        effort_factors: { high: 2.5, xhigh: 3, max: 4.5 },
      },
    })
    expect((await entry('vendor-d/chat-5-turbo')).pricing).toEqual({
      input: 1.2,
      output: 4,
      output_share: 0.1,
      minimum: 0.001,
      transaction_fee: 0.001,
    })
    expect((await entry('vendor-c/chat-4.3')).pricing.search_surcharge).toBe(0.12)
  })

  test('gives a flat price with its fee inside, and a free model as costing nothing (contract 8.4, 8.5)', async () => {
    expect(await entry('vendor-open/qwen3-235b')).toMatchObject({ billing_mode: 'flat', pricing: { flat: 0.002 } })
    expect(await entry('vendor-open/gpt-oss-120b')).toMatchObject({
      billing_mode: 'free',
      pricing: { input: 0, output: 0 },
    })
  })

  test('gives images with margin inside, at 1024x1024 or else at the first size (contract 8.4, 8.5)', async () => {
    expect(await entry('vendor-a/image-1')).toEqual({
      id: 'vendor-a/image-1',
      object: 'model',
      created: START / 1000,
      owned_by: 'vendor-a',
      name: 'Image 1',
      description: 'Generates and edits images.',
      categories: ['image'],
      billing_mode: 'per_image',
      pricing: { per_image: 0.021, transaction_fee: 0.001 },
    })
    expect(await entry('vendor-d/image-cv4')).toMatchObject({
      description: 'Generates images.',
      pricing: { per_image: 0.01575 },
    })
    const [image] = imageRows
    if (!image) throw new Error('an empty catalog')
    const images = [{ ...image, sizes: image.sizes.slice(1) }]
    expect((await listed({ catalog: catalog({ images, chat: [] }) }))[0].pricing.per_image).toBe(0.042)
  })

  test('gives videos by the second with margin inside, by resolution where that differs, and how long they are (contract 8.4, 8.5)', async () => {
    expect(await entry('vendor-c/video-1')).toEqual({
      id: 'vendor-c/video-1',
      object: 'model',
      created: START / 1000,
      owned_by: 'vendor-c',
      name: 'Video 1',
      aliases: ['xai/grok-imagine-video'],
      description: 'Makes videos of 1 to 15 seconds from a prompt or an image.',
      categories: ['video'],
      billing_mode: 'per_second',
      pricing: {
        per_second: 0.05,
        per_second_by_resolution: { '480p': 0.05, '720p': 0.07 },
        per_call_surcharge: 0.001,
        transaction_fee: 0.001,
        default_duration_seconds: 8,
        max_duration_seconds: 15,
      },
    })
    expect(await entry('vendor-f/video-1')).toMatchObject({
      description: 'Makes videos of 4 to 12 seconds from a prompt or an image, with sound.',
      billing_mode: 'per_second',
      pricing: { per_second: 0.105, transaction_fee: 0.001, default_duration_seconds: 4, max_duration_seconds: 12 },
    })
  })

  test('gives videos that are billed by the token as such, with what a second at 720p comes to (contract 8.4)', async () => {
    expect(await entry('vendor-e/video-2.5')).toMatchObject({
      billing_mode: 'per_token',
      pricing: {
        per_million_tokens: 14.549325,
        per_second: 0.31557485925,
        default_duration_seconds: 5,
        max_duration_seconds: 30,
      },
    })
  })

  test('gives sounds by the character with margin inside, by the estimated second without, by the sound and by the track (contract 8.3, 8.4, 8.5)', async () => {
    expect(await entry('elevenlabs/flash-v2.5')).toEqual({
      id: 'elevenlabs/flash-v2.5',
      object: 'model',
      created: START / 1000,
      owned_by: 'elevenlabs',
      name: 'Flash v2.5',
      aliases: ['elevenlabs/flash-v2-5', 'eleven_flash_v2_5'],
      description: 'Speaks a text.',
      categories: ['speech', 'tts'],
      billing_mode: 'per_character',
      pricing: { per_1k_chars: 0.0525, transaction_fee: 0.001, max_input_chars: 40_000 },
    })
    expect(await entry('bytedance/seed-audio-1.0')).toMatchObject({
      billing_mode: 'per_second',
      pricing: { per_second: 0.003, max_input_chars: 3_000, max_output_seconds: 120 },
    })
    expect(await entry('elevenlabs/sound-effects')).toMatchObject({
      categories: ['sound-effects'],
      billing_mode: 'per_generation',
      pricing: { per_generation: 0.0525, transaction_fee: 0.001 },
    })
    expect(await entry('minimax/music-2.5+')).toMatchObject({
      categories: ['audio', 'music'],
      billing_mode: 'per_track',
      pricing: { per_track: 0.1575, transaction_fee: 0.001 },
    })
  })

  test('says what a model does, and how it is billed, in these words and no others (contract 8.3, 8.4)', async () => {
    const all = await listed()
    const [CATEGORIES, MODES] = [
      'chat reasoning coding vision image video audio speech tts sound-effects music'.split(' '),
      'paid flat free per_image per_second per_token per_character per_generation per_track'.split(' '),
    ]
    expect([...new Set(all.flatMap(({ categories }) => categories))].toSorted()).toEqual(CATEGORIES.toSorted())
    expect([...new Set(all.map(({ billing_mode }) => billing_mode))].toSorted()).toEqual(MODES.toSorted())
  })

  test('leaves out videos that are hidden or retired', async () => {
    const [first, second, ...rest] = videoRows
    if (!first || !second) throw new Error('an empty catalog')
    const video = [{ ...first, hidden: true }, { ...second, retired: true }, ...rest]
    expect(
      (await listed({ catalog: catalog({ images: [], chat: [], video, audio: [] }) })).map(({ id }) => id),
    ).toEqual(rest.map(({ id }) => id))
  })

  test('leaves out what the operator has not configured (contract 8.1, 8.6, 8.9)', async () => {
    const vendors = {
      chat: ({ vendor }: ChatRow) => (vendor === 'embedded' ? chatVendor : undefined),
      images: () => undefined,
      video: () => undefined,
      audio: () => undefined,
    }
    expect((await listed({ ports: { vendors } })).map(({ id }) => id)).toEqual(['farebox/echo', 'farebox/echo-free'])
    expect(
      await listed({
        ports: {
          vendors: {
            chat: () => undefined,
            images: () => undefined,
            video: ({ family }: VideoRow) => (family === 'e' ? scriptedVideo() : undefined),
            audio: () => undefined,
          },
        },
      }),
    ).toHaveLength(5)
    expect(
      await listed({
        ports: {
          vendors: { chat: () => undefined, images: () => undefined, video: () => undefined, audio: () => undefined },
        },
      }),
    ).toEqual([])
  })

  test('asks for each vendor once, however often it is called', async () => {
    let requestCount = 0
    const vendors = { chat: () => void requestCount++, images: () => scriptedVendor() }
    const { gateway } = kit({ ports: { vendors } })
    const answers = await Promise.all(
      [1, 2, 3].map(async () => await (await gateway.fetch(new Request(`${ORIGIN}/api/v1/models`))).text()),
    )
    expect(new Set(answers).size).toBe(1)
    expect(requestCount).toBe(chatRows.filter(({ hidden }) => !hidden).length)
  })

  test('is each gateway’s own: another catalog or other vendors make another list', async () => {
    const shared = catalog()
    const none = { chat: () => undefined, images: () => undefined, video: () => undefined, audio: () => undefined }
    expect((await listed({ catalog: shared })).length).toBeGreaterThan(0)
    expect(await listed({ catalog: shared, ports: { vendors: none } })).toEqual([])
    expect(await listed({ catalog: catalog({ chat: [], images: [], video: [], audio: [] }) })).toEqual([])
  })

  test('ignores a query, and answers HEAD without a body (contract 8.1)', async () => {
    const { gateway } = kit({ chatVendor })
    const [plain, request] = [`${ORIGIN}/api/v1/models`, `${ORIGIN}/api/v1/models?format=json`]
    const texts = [plain, request].map(async (url) => await (await gateway.fetch(new Request(url))).text())
    expect(await texts[1]).toBe((await texts[0]) as string)
    const head = await gateway.fetch(new Request(`${ORIGIN}/api/v1/models`, { method: 'HEAD' }))
    expect([head.status, await head.text()]).toEqual([200, ''])
    expect((await (await gateway.fetch(new Request(`${ORIGIN}/api/v1/models`))).json()).data.length).toBeGreaterThan(60)
  })
})

describe('GET /api/v1/models/{id}', () => {
  const one = (id: string, options: KitOptions = {}) =>
    kit({ chatVendor, video: scriptedVideo(), audio: scriptedAudio(), ...options }).gateway.fetch(
      new Request(`${ORIGIN}/api/v1/models/${id}`),
    )

  test('answers the entry of every model on the list, its slash raw or encoded (contract 8.14)', async () => {
    for (const model of await listed()) {
      for (const path of [model.id, encodeURIComponent(model.id)]) {
        const { status, body } = await read(await one(path))
        expect([path, status, body]).toEqual([path, 200, model])
      }
    }
  })

  test('answers for every alias, and for a model that is not listed and can be bought (contract 8.14)', async () => {
    for (const { id, aliases } of [
      ...chatRows,
      ...imageRows,
      ...videoRows.filter(({ retired }) => !retired),
      ...audioRows,
    ])
      for (const name of [id, ...aliases]) {
        const { status, body } = await read(await one(encodeURIComponent(name)))
        expect([name, status, body.id, body.object]).toEqual([name, 200, id, 'model'])
      }
  })

  test('is 404 in the form of OpenAI’s errors for another id, and for what is not configured (contract 8.14)', async () => {
    const none = { chat: () => undefined, images: () => undefined, video: () => undefined, audio: () => undefined }
    const answers = [
      await one('nobody/nothing'),
      await one('x'),
      await one('farebox/echo/'),
      await one('farebox/echo', { ports: { vendors: none } }),
    ]
    for (const answer of answers) {
      const { status, body } = await read(answer)
      expect([status, body.error]).toEqual([
        404,
        {
          message: expect.stringContaining('GET /api/v1/models'),
          type: 'not_found_error',
          code: 'MODEL_NOT_FOUND',
          param: 'model',
        },
      ])
    }
  })

  test('leaves the verbs of generate-content at the same path alone', async () => {
    const { gateway } = kit({ chatVendor })
    const reply = await gateway.fetch(new Request(`${ORIGIN}/api/v1/models/farebox/echo:generateContent`))
    expect(reply.status).toBe(402)
    const wrong = await gateway.fetch(new Request(`${ORIGIN}/api/v1/models/farebox/echo`, { method: 'POST' }))
    expect([wrong.status, wrong.headers.get('allow')]).toEqual([405, 'GET, HEAD, OPTIONS'])
  })
})

describe('a quote is made from what the list says of the model, and from nothing else', () => {
  /** Micro-dollars, as the fields of the list are described. */
  function computed(
    pricing: any,
    request: { prompt: number; output: number; effort?: string; searches: boolean },
  ): bigint {
    const micro = (amount = 0) => BigInt(Math.round(amount * 1e6))
    const surcharge = request.searches ? micro(pricing.search_surcharge) : 0n
    if (pricing.flat !== undefined) return micro(pricing.flat) + surcharge
    const isLong = pricing.long_context && request.prompt >= pricing.long_context.from_prompt_tokens
    const rates = isLong ? pricing.long_context : pricing
    const share = Math.round(pricing.output_share * (pricing.effort_factors?.[request.effort ?? ''] ?? 1) * 1e4)
    const scaled =
      BigInt(request.prompt) * micro(rates.input) * 10_000n + BigInt(request.output * share) * micro(rates.output)
    const least = micro(pricing.minimum) * 10_000_000_000n
    return (
      ((scaled > least ? scaled : least) + 9_999_999_999n) / 10_000_000_000n +
      surcharge +
      micro(pricing.transaction_fee)
    )
  }

  const paidRows = chatRows.filter(({ billing }) => billing.mode !== 'free')
  /** A text is as many tokens as it says. */
  const countTokens = async (text: string) => Number(text)

  test('short and long prompts to the token, efforts and live search, of every row (contract 8.13)', async () => {
    for (const row of paidRows) {
      const { pricing } =
        (await entry(row.id)) ??
        (await read(await kit({ chatVendor }).gateway.fetch(new Request(`${ORIGIN}/api/v1/models/${row.id}`)))).body
      const efforts = row.effort?.scalesQuote ? [undefined, 'low', 'high', 'xhigh', 'max'] : [undefined]
      // Estimates are limited for each gateway and minute.
      const alice = kit({ chatVendor, ports: { countTokens } }).buyer()
      const contents = ['1', '199992', '199993', '271993', '271994'].filter(
        (tokens) => Number(tokens) < row.contextWindow / 2,
      )
      for (const content of contents)
        for (const reasoning_effort of efforts)
          for (const searches of row.liveSearch ? [false, true] : [false]) {
            const body = {
              model: row.id,
              messages: [{ role: 'user', content }],
              max_tokens: 4_000,
              ...(reasoning_effort && { reasoning_effort }),
              ...(searches && { search_parameters: { mode: 'on' } }),
            }
            const quoted = await alice.ask(body, { path: '/api/v1/chat/completions' })
            const { estimate } = (await alice.ask(body, { path: '/api/v1/chat/estimate' })).body
            const request = {
              prompt: estimate.prompt_tokens,
              output: estimate.max_tokens,
              effort: estimate.reasoning_effort,
              searches,
            }
            expect([row.id, reasoning_effort, quoted.status, quoted.body.accepts?.[0]?.amount]).toEqual([
              row.id,
              reasoning_effort,
              402,
              String(computed(pricing, request)),
            ])
          }
    }
  })

  test('the price list says the same of a model as the list (contract 8.13)', async () => {
    const { gateway } = kit({ chatVendor })
    const { body } = await read(await gateway.fetch(new Request(`${ORIGIN}/api/pricing`)))
    for (const { id, pricing } of body.models) expect([id, pricing]).toEqual([id, (await entry(id)).pricing])
  })
})
