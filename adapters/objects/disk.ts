import { type FileHandle, link, mkdir, open, rename, rm, stat, unlink } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { boundedMap } from '../../core/lib/mod.ts'
import { isObjectKey, type Objects } from '../../core/ports/mod.ts'
import { checkObject, cancelBody, resolveRange } from './check.ts'

/** Objects up to this size in bytes are read whole; larger ones are streamed. */
const SMALL_BYTES = 256 * 1024
/** Upper bound of the first line of a file, in bytes. */
const LINE = 512
/** Folders that are remembered: one a kind of media and day. */
const MAX_FOLDERS = 100
/** Errors of link(2) on file systems without hard links. */
const NO_LINKS = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'])

/**
 * Objects as files under `dir`. The first line of a file contains the type, so that both appear at once or not at all.
 * A completed `put` survives a power loss. A crash may leave an unfinished file in `.incoming`, which nothing reads.
 */
export function diskObjects(dir: string): Objects {
  const root = resolve(dir)
  const incoming = join(root, '.incoming')
  /** Folders that are there and on disk, as far as this process knows. */
  const folders = boundedMap<Promise<void>>(MAX_FOLDERS)
  const syncNames = sharedSyncs()
  let count = 0

  /** Keys contain no @, so a file never blocks a folder: `a` and `a/b` may both be keys. */
  const pathOf = (key: string) => join(root, `${key}@`)

  /** Opens exclusively, and skips a name left by another process or a crash. */
  async function openTemporary(): Promise<{ path: string; file: FileHandle }> {
    for (;;) {
      const path = join(incoming, `${process.pid}-${count++}`)
      const file = await inFolder(incoming, () => open(path, 'wx', 0o600)).catch((error) => {
        if (codeOf(error) !== 'EEXIST') throw error
      })
      if (file) return { path, file }
    }
  }

  /** Makes a folder once, and again where somebody has deleted it meanwhile. */
  async function inFolder<Answer>(folder: string, work: () => Promise<Answer>): Promise<Answer> {
    const made = folders.get(folder) ?? makeFolder(folder)
    folders.set(folder, made)
    try {
      await made
      return await work()
    } catch (error) {
      folders.delete(folder)
      if (codeOf(error) !== 'ENOENT') throw error
      await makeFolder(folder)
      return await work()
    }
  }

  /** Writes to a temporary file, which gets its name once it is complete and on disk. */
  async function store(path: string, write: (file: FileHandle) => Promise<void>): Promise<void> {
    const temporary = await openTemporary()
    try {
      await writeDurably(temporary.file, write)
      const folder = dirname(path)
      await inFolder(folder, () => publish(temporary.path, path))
      await syncNames(folder)
    } finally {
      await unlink(temporary.path).catch(absent)
    }
  }

  /** Whether it is stored, on disk too: whoever stored it may not have come so far. */
  async function isStored(path: string): Promise<boolean> {
    if (!(await exists(path))) return false
    await syncNames(dirname(path))
    return true
  }

  return {
    async put(key, bytes, type) {
      checkObject(key, type)
      const content = withType(bytes, type)
      const path = pathOf(key)
      if (!(await isStored(path))) await store(path, (file) => file.writeFile(content))
    },

    async putStream(key, body, type) {
      try {
        checkObject(key, type)
        const path = pathOf(key)
        if (!(await isStored(path))) await store(path, (file) => writePieces(file, body, type))
        return { size: (await withObject(path, async ({ size }) => size)) ?? 0 }
      } finally {
        cancelBody(body)
      }
    },

    async get(key, range) {
      if (!isObjectKey(key)) return undefined
      const path = pathOf(key)
      return await withObject(path, async ({ file, start, size, type }) => {
        const part = range ? resolveRange(range, size) : { first: 0, last: size - 1 }
        const [from, to] = part ? [start + part.first, start + part.last + 1] : [0, 0]
        const isLarge = to - from > SMALL_BYTES
        const body = isLarge ? streamOf(path, from, to) : await readAll(file, from, to)
        return { body, size, type, ...(range && { part }) }
      })
    },

    /** Empty folders stay: another writer may be about to use them. */
    async delete(key) {
      if (isObjectKey(key)) await rm(pathOf(key)).catch(absent)
    },
  }
}

const NEWLINE = 10

