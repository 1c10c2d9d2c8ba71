/** When the write-ahead log is merged into the file, by whom, and that nothing is lost by it. */
import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { checkpoints, checkpointsOf } from '../../../adapters/storage/sqlite/checkpoints.ts'
import { openDriver } from '../../../adapters/storage/sqlite/driver.ts'
import { type SqliteStorage, sqliteStorage } from '../../../adapters/storage/sqlite/mod.ts'
import { scaled } from '../../scope.ts'

/** Passes that end when they are told to. */
function manual() {
  const passes: ReturnType<typeof Promise.withResolvers<void>>[] = []
  const made = checkpoints(() => {
    const pass = Promise.withResolvers<void>()
    passes.push(pass)
    return pass.promise
  })
  const ends = async (index: number) => {
    passes[index]?.resolve()
    await turns()
  }
  return { ...made, passes, ends }
}
const turns = async () => {
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve))
}
/** Whether commits may go on. */
async function isFree(turn: Promise<void>): Promise<boolean> {
  let free = false
  void turn.then(() => (free = true))
  await turns()
  return free
}

test('the log is merged when a thousand rows or four megabytes have come, and commits go on meanwhile', async () => {
  for (const [rows, bytes] of [
    [1_000, 1],
    [1, 4 << 20],
  ] as const) {
    const { note, turn, passes } = manual()
    note(rows - 1, bytes - 1)
    expect([passes.length, await isFree(turn())]).toEqual([0, true])
    note(1, bytes)
    note(1_500, bytes)
    expect([passes.length, await isFree(turn())]).toEqual([1, true])
  }
})

test('after a pass commits wait for a second one, once, with which the log begins again', async () => {
  const { note, turn, passes, ends } = manual()
  note(1_000, 1)
  note(10, 1)
  await ends(0)
  const waiting = turn()
  expect([passes.length, await isFree(waiting)]).toEqual([2, false])
  await ends(1)
  expect(await isFree(waiting)).toBe(true)
  expect([await isFree(turn()), passes.length]).toEqual([true, 2])
  note(1_000, 1)
  expect(passes).toHaveLength(3)
})

test('commits wait for a pass that is eight behind, by rows and by bytes', async () => {
  for (const [rows, bytes] of [
    [8_000, 1],
    [1, 1 + (32 << 20)],
  ] as const) {
    const { note, turn, ends } = manual()
    note(1_000, 1)
    note(rows - 1, bytes - 1)
    expect(await isFree(turn())).toBe(true)
    note(1, bytes)
    const waiting = turn()
    expect(await isFree(waiting)).toBe(false)
    await ends(0)
    await ends(1)
    expect(await isFree(waiting)).toBe(true)
  }
})

test('a pass that another process hinders is made again, and one at which the disk fails ends all writing', async () => {
  const errors = [
    Object.assign(new Error('busy'), { isOfDisk: false }),
    Object.assign(new Error('EIO'), { isOfDisk: true }),
  ]
  const { note, turn } = checkpoints(() => Promise.reject(errors.shift()))
  note(1_000, 1)
  await turns()
  await expect(turn()).rejects.toThrow('EIO')
  await expect(turn()).rejects.toThrow('EIO')
})

async function inFolder(run: (file: string) => Promise<void>): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'farebox-checkpoints-'))
  try {
    await run(join(dir, 'farebox.db'))
  } finally {
    rmSync(dir, { recursive: true })
  }
}

const LOAD = join(import.meta.dirname, 'sqlite_load.ts')
/** More rows than it takes in the worst case until the log begins again: a pass that is eight behind, and some. */
const MAX_ROWS = 20_000
const BATCH = 250

const put = (storage: SqliteStorage, from: number) =>
  Promise.all(
    Array.from({ length: BATCH }, (_, index) =>
      storage.putRecord({ kind: 'k', id: `${from + index}`, owner: 'o', expiresAt: 2, data: 'x'.repeat(200) }, 1),
    ),
  )

/** How often the log has begun again: its header counts it (bytes 12 to 15). */
const beginningsOf = (file: string): number => readFileSync(`${file}-wal`).readUInt32BE(12)

/** Writes until the log begins again. Resolves with the rows. */
async function untilItBeginsAgain(storage: SqliteStorage, file: string, from: number): Promise<number> {
  const before = beginningsOf(file)
  for (let rows = 0; rows < MAX_ROWS; rows += BATCH) {
    await put(storage, from + rows)
    if (beginningsOf(file) > before) return rows + BATCH
  }
  throw new Error(`the log did not begin again within ${MAX_ROWS} rows`)
}

