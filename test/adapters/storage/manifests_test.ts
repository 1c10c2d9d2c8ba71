import { expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { STORAGE_URL_PATTERN, storageManifest, STORAGES } from '../../../adapters/storage/manifests.ts'

const ROOT = join(import.meta.dirname, '../../..')

test('a URL names one kind of storage, and any other is refused without its password', () => {
  const urls = {
    'memory:': 'memory',
    'sqlite:a.db': 'SQLite',
    'postgres://h/d': 'Postgres',
    'postgresql://h/d': 'Postgres',
  }
  for (const [url, name] of Object.entries(urls)) {
    expect(storageManifest(url).name).toBe(name)
    expect(url).toMatch(new RegExp(STORAGE_URL_PATTERN))
  }
  expect(() => storageManifest('mysql://me:secret@host/db')).toThrow(/begins "mysql:"$/)
  expect('mysql://me:secret@host/db').not.toMatch(new RegExp(STORAGE_URL_PATTERN))
})

test('a storage describes itself without the secrets of its URL', () => {
  const url = (scheme: string) => (scheme.endsWith('//') ? `${scheme}me:secret@host/database?password=secret` : scheme)
  for (const { describe, schemes } of STORAGES)
    for (const scheme of schemes) {
      const words = describe(scheme === 'sqlite:' ? 'sqlite:ledger.db' : url(scheme))
      expect(words).not.toContain('secret')
      expect(words.length).toBeGreaterThan(5)
    }
})

test('what has no backups of its own says what has', async () => {
  for (const { backup, capabilities, restore } of STORAGES.filter(({ capabilities }) => !capabilities.hasBackups)) {
    const words = await backup('postgres://me:secret@host/db', 'copy').catch((error: Error) => error.message)
    expect(words).toContain(capabilities.isDurable ? 'pg_dump' : 'nothing to back up')
    expect(words).not.toContain('secret')
    await expect(restore('copy', 'postgres://host/db')).rejects.toThrow('restore is for')
  }
})

test('the kind of a storage is asked nowhere but in its folder', () => {
  const files = ['core', 'adapters', 'server'].flatMap((room) =>
    readdirSync(join(ROOT, room), { recursive: true, encoding: 'utf8' }).map((file) => join(room, file)),
  )
  const found = files.filter(
    (file) =>
      /\.tsx?$/.test(file) && /(?:===|!==|case) *'(?:sqlite|postgres)'/.test(readFileSync(join(ROOT, file), 'utf8')),
  )
  expect(found).toEqual([])
})
