/** The quotes of videos that were worked out by hand, by the formula and through the gateway. */
import { describe, expect, test } from 'bun:test'
import { videoRows } from '../../../../core/products/video/catalog.ts'
import { video } from '../../../../core/products/video/generations.ts'
import type { VideoVendor } from '../../../../core/mod.ts'
import { dollars, print } from '../../../../core/x402/money.ts'
import { videoPrice, videoTokens } from '../../../../core/products/video/price.ts'
import { decodeHeader, kit, ORIGIN, read } from '../../../kit.ts'
import vectors from '../../../vectors/video_quotes.json'

const GENERATIONS = '/api/v1/videos/generations'
const PARTS = '/api/v1/videos'

const idle: VideoVendor = {
  submit: () => Promise.reject(new Error('asked')),
  pollUpstream: () => Promise.reject(new Error('asked')),
}
const gateway = () => kit({ label: 'base', endpoints: video, ports: { vendors: { video: () => idle } } })

type Quote = {
  readonly model: string
  readonly seconds: number
  readonly resolution: string
  readonly videos?: number
  readonly audios?: number
  readonly sum: string
  readonly amount: string
  readonly rate: number
  readonly generation_fee: number
  readonly contract?: string
}
const quotes = vectors.quotes as readonly Quote[]

const clips = (count = 0) =>
  Array.from({ length: count }, (_, index) => ({ url: `https://clips.example/${index}.mp4` }))
const billingOf = (model: string) => videoRows.find(({ id }) => id === model)?.billing ?? expect.unreachable()
const micro = (amount: string): string => String(Math.round(Number(amount) * 1e6))

describe('video prices', () => {
  test('of every model, at every resolution that it makes, are among the vectors', () => {
    const rows = videoRows.flatMap(({ id, resolutions }) => resolutions.map((resolution) => `${id} ${resolution}`))
    expect([...new Set(quotes.map(({ model, resolution }) => `${model} ${resolution}`))].sort()).toEqual(rows.sort())
    expect(quotes.length).toBeGreaterThan(60)
  })

  for (const { model, seconds, resolution, videos = 0, audios = 0, sum, amount, contract } of quotes) {
    test(`${model}: ${sum}`, () => {
      expect(print(videoPrice({ billing: billingOf(model), seconds, resolution, videos, audios }))).toBe(amount)
      // The table of the contract cuts some figures and rounds others.
      if (contract !== undefined) expect(Math.abs(Number(amount) - Number(contract))).toBeLessThan(0.0006)
    })
  }

  test('the gateway quotes each of them, on both endpoints: shown, offered and in the header it is one number (contract 12.3, 12.33, 12.34, 12.35, 12.36, 12.37, 12.38, 12.39)', async () => {
    const alice = gateway().buyer()
    for (const { model, seconds, resolution, videos, audios, amount, rate, generation_fee } of quotes) {
      const order = {
        model,
        resolution,
        ...(videos && { reference_videos: clips(videos) }),
        ...(audios && { reference_audios: clips(audios) }),
      }
      const reply = [
        await alice.ask({ ...order, prompt: 'a red fox', duration_seconds: seconds }, { path: GENERATIONS }),
        await alice.ask(
          { ...order, content: [{ type: 'text', text: 'a red fox' }], duration: seconds },
          { path: PARTS },
        ),
      ]
      for (const { status, body, headers } of reply) {
        expect(status).toBe(402)
        expect(body.price).toEqual({
          amount,
          currency: 'USD',
          pricePerSecond: rate,
          resolution,
          perGenerationFee: generation_fee,
          durationSeconds: seconds,
          marginPercent: generation_fee > 0 ? 0 : 5,
          transactionFee: 0.001,
        })
        expect([body.accepts[0].amount, body.accepts[0].maxTimeoutSeconds]).toEqual([micro(amount), 600])
        expect(decodeHeader(headers.get('payment-required')).accepts).toEqual(body.accepts)
      }
    }
  })

  test('images, frames and nine references to images cost nothing more (contract 12.38)', async () => {
    const alice = gateway().buyer()
    const url = 'https://pictures.example/fox.png'
    const seeds = [
      {},
      { image_url: url },
      { image_url: url, last_frame_url: url },
      { real_face_asset_id: 'ta_1' },
      { reference_image_urls: Array(9).fill(url) },
    ]
    for (const seed of seeds)
      expect(
        (await alice.ask({ model: 'vendor-e/video-2.0', prompt: 'a red fox', ...seed }, { path: GENERATIONS })).body
          .price.amount,
      ).toBe('1.136480')
  })

  test('are rounded up once, last, with the fee added once', () => {
    const seconds = 1
    const resolution = '720p'
    expect(
      print(
        videoPrice({ billing: { mode: 'per_second_with_margin', rate: dollars('0.0000001') }, seconds, resolution }),
      ),
    ).toBe('0.001001')
    expect(
      print(
        videoPrice({ billing: { mode: 'per_second_with_margin', rate: dollars('0.000001') }, seconds: 10, resolution }),
      ),
    ).toBe('0.001011')
    expect(
      print(
        videoPrice({
          billing: { mode: 'per_second_by_tier', tiers: { '720p': dollars('0') }, perGeneration: dollars('0') },
          seconds: 9,
          resolution,
        }),
      ),
    ).toBe('0.001000')
    expect(
      print(videoPrice({ billing: { mode: 'per_token', rate: dollars('0') }, seconds: 9, resolution, videos: 3 })),
    ).toBe('0.001000')
  })

  test('are none for a resolution without a rate: nothing is sold at a price that nobody wrote down', () => {
    const tiers = { mode: 'per_second_by_tier', tiers: { '480p': dollars('1') }, perGeneration: dollars('0') } as const
    for (const resolution of ['720p', 'constructor', '']) {
      expect(() => videoPrice({ billing: tiers, seconds: 1, resolution })).toThrow('no rate is known')
      if (resolution !== '720p')
        expect(() =>
          videoPrice({ billing: { mode: 'per_token', rate: dollars('1') }, seconds: 1, resolution }),
        ).toThrow('no tokens are known')
    }
  })
})