function requireWhole(file: string, rows: number): void {
  const database = new Database(file)
  expect(database.query('SELECT count(*) AS n FROM records').get()).toEqual({ n: rows })
  expect(database.query('PRAGMA integrity_check').values()).toEqual([['ok']])
  database.close()
}

test('a storage that is written all the time begins its log again and again, and loses nothing', async () => {
  await inFolder(async (file) => {
    const storage = sqliteStorage(file)
    await put(storage, 0)
    let rows = BATCH
    for (let turn = 0; turn < 2; turn++) rows += await untilItBeginsAgain(storage, file, rows)
    await storage.close()
    requireWhole(file, rows)
  })
})

test('the log keeps what a long reader reads, and begins again after it', async () => {
  await inFolder(async (file) => {
    const storage = sqliteStorage(file)
    await put(storage, 0)
    const reader = new Database(file, { readonly: true })
    const count = () => reader.query('SELECT count(*) AS n FROM records').get()
    reader.run('BEGIN')
    expect(count()).toEqual({ n: BATCH })
    const before = beginningsOf(file)
    let rows = BATCH
    for (; rows < 6_000; rows += BATCH) await put(storage, rows)
    expect([count(), beginningsOf(file)]).toEqual([{ n: BATCH }, before])
    reader.run('COMMIT')
    reader.close()
    rows += await untilItBeginsAgain(storage, file, rows)
    await storage.close()
    requireWhole(file, rows)
  })
})

/** Sells until it has told of so many calls, and is killed. Resolves with all that it told of. */
async function soldUntilKilled(file: string, { prefix, calls }: { prefix: string; calls: number }) {
  const seller = Bun.spawn([process.execPath, LOAD, file, `${file}.chain`, prefix], { stdin: 'pipe', stdout: 'pipe' })
  let reported = ''
  for await (const bytes of seller.stdout) {
    reported += new TextDecoder().decode(bytes)
    if (reported.split('\n').length > calls) seller.kill('SIGKILL')
  }
  await seller.exited
  return reported.split('\n').slice(0, -1)
}

test('whenever a seller is killed while its log is merged, every call that it answered is in the ledger', async () => {
  await inFolder(async (file) => {
    await sqliteStorage(file).close()
    const reported: string[] = []
    for (let kill = 0; kill < scaled(2, 10); kill++)
      reported.push(...(await soldUntilKilled(file, { prefix: `life${kill}`, calls: 150 + 131 * kill })))
    await sqliteStorage(file).close()
    const database = new Database(file)
    expect(database.query('PRAGMA integrity_check').values()).toEqual([['ok']])
    const settled = database.query("SELECT id FROM calls WHERE payment_status = 'settled'").values().flat()
    expect(reported.filter((id) => !settled.includes(id))).toEqual([])
    database.close()
  })
}, 120_000)

test('a connection with a thread merges nothing by itself, and the thread merges all of it', async () => {
  await inFolder(async (file) => {
    const driver = openDriver(file)
    driver.exec('PRAGMA journal_mode = WAL')
    const merging = checkpointsOf(driver, file)
    expect(driver.prepare('PRAGMA wal_autocheckpoint').values()).toEqual([[0]])
    expect(driver.prepare('PRAGMA journal_size_limit').values()).toEqual([[64 << 20]])
    driver.exec('CREATE TABLE texts (text TEXT)')
    const insert = driver.prepare('INSERT INTO texts (text) VALUES (?)')
    for (let turn = 0; turn < 3; turn++)
      driver.transaction(() => {
        for (let number = 0; number < 1_000; number++) insert.run('x'.repeat(4_000))
      })
    expect(statSync(file).size).toBeLessThan(100_000)
    merging?.note(3_000, statSync(`${file}-wal`).size)
    await merging?.close()
    expect(statSync(file).size).toBeGreaterThan(10 << 20)
    driver.close()
  })
})

test('a connection whose thread has ended merges by itself again', async () => {
  await inFolder(async (file) => {
    const driver = openDriver(file)
    const merging = checkpointsOf(driver, `${file}.which_is_not_there`)
    expect(driver.prepare('PRAGMA wal_autocheckpoint').values()).toEqual([[0]])
    merging?.note(1_000, 0)
    await merging?.close()
    await merging?.turn()
    expect(driver.prepare('PRAGMA wal_autocheckpoint').values()).toEqual([[1_000]])
    driver.close()
  })
})
