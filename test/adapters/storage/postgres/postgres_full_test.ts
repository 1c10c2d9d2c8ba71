import { Database } from 'bun:sqlite'
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { DatabaseError } from '../../../../adapters/storage/database_error.ts'
import { memoryStorage } from '../../../../adapters/storage/memory/mod.ts'
import { LOOKUP_TABLES, SUPERSEDED } from '../../../../adapters/storage/postgres/lookups.ts'
import { LOCK, migrate, migrations } from '../../../../adapters/storage/postgres/migrations.ts'
import { postgresManifest } from '../../../../adapters/storage/postgres/manifest.ts'
import { type PostgresStorage, postgresStorage } from '../../../../adapters/storage/postgres/mod.ts'
import { ask } from '../../../../adapters/storage/postgres/statements.ts'
import { tables } from '../../../../adapters/storage/sql/schema.ts'
import { nameOf } from '../../../../adapters/storage/sql/statement.ts'
import { overBun } from '../../../../adapters/storage/sqlite/driver.ts'
import { migrate as migrateSqlite } from '../../../../adapters/storage/sqlite/migrations.ts'
import { usdc } from '../../../../core/x402/money.ts'
import type { Storage } from '../../../../core/ports/mod.ts'
import { runDurableLaws } from '../../../conformance/durable_storage.ts'
import { type Subject, runLaws } from '../../../conformance/law.ts'
import { storageLaws } from '../../../conformance/storage.ts'
import { dice, playMoney } from '../../../conformance/storage_model.ts'
import { T, newCall, questions, signed } from '../../../conformance/storage_questions.ts'
import { type PostgresServer, postgresServer } from './postgres_server.ts'

let server: PostgresServer
beforeAll(async () => {
  server = await postgresServer()
}, 300_000)
afterAll(() => server.stop(), 60_000)

runLaws('postgres storage', storageLaws, postgres)
runDurableLaws(postgresManifest, async () => ({ url: await server.fresh() }))

type PostgresSubject = Subject<PostgresStorage> & { readonly url: string }

async function postgres(options: Parameters<typeof postgresStorage>[1] = {}): Promise<PostgresSubject> {
  const url = await server.fresh()
  const opened: Storage[] = []
  return {
    url,
    async open() {
      const storage = postgresStorage(url, { timeoutMs: 60_000, ...options })
      opened.push(storage)
      return storage
    },
    async close() {
      for (const storage of opened) await storage.close()
    },
  }
}

// ── money ───────────────────────────────────────────────────────────────────────────────────────────────────────────

test('postgres storage: no buyer is charged twice in random games', async () => {
  for (const seed of [1, 2, 3]) {
    const subject = await postgres()
    expect({ seed, wrong: await playMoney(await subject.open(), seed, 250) }).toEqual({ seed, wrong: [] })
    await subject.close()
  }
}, 300_000)

test('postgres, asked through two handles, and memory storage give the same answers to the same 600 questions', async () => {
  const subject = await postgres()
  const handles = [await subject.open(), await subject.open()]
  const reference = memoryStorage()
  const nextQuestion = questions(dice(7))
  for (let n = 0; n < 600; n++) {
    const { verb, put } = nextQuestion()
    const answer = await put(handles[n % 2] as Storage)
    expect({ n, verb, answer }).toEqual({ n, verb, answer: await put(reference) })
  }
  await subject.close()
}, 300_000)

