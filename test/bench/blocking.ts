/**
 * How long legal requests hold the event loop of a gateway: `bun run bench -- blocking`. A real devnet process gets the
 * heaviest legal requests one after another; a heartbeat inside it says what its longest gap was during each. Beside it
 * a bare server that does nothing but beat, for the noise of the machine.
 */
import type { Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { systemClock } from '../../adapters/local.ts'
import { described, encodePng, type Raster } from '../../adapters/providers/lib/png.ts'
import { blank } from '../../adapters/providers/lib/fitting.ts'
import { encodePayment, GENERATIONS, type Offer, signOffer } from '../server/clients/payer.ts'
import { ask, signed, wallets, type Gateway } from './buyers.ts'
import type { Contestant, Entered, Generator } from './run.ts'
import { fixed, table, total, verdict } from './print.ts'

/** `only` names the cases by what their names contain; all of them without it. */
type Benching = { readonly load: Generator; readonly enter: Entered; readonly only: string | undefined }

/** In milliseconds. */
const GOAL = 50
const MB = 1 << 20
const WAVE = 256
/** Rows of the ledger that are over at once. */
const EXPIRED = 11_000
/** Between the end of a case and the reading of its gaps: what it set off without being waited for ends meanwhile. */
const AFTER_MS = 300

export async function blocking({ load, enter, only }: Benching): Promise<void> {
  const rows: string[][] = []
  let worst = 0
  const settled = async () => await systemClock.wait(AFTER_MS)

  /** Runs one case, and notes what it did to the heart of its server. */
  async function measure(each: Contestant, name: string, run: () => Promise<string>): Promise<void> {
    if (only !== undefined && !name.includes(only)) return
    await each.gaps()
    const startedAt = performance.now()
    const outcome = await run().catch((error: Error) => `failed: ${error.message.slice(0, 200)}`)
    const seconds = (performance.now() - startedAt) / 1_000
    await settled()
    const { wall, cpu } = await each.gaps()
    if (each.name !== 'bare') worst = Math.max(worst, cpu)
    rows.push([name, fixed(wall, 0), fixed(cpu, 0), fixed(seconds, 1), outcome])
    console.error(`  ${rows.at(-1)?.join('  ')}`)
  }

  const bare = await enter('bare', { repeat: { status: 200, headers: [], body: '' }, beats: true })
  await measure(bare, 'a bare server, idle for 3 s', async () => {
    await systemClock.wait(3_000)
    return ''
  })
  await bare.stop()

  const gateway = await enter('gateway', { beats: true })
  const url = `http://127.0.0.1:${gateway.port}`
  await settled()
  await measure(gateway, 'idle for 3 s', async () => {
    await systemClock.wait(3_000)
    return ''
  })
  for (const [name, path] of DOCUMENTS) {
    await measure(gateway, `${name}, first call`, () => statusOf(fetch(url + path)))
    await measure(gateway, `${name}, second call`, () => statusOf(fetch(url + path)))
  }
  for (const [text, prompt] of PROMPTS) {
    for (const [format, path, body] of FORMATS)
      await measure(gateway, `${text}: ${format}`, () => statusOf(post(url + path, JSON.stringify(body(prompt())))))
  }

  const buyer = privateKeyToAccount(gateway.ready.devnet?.minterKey as Hex)
  /** Asks for the price, signs it, and asks again. */
  const bought = async (path: string, body: () => BodyInit, headers: Readonly<Record<string, string>>) => {
    const unpaid = await fetch(url + path, { method: 'POST', headers, body: body() })
    const text = await unpaid.text()
    const required = unpaid.headers.get('payment-required')
    if (!required) throw new Error(`no challenge: ${unpaid.status} ${text}`)
    const { accepts, resource } = JSON.parse(atob(required)) as { accepts: readonly [Offer]; resource: unknown }
    const payment = encodePayment(await signOffer(buyer, { offer: accepts[0], resource }))
    return await followed(
      url,
      await fetch(url + path, { method: 'POST', headers: { ...headers, 'payment-signature': payment }, body: body() }),
      payment,
    )
  }
  const boughtJson = (path: string, body: unknown) =>
    bought(path, () => JSON.stringify(body), { 'content-type': 'application/json' })

  const paid = { ...gateway.ready.devnet, port: gateway.port } as Gateway
  const { challenge } = await ask(gateway.port)
  const buyers = await wallets(paid, WAVE)
  const wave = async (images: number) => {
    const requests = await signed(challenge, buyers, images)
    const seen = await load.run({ port: gateway.port, connections: images, wanted: 200 }, requests)
    const others = Object.entries(seen.bad).map(([status, count]) => `${count} x ${status}`)
    return [`${seen.good} x 200`, ...others, total(seen.bad) > 0 ? seen.complaint.slice(0, 160) : ''].join(', ')
  }
  for (const which of ['first', 'second'])
    await measure(gateway, `${WAVE} paid images at once, ${which} wave`, () => wave(WAVE))
  await measure(gateway, `${2 * WAVE} paid images at once`, () => wave(2 * WAVE))

  await measure(gateway, 'the largest picture, 4096x4096, four of them', () =>
    boughtJson(GENERATIONS, { model: 'vendor-b/image-pro', prompt: 'a red fox', size: '4096x4096', n: 4 }),
  )
  const photo = await noise({ width: 2_000, height: 2_000 })
  await measure(gateway, `multipart edit of ${fixed((2 * photo.length) / MB, 0)} MB, a picture and its mask`, () => {
    const form = () => {
      const data = new FormData()
      data.set('model', 'vendor-a/image-1')
      data.set('prompt', 'make it snow')
      data.set('size', '1536x1024')
      data.set('image', new Blob([photo as BlobPart], { type: 'image/png' }), 'photo.png')
      data.set('mask', new Blob([photo as BlobPart], { type: 'image/png' }), 'mask.png')
      return data
    }
    return bought('/api/v1/images/image2image', form, {})
  })
  const large = await huge({ width: 8_192, height: 6_000 })
  await measure(gateway, 'edit of a picture of 49 megapixels', () =>
    boughtJson('/api/v1/images/image2image', {
      model: 'vendor-b/image-pro',
      prompt: 'make it snow',
      size: '4096x4096',
      image: `data:image/png;base64,${Buffer.from(large).toString('base64')}`,
    }),
  )
  await measure(gateway, 'film, 4K, the longest', () =>
    boughtJson('/api/v1/videos/generations', {
      model: 'vendor-e/video-2.0',
      prompt: 'a red fox runs through the snow',
      duration_seconds: 15,
      resolution: '4K',
      return_last_frame: true,
    }),
  )
  await measure(gateway, 'film from a picture of 49 megapixels', () =>
    boughtJson('/api/v1/videos/generations', {
      model: 'vendor-e/video-2.0',
      prompt: 'a red fox runs through the snow',
      duration_seconds: 15,
      resolution: '1080p',
      image_url: `data:image/png;base64,${Buffer.from(large).toString('base64')}`,
    }),
  )
  await measure(gateway, 'music, 60 s', () => boughtJson('/api/v1/audio/generations', { prompt: 'a slow waltz' }))
  await measure(gateway, 'speech, 5,000 characters', () =>
    boughtJson('/api/v1/audio/speech', { input: 'Foxes in the snow. '.repeat(260), response_format: 'wav' }),
  )
  await gateway.stop()

  for (const kind of ['settled', 'unpaid'] as const) {
    const ledger = await enter('ledger', { beats: true, expired: { rows: EXPIRED, kind } })
    await settled()
    await measure(ledger, `prune of ${EXPIRED} ${kind} calls, SQLite`, () => pruned(ledger.port))
    await ledger.stop()
  }

  console.log('\nlongest gap of the event loop, in ms: by the clock, and what of it this thread computed')
  table(['', 'gap', 'cpu', 's', 'answer'], rows)
  verdict(worst <= GOAL, `${fixed(worst, 0)} ms at most is the event loop held (goal: ${GOAL})`)
}

const DOCUMENTS = [
  ['OpenAPI', '/openapi.json'],
  ['everything in OpenAPI', '/openapi.json?all=1'],
  ['price list', '/api/pricing'],
  ['reference page', '/docs'],
  ['models', '/api/v1/models'],
  ['x402 list', '/.well-known/x402'],
] as const

/** The least of what a request limits is its body: 8 MB of chat, in texts that are cheap and dear to count. */
const PROMPTS: readonly (readonly [string, () => string])[] = [
  [
    '8 MB of English',
    () => `${Math.random()} ${'The quick brown fox jumps over the lazy dog. '.repeat(190_000)}`.slice(0, 8 * MB),
  ],
  ['8 MB of base64', () => randomText(8 * MB)],
  ['2.7 million ideographs', () => randomIdeographs((8 * MB) / 3)],
]

const MODEL = 'farebox/echo'
const FORMATS: readonly (readonly [string, string, (prompt: string) => unknown])[] = [
  ['chat', '/api/v1/chat/completions', (content) => ({ model: MODEL, messages: [{ role: 'user', content }] })],
  [
    'messages',
    '/api/v1/messages',
    (content) => ({ model: MODEL, max_tokens: 100, messages: [{ role: 'user', content }] }),
  ],
  ['responses', '/api/v1/responses', (input) => ({ model: MODEL, input })],
  [
    'generateContent',
    `/api/v1beta/models/${MODEL}:generateContent`,
    (text) => ({ contents: [{ role: 'user', parts: [{ text }] }] }),
  ],
  ['estimate', '/api/v1/chat/estimate', (content) => ({ model: MODEL, messages: [{ role: 'user', content }] })],
  [
    'count_tokens',
    '/api/v1/messages/count_tokens',
    (content) => ({ model: MODEL, messages: [{ role: 'user', content }] }),
  ],
]

function randomText(length: number): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(65_536)))
    .toString('base64')
    .repeat(Math.ceil(length / 87_384))
    .slice(0, length)
}

