import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { STORAGE_URLS } from '../../adapters/storage/manifests.ts'
import { openObjects, openStorage } from '../../adapters/mod.ts'

function folder(): { dir: string; remove(): void } {
  const dir = mkdtempSync(join(tmpdir(), 'farebox-open-'))
  return { dir, remove: () => rmSync(dir, { recursive: true, force: true }) }
}

test('openStorage() keeps what was stored, and its file serves one process until it is closed', async () => {
  const { dir, remove } = folder()
  const url = `sqlite:${join(dir, 'farebox.db')}`
  const first = await openStorage(url)
  expect(await first.lease('a', 'one', { now: 1, until: 10 })).toBe(true)
  await expect(openStorage(url)).rejects.toThrow(/another process has .*farebox\.db\. SQLite serves one process/)
  await first.close()
  const second = await openStorage(url)
  expect(await second.lease('a', 'two', { now: 2, until: 10 })).toBe(false)
  await second.close()
  remove()
})

test('openStorage() of a file that is no database lets go of it', async () => {
  const { dir, remove } = folder()
  const path = join(dir, 'letter')
  writeFileSync(path, 'This is a letter to my aunt. '.repeat(100))
  for (const attempt of [1, 2])
    await expect({ attempt, opened: openStorage(`sqlite:${path}`) }.opened).rejects.toThrow('not a database')
  remove()
})

test('openStorage() and openObjects() say which URLs they take, and repeat no password', async () => {
  const refusal = async (opened: Promise<unknown>) => await opened.then(String, (error: Error) => error.message)
  expect(await refusal(openStorage('mysql://me:secret@host/db'))).toBe(
    `openStorage: the URL must be ${STORAGE_URLS}; it begins "mysql:"`,
  )
  expect(await refusal(openStorage('sqlite:'))).toContain('needs a file')
  expect(await refusal(openObjects('ftp://me:secret@host'))).toBe(
    'openObjects: the URL must be file:<folder>, s3://bucket/prefix or memory:; it begins "ftp:"',
  )
  expect(await refusal(openObjects('s3://my-bucket'))).toContain('the region is missing')
})

test('openObjects() finds out at once that a folder cannot be written', async () => {
  const { dir, remove } = folder()
  const path = join(dir, 'file')
  writeFileSync(path, '')
  await expect(openObjects(`file:${join(path, 'under')}`)).rejects.toThrow(/ENOTDIR|EEXIST/)
  const objects = await openObjects(`file:${join(dir, 'media')}`)
  await objects.put('a.png', new Uint8Array([1]), 'image/png')
  expect((await objects.get('a.png'))?.size).toBe(1)
  remove()
})
