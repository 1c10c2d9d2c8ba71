/**
 * Videos on a started gateway: what devnet films without a key, what it costs on chain, and that whoever is configured
 * films instead.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { systemClock } from '../../adapters/local.ts'
import { CLIP_BYTES } from '../fakes/videos.ts'
import { type VideoRow, videoRows } from '../../core/mod.ts'
import { isSignedQuery } from '../../core/lib/ids.ts'
import { parseConfig } from '../../server/config/mod.ts'
import type { Running } from '../../server/main.ts'
import type { Timed } from '../../server/metrics.ts'
import { vendorsOf } from '../../server/wiring/vendors.ts'
import {
  type Answer,
  decodeHeader,
  encodePayment,
  type Offer,
  type Payer,
  payerAt,
  signOffer,
} from './clients/payer.ts'
import { quietLog, startedGateways } from './started_gateway.ts'

const GENERATIONS = '/api/v1/videos/generations'
const FOX = { prompt: 'a red fox runs through the snow', duration_seconds: 1, resolution: '480p' }

const warnings: string[] = []
const alerts: string[] = []
const log = quietLog({
  warn: (message) => void warnings.push(message),
  alert: (message) => void alerts.push(message),
})
const { startWith } = startedGateways(log)
let plain: Running
let payer: Payer
let studio: Studio

beforeAll(async () => {
  studio = standIn()
  plain = await startWith()
  payer = await payerAt(plain.url)
})
afterAll(() => studio.stop())

type Studio = { readonly url: string; readonly seen: string[]; stop(): Promise<void> }

/** xAI, a server that speaks openai-videos, and the host of their clips. */
function standIn(): Studio {
  const seen: string[] = []
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const { pathname, origin } = new URL(request.url)
      seen.push(`${request.method} ${pathname} ${request.headers.get('authorization') ?? ''}`.trim())
      if (pathname === '/clips/run.mp4' || pathname.endsWith('/content'))
        return new Response(new Uint8Array(CLIP_BYTES), { headers: { 'content-type': 'video/mp4' } })
      if (pathname === '/xai/videos/generations') return Response.json({ request_id: 'r-1' })
      if (pathname === '/xai/videos/r-1')
        return Response.json({ status: 'done', video: { url: `${origin}/clips/run.mp4`, duration: 1 } })
      if (pathname === '/openai/videos') return Response.json({ id: 'video_1', object: 'video', status: 'queued' })
      return Response.json({ id: 'video_1', object: 'video', status: 'completed', progress: 100, seconds: '4' })
    },
  })
  return { url: server.url.origin, seen, stop: () => server.stop(true) }
}

type Bought = { readonly quote: bigint; readonly envelope: Answer; readonly result: Answer }

/** Quoted, signed and submitted. */
async function submit(
  by: Payer,
  body: unknown,
  path = GENERATIONS,
): Promise<Omit<Bought, 'result'> & { signed: Readonly<Record<string, string>> }> {
  const challenge = await by.post(body, {}, path)
  expect(challenge.status).toBe(402)
  const { accepts, resource } = decodeHeader(challenge.headers.get('payment-required')) as {
    accepts: readonly [Offer]
    resource: unknown
  }
  const signed = { 'payment-signature': encodePayment(await signOffer(by.account, { offer: accepts[0], resource })) }
  const envelope = await by.post(body, signed, path)
  expect(envelope.status).toBe(202)
  return { quote: BigInt(accepts[0].amount), envelope, signed }
}

/** Polled with the same authorization until it is no longer under way. */
async function buy(by: Payer, body: unknown, path = GENERATIONS): Promise<Bought> {
  const { quote, envelope, signed } = await submit(by, body, path)
  let result = await by.get(envelope.body.poll_url, signed)
  while (result.status === 202) {
    await plain.wired.clock.wait(250)
    result = await by.get(envelope.body.poll_url, signed)
  }
  return { quote, envelope, result }
}

