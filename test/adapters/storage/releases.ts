/**
 * Upgrades from every release. The folder `releases` has two files for each: the rows of a ledger that it wrote, with
 * what it answered; and its SQL storages, built from its sources. A release adds them with
 * `bun test/adapters/storage/releases.ts VERSION`, and its line to RELEASES; none changes afterwards.
 */
import { Database } from 'bun:sqlite'
import { expect } from 'bun:test'
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runInThisContext } from 'node:vm'
import type { Migration } from '../../../adapters/storage/migration.ts'
import { nameOf } from '../../../adapters/storage/sql/statement.ts'
import { type Column, tables } from '../../../adapters/storage/sql/schema.ts'
import type { postgresStorage } from '../../../adapters/storage/postgres/mod.ts'
import { sqliteStorage } from '../../../adapters/storage/sqlite/mod.ts'
import type { Storage } from '../../../core/ports/mod.ts'
import { usdc } from '../../../core/x402/money.ts'
import { newCall, signed, T } from '../../conformance/storage_questions.ts'

/** A release: how many migrations its databases have, and the SHA-256 of their SQL. */
type Release = { readonly version: string } & Readonly<Record<'sqlite' | 'postgres', Schema>>
type Schema = { readonly steps: number; readonly digest: string }

export const RELEASES: readonly Release[] = [
  {
    version: '0.1.0',
    sqlite: { steps: 1, digest: 'db0d93f78455748f103c5f25e311a5a503423f86f7b9e8e41654c464777612d6' },
    postgres: { steps: 1, digest: 'bb0ba0e83a614124fb46d07db5ecf6ec50c9d1a16e62522355c3bb3ad65f0978' },
  },
]

/** The key of a release, which differs if one of its migrations was edited. */
export function digestOf(steps: readonly Migration[]): string {
  return createHash('sha256')
    .update(JSON.stringify(steps.map(({ name, sql }) => [name, sql])))
    .digest('hex')
}

type Row = Readonly<Record<string, string | number | null>>
type Recording = { readonly rows: Readonly<Record<string, readonly Row[]>>; readonly answers: unknown }

export async function recordingOf({ version }: Release): Promise<Recording> {
  return (await Bun.file(fileOf(version)).json()) as Recording
}

const fileOf = (version: string) => join(import.meta.dirname, 'releases', `${version.replaceAll('.', '_')}.json`)

/** The storages of a release, as it was. Options that it did not have are ignored. */
type ReleasedStorages = {
  readonly sqliteStorage: typeof sqliteStorage
  readonly postgresStorage: typeof postgresStorage
}

type Build = (exports: object, require: NodeJS.Require, module: { exports: object }) => void

export async function storagesOf({ version }: Pick<Release, 'version'>): Promise<ReleasedStorages> {
  const code = Bun.gunzipSync(await Bun.file(buildOf(version)).bytes())
  const module = { exports: {} }
  const build = runInThisContext(new TextDecoder().decode(code)) as Build
  build(module.exports, createRequire(import.meta.url), module)
  return module.exports as ReleasedStorages
}

const buildOf = (version: string) => fileOf(version).replace('.json', '.gz')

/** Statements that write the rows of a recording, for a database that has the schema of its release. */
export function insertsOf(
  { rows }: Recording,
  spelled: { readonly flag: (value: boolean) => string },
): readonly string[] {
  const flags = new Set(
    tables.flatMap(({ name, fields }) =>
      Object.values<Column>(fields).flatMap((column) => (column.kind === 'flag' ? [`${name}.${nameOf(column)}`] : [])),
    ),
  )
  return Object.entries(rows).flatMap(([table, list]) =>
    list.map((row) => {
      const values = Object.entries(row).map(([column, value]) => {
        if (flags.has(`${table}."${column}"`)) return spelled.flag(value === 1)
        return typeof value === 'string' ? `'${value.replaceAll("'", "''")}'` : String(value)
      })
      const columns = Object.keys(row).map((column) => `"${column}"`)
      return `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${values.join(', ')})`
    }),
  )
}

/** Asks an upgraded storage what the release was asked, then sells once more. */
export async function expectUpgraded(storage: Storage, { answers }: Recording): Promise<void> {
  expect(await answersOf(storage)).toEqual(answers)
  await sell(storage, 'after the upgrade', '7')
  const spent = (await storage.spendByModel('0xa', 0)).reduce((sum, each) => sum + each.spent, 0n)
  const before = (answers as { spent: { spent: string }[] }).spent.reduce((sum, each) => sum + BigInt(each.spent), 0n)
  expect(spent).toBe(before + 7n)
  await storage.prune(T + 200 * DAY_MS)
  expect((await storage.getCall('after the upgrade'))?.result).toBeNull()
}

const DAY_MS = 86_400_000

