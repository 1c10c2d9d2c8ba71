import { randomUUID } from 'node:crypto'
import { mkdir, open, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { Readable } from 'node:stream'
import { isObjectKey } from '../../core/keys.ts'
import type { Objects } from '../../core/mod.ts'

/** Larger objects are streamed from disk. */
const STREAM_ABOVE = 1 << 20

/**
 * Objects as files under `dir`, their content types beside them as `<key>.type`. A file appears whole or not at all, and survives a
 * power loss once `put` has resolved.
 */
export function diskObjects(dir: string): Objects {
  const root = resolve(dir)
  return {
    async put(key, bytes, type) {
      if (!isObjectKey(key)) throw new RangeError(`not an object key: ${JSON.stringify(key)}`)
      const path = join(root, key)
      await mkdir(dirname(path), { recursive: true, mode: 0o700 })
      if (await typeOf(path)) return
      await write(path, bytes)
      await write(`${path}.type`, type)
    },

    async get(key) {
      if (!isObjectKey(key)) return undefined
      const path = join(root, key)
      const type = await typeOf(path)
      if (!type) return undefined
      const file = await open(path, 'r')
      const { size } = await file.stat()
      if (size > STREAM_ABOVE) return { body: Readable.toWeb(file.createReadStream()) as ReadableStream<Uint8Array>, size, type }
      const body = new Uint8Array(await file.readFile())
      await file.close()
      return { body, size, type }
    },
  }
}

/** The type is written last: where it is missing, so is the object. */
async function typeOf(path: string): Promise<string | undefined> {
  return await readFile(`${path}.type`, 'utf8').catch(() => undefined)
}

async function write(path: string, content: Uint8Array | string): Promise<void> {
  const temporary = `${path}.${randomUUID()}.tmp`
  const file = await open(temporary, 'wx', 0o600)
  try {
    await file.writeFile(content)
    await file.sync()
    await file.close()
    await rename(temporary, path)
  } catch (error) {
    await file.close().catch(() => {})
    await rm(temporary, { force: true })
    throw error
  }
}