for (const besideOlder of [true, false]) {
  const locks = besideOlder ? '' : ', without locks of names'
  test(`postgres storage: 400 verbs at once, on the same few calls and keys, never wait for each other in a circle${locks}`, async () => {
    const subject = await postgres({ besideOlder })
    const handles = [await subject.open(), await subject.open()]
    const nextQuestion = questions(dice(11))
    const deadlocks = async () =>
      (
        await server.run(
          subject.url,
          'SELECT deadlocks::int AS count FROM pg_stat_database WHERE datname = current_database()',
        )
      )[0]?.count
    const before = await deadlocks()
    const verbs = Array.from({ length: 400 }, () => nextQuestion())
    const answers = await Promise.allSettled(verbs.map(({ put }, n) => put(handles[n % 2] as Storage)))
    expect(answers.flatMap((each) => (each.status === 'rejected' ? [String(each.reason)] : []))).toEqual([])
    await subject.close()
    expect(await deadlocks()).toBe(before)
  }, 300_000)

  test(`postgres storage: eight replicas let a payer spend a balance once${locks}`, async () => {
    const subject = await postgres({ connections: 2, besideOlder })
    const replicas = await Promise.all(Array.from({ length: 8 }, () => subject.open()))
    await Promise.all(replicas.map((storage) => storage.ready()))
    for (let n = 0; n < 15; n++) {
      const at = { now: T, until: T + 9, cap: { observed: usdc(5n), asOf: T } }
      const open = (storage: Storage, racer: number) =>
        storage.openCall(
          newCall(`call ${n} ${racer}`, { payer: `0x${n}` }),
          { ...signed(`key ${n} ${racer}`), payer: `0x${n}` },
          at,
        )
      const answers = await Promise.all(replicas.map(open))
      expect(answers.map(({ kind }) => kind).sort()).toEqual(['opened', ...Array(7).fill('over')])
    }
    await subject.close()
  })

  test(`postgres storage: an authorization that is free again is taken over once, by an open or by a claim${locks}`, async () => {
    const subject = await postgres({ besideOlder })
    const [one, two] = [await subject.open(), await subject.open()]
    const at = { now: T, until: T + 9 }
    for (let n = 0; n < 20; n++) {
      const key = signed(`free ${n}`)
      await one.openCall(newCall(`failed ${n}`), key, at)
      await one.moveCall(`failed ${n}`, { workStatus: ['queued'] }, { workStatus: 'failed', error: 'upstream' })
      const id = `claiming ${n}`
      await one.openCall(newCall(id), signed(id), at)
      const claim = await one.claimSettlement(id, signed(id), { ...at, result: { result: 1, expiresAt: T + 9 } })
      await one.finishSettlement(id, claim.kind === 'yours' ? claim.token : 0, { kind: 'dead' }, { now: T })
      const answers = await Promise.all([
        two.claimSettlement(id, key, at),
        ...Array.from({ length: 6 }, (_, racer) =>
          (racer % 2 ? one : two).openCall(newCall(`racer ${n} ${racer}`, { payer: `0x${racer}` }), key, at),
        ),
      ])
      const kinds = answers.map(({ kind }) => kind)
      expect(kinds.filter((kind) => kind !== 'replayed').length).toBe(1)
      const winner = answers
        .map((answer, racer) => (answer.kind === 'replayed' ? [] : [racer === 0 ? id : `racer ${n} ${racer - 1}`]))
        .flat()
      expect([(await one.callOf(key.key, T))?.id]).toEqual(winner)
    }
    await subject.close()
  })

  test(`postgres storage: two jobs that offer each other's authorizations do not wait for each other${locks}`, async () => {
    const subject = await postgres({ besideOlder })
    const [one, two] = [await subject.open(), await subject.open()]
    for (let n = 0; n < 20; n++) {
      for (const id of [`left ${n}`, `right ${n}`]) {
        await one.openCall(newCall(id), signed(id), { now: T, until: T + 9 })
        await one.moveCall(id, { workStatus: ['queued'] }, { workStatus: 'completed', result: 1 })
        const claim = await one.claimSettlement(id, signed(id), { now: T, until: T + 9 })
        await one.finishSettlement(id, claim.kind === 'yours' ? claim.token : 0, { kind: 'dead' }, { now: T })
      }
      const at = { now: T, until: T + 9 }
      const answers = await Promise.all([
        one.claimSettlement(`left ${n}`, signed(`right ${n}`), at),
        two.claimSettlement(`right ${n}`, signed(`left ${n}`), at),
      ])
      expect(answers.map(({ kind }) => kind)).toEqual(['replayed', 'replayed'])
    }
    await subject.close()
  })
}

