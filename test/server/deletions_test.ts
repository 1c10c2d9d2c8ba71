/** No command deletes a ledger: every place of the sources that deletes, with what it deletes and why it may. */
import { expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '../..')
const ROOTS = ['core', 'adapters', 'server']

/** Calls, shell commands and SQL that delete, empty, or put one file in the place of another. */
const DELETIONS = [
  /\b(?:rm|rmdir|unlink|truncate|ftruncate|rename|copyFile|cp)(?:Sync)?\(/,
  /\b(?:rm|rmdir|mv|unlink|truncate|shred|dropdb) +-/,
  /\b(?:DROP +(?:TABLE|DATABASE|SCHEMA)|DELETE +FROM|TRUNCATE)\b/i,
  /\.delete\((?:calls|authorizations|records|leases|rateWindows|spendTotals|callTotals|\w+Table)\)/,
  /\bBun\.file\([^)]*\)\.(?:delete|unlink)\(/,
  /\bfind\b.*-delete\b/,
]

/** By file: a part of the line, why it may, and how many such lines there are if more than one. */
const REASONS: Readonly<Record<string, readonly (readonly [part: string, reason: string, lines?: number])[]>> = {
  'core/products/chat/formats/chat_chunks.ts': [['rename(text)', 'names a model in an answer; no file']],
  'adapters/objects/disk.ts': [
    ['unlink(temporary.path', 'a file that was not written to its end'],
    ['rm(pathOf(key))', 'media past its retention, by its key'],
    ['rename(from, to)', 'a file of the former layout, to a name that is free'],
  ],
  'adapters/objects/sqlite.ts': [
    ['DELETE FROM object_parts WHERE upload NOT IN', 'parts of an upload that did not end'],
    ['DELETE FROM objects WHERE key', 'media past its retention, by its key'],
    ['DELETE FROM object_parts WHERE upload = ?', 'the parts of one object'],
  ],
  'adapters/providers/pyodide/sandbox.ts': [['rmSync(cwd', 'the empty folder that the sandbox was started in']],
  'adapters/storage/postgres/baseline.ts': [['DELETE FROM spend_totals', 'a sum of no calls']],
  'adapters/storage/postgres/buyers.ts': [
    ['DELETE FROM buyers_by_day', 'a number of buyers that is counted anew, because a call of that day changed'],
  ],
  'adapters/storage/postgres/lookups.ts': [
    ['DELETE FROM open_calls', 'a row by which an open call was found, which has ended; the call stays', 2],
    ['DELETE FROM settled_calls', 'a row by which a settled call was found, which is deleted or changed'],
    ['DELETE FROM spendable_authorizations', 'a row by which an authorization was found that can be spent no more', 3],
    ['DELETE FROM spend_totals', 'a sum of no calls'],
  ],
  'adapters/storage/postgres/migrations.ts': [['DELETE FROM migrations', 'names of steps that the baseline replaces']],
  'adapters/storage/postgres/dialect.ts': [['delete from ${table}', 'records, leases and windows past their end']],
  'adapters/storage/postgres/statements.ts': [
    ['delete from authorizations where key = @key', 'an authorization whose call failed: it is free again'],
  ],
  'adapters/storage/sqlite/baseline.ts': [['DELETE FROM spend_totals', 'a sum of no calls']],
  'adapters/storage/sqlite/buyers.ts': [
    ['DELETE FROM buyers_by_day', 'a number of buyers that is counted anew, because a call of that day changed', 2],
  ],
  'adapters/storage/sqlite/migrations.ts': [['DELETE FROM migrations', 'names of steps that the baseline replaces']],
  'adapters/storage/sqlite/dialect.ts': [['delete from ${table}', 'records, leases and windows past their end']],
  'adapters/storage/sql/statements.ts': [
    ['delete from authorizations where key = @key', 'an authorization whose call failed: it is free again'],
    ["delete from authorizations where ${among('call')}", 'goes with its call'],
    ['delete from calls', 'calls past the retention of the operator, or in the archive'],
    ['delete from call_totals', 'sums of hours that no report shows; those of days stay'],
  ],
  'adapters/storage/sqlite/backup.ts': [
    ['rmSync(temporary, { force: true })', 'a copy of this process that did not end'],
    ['copyFileSync(file, temporary, constants.COPYFILE_EXCL', 'replaces nothing'],
    ['rmSync(`${path}-shm`', 'the index of a log, which SQLite makes anew; the log itself is moved', 2],
    ['renameSync(temporary, path)', 'a restore: the database that was there has its second name by now'],
    ['renameSync(temporary, file)', 'a backup: onto the empty file that took the name'],
    ['wal_checkpoint(TRUNCATE)', 'empties a log whose pages are in the database'],
    ['renameSync(from, to)', 'to a name that is free'],
    ["for (const rest of ['', '-wal', '-shm', '-journal']) rmSync(path + rest", 'a copy under a temporary name'],
  ],
  'server/buyer/journal.ts': [
    ['DELETE FROM signatures WHERE id', 'a signature of the buying side that the chain shows can never be spent'],
    ['DELETE FROM signatures WHERE day', 'signatures of an earlier day that have ended'],
    ['renameSync(former, path)', 'to a name that is free'],
  ],
  'server/buyer/key_files.ts': [['renameSync(`${path}.new`, path)', 'the API key with a newer state of its channel']],
  'server/cli/backup.ts': [['cpSync(from, to, {', 'media that exist stay as they are']],
  'server/buyer/channel_files.ts': [
    ['renameSync(`${path}.new`, path)', 'the newer state of one channel'],
    ['rmSync(path, { force: true })', 'a channel of the buyer that is closed and paid out'],
  ],
  'server/devnet/anvil.ts': [
    ['rm -f "$state.next"; echo', 'a dump of the local chain that did not end'],
    ['mv -f "$state.next" "$state"', 'a newer dump of the same chain, checked to its end'],
    ['rm -f "$state.next" "$state.pid"', 'a dump that did not end, and the lock'],
    ['rename(`${path}.tmp`, path)', 'a newer state of the same chain, or its keys'],
  ],
  'server/devnet/mod.ts': [
    ['rename(state, `${state}.${aside}`)', 'moves the chain aside, to a name that is free'],
    ["['.next', '.tmp', '.pid'].map((end) => rm(", 'dumps that did not end, and a lock'],
    ['rename(statePath, brokenPath)', 'moves a chain that cannot be read aside'],
    ['rename(brokenPath, statePath)', 'and back'],
  ],
  'server/proxy/payees.ts': [['renameSync(`${path}.new`, path)', 'the payees agreed to, with one more']],
  'server/proxy/token.ts': [
    ['renameSync(`${path}.new`, path)', 'the token of the last start, which is not used again'],
  ],
  'server/release/package.ts': [
    ['rm(out, {', 'the package that was built before'],
    ['copyFile(join(ROOT, file)', 'into the package'],
  ],
  'server/release/release.ts': [
    ['rm(folder, { recursive: true, force: true })', 'what was built before'],
    ['rm(folder, { recursive: true })', 'what is in the archive by now'],
    ['cp(join(ROOT', 'into the archive'],
    ['cp(join(RUNTIMES', 'into the archive'],
  ],
  'server/wiring/devnet.ts': [
    ['cpSync(FORMER.media, media', 'into a folder that is not there'],
    ['renameSync(copy, path)', 'to the place of a devnet that has no ledger'],
  ],
}

type Found = { readonly file: string; readonly line: string }

function deletionsIn(file: string): readonly Found[] {
  const lines = readFileSync(join(ROOT, file), 'utf8').split('\n')
  return lines
    .filter((line) => !/^\s*(?:\*|\/\/|\/\*\*|import\b)/.test(line))
    .filter((line) => DELETIONS.some((pattern) => pattern.test(line)))
    .map((line) => ({ file, line: line.trim() }))
}

const sources = ROOTS.flatMap((root) =>
  readdirSync(join(ROOT, root), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(?:ts|tsx|js|sh|md|yml|service|conf)$|file$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name).slice(ROOT.length + 1)),
)
const found = sources.flatMap(deletionsIn)

test('every deletion in the sources has its reason', () => {
  const without = found.filter(({ file, line }) => !REASONS[file]?.some(([part]) => line.includes(part)))
  expect(without.map(({ file, line }) => `${file}: ${line}: add why it may to REASONS of this test`)).toEqual([])
})

test('every reason stands for the deletions that it was given for', () => {
  const counted = (expected: boolean) =>
    Object.entries(REASONS).flatMap(([file, reasons]) =>
      reasons.map(([part, , lines = 1]) => {
        const count = found.filter((each) => each.file === file && each.line.includes(part)).length
        return `${file}: ${part}: ${expected ? lines : count}`
      }),
    )
  expect(counted(false)).toEqual(counted(true))
})

test.each([
  'await rm(path, { recursive: true })',
  'unlinkSync(path)',
  'renameSync(temporary, path)',
  "database.exec('DROP TABLE calls')",
  'await sql`delete from calls`',
  'db.delete(calls).where(eq(calls.id, id))',
  'await Bun.file(path).delete()',
  'rm -f "$state"',
])('notices %s', (line) => {
  expect(DELETIONS.some((pattern) => pattern.test(line))).toBe(true)
})
