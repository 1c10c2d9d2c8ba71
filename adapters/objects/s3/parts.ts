/** Multipart uploads: splits a stream into parts and uploads objects too large for one request. */
import type * as Sdk from '@aws-sdk/client-s3'
import { toStoreError } from './error.ts'

/**
 * S3's minimum for every part but the last, and the least to hold in memory. With 10,000 parts an object has up to 48
 * GiB.
 */
export const PART_BYTES = 5 * 1024 * 1024
const IN_FLIGHT = 2
/** Bun collects too rarely for streamed bytes: without explicit calls, 500 MB left 100 to 400 MB behind (Bun 1.4.4). */
const COLLECT_BYTES = 32 * 1024 * 1024

/**
 * Splits a stream into parts of PART_BYTES; the last may be shorter. Ends the stream when ended itself. Add parts that
 * are no longer needed to `spare` for reuse: otherwise they pile up faster than they are collected.
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

type UploadTarget = {
  readonly sdk: typeof Sdk
  readonly client: Sdk.S3Client
  readonly bucket: string
  readonly path: string
  readonly type: string
}

type Upload = {
  /**
   * Sends all parts, IN_FLIGHT at a time, and returns their total size. On failure rejects once nothing is in flight.
   */
  send(
    first: Uint8Array,
    more: { readonly rest: AsyncIterable<Uint8Array>; readonly spare: Uint8Array[] },
  ): Promise<number>
  /** Combines the parts into an object. */
  complete(condition: { readonly IfNoneMatch?: string }): Promise<unknown>
  /** Deletes the parts from the store. */
  abort(): Promise<unknown>
}

/**
 * Starts an upload. If neither completed nor aborted, it stays in the store, invisible, until a lifecycle rule removes
 * it.
 */
export async function beginUpload({ sdk, client, bucket, path, type }: UploadTarget): Promise<Upload> {
  const object = { Bucket: bucket, Key: path }
  const { UploadId } = await client
    .send(new sdk.CreateMultipartUploadCommand({ ...object, ContentType: type }))
    .catch(throwStoreError)
  const upload = { ...object, UploadId }
  const parts: Sdk.CompletedPart[] = []

  return {
    async send(first, { rest, spare }) {
      const stop = new AbortController()
      const inFlight = new Set<Promise<void>>()
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
          inFlight.delete(flight)
          if (bytes.length === PART_BYTES) spare.push(bytes)
        }, throwStoreError)
        // A failure is reported when awaited; until then it must not count as unhandled.
        flight.catch(() => {})
        inFlight.add(flight)
      }

      try {
        launch(first)
        for await (const bytes of rest) {
          launch(bytes)
          if (size % COLLECT_BYTES < bytes.length) collect()
          // Wait before gathering the next part, so that no more parts than IN_FLIGHT are held.
          if (inFlight.size === IN_FLIGHT) await Promise.race(inFlight)
        }
        await Promise.all(inFlight)
        return size
      } catch (error) {
        stop.abort()
        await Promise.allSettled(inFlight)
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

function throwStoreError(error: unknown): never {
  throw toStoreError(error, 'put')
}

/** Does nothing outside Bun. */
function collect(): void {
  const { Bun } = globalThis as { Bun?: { gc(isNow: boolean): void } }
  Bun?.gc(true)
}
