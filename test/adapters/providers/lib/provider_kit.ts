/**
 * For tests of vendors: a stand-in on loopback that replays recorded replies, a clock moved by hand, and what an error
 * reads as.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { inflateSync } from 'node:zlib'
import { type Clock, ApiError, type ImageEdit, type ImageJob, type ImageVendor } from '../../../../core/mod.ts'
import type { ImageVendorConfig } from '../../../../adapters/providers/lib/image_provider.ts'
import { PIXEL } from '../../../fakes/images.ts'
import { greys } from '../../../conformance/broken_vendors.ts'
import type { Subject } from '../../../conformance/law.ts'
import { START, testLog } from '../../../kit.ts'

export const KEY = 'sk-test-0123456789abcdef'
export const PNG = PIXEL.slice('data:image/png;base64,'.length)
export const FOX: ImageJob = { model: 'model-x', prompt: 'a red fox in the snow', width: 1024, height: 1024, n: 1 }
export const FOX_EDIT: ImageEdit = { ...FOX, images: [PIXEL] }
/** The head of a HEIC file: enough to be recognised, and no more. */
export const HEIC = `data:image/heic;base64,${Buffer.from('\0\0\0\x18ftypheic\0\0\0\0mif1heic', 'latin1').toString('base64')}`
export const GIF = 'data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7'

/** Never aborts. */
export const calm = (): { signal: AbortSignal } => ({ signal: new AbortController().signal })

// ── recorded replies ────────────────────────────────────────────────────────────────────────────────────────────────

type Certainty = 'quoted' | 'types' | 'inferred'
/** `document` says where the shape was read; `certainty` whether the file quotes it, follows its types, or guesses. */
export type Recorded = {
  readonly document: string
  readonly certainty: Certainty
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body: unknown
}

const ROOT = join(import.meta.dirname, '../../../vectors/vendors')

export function recorded(protocol: string, name: string): Recorded {
  return JSON.parse(readFileSync(join(ROOT, protocol, `${name}.json`), 'utf8')) as Recorded
}

export function recordings(protocol: string): readonly string[] {
  return readdirSync(join(ROOT, protocol))
    .map((file) => file.replace(/\.json$/, ''))
    .sort()
}

export const replay = ({ status, headers = {}, body }: Recorded): Response => Response.json(body, { status, headers })

// ── the stand-in ────────────────────────────────────────────────────────────────────────────────────────────────────

export type Seen = {
  readonly method: string
  readonly path: string
  readonly headers: Headers
  readonly json: any
  readonly form: FormData | undefined
}
export type Answer = (seen: Seen, request: Request) => Response | Promise<Response>

/** A server on loopback that keeps what it was asked. Ends with the test file. */
export function standIn(answer: Answer) {
  const seen: Seen[] = []
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      const { method, headers, url } = request
      const isForm = headers.get('content-type')?.startsWith('multipart/')
      const form = isForm ? ((await request.formData()) as FormData) : undefined
      const text = isForm ? '' : await request.text()
      const one = { method, path: new URL(url).pathname, headers, json: text ? JSON.parse(text) : undefined, form }
      seen.push(one)
      return await answer(one, request)
    },
  })
  afterAll(() => server.stop(true))
  return { url: `http://127.0.0.1:${server.port}`, host: `127.0.0.1:${server.port}`, seen }
}

/** Waits until a stand-in was asked; every turn lets pending I/O happen. */
export async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setImmediate(resolve))
}

// ── bad replies ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** A body without an end. `cancelled` tells that its reader has left. */
export function flood(head = '') {
  const state = { sent: 0, cancelled: false }
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(new TextEncoder().encode(head)),
    pull(controller) {
      state.sent += 65_536
      controller.enqueue(new Uint8Array(65_536).fill(32))
    },
    cancel() {
      state.cancelled = true
    },
  })
  return { state, body }
}

/** A body that begins and never goes on. */
export const drip = () =>
  new ReadableStream<Uint8Array>({ start: (controller) => controller.enqueue(new TextEncoder().encode('{"data":[')) })

// ── time, log, configuration ────────────────────────────────────────────────────────────────────────────────────────