test('postgres storage: its time is the database’s, to the millisecond', async () => {
  const subject = await postgres()
  const storage = await subject.open()
  const databaseTime = async () =>
    Number(
      (await server.run(subject.url, 'SELECT floor(extract(epoch from clock_timestamp()) * 1000)::bigint AS now'))[0]
        ?.now,
    )
  const [before, now, after] = [await databaseTime(), await storage.now?.(), await databaseTime()]
  expect([typeof now, before <= Number(now), Number(now) <= after]).toEqual(['number', true, true])
  await subject.close()
})

// ── what is written ─────────────────────────────────────────────────────────────────────────────────────────────────

test('postgres storage: a step of which a part cannot be written leaves nothing', async () => {
  const subject = await postgres()
  const storage = await subject.open()
  await storage.openCall(newCall('call'), signed('key'), { now: T, until: T + 1 })
  const before = await storage.getCall('call')
  const unwritable = { result: 1n as never, expiresAt: T + 9 }
  await expect(
    storage.claimSettlement('call', signed('key'), { now: T, until: T + 5, result: unwritable }),
  ).rejects.toThrow('BigInt')
  const insane = { ...signed('key 2'), payment: 1n as never }
  await expect(storage.openCall(newCall('other'), insane, { now: T, until: T + 1 })).rejects.toThrow('BigInt')
  expect(await storage.getCall('call')).toEqual(before)
  expect(await storage.getCall('other')).toBeUndefined()
  const claim = await storage.claimSettlement('call', signed('key'), {
    now: T,
    until: T + 5,
    result: { result: 1, expiresAt: T + 9 },
  })
  expect(claim).toEqual({ kind: 'yours', token: 1 })
  await subject.close()
})

