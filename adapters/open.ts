/** Opens a storage or an object store by its URL. Only what the URL names is loaded. */
import type { Objects, Storage } from '../core/mod.ts'

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
  if (url === 'memory:') return (await import('./storage/memory.ts')).memoryStorage()
  if (url.startsWith('sqlite:')) return await openSqlite(url.slice('sqlite:'.length))
  if (!/^postgres(?:ql)?:\/\//.test(url))
    throw new RangeError(
      `openStorage: the URL must be sqlite:<file>, postgres://user@host/database or memory:; it begins ${protocolOf(url)}`,
    )
  const { postgresStorage } = await import('./storage/postgres/mod.ts')
  const storage = postgresStorage(url)
  await storage.ready().catch(async (error: unknown) => {
    await storage.close()
    throw error
  })
  return storage
}

/** SQLite serves one process, so the file is locked until the storage is closed, or the process ends. */
async function openSqlite(path: string): Promise<Storage> {
  if (path === '') throw new RangeError('openStorage: sqlite: needs a file, such as sqlite:farebox.db')
  const { holdAlone, sqliteStorage } = await import('./storage/sqlite/mod.ts')
  if (path === ':memory:') return sqliteStorage(path)
  const hold = holdAlone(path)
  if (!hold)
    throw new Error(
      `openStorage: another process has ${path}. SQLite serves one process: stop the other one, or use postgres://.`,
    )
  try {
    const storage = sqliteStorage(path)
    return {
      ...storage,
      async close() {
        await storage.close()
        hold.release()
      },
    }
  } catch (error) {
    hold.release()
    throw error
  }
}

/** What an S3 URL does not hold: its keys, and the region where the URL has none. */
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

/** The protocol alone, because the rest may hold a password. */
function protocolOf(url: string): string {
  return JSON.stringify(/^[a-z][a-z0-9+.-]{0,20}:/i.exec(url)?.[0] ?? url.slice(0, 12))
}