/** Pauses of up to a second pass at once; longer waits are deadlines, and end when a test says so. */
export function handClock(): Clock & { readonly pauses: readonly number[]; expire(): void } {
  const pauses: number[] = []
  const deadlines = new Set<() => void>()
  return {
    pauses,
    now: () => START,
    wait(ms, signal) {
      if (ms <= 1000) pauses.push(ms)
      if (ms <= 1000 || signal?.aborted) return Promise.resolve()
      return new Promise((resolve) => {
        deadlines.add(resolve)
        signal?.addEventListener('abort', () => resolve(), { once: true })
      })
    },
    expire: () => deadlines.forEach((end) => end()),
  }
}

export function setup(baseUrl: string, more: Partial<ImageVendorConfig> = {}) {
  const clock = handClock()
  const log = testLog()
  const config: ImageVendorConfig = { baseUrl, key: KEY, maker: 'maker-x', timeoutMs: 60_000, clock, log, ...more }
  return { clock, log, config }
}

// ── what an error reads as ──────────────────────────────────────────────────────────────────────────────────────────

/**
 * `RATE_LIMITED 17`, `CONTENT_POLICY`, …; `operator` for a failure that alerts the operator, `failure` for any other.
 */
export async function outcome(work: Promise<unknown>, log: ReturnType<typeof testLog>): Promise<string> {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (error === undefined) return 'made'
  const alerts = log.lines.filter(({ level }) => level === 'alert')
  if (!(error instanceof ApiError)) return alerts.length > 0 ? 'operator' : 'failure'
  const { fields } = error.parts
  return [error.code, fields?.retry_after_seconds].filter(Boolean).join(' ')
}

/** All that an error and the log say, to look for what they must not. */
export async function errorText(work: Promise<unknown>, log: ReturnType<typeof testLog>): Promise<string> {
  const error = (await work.catch((reason: unknown) => reason)) as Error & Partial<ApiError>
  return JSON.stringify([error.message, error.stack, error.parts, error.cause, Object.entries(error), log.lines])
}

/** Every sentence of a vendor's error body. */
export function prose(body: unknown): readonly string[] {
  if (typeof body === 'string') return /\w\s\w/.test(body) ? [body] : []
  return typeof body === 'object' && body !== null ? Object.values(body).flatMap(prose) : []
}

/** The key and the sentences of a vendor's reply that an error or the log repeats. */
export function quoted(words: string, { body }: Recorded, secrets: readonly string[] = [KEY]): readonly string[] {
  return [...secrets, ...prose(body)].filter((secret) => words.includes(JSON.stringify(secret).slice(1, -1)))
}

/** One test: the recordings of a protocol are those that are `used`, and each names its source. */
export function testRecordings(
  protocol: string,
  used: readonly string[],
  title = 'every recording is used, and names its document and how sure it is',
): void {
  test(title, () => {
    expect(recordings(protocol)).toEqual([...new Set(used)].sort())
    const unsourced = recordings(protocol).filter((name) => {
      const { document, certainty } = recorded(protocol, name)
      return document.length < 10 || !['quoted', 'types', 'inferred'].includes(certainty)
    })
    expect(unsourced).toEqual([])
  })
}

/** Replies that any vendor may send, and what each reads as. */
export const ODD_REPLIES: readonly (readonly [string, string, Answer])[] = [
  ['an HTML page', 'failure', () => new Response('<html>welcome</html>', { headers: { 'content-type': 'text/html' } })],
  [
    'JSON cut short',
    'failure',
    () =>
      new Response('{"id":"a","data":[{"b64_json":"iVBORw0KGgo', { headers: { 'content-type': 'application/json' } }),
  ],
  ['JSON of another shape', 'failure', () => Response.json(['x'])],
  ['null', 'failure', () => Response.json(null)],
  ['nothing', 'failure', () => new Response(null, { status: 200 })],
  ['an HTML 502, twice', 'failure', () => new Response('<html>bad gateway</html>', { status: 502 })],
  ['an HTML 500', 'failure', () => new Response('<html>oops</html>', { status: 500 })],
  ['a bare 401', 'operator', () => new Response(null, { status: 401 })],
  ['a bare 403', 'operator', () => new Response(null, { status: 403 })],
  ['a bare 429', 'RATE_LIMITED 30', () => new Response(null, { status: 429 })],
  ['a 429 with a time', 'RATE_LIMITED 7', () => new Response(null, { status: 429, headers: { 'retry-after': '7' } })],
  ['a bare 504', 'UPSTREAM_TIMEOUT', () => new Response(null, { status: 504 })],
  ['an error without end', 'failure', () => new Response(flood().body, { status: 500 })],
]