test('postgres storage: verbs that arrive together are answered one by one, and one that fails fails alone', async () => {
  const subject = await postgres()
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

test('postgres storage: text of any characters is found again', async () => {
  const subject = await postgres()
  const storage = await subject.open()
  const plain = ['a', '\0', '\uE000', '\uE0000', '\uE0001\0', '%', '\\0', 'ü \u{1F3AB}']
  const odd = plain.map((each) => `${each}\0`)
  for (const id of plain)
    await storage.openCall(newCall(id, { payer: id }), signed(`key ${id}`), { now: T, until: T + 1 })
  for (const id of plain) {
    expect(await storage.getCall(id)).toMatchObject({ id, payer: id, authorization: `key ${id}` })
    await storage.moveCall(id, { workStatus: ['queued'] }, { workStatus: 'failed', error: `${id} says: no\0.` })
    expect((await storage.getCall(id))?.error).toBe(`${id} says: no\0.`)
  }
  for (const id of odd) expect(await storage.getCall(id)).toBeUndefined()
  expect(await storage.prune(T + 9_999_999)).toBe(plain.length)
  await subject.close()
})

test('postgres storage: sums of which no call is left are deleted with the last one', async () => {
  const subject = await postgres()
  const storage = await subject.open()
  const client = new Client(subject.url)
  await client.connect()
  const sums = async () => (await client.query('SELECT part, calls::int FROM spend_totals')).rows
  for (const [n, id] of ['first', 'second'].entries()) {
    const at = T + n * 10
    await storage.openCall(newCall(id, { expiresAt: T + 100 }), signed(id, T + 100), { now: T, until: T + 50 })
    const result = { result: { made: id }, expiresAt: T + 100 }
    const claim = await storage.claimSettlement(id, undefined, { now: at, until: at + 50, result })
    const receipt = { transaction: `0x${n}`, network: 'eip155:84532', payer: newCall(id).payer, amount: '5' }
    if (!('token' in claim)) throw new Error(claim.kind)
    await storage.finishSettlement(id, claim.token, { kind: 'paid', receipt }, { now: at })
  }
  expect(await sums()).toEqual([{ part: '1', calls: 2 }])
  await storage.prune(T + 1_000)
  expect(await storage.pruneLedger(T + 5, T + 1_000)).toBe(1)
  expect(await sums()).toEqual([{ part: '1', calls: 1 }])
  expect(await storage.pruneLedger(T + 50, T + 1_000)).toBe(1)
  expect(await sums()).toEqual([])
  await client.end()
  await subject.close()
})

test('postgres storage: money is a number to those who write reports', async () => {
  const subject = await postgres()
  const storage = await subject.open()
  for (const [n, quote] of [1n, 2n ** 63n].entries()) {
    await storage.openCall(newCall(`call ${n}`, { quote: usdc(quote) }), signed(`key ${n}`), { now: T, until: T + 1 })
  }
  expect(await server.run(subject.url, 'SELECT sum(quote) AS sum FROM calls')).toEqual([
    { sum: (2n ** 63n + 1n).toString() },
  ])
  await subject.close()
})

// ── connections ─────────────────────────────────────────────────────────────────────────────────────────────────────

test('postgres storage: a server that was killed and started again is used again, with all that was answered', async () => {
  const { own } = server
  if (!own) return
  // However long the server takes to start, the first one waits.
  const subject = await postgres({ waitMs: 100_000 })
  const [storage, hasty] = [await subject.open(), postgresStorage(subject.url, { waitMs: 60 })]
  const open = (id: string, by = storage) => by.openCall(newCall(id), signed(`key ${id}`), { now: T, until: T + 1 })
  expect((await open('before')).kind).toBe('opened')
  expect((await hasty.getCall('before'))?.id).toBe('before')
  await own.kill()
  const meanwhile = await Promise.allSettled([hasty.getCall('before'), open('meanwhile', hasty)])
  for (const each of meanwhile)
    expect(each).toMatchObject({
      status: 'rejected',
      reason: { message: expect.stringContaining('the database cannot be reached') },
    })
  const waiting = Array.from({ length: 20 }, (_, n) => open(`waiting ${n}`))
  await own.start()
  expect((await Promise.all(waiting)).map(({ kind }) => kind)).toEqual(Array(20).fill('opened'))
  for (const each of [storage, hasty]) {
    expect((await each.getCall('before'))?.id).toBe('before')
    expect(await each.getCall('meanwhile')).toBeUndefined()
  }
  await hasty.close()
  await subject.close()
}, 300_000)

test('postgres storage: connections that the server ends are replaced, and no verb notices', async () => {
  const subject = await postgres({ connections: 3 })
  const storage = await subject.open()
  await storage.openCall(newCall('call'), signed('key'), { now: T, until: T + 1 })
  for (let n = 0; n < 5; n++) {
    await server.run(
      subject.url,
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'farebox %'",
    )
    const found = await Promise.all([
      storage.getCall('call'),
      storage.lease('sweep', 'me', { now: T + n, until: T + n + 1 }),
      storage.callOf('key', T),
    ])
    expect(found).toMatchObject([{ id: 'call' }, true, { id: 'call' }])
  }
  await subject.close()
})

test('postgres storage: a connection that breaks behind the commit is reported, not tried again', async () => {
  const subject = await postgres()
  const storage = await subject.open()
  await storage.ready()
  // A slow write, whose connection ends while the commit waits behind it.
  await server.run(
    subject.url,
    'CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(9); RETURN NEW; END $$',
  )
  await server.run(subject.url, 'CREATE TRIGGER slow BEFORE INSERT ON leases FOR EACH ROW EXECUTE FUNCTION slowly()')
  const asking = storage.lease('sweep', 'me', { now: T, until: T + 1 }).catch((error: unknown) => error)
  const asleep = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'farebox %' AND wait_event = 'PgSleep'"
  let pids: Record<string, unknown>[] = []
  while (pids.length === 0) pids = await server.run(subject.url, asleep)
  await server.run(subject.url, `SELECT pg_terminate_backend(${Number(pids[0]?.pid)})`)
  const error = await asking
  expect(error).toBeInstanceOf(DatabaseError)
  expect(error).toMatchObject({
    kind: 'failed',
    message: expect.stringContaining('the transaction may have been committed'),
  })
  await subject.close()
})

test('postgres storage: whoever waits too long for a lock is told so, and nobody else waits', async () => {
  const subject = await postgres({ connections: 2, timeoutMs: 3_000 })
  const storage = await subject.open()
  const open = (id: string, payer: string) =>
    storage.openCall(newCall(id, { payer }), signed(id), { now: T, until: T + 1 })
  await open('first', 'slow')
  const other = new Client({ connectionString: subject.url })
  await other.connect()
  await other.query("BEGIN; SELECT * FROM calls WHERE id = 'first' FOR UPDATE")
  const stuck = Array.from({ length: 5 }, () =>
    storage
      .moveCall('first', { workStatus: ['queued'] }, { workStatus: 'in_progress' })
      .catch((error: unknown) => error),
  )
  for (let n = 0; n < 20; n++) expect((await open(`quick ${n}`, 'quick')).kind).toBe('opened')
  expect(await stuck[0]).toMatchObject({
    name: 'DatabaseError',
    code: '57014',
    message: 'the database took too long (57014)',
  })
  await other.query('ROLLBACK')
  await other.end()
  await Promise.all(stuck)
  await subject.close()
})

test('postgres storage: no more connections are opened than it may have', async () => {
  const subject = await postgres({ connections: 3 })
  const storage = await subject.open()
  const pending = Array.from({ length: 100 }, (_, n) =>
    storage.openCall(newCall(`call ${n}`, { payer: `0x${n}` }), signed(`key ${n}`), { now: T, until: T + 1 }),
  )
  await Promise.all(pending)
  const open = "SELECT count(*)::int AS count FROM pg_stat_activity WHERE application_name LIKE 'farebox %'"
  // Those of the test before this one may still be closing.
  for (let count = Infinity; count > 3;) count = Number((await server.run(subject.url, open))[0]?.count)
  await subject.close()
})

test('postgres storage: close() answers what was asked before it, and nothing after', async () => {
  const subject = await postgres()
  const storage = await subject.open()
  const pending = storage.openCall(newCall('call'), signed('key'), { now: T, until: T + 1 })
  await storage.close()
  expect((await pending).kind).toBe('opened')
  await expect(storage.getCall('call')).rejects.toThrow('closed')
  await expect(storage.lease('sweep', 'me', { now: T, until: T + 1 })).rejects.toThrow('closed')
  await storage.close()
})

test('postgres storage: errors tell neither SQL nor values nor the URL', async () => {
  const secret = 'hunter2'
  const subject = await postgres()
  const storage = await subject.open()
  await storage.openCall(newCall(secret), signed('key'), { now: T, until: T + 1 })
  const url = new URL(subject.url)
  url.password = secret
  const elsewhere = new URL(url)
  elsewhere.port = '1'
  const nowhere = new URL(url)
  nowhere.pathname = `/${secret}`
  const failing: [PostgresStorage, () => Promise<unknown>, string][] = [
    [
      storage,
      () => storage.openCall(newCall(secret), signed('other'), { now: T, until: T + 1 }),
      'the database refused (23505 by calls_pkey)',
    ],
    ...[
      [elsewhere.href, 'the database cannot be reached (ECONNREFUSED)'] as const,
      [nowhere.href, 'the server has no database of that name (3D000)'] as const,
      [`postgres://u:${secret}@[bad/x`, 'the database cannot be reached (ERR_INVALID_URL)'] as const,
    ].map(([bad, message]): [PostgresStorage, () => Promise<unknown>, string] => {
      const broken = postgresStorage(bad, { waitMs: 60 })
      return [broken, () => broken.ready(), message]
    }),
  ]
  for (const [broken, open, message] of failing) {
    const error = await open().catch((reason: unknown) => reason)
    expect(error).toMatchObject({ name: 'DatabaseError', message })
    expect(Bun.inspect(error)).not.toContain(secret)
    expect(String(error)).not.toMatch(/insert|select/i)
    await broken.close()
  }
}, 300_000)

test('postgres storage: it runs under Node', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'farebox-node-'))
  const built = await Bun.build({
    entrypoints: [join(import.meta.dirname, '../../../../adapters/storage/postgres/mod.ts')],
    target: 'node',
    format: 'esm',
    outdir: dir,
    naming: 'postgres.mjs',
  })
  expect(built.success).toBe(true)
  const subject = await postgres()
  const script = `
    import { postgresStorage } from './postgres.mjs'
    const storage = postgresStorage(${JSON.stringify(subject.url)})
    const call = JSON.parse(${JSON.stringify(JSON.stringify({ ...newCall('from node'), quote: 0 }))})
    const { kind } = await storage.openCall({ ...call, quote: 5n }, ${JSON.stringify(signed('key'))}, { now: ${T}, until: ${T + 1}, cap: { observed: 9n, asOf: ${T} } })
    console.log(kind)
    await storage.close()
  `
  await Bun.write(join(dir, 'main.mjs'), script)
  const child = Bun.spawn(['node', 'main.mjs'], { cwd: dir, stdout: 'pipe', stderr: 'inherit' })
  expect(await new Response(child.stdout).text()).toBe('opened\n')
  expect(await (await subject.open()).getCall('from node')).toMatchObject({ quote: usdc(5n), workStatus: 'queued' })
  await subject.close()
  await rm(dir, { recursive: true })
}, 300_000)

