import { expect, test } from 'bun:test'
import { databaseUrl } from '../../../../adapters/storage/postgres/database_url.ts'
import { otherEngine, refuseUntested } from '../../../../adapters/storage/postgres/engine.ts'

test('the URL of a database says whether a pooler is before it, which the server is not told', () => {
  const plain = 'postgres://user:secret@db.example:5432/farebox?sslmode=require'
  expect(databaseUrl(plain)).toEqual({ url: plain, isPooled: false, allowsUntested: false })
  expect(databaseUrl(`${plain}&pooler=transaction`)).toEqual({ url: plain, isPooled: true, allowsUntested: false })
  expect(databaseUrl(`${plain}&pooler=session&allow_untested_database=yes`)).toEqual({
    url: plain,
    isPooled: false,
    allowsUntested: true,
  })
})

test('another value of a parameter is refused by its name, without the password', () => {
  const bad = () => databaseUrl('postgres://user:secret@db.example/farebox?pooler=statement')
  expect(bad).toThrow('pooler in the URL of the database is "statement"; allowed: transaction, session')
  expect(() => databaseUrl('postgres://h/d?allow_untested_database=1')).toThrow('allowed: yes, no')
})

test('a database that is not Postgres is named by its version, and refused', () => {
  const named: readonly (readonly [string, string | undefined])[] = [
    ['PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc', undefined],
    ['PostgreSQL 18.4 on x86_64-pc-linux-gnu', undefined],
    ['PostgreSQL 11.2-YB-2.25.0.0-b0 on x86_64-pc-linux-gnu, compiled by clang', 'YugabyteDB'],
    ['CockroachDB CCL v24.1.0 (x86_64-pc-linux-gnu, built 2024/05/15)', 'CockroachDB'],
    ['PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC, Redshift 1.0.12103', 'Amazon Redshift'],
    ['PostgreSQL 9.4.24 (Greenplum Database 6.20.0) on x86_64', 'Greenplum'],
    ['Some Store 1.0', 'a database that calls itself "Some Store 1.0"'],
  ]
  for (const [version, name] of named) expect([version, otherEngine(version, false)]).toEqual([version, name])
  expect(otherEngine('PostgreSQL 16.2 on x86_64', true)).toBe('Citus')
  const refused = () => refuseUntested('CockroachDB CCL v24.1.0', false)
  expect(refused).toThrow('This database is CockroachDB, which Farebox was never tried on')
  expect(refused).toThrow('allow_untested_database=yes')
})
