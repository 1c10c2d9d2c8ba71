/** Backup and restore of SQLite, beside a process that sells. */
import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import {
  existsSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { backupSqlite, checkedContents, restoreSqlite } from '../../../adapters/storage/sqlite/backup.ts'
import { overBun } from '../../../adapters/storage/sqlite/driver.ts'
import { migrate, migrations } from '../../../adapters/storage/sqlite/migrations.ts'
import { holdAlone, sqliteStorage } from '../../../adapters/storage/sqlite/mod.ts'
import { newCall, signed, T } from '../../conformance/storage_questions.ts'
import { scaled } from '../../scope.ts'

const LOAD = join(import.meta.dirname, 'sqlite_load.ts')

test('backups that are made under load and restored have every payment that was answered before, and no other', async () => {
  const { at, remove } = folder()
  const [path, chain] = [at('farebox.db'), at('chain')]
  await sqliteStorage(path).close()
  writeFileSync(chain, '')
  const load = Bun.spawn([process.execPath, LOAD, path, chain, 'first'], {
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
  })
  const output = linesOf(load.stdout)
  let differences = 0
  for (let round = 0; round < scaled(3, 30); round++) {
    await output.atLeast(50 * (round + 1))
    const before = new Set(output.lines)
    const backup = at(`backup-${round}.db`)
    const contents = backupSqlite(path, backup)
    const target = at(`restored-${round}/farebox.db`)
    restoreSqlite(backup, target)
    const { settled, claimed, paid } = readLedger(target)
    const onChain = new Set(readFileSync(chain, 'utf8').split('\n').filter(Boolean))
    // Answered calls are there; calls that are there were paid; payments that only the chain has came later.
    differences += [...before].filter((id) => !settled.has(id)).length
    differences += [...settled].filter((id) => !onChain.has(id)).length
    const forgotten = [...onChain].filter((id) => !settled.has(id) && !claimed.has(id))
    differences += forgotten.filter((id) => before.has(id)).length
    expect({ settled: contents.settled, paid }).toEqual({ settled: settled.size, paid: 22_000 * settled.size })
    rmSync(at(`restored-${round}`), { recursive: true })
    rmSync(backup)
  }
  load.stdin.end()
  expect(await load.exited).toBe(0)
  expect(differences).toBe(0)
  expect(readLedger(path).settled.size).toBe(readFileSync(chain, 'utf8').split('\n').filter(Boolean).length)
  remove()
}, 300_000)

test("a backup is complete, checked and its owner's only, and what exists is never overwritten", async () => {
  const { at, remove } = folder()
  await ledgerOf(at('farebox.db'), 'one')
  expect(backupSqlite(at('farebox.db'), at('copy.db'))).toEqual({
    migrations: migrations.length,
    calls: 1,
    settled: 0,
    unsettled: 0,
    newestAt: T,
  })
  expect(statSync(at('copy.db')).mode & 0o077).toBe(0)
  expect(() => backupSqlite(at('farebox.db'), at('copy.db'))).toThrow('copy.db exists')
  expect(() => backupSqlite(at('nowhere.db'), at('other.db'))).toThrow('There is no database at')
  expect(readdirSync(at('.')).sort()).toEqual(['copy.db', 'farebox.db'])
  remove()
})

test('restore refuses a place that is taken, unless told to move aside what is there, which is kept', async () => {
  const { at, remove } = folder()
  await ledgerOf(at('old.db'), 'old')
  backupSqlite(at('old.db'), at('copy.db'))
  await ledgerOf(at('farebox.db'), 'newer')
  expect(() => restoreSqlite(at('copy.db'), at('farebox.db'))).toThrow('With --force it is moved aside')
  expect(await idsIn(at('farebox.db'))).toEqual(['newer'])
  expect(restoreSqlite(at('copy.db'), at('farebox.db'), at('aside.db'))).toMatchObject({
    calls: 1,
    before: at('aside.db'),
  })
  expect(await idsIn(at('farebox.db'))).toEqual(['old'])
  expect(await idsIn(at('aside.db'))).toEqual(['newer'])
  remove()
})

test('restore refuses while a process has the database, and changes nothing', async () => {
  const { at, remove } = folder()
  await ledgerOf(at('farebox.db'), 'one')
  backupSqlite(at('farebox.db'), at('copy.db'))
  const hold = holdAlone(at('farebox.db'))
  expect(() => restoreSqlite(at('copy.db'), at('farebox.db'), at('aside.db'))).toThrow('Another Farebox is running on')
  hold?.release()
  expect(existsSync(at('aside.db'))).toBe(false)
  remove()
})

test('restore refuses what is cut short, is no database, is of another program or of a newer Farebox', async () => {
  const { at, remove } = folder()
  await ledgerOf(at('farebox.db'), 'one')
  const make = {
    'cut.db': () => {
      backupSqlite(at('farebox.db'), at('cut.db'))
      truncateSync(at('cut.db'), statSync(at('cut.db')).size - 8_192)
    },
    'letter.db': () => writeFileSync(at('letter.db'), 'This is a letter to my aunt. '.repeat(99)),
    'other.db': () => new Database(at('other.db')).run('CREATE TABLE dogs (name TEXT)'),
    'newer.db': () => {
      const database = new Database(at('newer.db'))
      migrate(overBun(database), [...migrations, { name: 'from the future', sql: 'CREATE TABLE future (x)' }])
      database.close()
    },
  }
  const refusals: Record<string, string> = {
    'cut.db': 'malformed|damaged',
    'letter.db': 'not a database',
    'other.db': 'is not a Farebox database',
    'newer.db': 'was written by a newer Farebox',
  }
  for (const [name, prepare] of Object.entries(make)) {
    prepare()
    expect(() => restoreSqlite(at(name), at('target.db')), name).toThrow(new RegExp(refusals[name] ?? ''))
    expect(existsSync(at('target.db')), name).toBe(false)
  }
  expect(readdirSync(at('.')).filter((name) => name.includes('incomplete'))).toEqual([])
  remove()
})

test('writes that are only in the log of a database that is moved aside stay with it, and never reach the backup', async () => {
  const { at, remove } = folder()
  await ledgerOf(at('farebox.db'), 'one')
  backupSqlite(at('farebox.db'), at('copy.db'))
  const child = Bun.spawn(
    [
      process.execPath,
      '-e',
      `const { sqliteStorage } = await import(${JSON.stringify(join(import.meta.dirname, '../../../adapters/storage/sqlite/mod.ts'))})
       const { newCall, signed, T } = await import(${JSON.stringify(join(import.meta.dirname, '../../conformance/storage_questions.ts'))})
       const storage = sqliteStorage(${JSON.stringify(at('farebox.db'))})
       await storage.openCall(newCall('late'), signed('late'), { now: T, until: T + 1 })
       process.kill(process.pid, 'SIGKILL')`,
    ],
    { stdout: 'inherit', stderr: 'inherit' },
  )
  await child.exited
  expect(existsSync(at('farebox.db-wal'))).toBe(true)
  restoreSqlite(at('copy.db'), at('farebox.db'), at('aside.db'))
  expect(await idsIn(at('farebox.db'))).toEqual(['one'])
  expect(await idsIn(at('aside.db'))).toEqual(['late', 'one'])
  remove()
})

test('before a database is upgraded, a backup of it is made beside it', async () => {
  const { at, remove } = folder()
  await sqliteStorage(at('farebox.db')).close()
  const step = { name: 'a column', sql: 'ALTER TABLE calls ADD COLUMN added TEXT', suitsOlder: true } as const
  await sqliteStorage(at('farebox.db'), { schema: [...migrations, step] }).close()
  expect(checkedContents(at(`farebox.db.before-migration-${migrations.length + 1}`)).migrations).toBe(migrations.length)
  expect(checkedContents(at('farebox.db')).migrations).toBe(migrations.length + 1)
  remove()
})

// ── what the tests above speak of ───────────────────────────────────────────────────────────────────────────────────

function folder(): { at(name: string): string; remove(): void } {
  const dir = mkdtempSync(join(tmpdir(), 'farebox-backup-'))
  return { at: (name) => join(dir, name), remove: () => rmSync(dir, { recursive: true, force: true }) }
}

async function ledgerOf(path: string, id: string): Promise<void> {
  const storage = sqliteStorage(path)
  await storage.openCall(newCall(id, { createdAt: T }), signed(id), { now: T, until: T + 1 })
  await storage.close()
}

async function idsIn(path: string): Promise<readonly string[]> {
  const database = new Database(path)
  const found = database.query<{ id: string }, []>('SELECT id FROM calls ORDER BY id').all()
  database.close()
  return found.map(({ id }) => id)
}

function readLedger(path: string) {
  const database = new Database(path)
  const ids = (status: string) =>
    new Set(
      database
        .query<{ id: string }, [string]>('SELECT id FROM calls WHERE payment_status = ?')
        .all(status)
        .map(({ id }) => id),
    )
  const paid = database
    .query<{ sum: number | null }, []>("SELECT sum(paid) AS sum FROM calls WHERE payment_status = 'settled'")
    .get()
  const ledger = { settled: ids('settled'), claimed: ids('settling'), paid: paid?.sum ?? 0 }
  database.close()
  return ledger
}

/** The lines that a child has written so far. */
function linesOf(stream: ReadableStream<Uint8Array>) {
  const lines: string[] = []
  let waiting: { count: number; resolve(): void } | undefined
  void (async () => {
    const decoder = new TextDecoder()
    let rest = ''
    for await (const chunk of stream) {
      const parts = (rest + decoder.decode(chunk, { stream: true })).split('\n')
      rest = parts.pop() ?? ''
      lines.push(...parts)
      if (waiting && lines.length >= waiting.count) waiting.resolve()
    }
  })()
  return {
    lines: lines as readonly string[],
    atLeast: (count: number): Promise<void> =>
      lines.length >= count
        ? Promise.resolve()
        : new Promise((resolve) => {
            waiting = { count, resolve }
          }),
  }
}
