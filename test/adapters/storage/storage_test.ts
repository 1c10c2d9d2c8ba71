import { Database } from 'bun:sqlite'
import { describe, expect, test } from 'bun:test'
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { copied } from '../../../adapters/storage/copied.ts'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { tables } from '../../../adapters/storage/sql/schema.ts'
import { nameOf } from '../../../adapters/storage/sql/statement.ts'
import { statementsOf } from '../../../adapters/storage/sql/statements.ts'
import { sqliteDialect } from '../../../adapters/storage/sqlite/dialect.ts'
import { checkedContents } from '../../../adapters/storage/sqlite/backup.ts'
import { overBun } from '../../../adapters/storage/sqlite/driver.ts'
import { migrate, migrations } from '../../../adapters/storage/sqlite/migrations.ts'
import { sqliteLedger } from '../../../adapters/storage/sqlite/ledger.ts'
import { holdAlone, sqliteStorage } from '../../../adapters/storage/sqlite/mod.ts'
import { wordsOf } from '../../../adapters/storage/sqlite/soundness.ts'
import { weightOf } from '../../../adapters/storage/sql/database.ts'
import { writer } from '../../../adapters/storage/sqlite/writer.ts'
import { usdc } from '../../../core/x402/money.ts'
import type { Storage } from '../../../core/ports/mod.ts'
import { sqliteManifest } from '../../../adapters/storage/sqlite/manifest.ts'
import { brokenStorages } from '../../conformance/broken_storage.ts'
import { durableLaws, forgetfulStorages, runDurableLaws } from '../../conformance/durable_storage.ts'
import { durableWrites } from '../../conformance/durable_writes.ts'
import { type Subject, runBroken, runLaws } from '../../conformance/law.ts'
import { storageLaws } from '../../conformance/storage.ts'
import { dice, playMoney } from '../../conformance/storage_model.ts'
import { T, newCall, questions, signed } from '../../conformance/storage_questions.ts'
import { isFull, scaled } from '../../scope.ts'
import { digestOf, expectUpgraded, insertsOf, recordingOf, RELEASES } from './releases.ts'

const SQLITE = JSON.stringify(join(import.meta.dirname, '../../../adapters/storage/sqlite/mod.ts'))

runLaws('memory storage', storageLaws, memory)
runLaws('sqlite storage', storageLaws, sqlite)
if (isFull) runLaws('sqlite storage in memory', storageLaws, sqliteInMemory)
runBroken('storage', storageLaws, brokenStorages)

runDurableLaws(sqliteManifest, async () => {
  const { path, remove } = temporaryPath()
  return { url: `sqlite:${path}`, remove }
})
runBroken('durable storage', durableLaws, forgetfulStorages)

test('each law of a durable storage reads what its verb writes', async () => {
  for (const [verb, { prepare, write, read }] of Object.entries(durableWrites)) {
    const [written, unwritten] = [memoryStorage(), memoryStorage()]
    await prepare?.(written)
    await prepare?.(unwritten)
    await write(written)
    expect({ verb, read: await read(written) }).not.toEqual({ verb, read: await read(unwritten) })
  }
})

async function memory(): Promise<Subject<Storage>> {
  const storage = memoryStorage()
  return { open: async () => storage, close: async () => {} }
}

async function sqlite(): Promise<Subject<Storage>> {
  const { path, remove } = temporaryPath()
  const opened: Storage[] = []
  return {
    async open() {
      const storage = sqliteStorage(path)
      opened.push(storage)
      return storage
    },
    async close() {
      for (const storage of opened) await storage.close()
      remove()
    },
  }
}

/** A database of one connection; two handles would be two databases. */
async function sqliteInMemory(): Promise<Subject<Storage>> {
  const storage = sqliteStorage(':memory:')
  return { open: async () => storage, close: () => storage.close() }
}

// ── money ───────────────────────────────────────────────────────────────────────────────────────────────────────────

test('memory storage: no buyer is charged twice in random games of crashes, cancels and late broadcasts', async () => {
  for (let seed = 1; seed <= scaled(100, 400); seed++) {
    expect({ seed, wrong: await playMoney(memoryStorage(), seed, 250) }).toEqual({ seed, wrong: [] })
  }
})

