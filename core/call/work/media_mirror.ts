/** Copies a vendor's short-lived or inline media to durable storage (decision 33). */
import { within } from '../../lib/timers.ts'
import type { Hosted, MadeMedia, Mirror, OpenMedia } from '../../endpoint/mod.ts'
import { decodeDataUri } from '../../lib/base64.ts'
import type { Ports } from '../../ports/mod.ts'
import { newSecret } from '../../lib/ids.ts'
import { type ConcurrencyLimiter, concurrencyLimiter } from '../../lib/limiter.ts'
import { type MediaStream, NoMedia } from '../../ports/vendors/media.ts'

/** File extension by media type. Other types are passed through as links and never hosted under our origin. */
const EXTENSIONS: Readonly<Record<string, string>> = {
  'image/png': 'png',
  'image/jpeg': 'jpg',
  'image/webp': 'webp',
  'image/gif': 'gif',
  'image/avif': 'avif',
  'video/mp4': 'mp4',
  'video/quicktime': 'mov',
  'video/webm': 'webm',
  'audio/mpeg': 'mp3',
  'audio/wav': 'wav',
  'audio/ogg': 'ogg',
  'audio/pcm': 'pcm',
}

/** Deadline of a buffered download, and the longest silence of a streamed one. */
const FETCH_MS = 60_000
/** Deadline of one streamed file, and the longest wait for a free slot. */
const STREAM_MS = 10 * 60_000
/**
 * Largest streamed file, in bytes. Streaming takes space in the store but no memory. Images stay within `maxBytes` in
 * any case.
 */
const MAX_STREAM_BYTES = 2 * 1024 ** 3
/** Concurrent downloads per folder. On their way to S3, eight clips take 280 MB and fifty 1.1 GB (Bun 1.4.4). */
const AT_ONCE = 8

type Mirroring = {
  readonly ports: Pick<Ports, 'objects' | 'vendors' | 'clock' | 'log' | 'random' | 'background'>
  /** Largest image, and largest file of any kind that has to be buffered, in bytes. */
  readonly maxBytes: number
  readonly maxStreamBytes?: number
  /** Called with the storage keys of a call's own media after they are stored. */
  readonly onStored?: (call: string, keys: readonly string[]) => Promise<void>
}

/** The mirror of one gateway. Each folder has its own download slots, so images do not wait for clips. */
type Open = Mirroring & {
  readonly maxStreamBytes: number
  readonly limiters: Map<string, ConcurrencyLimiter>
}

/**
 * Stores each media file under an unguessable key. The key does not derive from the job id, which buyers know before
 * they pay. A file that fails keeps its upstream URL; this never throws. Streamed files are never buffered.
 */
export function mirrors(mirroring: Mirroring): Mirror {
  const open: Open = { maxStreamBytes: MAX_STREAM_BYTES, ...mirroring, limiters: new Map() }
  return async (id, media) => (media ? await mirrored(open, id, media) : [])
}

async function mirrored(open: Open, id: string, media: MadeMedia): Promise<readonly Hosted[]> {
  const { ports, onStored } = open
  const at = { id, media, day: new Date(ports.clock.now()).toISOString().slice(0, 10), secret: newSecret(ports.random) }
  const hosted = await Promise.all(media.urls.map((url, index) => host(open, at, { url, index })))
  // Media of a character live as long as the character. No reply waits for the note: one that is lost leaves a file.
  if (onStored && !media.foreign)
    ports.background(
      onStored(
        id,
        hosted.flatMap(({ key }) => key ?? []),
      ).catch((error: Error) =>
        ports.log.warn('could not record where media is stored; it will not be deleted', {
          call: id,
          error: error.message,
        }),
      ),
    )
  return hosted
}

/** The media of one call, and the names of its files. */
type Batch = { readonly id: string; readonly media: MadeMedia; readonly day: string; readonly secret: string }

async function host(
  mirror: Open,
  { id, media, day, secret }: Batch,
  { url, index }: { readonly url: string; readonly index: number },
): Promise<Hosted> {
  const { folder, streams, kinds, foreign = false } = media
  const source = sourceOf(url)
  const kind = kinds?.[index]
  const keyOf = (type: string) => `${folder}/${day}/${secret}-${index}.${extensionOf(type, foreign ? 'image' : kind)}`
  const open = streams?.[index] ?? (foreign ? undefined : openingOf(mirror, url))
  const store = () => (open ? pour(mirror, open, keyOf) : put(mirror, url, { keyOf, foreign }))
  try {
    // A data URI is in memory already, so it needs no download slot.
    const key = url.startsWith('data:') ? await store() : await placed(mirror, folder, store)
    return { key, url: null, source }
  } catch (error) {
    mirror.ports.log.warn('media could not be mirrored', { call: id, error: (error as Error).message })
    const isNothing = error instanceof NoMedia && kind !== undefined
    return { key: null, url: isNothing ? null : url, source }
  }
}