type Expected = {
  /** Recordings of good replies, which other tests read. */
  readonly read: readonly string[]
  readonly generate?: Readonly<Record<string, string>>
  readonly edit?: Readonly<Record<string, string>>
}

/**
 * One test for each recorded refusal: what it reads as, that it quotes nothing, and that no recording is left out or
 * without a source.
 */
export function refusals(
  protocol: string,
  make: (config: ImageVendorConfig) => ImageVendor,
  { read, generate = {}, edit = {} }: Expected,
): void {
  describe(`a refusal of ${protocol}`, () => {
    const rows = [generate, edit].flatMap((table, isEdit) =>
      Object.entries(table).map(([name, expected]) => ({ name, expected, kind: isEdit ? 'edit' : 'generate' })),
    )
    test.each(rows)('$kind, $name, reads as $expected, and quotes nothing', async ({ name, expected, kind }) => {
      const reply = recorded(protocol, name)
      const { config, log } = setup(standIn(() => replay(reply)).url)
      const vendor = make(config)
      const work = Promise.resolve(kind === 'edit' ? vendor.edit?.(FOX_EDIT, calm()) : vendor.generate(FOX, calm()))
      expect(await outcome(work, log)).toBe(expected)
      const words = await errorText(work, log)
      expect(quoted(words, reply)).toEqual([])
    })

    testRecordings(protocol, [...read, ...rows.map(({ name }) => name)])
  })
}

/** Makes the vendors of a suite: each with a stand-in whose base URL ends with `path`. */
export function imageVendors(make: (config: ImageVendorConfig) => ImageVendor, path = '') {
  return (answer: Answer, more: Partial<ImageVendorConfig> = {}) => {
    const server = standIn(answer)
    const { config, log } = setup(`${server.url}${path}`, more)
    return { server, config, log, vendor: make(config) }
  }
}

/** One test for each edit that the adapter refuses without a call. */
export function unsentEdits(
  vendorOn: ReturnType<typeof imageVendors>,
  edits: Readonly<Record<string, Partial<ImageEdit>>>,
  contract = '',
): void {
  test.each(Object.entries(edits))(`%s is refused before anything is sent${contract}`, async (_, more) => {
    const { server, vendor, log } = vendorOn(() => new Response(null, { status: 500 }))
    expect(await outcome(Promise.resolve(vendor.edit?.({ ...FOX_EDIT, ...more }, calm())), log)).toBe('INVALID_IMAGE')
    expect(server.seen).toEqual([])
  })
}

/** For the laws of vendors: an adapter before a stand-in that makes what it is asked for. */
export function before(
  make: (config: ImageVendorConfig) => ImageVendor,
  answer: Answer,
): () => Promise<Subject<ImageVendor>> {
  const vendor = make(setup(standIn(answer).url).config)
  return async () => ({ open: async () => vendor, close: async () => {} })
}

/** The bare base64 of `n` grey images of a size such as `96x64`. */
export function greyImages(size: string, n = 1): readonly string[] {
  const [width = 0, height = 0] = size.split('x').map(Number)
  return greys({ ...FOX, width, height, n }).map(({ url }) => url.slice(url.indexOf(',') + 1))
}

// ── pictures ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A grey PNG of one IDAT chunk without filters, as the mask writer makes it. */
export function readGrey(png: Buffer) {
  const width = png.readUInt32BE(16)
  const height = png.readUInt32BE(20)
  const at = png.indexOf('IDAT')
  const rows = inflateSync(png.subarray(at + 4, at + 4 + png.readUInt32BE(at - 4)))
  const pixels = Array.from(
    { length: width * height },
    (_, index) => rows[Math.floor(index / width) * (width + 1) + 1 + (index % width)],
  )
  return { width, height, color: png[25], pixels }
}