test('postgres storage: no statement looks through a table of calls, authorizations or windows', async () => {
  const subject = await postgres()
  await (await subject.open()).ready()
  const client = new Client({ connectionString: subject.url })
  await client.connect()
  // Of an empty table, the planner takes any index for as good as another.
  await client.query(`
    INSERT INTO calls (id, gateway, endpoint, payer, asset, quote, "authorization", fingerprint, created_at, work_status,
      payment_status, worker_id, lease_expires_at, settled_at, expires_at, claim_token, claim_fresh, emptied, offer, receipt)
    SELECT 'call ' || n, 'devnet', 'images', '0x' || n % 500, 'asset', 5, 'key ' || n, 'f', n, 'completed',
      'settled', 'me', n, n, n, 1, false, false, '{}', '{"transaction":"0x' || md5(n::text) || '"}'
    FROM generate_series(1, 5000) n;
    INSERT INTO settled_calls SELECT payer, settled_at, id, right(id, 16) FROM calls;
    ANALYZE calls, settled_calls`)
  await client.query('SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off')
  const scans: string[] = []
  for (const { name, text } of Object.values(ask)) {
    await client.query(`PREPARE q_${name} AS ${text}`)
    const values = Array.from(new Set(text.match(/\$\d+/g)), () => 'NULL').join(', ')
    const { rows } = await client.query<{ 'QUERY PLAN': string }>(`EXPLAIN EXECUTE q_${name}${values && `(${values})`}`)
    for (const { 'QUERY PLAN': line } of rows)
      if (/Seq Scan on (?!leases|open_calls)/.test(line)) scans.push(`${name}: ${line}`)
    const plan = rows.map(({ 'QUERY PLAN': line }) => line).join('\n')
    if (name === 'spent')
      expect(plan).toMatch(
        /(?:on|using) settled_calls_of_wallet[^]*Index Cond: \(\(wallet = \$1\) AND \(paid_at >= \$2\) AND \(paid_at < \$3\)\)/,
      )
  }
  expect(scans).toEqual([])
  await client.end()
  await subject.close()
})