function withType(bytes: Uint8Array, type: string): Uint8Array {
  const line = new TextEncoder().encode(`${JSON.stringify({ type })}\n`)
  const content = new Uint8Array(line.length + bytes.length)
  content.set(line)
  content.set(bytes, line.length)
  return content
}

async function writePieces(file: FileHandle, body: ReadableStream<Uint8Array>, type: string): Promise<void> {
  await file.writeFile(withType(new Uint8Array(0), type))
  for await (const piece of body) await writeAll(file, piece)
}

/** Repeats the write, because one call may write less than it is given. */
async function writeAll(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += (await file.write(bytes, at)).bytesWritten
}

async function writeDurably(file: FileHandle, write: (file: FileHandle) => Promise<void>): Promise<void> {
  try {
    await write(file)
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Opens an object while `work` runs: its file, where its bytes start, its size and type. Undefined when absent. */
async function withObject<Answer>(
  path: string,
  work: (object: { file: FileHandle; start: number; size: number; type: string }) => Promise<Answer>,
): Promise<Answer | undefined> {
  const file = await open(path, 'r').catch(absent)
  if (!file) return undefined
  try {
    const { size } = await file.stat()
    const head = await readAll(file, 0, Math.min(LINE, size))
    const start = head.indexOf(NEWLINE) + 1
    const { type } = JSON.parse(new TextDecoder().decode(head.subarray(0, start))) as { type: string }
    return await work({ file, start, size: size - start, type })
  } finally {
    await file.close()
  }
}

/** The bytes from `from` to before `to`, or to the end of the file where that comes first. */
async function readAll(file: FileHandle, from: number, to: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(to - from)
  for (let at = 0; at < bytes.length;) {
    const { bytesRead } = await file.read(bytes, at, bytes.length - at, from + at)
    if (bytesRead === 0) return bytes.subarray(0, at)
    at += bytesRead
  }
  return bytes
}

/** Opens the file with the first read, so that a body that nobody reads holds no file open. */
function streamOf(path: string, from: number, to: number): ReadableStream<Uint8Array> {
  let file: FileHandle | undefined
  let at = from
  return new ReadableStream<Uint8Array>(
    {
      async pull(stream) {
        try {
          file ??= await open(path, 'r')
          const piece = await readAll(file, at, Math.min(to, at + SMALL_BYTES))
          if (piece.length === 0) throw new Error(`a stored object ends ${to - at} bytes early`)
          at += piece.length
          stream.enqueue(piece)
          if (at < to) return
          await file.close()
          stream.close()
        } catch (error) {
          await file?.close()
          throw error
        }
      },
      cancel: () => file?.close(),
    },
    { highWaterMark: 0 },
  )
}

/** Names a finished file unless the name is taken: linking, unlike renaming, replaces nothing. */
async function publish(from: string, to: string): Promise<void> {
  try {
    await link(from, to)
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return
    if (!NO_LINKS.has(codeOf(error))) throw error
    if (!(await exists(to))) await rename(from, to)
  }
}

/** Makes a folder and those above it, and waits until their names are on disk. */
async function makeFolder(folder: string): Promise<void> {
  const first = await mkdir(folder, { recursive: true, mode: 0o700 })
  for (let made = folder; ; made = dirname(made)) {
    await syncFolder(dirname(made))
    if (first === undefined || made === first || made === dirname(made)) return
  }
}

/** Syncs folders: names that come into one while it is being synced share the next sync. */
function sharedSyncs(): (folder: string) => Promise<void> {
  const running = new Map<string, Promise<void>>()
  const next = new Map<string, Promise<void>>()

  async function sync(folder: string, last: Promise<void> | undefined): Promise<void> {
    await last?.catch(() => {})
    const now = syncFolder(folder)
    next.delete(folder)
    running.set(folder, now)
    await now.finally(() => {
      if (running.get(folder) === now) running.delete(folder)
    })
  }

  return (folder) => {
    const waiting = next.get(folder) ?? sync(folder, running.get(folder))
    next.set(folder, waiting)
    return waiting
  }
}

/** A new name is on disk only when its folder is. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  await handle.sync().finally(() => handle.close())
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(absent)) !== undefined
}

function absent(error: unknown): undefined {
  if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return undefined
  throw error
}

function codeOf(error: unknown): string {
  return String((error as { code?: unknown } | null)?.code)
}