async function sell(storage: Storage, id: string, amount: string, more: Parameters<typeof newCall>[1] = {}) {
  const call = newCall(id, { ...more, payer: '0xa' })
  await storage.openCall(call, { ...signed(`eip155:84532/0xa/${id}`), payer: '0xa' }, { now: T, until: T + 1_000 })
  const result = { result: { made: id }, expiresAt: T + DAY_MS, usage: { input: 3, output: 5 } }
  const claim = await storage.claimSettlement(id, undefined, { now: T + 300, until: T + 2_000, result })
  const receipt = { transaction: `0x${id.padStart(20, '0')}`, network: 'eip155:84532', payer: '0xa', amount, block: 9 }
  if ('token' in claim)
    await storage.finishSettlement(id, claim.token, { kind: 'paid', receipt }, { now: T + 400, by: 'reply' })
}

/** A ledger with every kind of row. */
async function fill(storage: Storage): Promise<void> {
  await sell(storage, 'sold', '12000000005', { model: 'large', quote: usdc(12_000_000_005n) })
  await sell(storage, "sold for Zoë's cat", '6', { model: null, request: { prompt: "Zoë's cat", size: null } })
  await sell(storage, 'archived', '11', { expiresAt: T })
  await storage.prune(T + 2 * DAY_MS)
  await storage.archiveCalls(['archived'], Math.floor(T / DAY_MS))
  for (const id of ['open', 'failed', 'in doubt'])
    await storage.openCall(newCall(id), signed(`eip155:84532/0xb/${id}`), { now: T, until: T + 1_000 })
  await storage.moveCall('failed', { workStatus: ['queued'] }, { workStatus: 'failed', error: 'upstream', endedAt: T })
  const claim = await storage.claimSettlement('in doubt', undefined, {
    now: T,
    until: T + 9,
    result: { result: 'a text', expiresAt: T + 200 * DAY_MS },
  })
  if ('token' in claim) await storage.finishSettlement('in doubt', claim.token, { kind: 'unknown' }, { now: T + 5 })
  const record = { kind: 'channel', owner: 'shop', data: { paid: '5', of: [1, null] }, expiresAt: T + 999 * DAY_MS }
  for (const id of ['b', 'a']) await storage.putRecord({ ...record, id }, T)
  await storage.lease('maintenance', 'me', { now: T, until: T + DAY_MS })
  await storage.hit({ key: 'free', limit: 5, windowMs: DAY_MS }, 3, T)
}

/** Answers of the verbs that read, as JSON. */
async function answersOf(storage: Storage): Promise<unknown> {
  const all = { since: 0, until: T + DAY_MS, limit: 99 }
  const listed = await storage.listCalls(all)
  const answers = {
    listed,
    calls: await Promise.all(listed.map(({ id }) => storage.getCall(id))),
    authorizations: await Promise.all(listed.map(({ id }) => storage.listAuthorizations(id))),
    ofPayer: await storage.listCalls({ ...all, payer: '0xa' }),
    settled: await storage.listSettled({ since: 0, limit: 99 }),
    open: await storage.listOpen(99),
    found: await storage.findCalls(`0x${'sold'.padStart(20, '0')}`, 9),
    byNonce: await storage.findCalls("sold for Zoë's cat", 9),
    byKey: await storage.callOf('eip155:84532/0xa/sold', T),
    lost: await storage.lostCalls(T + DAY_MS, 9),
    unsettled: await storage.unsettled(T + DAY_MS, 9),
    spent: await storage.spendByModel('0xa', 0),
    totals: await storage.callTotals({ unit: 'hour', by: 'model', since: T - DAY_MS, until: T + DAY_MS }),
    buyers: await storage.buyersByDay({ since: T - 9 * DAY_MS, until: T + 9 * DAY_MS }),
    records: await storage.listRecords('channel', 'shop', { now: T, limit: 9 }),
  }
  return JSON.parse(JSON.stringify(answers, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value)))
}

/** Writes the file of a release. */
async function record(version: string): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'farebox-release-'))
  const path = join(dir, 'farebox.db')
  const storage = sqliteStorage(path)
  await fill(storage)
  const answers = await answersOf(storage)
  await storage.close()
  const database = new Database(path)
  const rows = Object.fromEntries(
    tables.flatMap(({ name }) =>
      name === 'migrations' ? [] : [[name, database.query(`SELECT * FROM ${name}`).all()]],
    ),
  )
  database.close()
  rmSync(dir, { recursive: true })
  await Bun.write(fileOf(version), `${JSON.stringify({ rows, answers }, null, 2)}\n`)
}

/** Writes the storages of a release: everything but `pg` is in the file. */
async function build(version: string): Promise<void> {
  const entry = join(import.meta.dirname, 'releases', 'mod.ts')
  const { outputs } = await Bun.build({
    entrypoints: [entry],
    target: 'bun',
    format: 'cjs',
    minify: true,
    external: ['pg'],
    // The path of the machine that builds it.
    define: { 'import.meta.url': JSON.stringify('file:///') },
  })
  const [made] = outputs
  if (made) await Bun.write(buildOf(version), Bun.gzipSync(await made.arrayBuffer(), { level: 9 }))
}

if (import.meta.main) {
  const [, , version = ''] = process.argv
  await record(version)
  await build(version)
}