// ── migrations ──────────────────────────────────────────────────────────────────────────────────────────────────────

test('postgres storage: of twelve replicas that start at once each finds the database ready', async () => {
  const url = await server.fresh()
  const replicas = Array.from({ length: 12 }, () => postgresStorage(url))
  await Promise.all(replicas.map((storage) => storage.ready()))
  expect(await server.run(url, 'SELECT step::int, name FROM migrations')).toEqual(
    migrations.map(({ name }, at) => ({ step: at + 1, name })),
  )
  await Promise.all(replicas.map((storage, n) => storage.lease(`${n}`, 'me', { now: T, until: T + 1 })))
  for (const storage of replicas) await storage.close()
})

test('postgres storage: a replica waits for one that migrates for longer than any verb may take', async () => {
  const url = await server.fresh()
  const other = new Client({ connectionString: url })
  await other.connect()
  await other.query('BEGIN')
  const migrating = other
    .query(`SELECT pg_advisory_xact_lock(${LOCK}), pg_sleep(0.4)`)
    .then(() => other.query('COMMIT'))
  const storage = postgresStorage(url, { timeoutMs: 100 })
  await storage.ready()
  await migrating
  expect(await storage.lease('sweep', 'me', { now: T, until: T + 1 })).toBe(true)
  await other.end()
  await storage.close()
})