test('sqlite storage: no buyer is charged twice in random games', async () => {
  for (const seed of [1, 2, 3, 4, 5]) {
    const subject = await sqlite()
    expect({ seed, wrong: await playMoney(await subject.open(), seed, 250) }).toEqual({ seed, wrong: [] })
    await subject.close()
  }
})

test('the random games catch storages that charge twice', async () => {
  const charging = [
    'frees what was refused',
    'prefers the one that is offered',
    'spends what another call was opened with',
    'takes a refusal for death',
  ]
  const caught: string[] = []
  for (const { but, make } of brokenStorages.filter((each) => charging.includes(each.but))) {
    for (let seed = 1; seed <= 100 && !caught.includes(but); seed++) {
      const wrong = await playMoney(await (await make()).open(), seed, 250)
      if (wrong.length > 0) caught.push(but)
    }
  }
  expect(caught.sort()).toEqual(charging)
})

test('sqlite and memory storage give the same answers to the same questions', async () => {
  // In the game of seed 10, a call is settled while an earlier authorization of it may still be sent.
  for (const seed of [7, 10]) {
    const subject = await sqlite()
    const [one, two] = [await subject.open(), memoryStorage()]
    const ask = questions(dice(seed))
    for (let n = 0; n < 2_000; n++) {
      const { verb, put } = ask()
      expect({ seed, n, verb, answer: await put(one) }).toEqual({ seed, n, verb, answer: await put(two) })
    }
    await subject.close()
  }
}, 300_000)

// ── the database ────────────────────────────────────────────────────────────────────────────────────────────────────

test('sqlite storage: what was answered survives kill -9', async () => {
  const { path, remove } = temporaryPath()
  const first = sqliteStorage(path)
  await first.openCall(newCall('call'), signed('key'), { now: T, until: T + 1 })
  await first.close()
  const child = spawn(`
    const { sqliteStorage } = await import(${SQLITE})
    const storage = sqliteStorage(${JSON.stringify(path)})
    const result = { result: { made: true }, expiresAt: ${T + 9} }
    const claim = await storage.claimSettlement('call', undefined, { now: ${T}, until: ${T + 5}, result })
    console.log(claim.kind)
    process.kill(process.pid, 'SIGKILL')
  `)
  expect(await new Response(child.stdout).text()).toBe('retry\n')
  await child.exited
  const storage = sqliteStorage(path)
  expect(await storage.getCall('call')).toMatchObject({
    workStatus: 'completed',
    paymentStatus: 'settling',
    result: { made: true },
    quote: usdc(5n),
  })
  const claim = await storage.claimSettlement('call', undefined, { now: T + 5, until: T + 9 })
  expect(claim).toMatchObject({ kind: 'retry', sent: true, authorization: signed('key') })
  await storage.close()
  remove()
})

test('sqlite storage: verbs that arrive together are answered one by one, and one that fails fails alone', async () => {
  const subject = await sqlite()
  const storage = await subject.open()
  const open = (id: string, key: string) => storage.openCall(newCall(id), signed(key), { now: T, until: T + 1 })
  const outcomes = await Promise.allSettled([
    open('a', 'key 1'),
    open('a', 'key 2'),
    open('b', 'key 1'),
    open('c', 'key 3'),
  ])
  expect(outcomes.map((each) => (each.status === 'fulfilled' ? each.value.kind : 'failed'))).toEqual([
    'opened',
    'failed',
    'replayed',
    'opened',
  ])
  await subject.close()
})

test('sqlite storage: close() answers what was asked before it, and nothing after; a second one does nothing', async () => {
  const { path, remove } = temporaryPath()
  const storage = sqliteStorage(path)
  const pending = storage.openCall(newCall('call'), signed('key'), { now: T, until: T + 1 })
  await storage.close()
  await storage.close()
  expect((await pending).kind).toBe('opened')
  await expect(storage.getCall('call')).rejects.toThrow('closed')
  await expect(storage.lease('sweep', 'me', { now: T, until: T + 1 })).rejects.toThrow('closed')
  remove()
})

test('sqlite storage: while another process writes, readers go on and writers wait without blocking', async () => {
  const { path, remove } = temporaryPath()
  const storage = sqliteStorage(path)
  await storage.openCall(newCall('before'), signed('key 1'), { now: T, until: T + 1 })
  const other = new Database(path)
  other.run('BEGIN IMMEDIATE')
  const log: string[] = []
  const writing = storage
    .openCall(newCall('after'), signed('key 2'), { now: T, until: T + 1 })
    .then(({ kind }) => log.push(kind))
  for (let turn = 0; turn < 3; turn++) {
    await new Promise((resolve) => setImmediate(resolve))
    expect((await storage.getCall('before'))?.id).toBe('before')
    log.push('read')
  }
  other.run('COMMIT')
  other.close()
  await writing
  expect(log).toEqual(['read', 'read', 'read', 'opened'])
  await storage.close()
  remove()
})

