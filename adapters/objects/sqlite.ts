import type { Objects } from '../../core/ports/mod.ts'
import { cancelBody, checkObject, resolveRange } from './check.ts'

/** A Durable Object stores at most two megabytes in a row. */
const PART_BYTES = 1 << 20

/** The part of a SQLite driver that this file uses. */
type Database = {
  exec(sql: string): unknown
  prepare(sql: string): {
    run(...values: (string | number | Uint8Array)[]): unknown
    values(...values: (string | number | Uint8Array)[]): unknown[][]
  }
  transaction<T>(step: () => T): T
}

/**
 * Objects in a SQLite database, in parts of a megabyte: for runtimes without a disk. Give it a driver; its two tables
 * are created when they are not there. The parts of an upload that a crash has interrupted are deleted.
 */
export function sqliteObjects(database: Database): Objects {
  database.exec(`
    CREATE TABLE IF NOT EXISTS objects (
      key TEXT PRIMARY KEY NOT NULL, upload TEXT NOT NULL UNIQUE, type TEXT NOT NULL, size INTEGER NOT NULL
    );
    CREATE TABLE IF NOT EXISTS object_parts (
      upload TEXT NOT NULL, part INTEGER NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (upload, part)
    );
    DELETE FROM object_parts WHERE upload NOT IN (SELECT upload FROM objects);
  `)
  const find = database.prepare('SELECT upload, type, size FROM objects WHERE key = ?')
  const publish = database.prepare('INSERT OR IGNORE INTO objects (key, upload, type, size) VALUES (?, ?, ?, ?)')
  const addPart = database.prepare('INSERT INTO object_parts (upload, part, bytes) VALUES (?, ?, ?)')
  const readPart = database.prepare('SELECT bytes FROM object_parts WHERE upload = ? AND part = ?')
  const remove = database.prepare('DELETE FROM objects WHERE key = ?')
  const removeParts = database.prepare('DELETE FROM object_parts WHERE upload = ?')

  function stored(key: string): { upload: string; type: string; size: number } | undefined {
    const row = find.values(key)[0]
    return row && { upload: String(row[0]), type: String(row[1]), size: Number(row[2]) }
  }

  function bytesOf(upload: string, { first, last }: { first: number; last: number }): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(last - first + 1)
    for (let part = Math.floor(first / PART_BYTES); part * PART_BYTES <= last; part++) {
      const start = part * PART_BYTES
      const whole = readPart.values(upload, part)[0]?.[0]
      if (!(whole instanceof Uint8Array)) throw new Error('the object was deleted while it was read')
      const wanted = whole.subarray(Math.max(first - start, 0), last - start + 1)
      bytes.set(wanted, Math.max(start - first, 0))
    }
    return bytes
  }

  /** Reads a part when it is wanted. Fails when the object has been deleted meanwhile. */
  function streamOf(upload: string, size: number): ReadableStream<Uint8Array> {
    let first = 0
    return new ReadableStream({
      pull(controller) {
        const last = Math.min(first + PART_BYTES, size) - 1
        controller.enqueue(bytesOf(upload, { first, last }))
        first = last + 1
        if (first === size) controller.close()
      },
    })
  }

  /** Stores the parts, then gives them their name. The first object under a key stays. */
  async function store(key: string, pieces: AsyncIterable<Uint8Array>, type: string): Promise<number> {
    const upload = crypto.randomUUID()
    let size = 0
    try {
      let part = 0
      for await (const bytes of inParts(pieces)) {
        addPart.run(upload, part++, bytes)
        size += bytes.length
      }
      database.transaction(() => publish.run(key, upload, type, size))
    } finally {
      if (stored(key)?.upload !== upload) removeParts.run(upload)
    }
    return stored(key)?.size ?? size
  }

  return {
    async put(key, bytes, type) {
      checkObject(key, type)
      if (!stored(key)) await store(key, only(bytes.slice()), type)
    },

    async putStream(key, body, type) {
      try {
        checkObject(key, type)
        return { size: stored(key)?.size ?? (await store(key, body, type)) }
      } finally {
        cancelBody(body)
      }
    },

    async get(key, range) {
      const found = stored(key)
      if (!found) return undefined
      const { upload, type, size } = found
      if (!range && size > PART_BYTES) return { body: streamOf(upload, size), size, type }
      if (!range) return { body: bytesOf(upload, { first: 0, last: size - 1 }), size, type }
      const part = resolveRange(range, size)
      return { body: part ? bytesOf(upload, part) : new Uint8Array(0), size, type, part }
    },

    async delete(key) {
      const found = stored(key)
      if (!found) return
      database.transaction(() => {
        remove.run(key)
        removeParts.run(found.upload)
      })
    },
  }
}

async function* only(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}

/** The same bytes in parts of `PART_BYTES`, the last one shorter. */
async function* inParts(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let part = new Uint8Array(PART_BYTES)
  let filled = 0
  for await (const piece of pieces) {
    for (let at = 0; at < piece.length;) {
      const taken = piece.subarray(at, at + PART_BYTES - filled)
      part.set(taken, filled)
      filled += taken.length
      at += taken.length
      if (filled < PART_BYTES) continue
      yield part
      part = new Uint8Array(PART_BYTES)
      filled = 0
    }
  }
  if (filled > 0) yield part.slice(0, filled)
}