test('postgres: migrate() takes each step once, and a step that fails leaves nothing behind', async () => {
  const url = await server.fresh()
  const client = new Client({ connectionString: url })
  await client.connect()
  const [first, second] = [
    { name: 'first', sql: 'CREATE TABLE a (x int)' },
    { name: 'second', sql: 'INSERT INTO a VALUES (2)' },
  ]
  const broken = { name: 'broken', sql: 'CREATE TABLE b (x int); INSERT INTO nowhere VALUES (1)' }
  await migrate(client, [first])
  await expect(migrate(client, [first, second, broken])).rejects.toThrow('the database lacks a table (42P01)')
  await migrate(client, [first, second])
  await migrate(client, [first, second])
  await client.end()
  expect(await server.run(url, 'SELECT x FROM a')).toEqual([{ x: 2 }])
  expect(await server.run(url, "SELECT to_regclass('b') AS b")).toEqual([{ b: null }])
  expect(await server.run(url, 'SELECT step::int, name FROM migrations')).toEqual([
    { step: 1, name: 'first' },
    { step: 2, name: 'second' },
  ])
})

test('postgres: a database of a newer or another Farebox is refused, and left as it is', async () => {
  const future = [...migrations, { name: 'from the future', sql: 'CREATE TABLE future (x int)' }]
  const stranger = [{ name: 'something else', sql: 'CREATE TABLE other (x int)' }]
  const refusals = [
    [
      future,
      `The Postgres database was written by a newer Farebox: it has ${migrations.length + 1} migrations, this version knows ${migrations.length}`,
    ],
    [stranger, 'its migration 1 is "something else"'],
  ] as const
  for (const [had, message] of refusals) {
    const url = await server.fresh()
    const client = new Client({ connectionString: url })
    await client.connect()
    await migrate(client, had)
    const tables = 'SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() ORDER BY 1'
    const before = (await client.query(tables)).rows
    const storage = postgresStorage(url)
    await expect(storage.ready()).rejects.toThrow(message)
    await expect(storage.getCall('call')).rejects.toThrow(message)
    expect((await client.query(tables)).rows).toEqual(before)
    await client.end()
    await storage.close()
  }
})

test('postgres: an engine that was never tried is refused by its name, unless the URL allows it', async () => {
  const url = new URL(await server.fresh())
  // Found before the one of the server.
  url.searchParams.set('options', `${url.searchParams.get('options')},pg_catalog`)
  const version = 'PostgreSQL 11.2-YB-2.25.0.0-b0 on x86_64'
  await server.run(url.href, `CREATE FUNCTION version() RETURNS text LANGUAGE sql AS $$ SELECT '${version}'::text $$`)
  const refused = postgresStorage(url.href)
  await expect(refused.ready()).rejects.toThrow('This database is YugabyteDB, which Farebox was never tried on')
  await expect(refused.getCall('call')).rejects.toThrow('YugabyteDB')
  expect(await server.run(url.href, "SELECT to_regclass('calls') AS calls")).toEqual([{ calls: null }])
  await refused.close()
  url.searchParams.set('allow_untested_database', 'yes')
  const allowed = postgresStorage(url.href)
  expect((await allowed.openCall(newCall('call'), signed('key'), { now: T, until: T + 1 })).kind).toBe('opened')
  await allowed.close()
})