test('sqlite storage: what is written together is written at once, but for large results: others have a turn between them', async () => {
  const commits: number[] = []
  const db = { transaction: (step: () => unknown[]) => (commits.push(0), step()) }
  const { write } = writer(db as never)
  const step = () => void commits.push((commits.pop() ?? 0) + 1)
  const large = weightOf({ made: 'x'.repeat(600_000), media: [{ url: 'y'.repeat(300_000) }] })
  await Promise.all([
    ...Array.from({ length: 3 }, () => write(step)),
    write(step, large),
    write(step, large),
    write(step, 8 * large),
    ...Array.from({ length: 65 }, () => write(step)),
  ])
  expect([large, commits]).toEqual([900_000, [64, 6, 1]])
})

test('sqlite storage: a verb is answered after the flush, and so is a read of what is not flushed', async () => {
  const flushes = Array.from({ length: 2 }, () => Promise.withResolvers<void>())
  let flushed = 0
  const db = { transaction: (step: () => unknown[]) => step() }
  const { write, read, settle } = writer(db as never, () => flushes[flushed++]?.promise as Promise<void>)
  const log: string[] = []
  const say = (what: string) => () => void log.push(what)
  const turn = async () => {
    for (let n = 0; n < 3; n++) await new Promise((resolve) => setImmediate(resolve))
  }

  void read(() => 'row').then(say('read before'))
  void write(() => 1).then(say('first'))
  await turn()
  void write(() => 2).then(say('second'))
  void read(() => 'row').then(say('read of what was found'))
  void read(() => undefined).then(say('read of what is absent'))
  await turn()
  expect(log).toEqual(['read before', 'read of what is absent'])
  flushes[0]?.resolve()
  await turn()
  expect(log.slice(2).toSorted()).toEqual(['first', 'read of what was found'])
  flushes[1]?.resolve()
  await settle()
  expect([flushed, log.at(-1)]).toEqual([2, 'second'])
})

test('sqlite storage: after a flush that failed nothing is written or said to be stored', async () => {
  const steps: number[] = []
  const db = { transaction: (step: () => unknown[]) => step() }
  const { write, read } = writer(db as never, () => Promise.reject(new Error('EIO')))
  await expect(write(() => steps.push(1))).rejects.toThrow('EIO')
  await expect(write(() => steps.push(2))).rejects.toThrow('EIO')
  await expect(read(() => 'row')).rejects.toThrow('EIO')
  // An absent row too: /readyz asks for a row that is not there.
  await expect(read(() => undefined)).rejects.toThrow('EIO')
  expect(steps).toEqual([1])
})

describe('sqlite storage: a damaged file', () => {
  const open = async (storage: Storage, id: string) =>
    (await storage.openCall(newCall(id), signed(`key of ${id}`), { now: T, until: T + 60_000 })).kind

  /** A database of a thousand calls, with every page after the first few overwritten. */
  async function damaged() {
    const { path, remove } = temporaryPath()
    const storage = sqliteStorage(path)
    await Promise.all(Array.from({ length: 1_000 }, (_, index) => open(storage, `call ${index}`)))
    await storage.close()
    const bytes = readFileSync(path)
    writeFileSync(path, Buffer.concat([bytes.subarray(0, 40 * 4_096), Buffer.alloc(bytes.length - 40 * 4_096, 0xa5)]))
    return { path, remove }
  }

  test('is not opened where it is checked: up to the size that was given', async () => {
    const { path, remove } = await damaged()
    const { size } = statSync(path)
    expect(() => sqliteStorage(path, { checkUpTo: size })).toThrow(/is damaged [^]*farebox restore FILE --force/)
    await sqliteStorage(path, { checkUpTo: size - 1 }).close()
    remove()
  })

  test('ends all writes and reads at the first error that SQLite has for it', async () => {
    const { path, remove } = await damaged()
    const storage = sqliteStorage(path)
    expect(storage.failure()).toBeUndefined()
    const opened: string[] = []
    for (let index = 0; index < 50; index++)
      await open(storage, `new ${index}`).then(
        (kind) => void opened.push(kind),
        (error: Error) => expect(error.message).toContain('malformed'),
      )
    expect(storage.failure()).toContain(`${path} is damaged`)
    const before = opened.length
    await expect(open(storage, 'after')).rejects.toThrow('malformed')
    await expect(storage.getCall('readyz')).rejects.toThrow('malformed')
    expect(before).toBeLessThan(2)
    await storage.close().catch(() => {})
    remove()
  })

  test('is named when it is no database at all', () => {
    const { path, remove } = temporaryPath()
    writeFileSync(path, 'not a database, but longer than the header of one'.repeat(100))
    expect(() => sqliteStorage(path)).toThrow(`${path} is damaged`)
    remove()
  })
})