/** Waits for a free slot of the folder. Rejects when none is free in time. */
async function placed<T>({ ports, limiters }: Open, folder: string, work: () => Promise<T>): Promise<T> {
  const turn = limiters.get(folder) ?? concurrencyLimiter(AT_ONCE)
  limiters.set(folder, turn)
  const [whenAnswerStarts, late] = [new AbortController(), new AbortController()]
  void ports.clock
    .wait(STREAM_MS, whenAnswerStarts.signal)
    .then(() => late.abort(new Error('no download slot became free in time')))
  return await turn(() => {
    whenAnswerStarts.abort()
    return work()
  }, late.signal)
}

type KeyOf = (type: string) => string

async function put(
  mirror: Open,
  url: string,
  { keyOf, foreign }: { readonly keyOf: KeyOf; readonly foreign: boolean },
): Promise<string> {
  const { bytes, type } = await load(mirror, url, foreign)
  const key = keyOf(type)
  await mirror.ports.objects.put(key, bytes, type)
  return key
}

async function load(
  { ports: { clock, vendors }, maxBytes }: Open,
  url: string,
  foreign: boolean,
): Promise<{ bytes: Uint8Array; type: string }> {
  if (!url.startsWith('data:'))
    return await within(clock, FETCH_MS, (signal) => vendors.media(url, { signal, maxBytes, foreign }))
  const decoded = decodeDataUri(url)
  if (!decoded) throw new Error('the data URI does not decode')
  return decoded
}

/** How to stream a URL; undefined when it has to be buffered. */
function openingOf({ ports: { vendors, objects }, maxStreamBytes }: Open, url: string): OpenMedia | undefined {
  const { stream } = vendors
  if (!stream || !objects.putStream || url.startsWith('data:')) return undefined
  return ({ signal }) => stream(url, { signal, maxBytes: maxStreamBytes })
}

function pour(mirror: Open, open: OpenMedia, keyOf: KeyOf): Promise<string> {
  const { clock } = mirror.ports
  return within(clock, STREAM_MS, async (signal) => {
    const cut = new AbortController()
    const end = () => cut.abort(signal.reason)
    signal.addEventListener('abort', end, { once: true })
    try {
      const found = await within(clock, FETCH_MS, () => open({ signal: cut.signal }))
      return await storeStream(mirror, watched(mirror, found, cut), { type: found.type, keyOf })
    } catch (error) {
      cut.abort(error)
      throw error
    }
  })
}

async function storeStream(
  { ports: { objects } }: Open,
  body: ReadableStream<Uint8Array>,
  { type, keyOf }: { readonly type: string; readonly keyOf: KeyOf },
): Promise<string> {
  try {
    const key = keyOf(type)
    if (objects.putStream) await objects.putStream(key, body, type)
    else await objects.put(key, await gathered(body), type)
    return key
  } finally {
    if (!body.locked) body.cancel().catch(() => {})
  }
}

/** The same body with a size limit and an idle timeout, which also stops when `cut` aborts. Reads only on demand. */
function watched(
  { ports: { clock, objects }, maxBytes, maxStreamBytes }: Open,
  { body, type }: MediaStream,
  cut: AbortController,
): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  const most = type.startsWith('image/') || !objects.putStream ? maxBytes : maxStreamBytes
  let length = 0
  const leave = (reason: unknown) => {
    cut.abort(reason)
    reader.cancel(reason).catch(() => {})
  }
  const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
    try {
      cut.signal.throwIfAborted()
      const { done, value } = await within(clock, FETCH_MS, () => orCut(reader.read(), cut.signal))
      cut.signal.throwIfAborted()
      if (done) return controller.close()
      length += value.length
      if (length > most) throw new Error(`more than ${most} bytes`)
      controller.enqueue(value)
    } catch (error) {
      leave(error)
      throw error
    }
  }
  return new ReadableStream({ pull, cancel: leave }, { highWaterMark: 0 })
}

/** Whether every file is available, hosted or at least linked. */
export const isWhole = (media: readonly Hosted[]): boolean =>
  media.every(({ key, url }) => key !== null || Boolean(url))

/** Content types that say nothing about the content. Any other type must match the expected kind. */
const UNSAID = /^(?:(?:application|binary)\/octet-stream)?$/

function extensionOf(type: string, kind: string | undefined): string {
  if (kind && !type.startsWith(`${kind}/`) && !UNSAID.test(type))
    throw new NoMedia(`media of type ${type} is no ${kind}`)
  const extension = EXTENSIONS[type]
  if (!extension) throw new Error(`media of type ${type} is not hosted`)
  return extension
}

/** Rejects with the signal's reason when it aborts, even when the read never ends. */
function orCut<T>(reading: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const cut = () => reject(signal.reason)
    signal.addEventListener('abort', cut, { once: true })
    if (signal.aborted) cut()
    reading.then(resolve, reject).finally(() => signal.removeEventListener('abort', cut))
  })
}

async function gathered(body: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  return new Uint8Array(await new Response(body).arrayBuffer())
}

/** Inline media keeps only its type, never the payload (contract 5.25). */
function sourceOf(url: string): string {
  if (!url.startsWith('data:')) return url
  return /^data:[^;,]*/.exec(url)?.[0] ?? 'data:'
}