function randomIdeographs(length: number): string {
  const codes = crypto.getRandomValues(new Uint16Array(32_768)).map((value) => 0x4e00 + (value % 20_000))
  const piece = String.fromCharCode(...codes)
  return piece.repeat(Math.ceil(length / piece.length)).slice(0, length)
}

const post = (url: string, body: string) =>
  fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body })

async function statusOf(answering: Promise<Response>): Promise<string> {
  const response = await answering
  const text = await response.text()
  return response.status < 300 || response.status === 402
    ? `${response.status}`
    : `${response.status} ${text.slice(0, 120)}`
}

/** Polls a job to its end. */
async function followed(url: string, response: Response, payment: string): Promise<string> {
  const text = await response.text()
  const { poll_url: poll } = (response.status === 202 ? JSON.parse(text) : {}) as { poll_url?: string }
  if (!poll) return response.status === 200 ? '200' : `${response.status} ${text.slice(0, 160)}`
  for (;;) {
    await systemClock.wait(1_000)
    const polled = await fetch(new URL(poll, url), { headers: { 'payment-signature': payment } })
    const body = await polled.text()
    const { status } = JSON.parse(body) as { status?: string }
    if (polled.status === 202 && status !== 'completed' && status !== 'failed') continue
    return `job ${status ?? ''} ${polled.status}${polled.status === 200 ? '' : ` ${body.slice(0, 160)}`}`
  }
}

/** A picture that no compression makes small, with some of it transparent. */
async function noise({ width, height }: { width: number; height: number }): Promise<Uint8Array> {
  const raster: Raster = blank({ width, height })
  for (let at = 0; at < raster.data.length; at += 65_536)
    crypto.getRandomValues(raster.data.subarray(at, Math.min(raster.data.length, at + 65_536)))
  return described(await encodePng(raster), {})
}

/** Of one colour: small as a file, and of many pixels. */
async function huge(size: { width: number; height: number }): Promise<Uint8Array> {
  return await encodePng(blank(size))
}

async function pruned(port: number): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${port}/`)
  return `${await response.text()} touched`
}