test.each([
  ['EACCES', 'cannot be written'],
  ['EROFS', 'cannot be written'],
  ['SQLITE_READONLY_DIRECTORY', 'cannot be written'],
  ['SQLITE_CANTOPEN', 'cannot be written'],
  ['ENOSPC', 'is full'],
  ['SQLITE_FULL', 'is full'],
  ['SQLITE_IOERR_WRITE', 'fails'],
  ['SQLITE_CORRUPT_INDEX', 'is damaged'],
])('sqlite storage: %s is told in words: %s', (code, words) => {
  const message = wordsOf(Object.assign(new Error('as the system says'), { code }), '/data/farebox.db')
  expect(message).toContain('/data/farebox.db')
  expect(message).toContain(words)
  expect(message).toContain(`(${code}: as the system says)`)
})

test('sqlite storage: a file or a folder that this user cannot write is refused in words before anything is opened', async () => {
  const { path, remove } = temporaryPath()
  await sqliteStorage(path).close()
  const folder = dirname(path)
  // Root may write everything.
  const user = process.geteuid?.() ?? 1
  const { mode } = statSync(folder)
  if (user === 0) chmodSync(folder, 0o755)
  if (user === 0) process.seteuid?.(65_534)
  else [path, folder].forEach((each) => chmodSync(each, 0o500))
  try {
    expect(() => sqliteStorage(path)).toThrow(/cannot be written \(.*Give the user that runs Farebox write access/)
    expect(() => holdAlone(path)).toThrow('cannot be written')
  } finally {
    if (user === 0) process.seteuid?.(0)
    chmodSync(folder, mode)
    remove()
  }
})

test('sqlite storage: the log is copied into the file each 16 MB, and then written from its start again', async () => {
  const { path, remove } = temporaryPath()
  const storage = sqliteStorage(path)
  const put = async (first: number, count: number) => {
    for (let at = first; at < first + count; at++)
      await storage.putRecord(
        { kind: 'note', id: `${at}`, owner: 'nobody', expiresAt: T + 1, data: 'x'.repeat(500_000) },
        T,
      )
  }
  const megabytes = (file: string) => statSync(file).size / 1e6
  await put(0, 20)
  expect([megabytes(`${path}-wal`) > 9, megabytes(path) < 1]).toEqual([true, true])
  await put(20, 60)
  expect([megabytes(`${path}-wal`) < 18, megabytes(path) > 20]).toEqual([true, true])
  await storage.close()
  remove()
})

test('sqlite storage: what a wallet has settled counts against a balance read before it, whoever recorded it', async () => {
  const { path, remove } = temporaryPath()
  const [one, other] = [sqliteStorage(path), sqliteStorage(path)]
  const cap = { observed: usdc(12n), asOf: T }
  const open = async (storage: Storage, id: string, more: object = {}) => {
    const at = { now: T, until: T + 60_000, cap: { ...cap, ...more } }
    return (await storage.openCall(newCall(id), signed(`key of ${id}`), at)).kind
  }
  const settle = async (storage: Storage, id: string, block: number) => {
    const result = { result: 'made', expiresAt: T + 99_999 }
    const claim = await storage.claimSettlement(id, signed(`key of ${id}`), { now: T, until: T + 60_000, result })
    const receipt = { transaction: id, network: 'eip155:84532', payer: '0xa', amount: '5', block }
    const token = claim.kind === 'yours' ? claim.token : 0
    await storage.finishSettlement(id, token, { kind: 'paid', receipt }, { now: T })
  }

  expect(await open(one, 'a')).toBe('opened')
  await settle(one, 'a', 7)
  expect(await open(one, 'b')).toBe('opened')
  await settle(other, 'b', 8)
  expect([await open(one, 'c'), await open(other, 'c')]).toEqual(['over', 'over'])
  // A balance of block 7 holds the first payment, and one of block 8 both.
  expect([await open(one, 'd', { block: 7 }), await open(one, 'e', { block: 8 })]).toEqual(['opened', 'opened'])
  await Promise.all([one.close(), other.close()])
  remove()
})

test("sqlite storage: the folder is made, and the files are their owner's only", async () => {
  const { path, remove } = temporaryPath('deep/er')
  const storage = sqliteStorage(path)
  const hold = holdAlone(path)
  for (const file of [path, `${path}-wal`, `${path}.lock`])
    expect({ file, others: statSync(file).mode & 0o077 }).toEqual({ file, others: 0 })
  hold?.release()
  await storage.close()
  expect(() => statSync(`${path}-wal`)).toThrow()
  remove()
})

test('sqlite storage: no statement looks through a table of calls, authorizations or windows', () => {
  const database = new Database(':memory:')
  migrate(overBun(database))
  const statements = Object.values(statementsOf(sqliteDialect)).filter(({ name }) => !SUPERSEDED.has(name))
  const scans: string[] = []
  for (const { text, name } of statements.filter(({ text }) => /^(select|update|delete)\b/.test(text))) {
    const values = Array.from(text.matchAll(/\?/g), () => 1)
    const plan = database.prepare(`EXPLAIN QUERY PLAN ${text}`).all(...values) as { detail: string }[]
    // Sums of groups are made of what the index alone has given.
    const allowed =
      text.includes(' group by ') &&
      plan.every(
        ({ detail }) =>
          !detail.startsWith('S') ||
          /COVERING INDEX calls_spent \(payer=\? AND settled_at>\? AND settled_at<\?\)/.test(detail) ||
          /^SEARCH (?:call|spend)_totals USING PRIMARY KEY/.test(detail),
      )
    for (const { detail } of plan)
      if (/^SCAN (?!leases|last$|days$|json_each )|TEMP B-TREE/.test(detail) && !allowed)
        scans.push(`${detail}: ${name}`)
  }
  expect(statements.length).toBeGreaterThan(40)
  expect(scans).toEqual([])
  database.close()
})

/** SQLite answers these in another way (sqlite/statements.ts, sqlite/settlements.ts). */
const SUPERSEDED = new Set(['exposed_calls', 'listed_of_payer'])

// ── one process ─────────────────────────────────────────────────────────────────────────────────────────────────────

test('holdAlone() refuses everybody else at once, until it is released', async () => {
  const { path, remove } = temporaryPath()
  const hold = holdAlone(path)
  expect(hold).toBeDefined()
  expect(holdAlone(path)).toBeUndefined()
  expect(await lockedByChild(path)).toBe('refused')
  hold?.release()
  hold?.release()
  expect(await lockedByChild(path)).toBe('held')
  const again = holdAlone(path)
  expect(again).toBeDefined()
  again?.release()
  remove()
})

test('holdAlone() is over when its process is killed, and not before', async () => {
  const { path, remove } = temporaryPath()
  const child = spawn(`
    const { holdAlone } = await import(${SQLITE})
    holdAlone(${JSON.stringify(path)})
    Bun.gc(true)
    console.log('held')
    setInterval(() => {}, 1_000)
  `)
  for await (const chunk of child.stdout) if (new TextDecoder().decode(chunk).includes('held')) break
  expect(holdAlone(path)).toBeUndefined()
  child.kill('SIGKILL')
  await child.exited
  const hold = holdAlone(path)
  expect(hold).toBeDefined()
  hold?.release()
  remove()
})

async function lockedByChild(path: string): Promise<string> {
  const child = spawn(`
    const { holdAlone } = await import(${SQLITE})
    console.log(holdAlone(${JSON.stringify(path)}) ? 'held' : 'refused')
  `)
  const output = await new Response(child.stdout).text()
  await child.exited
  return output.trim()
}

// ── migrations ──────────────────────────────────────────────────────────────────────────────────────────────────────

test('schema.ts and the migrated tables agree', () => {
  const database = new Database(':memory:')
  migrate(overBun(database))
  const there = database
    .query<{ name: string }, []>("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    .all()
  // Sums that SQLite alone remembers, and counts again where they are missing.
  const all = ['buyers_by_day', ...tables.map(({ name }) => name)]
  expect(there.map(({ name }) => name)).toEqual(all.sort())
  for (const { name, key, fields } of tables) {
    const columns = database
      .query<Column, []>(`SELECT name, type, "notnull" AS required, pk FROM pragma_table_info('${name}')`)
      .all()
    const described = Object.entries<Described>(fields).map(([field, column]) => ({
      name: nameOf(column).replaceAll('"', ''),
      type: column.kind === 'integer' || column.kind === 'flag' || SUMS.has(field) ? 'INTEGER' : 'TEXT',
      required: column.isNullable ? 0 : 1,
      pk: key.indexOf(field) + 1,
    }))
    expect({ name, columns }).toEqual({ name, columns: described })
  }
  expect(database.query("SELECT * FROM pragma_foreign_key_list('authorizations')").all()).toMatchObject([
    { table: 'calls', from: 'call', to: 'id' },
  ])
  database.close()
})

type Column = { name: string; type: string; required: number; pk: number }
type Described = Parameters<typeof nameOf>[0]
/** Parts of a sum are small enough for an INTEGER. */
const SUMS = new Set(['billions', 'rest'])

test('migrate() takes each step once, and a step that fails leaves nothing behind', () => {
  const database = new Database(':memory:')
  const [first, second] = [
    { name: 'first', sql: 'CREATE TABLE a (x)' },
    { name: 'second', sql: 'INSERT INTO a VALUES (2)' },
  ]
  const broken = { name: 'broken', sql: 'CREATE TABLE b (x); INSERT INTO nowhere VALUES (1)' }
  migrate(overBun(database), [first])
  expect(() => migrate(overBun(database), [first, second, broken])).toThrow('nowhere')
  migrate(overBun(database), [first, second])
  migrate(overBun(database), [first, second])
  expect(database.query('SELECT x FROM a').values()).toEqual([[2]])
  expect(database.query("SELECT name FROM sqlite_schema WHERE name = 'b'").values()).toEqual([])
  expect(database.query('SELECT step, name FROM migrations').values()).toEqual([
    [1, 'first'],
    [2, 'second'],
  ])
  database.close()
})

test('a database whose newer steps suit this version is used, and says with which step that would end', () => {
  const { path, remove } = temporaryPath()
  const steps = [
    { name: 'a column', sql: 'ALTER TABLE calls ADD COLUMN added TEXT', suitsOlder: true as const },
    { name: 'a column less', sql: 'ALTER TABLE calls DROP COLUMN added' },
  ]
  const database = new Database(path)
  migrate(overBun(database), [...migrations, ...steps.slice(0, 1)])
  migrate(overBun(database))
  migrate(overBun(database), [...migrations, ...steps])
  expect(() => migrate(overBun(database))).toThrow('was written by a newer Farebox')
  expect(database.query('SELECT min_reader FROM migrations ORDER BY step DESC LIMIT 2').values()).toEqual([
    [migrations.length + 2],
    [migrations.length],
  ])
  database.close()
  remove()
})

for (const release of RELEASES)
  test(`sqlite storage: a ledger of version ${release.version} is upgraded and loses nothing`, async () => {
    const { steps, digest } = release.sqlite
    expect(digestOf(migrations.slice(0, steps))).toBe(digest)
    const recording = await recordingOf(release)
    const { path, remove } = temporaryPath()
    const database = new Database(path)
    migrate(overBun(database), migrations.slice(0, steps))
    for (const insert of insertsOf(recording, { flag: (value) => String(Number(value)) })) database.run(insert)
    database.close()
    const storage = sqliteStorage(path)
    await expectUpgraded(storage, recording)
    await storage.close()
    expect(schemaOf(path)).toEqual(schemaOf(':memory:'))
    remove()
  })

/** Every table, column, index and trigger. A file is read; in memory it is a new one. */
function schemaOf(path: string) {
  const database = new Database(path)
  if (path === ':memory:') migrate(overBun(database))
  const objects = database.query<{ type: string; name: string; sql: string }, []>(
    'SELECT type, name, sql FROM sqlite_schema ORDER BY type, name',
  )
  const schema = objects.all().map(({ type, name, sql }) => {
    const columns = database.query(`SELECT * FROM pragma_table_info('${name}')`).values()
    return { type, name, is: type === 'table' ? columns : sql }
  })
  database.close()
  return schema
}

describe('a ledger of a development version before the first release', () => {
  function ledger(steps: readonly string[]) {
    const { path, remove } = temporaryPath()
    const database = new Database(path)
    migrate(overBun(database))
    database.run('DELETE FROM migrations')
    for (const [at, name] of steps.entries()) database.run('INSERT INTO migrations VALUES (?, ?, 1)', [at + 1, name])
    database.close()
    return { path, remove }
  }
  const STEPS = ['baseline', 'ledger retention', 'payments looked up', 'spend totals', 'indexes by day', 'call totals']

  test('is used if it has all its migrations', async () => {
    const { path, remove } = ledger([...STEPS, 'records listed by id'])
    expect(() => sqliteLedger(path)).toThrow('is of an older version. Start this version of Farebox on it once')
    const storage = sqliteStorage(path)
    await sqliteStorage(path).close()
    await storage.close()
    const reader = sqliteLedger(path)
    expect(await reader.listOpen(9)).toEqual([])
    await reader.close()
    expect(checkedContents(`${path}.before-migration-1`).migrations).toBe(1)
    const database = new Database(path)
    expect(database.query('SELECT * FROM migrations').values()).toEqual([
      [1, 'first release', 1],
      [2, 'sums by transaction', 2],
      [3, 'buyers by day', 3],
    ])
    database.close()
    remove()
  })

  test('is refused if it lacks some, with what to do, and left as it is', () => {
    const { path, remove } = ledger(STEPS)
    expect(() => sqliteStorage(path)).toThrow('Start the version of commit 8256b58f on it once, then this one')
    expect(() => sqliteLedger(path)).toThrow('it has 6 of its 7 migrations')
    const database = new Database(path)
    expect(database.query('SELECT name FROM migrations ORDER BY step').values().flat()).toEqual(STEPS)
    database.close()
    remove()
  })
})

test('a database of a newer or another Farebox is refused, and left as it is', () => {
  const { path, remove } = temporaryPath()
  const database = new Database(path)
  migrate(overBun(database), [...migrations, { name: 'from the future', sql: 'CREATE TABLE future (x)' }])
  database.close()
  expect(() => sqliteStorage(path)).toThrow(
    /was written by a newer Farebox: it has \d+ migrations, this version knows \d+/,
  )

  const other = new Database(':memory:')
  migrate(overBun(other), [{ name: 'something else', sql: 'CREATE TABLE other (x)' }])
  expect(() => migrate(overBun(other))).toThrow('its migration 1 is "something else"')
  expect(other.query("SELECT name FROM sqlite_schema WHERE name = 'calls'").values()).toEqual([])
  other.close()
  remove()
})

test('a file that is no database is refused', async () => {
  const { path, remove } = temporaryPath()
  await Bun.write(path, 'This is a letter to my aunt, and certainly not a database. '.repeat(100))
  expect(() => sqliteStorage(path)).toThrow('file is not a database')
  remove()
})

// ── what the tests above speak of ───────────────────────────────────────────────────────────────────────────────────

function temporaryPath(folder = '.'): { path: string; remove(): void } {
  const dir = mkdtempSync(join(tmpdir(), 'farebox-storage-'))
  return { path: join(dir, folder, 'farebox.sqlite'), remove: () => rmSync(dir, { recursive: true, force: true }) }
}

function spawn(script: string) {
  return Bun.spawn([process.execPath, '-e', script], { stdin: 'ignore', stdout: 'pipe', stderr: 'inherit' })
}

test('storages copy as structuredClone does', () => {
  const given: Record<string, unknown> = {
    text: 'a',
    amount: 1n,
    none: null,
    absent: undefined,
    list: [1, [2, { three: 3 }]],
    bytes: Uint8Array.of(1, 2),
    at: new Date(7),
    deep: JSON.parse('{"__proto__":{"a":1},"b":2}'),
  }
  const made = copied(given)
  expect(made).toEqual(structuredClone(given))
  expect(Object.keys(made)).toEqual(Object.keys(given))
  expect(Object.keys(made.deep as object)).toEqual(['__proto__', 'b'])
  for (const part of ['list', 'bytes', 'at', 'deep']) expect(made[part]).not.toBe(given[part])
  expect(() => copied({ call: () => {} })).toThrow()
})
