/** Opens a storage or an object store by its URL. Only what the URL names is loaded. */
import type { Objects, Storage } from '../core/mod.ts'
import { protocolOf, storageManifest } from './storage/manifests.ts'

/**
 * Opens a storage and waits until it answers: `sqlite:<file>` for one process, `postgres://…` for any number, `memory:`
 * to forget everything at the end. Rejects, in words and without the URL's password, when it cannot be used: another
 * process has the file, the server refuses, or it was written by a newer version.
 *
 * @example
 * const storage = await openStorage('sqlite:farebox.db')
 * await storage.close()
 */
export async function openStorage(url: string): Promise<Storage> {
  const { hold, name, open, pathOf } = inWords(() => storageManifest(url))
  const lock = inWords(() => hold?.(url))
  if (hold && !lock)
    throw new Error(
      `openStorage: another process has ${pathOf?.(url)}. ${name} serves one process: stop the other one, or use postgres://.`,
    )
  try {
    const storage = await open(url)
    return {
      ...storage,
      async close() {
        await storage.close()
        lock?.release()
      },
    }
  } catch (error) {
    lock?.release()
    throw error
  }
}

/** A URL that names no storage is an error of the caller. */
function inWords<T>(step: () => T): T {
  try {
    return step()
  } catch (error) {
    if (error instanceof RangeError) throw new RangeError(`openStorage: ${error.message}`)
    throw error
  }
}

/** Settings that an S3 URL does not hold: the keys, and the region if the URL has none. */
export type S3Environment = Readonly<
  Partial<Record<'AWS_ACCESS_KEY_ID' | 'AWS_SECRET_ACCESS_KEY' | 'AWS_SESSION_TOKEN' | 'AWS_REGION', string>>
>

/**
 * Opens a store for media: `file:<folder>`, `s3://bucket/prefix?region=…&endpoint=…` with its keys in `environment`, or
 * `memory:`. Writes one small object, so that a store that is read-only is found out now. Rejects in words, without
 * keys.
 *
 * @example
 * const objects = await openObjects('file:media')
 * await objects.put('images/a.png', new Uint8Array([137, 80]), 'image/png')
 */
export async function openObjects(url: string, environment: S3Environment = {}): Promise<Objects> {
  const objects = await objectsOf(url, environment)
  await objects.put('start/probe', new Uint8Array([0]), 'application/octet-stream')
  return objects
}

async function objectsOf(url: string, environment: S3Environment): Promise<Objects> {
  if (url === 'memory:') return (await import('./objects/memory.ts')).memoryObjects()
  if (url.startsWith('file:') && url !== 'file:')
    return (await import('./objects/disk.ts')).diskObjects(url.slice('file:'.length))
  if (!url.startsWith('s3://'))
    throw new RangeError(
      `openObjects: the URL must be file:<folder>, s3://bucket/prefix or memory:; it begins ${protocolOf(url)}`,
    )
  const { s3FromUrl, s3Objects } = await import('./objects/s3/mod.ts')
  return s3Objects(s3FromUrl(url, environment))
}