/** Seconds that an MP4 says it lasts, by its movie header. */
function lengthOf(mp4: Uint8Array): number {
  const at = Buffer.from(mp4).indexOf('mvhd', 0, 'latin1')
  const view = new DataView(mp4.buffer, mp4.byteOffset + at + 4)
  return view.getUint32(16) / view.getUint32(12)
}

describe('videos on devnet, without a key', () => {
  test('a clip is bought for its quote by a real transfer, and is as long as it was ordered', async () => {
    const before = await payer.balance()
    const { quote, envelope, result } = await buy(payer, FOX)
    expect([quote, envelope.body.payment_status, result.status]).toEqual([52_000n, 'verified', 200])
    const { data, payment, price } = result.body
    expect([price.amount, payment.status, data[0].duration_seconds, data[0].backed_up]).toEqual([
      '0.052000',
      'settled',
      1,
      true,
    ])
    expect(before - (await payer.balance())).toBe(quote)
    expect(await payer.transfersIn(payment.tx_hash)).toEqual([
      { from: payer.account.address.toLowerCase(), to: payer.payTo.toLowerCase(), value: quote } as never,
    ])
    const clip = await fetch(data[0].url)
    expect([clip.status, clip.headers.get('content-type')]).toEqual([200, 'video/mp4'])
    const bytes = await clip.bytes()
    expect(lengthOf(bytes)).toBeCloseTo(1, 1)
    const part = await fetch(data[0].url, { headers: { range: 'bytes=4-7' } })
    expect([part.status, await part.text()]).toEqual([206, 'ftyp'])
  }, 300_000)

  test('families c and e are listed and made by the demo; vendor-f is nobody’s', async () => {
    const listed = async (path: string) => (await payer.get(path)).body.data.map(({ id }: { id: string }) => id)
    const videos = await listed('/api/v1/video/models')
    expect(videos).toEqual([
      'vendor-c/video-1',
      'vendor-c/video-1.5',
      'vendor-e/video-1.5-pro',
      'vendor-e/video-2.0-mini',
      'vendor-e/video-2.0-fast',
      'vendor-e/video-2.0',
      'vendor-e/video-2.5',
    ])
    expect(await listed('/api/v1/models')).toEqual(expect.arrayContaining(videos))
    expect(await payer.post({ ...FOX, model: 'vendor-f/video-1', duration_seconds: 4 }, {}, GENERATIONS)).toMatchObject(
      { status: 503 },
    )
  })
})

describe('whoever is configured', () => {
  test('films instead of the demo: submitted and looked at with the operator’s key, and the clip mirrored', async () => {
    const running = await startWith(
      { XAI_API_KEY: 's3cret', XAI_BASE_URL: `${studio.url}/xai` },
      `trusted_hosts = ["${new URL(studio.url).host}"]`,
    )
    const by = await payerAt(running.url)
    const { result } = await buy(by, { model: 'vendor-c/video-1', prompt: 'a fox', duration_seconds: 1 })
    expect(result.body).toMatchObject({
      data: [{ source_url: `${studio.url}/clips/run.mp4`, backed_up: true }],
      payment: { status: 'settled' },
    })
    expect(await (await fetch(result.body.data[0].url)).bytes()).toEqual(new Uint8Array(CLIP_BYTES))
    expect(studio.seen).toEqual([
      'POST /xai/videos/generations Bearer s3cret',
      'GET /xai/videos/r-1 Bearer s3cret',
      'GET /clips/run.mp4',
    ])
  }, 300_000)

  test('sells vendor-f from a server of its own, whose clips have no address', async () => {
    const running = await startWith(
      {},
      `[vendors.vendor-f]\nvideo = "openai-videos"\nbase_url = "${studio.url}/openai"`,
    )
    const by = await payerAt(running.url)
    studio.seen.length = 0
    const { quote, result } = await buy(by, { model: 'vendor-f/video-1', prompt: 'a fox' })
    expect([quote, result.status, result.body.data[0].backed_up]).toEqual([421_000n, 200, true])
    expect(studio.seen).toEqual([
      'POST /openai/videos',
      'GET /openai/videos/video_1',
      'GET /openai/videos/video_1/content',
    ])
  }, 300_000)

  test('switches references off, and signs poll URLs with keys of the operator’s', async () => {
    const key = 'ab'.repeat(32)
    const running = await startWith({ POLL_KEYS: key }, 'reference_media = false')
    const by = await payerAt(running.url)
    const order = {
      model: 'vendor-e/video-2.0',
      prompt: 'a fox',
      reference_videos: [{ url: 'https://clips.example/fox.mp4' }],
    }
    expect((await by.post(order, {}, GENERATIONS)).status).toBe(503)
    expect((await by.post({ ...order, reference_videos: undefined }, {}, GENERATIONS)).status).toBe(402)
    const { envelope } = await submit(by, FOX)
    const { pathname, searchParams } = new URL(envelope.body.poll_url, running.url)
    searchParams.delete('key')
    expect([
      isSignedQuery(pathname, searchParams, [Buffer.from(key, 'hex')]),
      isSignedQuery(pathname, searchParams, [Buffer.alloc(32)]),
    ]).toEqual([true, false])
  }, 300_000)
})

