/**
 * Promises of every storage whose manifest says `isDurable`: what each verb wrote is there after close and reopen, and
 * after a kill. They open it as a gateway does, by its manifest.
 */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import type { StorageManifest } from '../../adapters/storage/manifest.ts'
import { memoryStorage } from '../../adapters/storage/memory/mod.ts'
import type { Storage } from '../../core/ports/mod.ts'
import { durableWrites, writeAll } from './durable_writes.ts'
import { law, runLaws, type Broken, type Law } from './law.ts'

/** A new, empty database. */
type FreshDatabase = { readonly url: string; remove?(): void }

/**
 * Registers the laws of a durable storage. `fresh` makes the URL of a new, empty database.
 *
 * @example
 * runDurableLaws(sqliteManifest, async () => ({ url: `sqlite:${newPath()}` }))
 */
export function runDurableLaws(manifest: StorageManifest, fresh: () => Promise<FreshDatabase>): void {
  const { name, isShared } = manifest
  runLaws(`${name} storage`, durableLaws, async () => {
    const { url, remove } = await fresh()
    const opened: Storage[] = []
    return {
      async open() {
        const storage = await manifest.open(url)
        opened.push(storage)
        return storage
      },
      async close() {
        for (const storage of opened) await storage.close()
        remove?.()
      },
    }
  })

  test(`${name} storage: what was answered survives kill -9, and ${isShared ? 'others' : 'nobody else'} may use it before`, async () => {
    const { url, remove } = await fresh()
    const child = Bun.spawn([process.execPath, join(import.meta.dirname, 'durable_child.ts'), url], {
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'inherit',
    })
    const output = await child.stdout.getReader().read()
    const isOpenToUs = manifest.hold === undefined || manifest.hold(url) !== undefined
    child.kill('SIGKILL')
    await child.exited
    expect(new TextDecoder().decode(output.value)).toBe('written\n')
    expect({ name, 'another process may open it while one has it': isOpenToUs }).toEqual({
      name,
      'another process may open it while one has it': isShared,
    })
    const lock = manifest.hold?.(url)
    const [storage, reference] = [await manifest.open(url), memoryStorage()]
    expect(storage.isShared ?? false).toBe(isShared)
    await writeAll(reference)
    expect(await readAll(storage)).toEqual(await readAll(reference))
    await storage.close()
    lock?.release()
    remove?.()
  }, 120_000)
}

/** Each compares with a memory storage that was never closed. */
export const durableLaws: readonly Law<Storage>[] = Object.entries(durableWrites).map(
  ([verb, { prepare, write, read }]) =>
    law(`what ${verb}() wrote is there after close and reopen`, async (subject) => {
      const [storage, reference] = [await subject.open(), memoryStorage()]
      for (const each of [storage, reference]) {
        await prepare?.(each)
        await write(each)
      }
      await storage.close()
      expect(await read(await subject.open())).toEqual(await read(reference))
    }),
)

/** A storage that is opened again from a journal of its writes, without the last one where that is of this verb. */
export const forgetfulStorages: readonly Broken<Storage>[] = Object.keys(durableWrites).map((verb) => ({
  law: `what ${verb}() wrote is there after close and reopen`,
  but: `forgets ${verb}() when it is closed at once`,
  async make() {
    const journal: { readonly name: string; again(storage: Storage): Promise<unknown> }[] = []
    const open = async () => {
      const storage = memoryStorage()
      for (const { again } of journal) await again(storage)
      const verbs = Object.keys(durableWrites) as (keyof typeof durableWrites)[]
      const written = verbs.map((name) => [
        name,
        (...given: readonly unknown[]) => {
          const again = (at: Storage) => (at[name] as (...given: readonly unknown[]) => Promise<unknown>)(...given)
          journal.push({ name, again })
          return again(storage)
        },
      ])
      const close = async () => {
        if (journal.at(-1)?.name === verb) journal.pop()
      }
      return { ...storage, ...Object.fromEntries(written), close } as Storage
    }
    return { open, close: async () => {} }
  },
}))

async function readAll(storage: Storage): Promise<Record<string, unknown>> {
  const found: Record<string, unknown> = {}
  for (const [verb, { read }] of Object.entries(durableWrites)) found[verb] = await read(storage)
  return found
}