test('the Postgres tables are those of schema.ts, and have the indexes of the SQLite tables', async () => {
  const subject = await postgres()
  await (await subject.open()).ready()
  const run = (sql: string) => server.run(subject.url, sql)
  const there = await run('SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1')
  // SQLite needs no rows that are only locked, looks calls up by indexes of their table, and its driver counts buyers.
  const own = ['payers', 'buyers_by_day', ...LOOKUP_TABLES]
  expect(there.map(({ name }) => name)).toEqual([...tables.map(({ name }) => name), ...own].sort())
  const sqlite = new Database(':memory:')
  migrateSqlite(overBun(sqlite))
  for (const { name, fields } of tables) {
    const columns = await run(`
      SELECT attname AS name, format_type(atttypid, atttypmod) AS type, attnotnull AS required
      FROM pg_attribute WHERE attrelid = '${name}'::regclass AND attnum > 0 ORDER BY attnum`)
    const described = Object.values<Parameters<typeof nameOf>[0]>(fields).map((column) => ({
      name: nameOf(column).replaceAll('"', ''),
      type: TYPES[column.kind],
      required: !column.isNullable,
    }))
    if (name === 'calls') described.push({ name: 'due_at', type: 'bigint', required: true })
    expect({ name, columns }).toEqual({ name, columns: described })
    const found = await run(
      `SELECT indexrelid::regclass::text AS name FROM pg_index WHERE indrelid = '${name}'::regclass AND NOT indisprimary ORDER BY 1`,
    )
    const ofSqlite = sqlite.query<{ name: string }, [string]>(
      "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL ORDER BY 1",
    )
    const wanted = ofSqlite.all(name).filter((index) => !SUPERSEDED.includes(index.name))
    expect(found).toEqual([...wanted, ...(name === 'calls' ? [{ name: 'calls_due' }] : [])].toSorted(byName))
  }
  sqlite.close()
  await subject.close()
})

const byName = (one: { name?: unknown }, other: { name?: unknown }) => (String(one.name) < String(other.name) ? -1 : 1)

const TYPES = { text: 'text', integer: 'bigint', amount: 'numeric(78,0)', json: 'text', flag: 'boolean' }

// ── plans ───────────────────────────────────────────────────────────────────────────────────────────────────────────

test('postgres storage: on a fresh database without autovacuum an open does not read every settled call', async () => {
  const subject = await postgres({ connections: 1 })
  const storage = await subject.open()
  await storage.ready()
  for (const { name } of tables) await server.run(subject.url, `ALTER TABLE ${name} SET (autovacuum_enabled = false)`)
  const calls = 800
  for (let n = 0; n < calls; n++) {
    const [id, payer] = [`call ${n}`, `0x${n % 200}`]
    const key = { ...signed(id), payer }
    const times = { now: T + n, until: T + n + 9 }
    const cap = { observed: usdc(10n ** 12n), asOf: times.now, newWallets: { paid: usdc(1n), isFull: false } }
    await storage.openCall(newCall(id, { payer }), key, { ...times, cap })
    const claim = await storage.claimSettlement(id, key, { ...times, result: { result: 1, expiresAt: T + 10 ** 9 } })
    const receipt = { transaction: `0x${n}`, network: 'eip155:8453', payer, amount: '5' }
    const paid = { kind: 'paid' as const, receipt }
    await storage.finishSettlement(id, claim.kind === 'yours' ? claim.token : 0, paid, { now: times.now })
  }
  await subject.close()
  // A session publishes what it counted when it ends.
  const sessions = `SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'farebox %' AND datname = current_database()`
  while ((await server.run(subject.url, sessions)).length > 0);
  const [read] = await server.run(
    subject.url,
    `SELECT sum(idx_tup_read)::int AS rows FROM pg_stat_user_indexes
     WHERE schemaname = current_schema() AND relname = 'calls'`,
  )
  // Each of two statements would read about 320,000.
  expect(Number(read?.rows)).toBeLessThan(50 * calls)
}, 300_000)
