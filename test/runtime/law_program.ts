/**
 * The laws of storages and object stores as a program, for runtimes that have no `bun:test`. Prints one line of JSON
 * for each law: `suite`, `law` and, where it is broken, `error`. Its arguments are suites: `sqlite`, `disk`, a Postgres
 * URL.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { diskObjects } from '../../adapters/objects/disk.ts'
import { memoryStorage } from '../../adapters/storage/memory/mod.ts'
import { postgresStorage } from '../../adapters/storage/postgres/mod.ts'
import { sqliteStorage } from '../../adapters/storage/sqlite/mod.ts'
import type { Objects, Storage } from '../../core/ports/mod.ts'
import type { Law, Subject } from '../conformance/law.ts'
import { objectLaws } from '../conformance/objects.ts'
import { storageLaws } from '../conformance/storage.ts'
import { dice, playMoney } from '../conformance/storage_model.ts'
import { questions } from '../conformance/storage_questions.ts'

async function report(suite: string, law: string, check: () => Promise<void>): Promise<void> {
  const error = await check().then(
    () => undefined,
    (thrown: unknown) => (thrown instanceof Error ? thrown.message : String(thrown)).slice(0, 2_000),
  )
  console.log(JSON.stringify({ suite, law, ...(error !== undefined && { error }) }))
}

async function uphold<T>(suite: string, laws: readonly Law<T>[], make: () => Promise<Subject<T>>): Promise<void> {
  for (const law of laws)
    await report(suite, law.name, async () => {
      const subject = await make()
      await law.check(subject).finally(() => subject.close())
    })
}

function folder(): { readonly dir: string; remove(): void } {
  const dir = mkdtempSync(join(tmpdir(), 'farebox-laws-'))
  return { dir, remove: () => rmSync(dir, { recursive: true, force: true }) }
}

async function sqlite(): Promise<Subject<Storage>> {
  const { dir, remove } = folder()
  const opened: Storage[] = []
  return {
    async open() {
      const storage = sqliteStorage(join(dir, 'farebox.db'))
      opened.push(storage)
      return storage
    },
    async close() {
      for (const storage of opened) await storage.close()
      remove()
    },
  }
}

async function disk(): Promise<Subject<Objects>> {
  const { dir, remove } = folder()
  return { open: async () => diskObjects(dir), close: async () => remove() }
}

/** The schema that the URL names, emptied before each law. */
function postgres(url: string): () => Promise<Subject<Storage>> {
  const schema = /search_path=(\w+)/.exec(decodeURIComponent(url))?.[1] ?? 'public'
  return async () => {
    const client = new Client({ connectionString: url })
    await client.connect()
    await client.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE; CREATE SCHEMA ${schema}`)
    await client.end()
    const opened: Storage[] = []
    return {
      async open() {
        const storage = postgresStorage(url)
        opened.push(storage)
        return storage
      },
      async close() {
        for (const storage of opened) await storage.close()
      },
    }
  }
}

/** Beside the single laws: random games with money, and the answers of the reference. */
async function compare(suite: string, make: () => Promise<Subject<Storage>>): Promise<void> {
  await report(suite, 'no buyer is charged twice in random games', async () => {
    for (const seed of [1, 2, 3]) {
      const subject = await make()
      const wrong = await playMoney(await subject.open(), seed, 250)
      await subject.close()
      if (wrong.length > 0) throw new Error(`seed ${seed}: ${JSON.stringify(wrong)}`)
    }
  })
  await report(suite, 'it gives the same answers as the reference', async () => {
    const subject = await make()
    const [one, two] = [await subject.open(), memoryStorage()]
    const ask = questions(dice(7))
    for (let n = 0; n < 500; n++) {
      const { verb, put } = ask()
      const [answer, expected] = [spelled(await put(one)), spelled(await put(two))]
      if (answer !== expected) throw new Error(`question ${n}, ${verb}: ${answer} is not ${expected}`)
    }
    await subject.close()
  })
}

/** A value in one spelling: keys in order, bigints as text. */
function spelled(value: unknown): string | undefined {
  return JSON.stringify(value, (_, each: unknown) => {
    if (typeof each === 'bigint') return `${each}n`
    if (typeof each !== 'object' || each === null || Array.isArray(each)) return each
    return Object.fromEntries(Object.entries(each).sort(([a], [b]) => (a < b ? -1 : 1)))
  })
}

for (const suite of process.argv.slice(2)) {
  if (suite === 'disk') {
    await uphold('disk', objectLaws, disk)
    continue
  }
  const [name, make] = suite === 'sqlite' ? (['sqlite', sqlite] as const) : (['postgres', postgres(suite)] as const)
  await uphold(name, storageLaws, make)
  await compare(name, make)
}
