/** A stream as the parts of a multipart upload, and the upload: how S3 takes what is too large for one request. */
import type * as Sdk from '@aws-sdk/client-s3'
import { washed } from './error.ts'

/** The least that S3 takes for a part, but for the last, and the least to hold. It takes 10,000 of them: objects of up to 48 GiB. */
export const PART_BYTES = 5 * 1024 * 1024
const IN_FLIGHT = 2
/** Bun's collector comes by too seldom for bytes that pass through: without being called, 500 MB left 100 to 400 behind (Bun 1.4.4). */
const COLLECT_BYTES = 32 * 1024 * 1024

/**
 * Every part but the last is of PART_BYTES. Ends the stream when it is ended itself. Whoever has no more use for a part adds it to `spare`, to be
 * filled again: left to the collector, parts pile up faster than it comes by.
 */
export async function* partsOf(body: ReadableStream<Uint8Array>, spare: Uint8Array[] = []): AsyncGenerator<Uint8Array> {
  let part: Uint8Array = new Uint8Array(PART_BYTES)
  let length = 0
  for await (const piece of body) {
    for (let at = 0; at < piece.length;) {
      const taken = piece.subarray(at, at + PART_BYTES - length)
      part.set(taken, length)
      length += taken.length
      at += taken.length
      if (length < PART_BYTES) continue
      yield part
      part = spare.pop() ?? new Uint8Array(PART_BYTES)
      length = 0
    }
  }
  if (length > 0) yield part.subarray(0, length)
}

export type Target = {
  readonly sdk: typeof Sdk
  readonly client: Sdk.S3Client
  readonly bucket: string
  readonly path: string
  readonly type: string
}

export type Upload = {
  /** Sends all parts, at most IN_FLIGHT at a time, and tells their size. Rejects with the first failure, of the store or of `rest`, when nothing is in flight any more. */
  send(
    first: Uint8Array,
    more: { readonly rest: AsyncIterable<Uint8Array>; readonly spare: Uint8Array[] },
  ): Promise<number>
  /** Makes the parts an object. */
  complete(condition: { readonly IfNoneMatch?: string }): Promise<unknown>
  /** Has the store drop the parts. */
  abort(): Promise<unknown>
}

/** Begins an upload. What is neither completed nor aborted stays at the store, unseen, until a lifecycle rule of its bucket drops it. */
export async function beginUpload({ sdk, client, bucket, path, type }: Target): Promise<Upload> {
  const object = { Bucket: bucket, Key: path }
  const { UploadId } = await client
    .send(new sdk.CreateMultipartUploadCommand({ ...object, ContentType: type }))
    .catch(failed)
  const upload = { ...object, UploadId }
  const parts: Sdk.CompletedPart[] = []

  return {
    async send(first, { rest, spare }) {
      const stop = new AbortController()
      const flying = new Set<Promise<void>>()
      let size = 0

      const launch = (bytes: Uint8Array) => {
        size += bytes.length
        const part: Sdk.CompletedPart = { PartNumber: parts.length + 1 }
        parts.push(part)
        const command = new sdk.UploadPartCommand({
          ...upload,
          PartNumber: parts.length,
          Body: bytes,
          ContentLength: bytes.length,
        })
        const flight = client.send(command, { abortSignal: stop.signal }).then(({ ETag }) => {
          part.ETag = ETag
          flying.delete(flight)
          if (bytes.length === PART_BYTES) spare.push(bytes)
        }, failed)
        // Told when it is waited for; until then it must not read as unhandled.
        flight.catch(() => {})
        flying.add(flight)
      }

      try {
        launch(first)
        for await (const bytes of rest) {
          launch(bytes)
          if (size % COLLECT_BYTES < bytes.length) collect()
          // Before the next part is gathered: what is not on its way is not held.
          if (flying.size === IN_FLIGHT) await Promise.race(flying)
        }
        await Promise.all(flying)
        return size
      } catch (error) {
        stop.abort()
        await Promise.allSettled(flying)
        throw error
      }
    },
    complete: (condition) =>
      client.send(
        new sdk.CompleteMultipartUploadCommand({ ...upload, MultipartUpload: { Parts: parts }, ...condition }),
      ),
    abort: () => client.send(new sdk.AbortMultipartUploadCommand(upload)),
  }
}

function failed(error: unknown): never {
  throw washed(error, 'put')
}

/** Nothing, where the runtime is not Bun. */
function collect(): void {
  const { Bun } = globalThis as { Bun?: { gc(isNow: boolean): void } }
  Bun?.gc(true)
}