describe('tokens', () => {
  test('are 21690 a second at 720p, by the factor of the resolution and the multiple of the references, rounded up (contract 12.36, 12.38)', () => {
    expect(videoTokens({ seconds: 5, resolution: '720p' })).toBe(108_450)
    expect(videoTokens({ seconds: 5, resolution: '480p' })).toBe(54_225)
    expect(videoTokens({ seconds: 5, resolution: '1080p' })).toBe(244_013) // 244012.5
    expect(videoTokens({ seconds: 15, resolution: '4K' })).toBe(2_928_150)
    expect(videoTokens({ seconds: 5, resolution: '720p', videos: 1 })).toBe(216_900)
    expect(videoTokens({ seconds: 5, resolution: '720p', videos: 3, audios: 3 })).toBe(531_405)
    expect(videoTokens({ seconds: 5, resolution: '480p', audios: 1 })).toBe(70_493) // 70492.5
  })
})

describe('the challenge', () => {
  test('says what the contract says (contract 12.40)', async () => {
    const {
      body: { extensions, ...body },
    } = await gateway().buyer().ask({ prompt: 'a red fox', resolution: '720p' }, { path: GENERATIONS })
    expect(Object.keys(extensions)).toEqual(['payment-identifier', 'bazaar'])
    expect(body).toEqual({
      x402Version: 2,
      accepts: [expect.objectContaining({ scheme: 'exact', amount: '562000', maxTimeoutSeconds: 600 })],
      type: 'https://paymentauth.org/problems/payment-required',
      title: 'Payment Required',
      status: 402,
      detail: expect.any(String),
      error: 'Payment Required',
      message: expect.stringContaining('0.562000 USDC'),
      price: {
        amount: '0.562000',
        currency: 'USD',
        pricePerSecond: 0.07,
        resolution: '720p',
        perGenerationFee: 0.001,
        durationSeconds: 8,
        marginPercent: 0,
        transactionFee: 0.001,
      },
      generation_info: {
        output_duration: 8,
        generation_time: 'about 60 to 180 seconds',
        flow: 'async',
        note: expect.any(String),
      },
      paymentInfo: { network: 'base', asset: 'USDC', x402Version: 2 },
      help: { header: 'PAYMENT-SIGNATURE' },
    })
  })

  test('is ASCII whatever the prompt says, and small whatever the request holds', async () => {
    const images = Array(9).fill(`https://pictures.example/${'x'.repeat(5_000)}`)
    const { status, headers, body } = await gateway()
      .buyer()
      .ask({ model: 'vendor-e/video-2.0', prompt: '狐', reference_image_urls: images }, { path: GENERATIONS })
    const required = headers.get('payment-required') ?? ''
    expect([status, required.length * 3 + JSON.stringify(body).length < 6144]).toEqual([402, true])
    expect(atob(required) + JSON.stringify(body)).toMatch(/^[ -~]+$/)
  })

  test('answers a POST without a body at the price of the default model, on both endpoints', async () => {
    for (const path of [GENERATIONS, PARTS]) {
      const { status, body } = await read(await gateway().gateway.fetch(new Request(ORIGIN + path, { method: 'POST' })))
      expect([path, status, body.price.amount]).toEqual([path, 402, '0.402000'])
    }
  })

  test('is at the price of the first model that is made here, where the default is not', async () => {
    const { gateway: other } = kit({
      endpoints: video,
      ports: { vendors: { video: ({ family }) => (family === 'e' ? idle : undefined) } },
    })
    for (const path of [GENERATIONS, PARTS]) {
      const { status, body } = await read(await other.fetch(new Request(ORIGIN + path, { method: 'POST' })))
      expect([path, status, body.price.amount]).toEqual([path, 402, '0.354916'])
    }
  })
})
