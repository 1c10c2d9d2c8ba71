import { type FileHandle, link, mkdir, open, rename, rm, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { isObjectKey } from '../../core/keys.ts'
import type { Objects } from '../../core/ports.ts'
import { checkObject } from './check.ts'

/** Up to here an object is read whole; beyond, it is streamed. */
const SMALL = 256 * 1024
/** What link(2) answers where the file system has no hard links. */
const NO_LINKS = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'])

/**
 * Objects as files under `dir`, each with its type in a first line, so that both appear at once or not at all. What `put` has
 * promised survives a power loss. A crash may leave an unfinished file in `.incoming`; nothing reads it.
 */
export function diskObjects(dir: string): Objects {
  const root = resolve(dir)
  const incoming = join(root, '.incoming')
  let count = 0

  /** No key has an @, so a file is never in the way of a folder: `a` and `a/b` may both be keys. */
  const pathOf = (key: string) => join(root, `${key}@`)

  /** Exclusive, so a name that another process or a crash has left behind is passed over. */
  async function openTemporary(): Promise<{ path: string; file: FileHandle }> {
    await mkdir(incoming, { recursive: true, mode: 0o700 })
    for (;;) {
      const path = join(incoming, `${process.pid}-${count++}`)
      const file = await open(path, 'wx', 0o600).catch((error) => {
        if (codeOf(error) !== 'EEXIST') throw error
      })
      if (file) return { path, file }
    }
  }

  return {
    async put(key, bytes, type) {
      checkObject(key, type)
      const content = withType(bytes, type)
      const path = pathOf(key)
      if (await exists(path)) return
      const temporary = await openTemporary()
      try {
        await writeDurably(temporary.file, content)
        const folder = dirname(path)
        const made = await mkdir(folder, { recursive: true, mode: 0o700 })
        await publish(temporary.path, path)
        await syncFolders(folder, made === undefined ? folder : dirname(made))
      } finally {
        await rm(temporary.path, { force: true })
      }
    },

    async get(key) {
      if (!isObjectKey(key)) return undefined
      const file = Bun.file(pathOf(key))
      const head = await file.slice(0, SMALL).bytes().catch(absent)
      if (!head) return undefined
      const start = head.indexOf(NEWLINE) + 1
      const { type } = JSON.parse(new TextDecoder().decode(head.subarray(0, start))) as { type: string }
      const isWhole = head.length < SMALL
      if (isWhole) return { body: head.subarray(start), size: head.length - start, type }
      return { body: file.slice(start).stream(), size: file.size - start, type }
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

async function writeDurably(file: FileHandle, content: Uint8Array): Promise<void> {
  try {
    await file.writeFile(content)
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Gives a finished file its name, unless another has it: linking, unlike renaming, replaces nothing. */
async function publish(from: string, to: string): Promise<void> {
  try {
    await link(from, to)
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return
    if (!NO_LINKS.has(codeOf(error))) throw error
    if (!(await exists(to))) await rename(from, to)
  }
}

/** A new name is on disk only when its folder is, up to the first folder that was there before. */
async function syncFolders(from: string, upTo: string): Promise<void> {
  for (let folder = from; ; folder = dirname(folder)) {
    const handle = await open(folder, 'r')
    await handle.sync().finally(() => handle.close())
    if (folder === upTo || folder === dirname(folder)) return
  }
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
