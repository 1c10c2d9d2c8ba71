import { expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { StorageManifest } from '../../../adapters/storage/manifest.ts'
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
  for (const { name, backup, capabilities, restore } of STORAGES) {
    const { backupTool, hasBackups, isDurable } = capabilities
    if (hasBackups) continue
    const words = await backup('postgres://me:secret@host/db', 'copy').catch((error: Error) => error.message)
    if (isDurable && backupTool === undefined)
      throw new Error(`${name}: a durable storage without backups of its own says backupTool in its capabilities`)
    expect(words).toContain(backupTool ?? 'nothing to back up')
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

test('every durable storage is run through the laws of one', async () => {
  const tests = join(ROOT, 'test/adapters/storage')
  const texts = readdirSync(tests, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('_test.ts'))
    .map((file) => readFileSync(join(tests, file), 'utf8'))
  const folders = readdirSync(join(ROOT, 'adapters/storage'))
  const missing: string[] = []
  for (const folder of folders) {
    const file = join(ROOT, 'adapters/storage', folder, 'manifest.ts')
    if (!existsSync(file)) continue
    const [name, manifest] = Object.entries(await import(file)).find(([key]) => key.endsWith('Manifest')) ?? []
    if (!STORAGES.includes(manifest as StorageManifest))
      missing.push(`adapters/storage/manifests.ts: add the manifest of ${folder}/`)
    if (!(manifest as StorageManifest).capabilities.isDurable) continue
    if (!texts.some((text) => text.includes(`runDurableLaws(${name},`)))
      missing.push(
        `test/adapters/storage/${folder}_test.ts: add runDurableLaws(${name}, async () => ({ url: … })) beside runLaws('${folder} storage', storageLaws, …)`,
      )
  }
  expect(missing).toEqual([])
})