describe('the vendor of a row', () => {
  const rowOf = (id: string): VideoRow => videoRows.find((row) => row.id === id) ?? missing(id)

  /** By the name that figures know it under; undefined where nobody films. */
  function wired(
    toml: string,
    { isDevnet = false, env = {} }: { isDevnet?: boolean; env?: Readonly<Record<string, string>> } = {},
  ) {
    const read = parseConfig(toml, env)
    if (!read.ok) throw new Error(read.mistakes.join('\n'))
    const undo: (() => unknown)[] = []
    const lines: string[] = []
    const names = new Map<object, string>()
    const timed: Timed = (name, vendor) => (names.set(vendor, name), vendor)
    const { video } = vendorsOf(
      { ...read.config, services: {} },
      {
        log: { ...log, warn: (message) => void lines.push(message) },
        clock: systemClock,
        undo,
        timed,
        isDevnet,
        countTokens: async () => 0,
        nodes: {},
      },
    )
    for (const step of undo) step()
    return { lines, nameOf: (row: VideoRow) => names.get(video?.(row) ?? {}), video }
  }

  test('is the one of its row; a job that was submitted elsewhere is looked for there', () => {
    const studios = '[vendors.vendor-c]\nvideo = "xai-videos"\n[vendors.vendor-e]\nvideo = "seedance"\n'
    const { nameOf, video } = wired(studios)
    expect([nameOf(rowOf('vendor-c/video-1')), nameOf(rowOf('vendor-e/video-2.0'))]).toEqual(['vendor-c', 'vendor-e'])
    expect(nameOf({ ...rowOf('vendor-c/video-1'), vendor: 'vendor-e' })).toBe('vendor-e')
    expect(nameOf({ ...rowOf('vendor-c/video-1'), vendor: 'gone' })).toBeUndefined()
    expect(video?.(rowOf('vendor-c/video-1'))).toBe(video?.(rowOf('vendor-c/video-1.5')) as never)
  })

  test('is the demo on devnet alone, unless told; for real money that is warned of', () => {
    const [c, f] = [rowOf('vendor-c/video-1'), rowOf('vendor-f/video-1')]
    expect([
      wired('').nameOf(c),
      wired('', { isDevnet: true }).nameOf(c),
      wired('', { isDevnet: true }).nameOf(f),
    ]).toEqual([undefined, 'demo', undefined])
    const lines = wired('[vendors.vendor-c]\nvideo = "demo"')
    expect([lines.nameOf(c), lines.lines]).toEqual([
      'demo',
      Array(2).fill('this model is served by the demo, not by a model, for real money'),
    ])
  })
})

function missing(id: string): never {
  throw new Error(`the catalog has no ${id}`)
}

test('nothing went wrong that a person must look at', () => {
  expect(alerts).toEqual([])
  expect(warnings).toEqual([])
})
