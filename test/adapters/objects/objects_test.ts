import { expect, spyOn, test } from 'bun:test'
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { diskObjects } from '../../../adapters/objects/disk.ts'
import { memoryObjects } from '../../../adapters/objects/memory.ts'
import { sqliteObjects } from '../../../adapters/objects/sqlite.ts'
import { openDriver } from '../../../adapters/storage/sqlite/driver.ts'
import { s3FromUrl } from '../../../adapters/objects/s3/mod.ts'
import type { Objects } from '../../../core/ports/mod.ts'
import { brokenObjects } from '../../conformance/broken_objects.ts'
import { type Subject, runBroken, runLaws } from '../../conformance/law.ts'
import { objectLaws, shortObjectLaws } from '../../conformance/objects.ts'
import { growing, PIECE } from './growing.ts'

runLaws('memory objects', objectLaws, memory)
runLaws('disk objects', objectLaws, disk)
runLaws('SQLite objects', objectLaws, inSqlite)
runBroken('objects', shortObjectLaws, brokenObjects)

async function memory(): Promise<Subject<Objects>> {
  const objects = memoryObjects()
  return { open: async () => objects, close: async () => {} }
}

async function inSqlite(): Promise<Subject<Objects>> {
  const driver = openDriver(':memory:')
  return { open: async () => sqliteObjects(driver), close: async () => driver.close() }
}

async function disk(): Promise<Subject<Objects>> {
  const { dir, remove } = folder()
  return { open: async () => diskObjects(join(dir, 'made', 'by', 'it')), close: async () => remove() }
}

test('disk objects: a large object is streamed, a small one is bytes', async () => {
  const { dir, remove } = folder()
  const objects = diskObjects(dir)
  await objects.put('large', new Uint8Array(2_000_000), 'video/mp4')
  await objects.put('small', new Uint8Array(2_000), 'image/png')
  const large = (await objects.get('large'))?.body
  expect(large).toBeInstanceOf(ReadableStream)
  expect((await objects.get('small'))?.body).toBeInstanceOf(Uint8Array)
  if (large instanceof ReadableStream) await large.cancel()
  remove()
})

test('disk objects: a stream that breaks leaves no file', async () => {
  const { dir, remove } = folder()
  const objects = diskObjects(dir)
  const broken = new Error('broken')
  await expect(objects.putStream?.('video/a.mp4', growing({ pieces: 3, broken }), 'video/mp4')).rejects.toBe(broken)
  expect([readdirSync(dir), readdirSync(join(dir, '.incoming'))]).toEqual([['.incoming'], []])
  expect(await objects.putStream?.('video/a.mp4', growing({ pieces: 3 }), 'video/mp4')).toEqual({ size: 3 * PIECE })
  expect([readdirSync(join(dir, 'video')), readdirSync(join(dir, '.incoming'))]).toEqual([['a.mp4@'], []])
  remove()
})

test('disk objects: nothing unfinished is left behind, and nothing is open to others', async () => {
  const { dir, remove } = folder()
  const objects = diskObjects(join(dir, 'objects'))
  const racers = Array.from({ length: 10 }, (_, n) =>
    objects.put('images/raced.png', new Uint8Array(1_000).fill(n), 'image/png'),
  )
  await Promise.all([...racers, objects.put('images/other.png', new Uint8Array(1), 'image/png')])
  expect(readdirSync(join(dir, 'objects', '.incoming'))).toEqual([])
  expect(readdirSync(join(dir, 'objects', 'images')).sort()).toEqual(['other.png@', 'raced.png@'])
  expect(statSync(join(dir, 'objects')).mode & 0o077).toBe(0)
  expect(statSync(join(dir, 'objects', 'images', 'raced.png@')).mode & 0o077).toBe(0)
  remove()
})

test('disk objects: what was put is there for the next process', async () => {
  const { dir, remove } = folder()
  const script = `
    const { diskObjects } = await import(${JSON.stringify(join(import.meta.dir, '../../../adapters/objects/disk.ts'))})
    await diskObjects(${JSON.stringify(dir)}).put('a/b.txt', new TextEncoder().encode('kept'), 'text/plain')
    process.kill(process.pid, 'SIGKILL')
  `
  const child = Bun.spawn([process.execPath, '-e', script], { stdio: ['ignore', 'ignore', 'inherit'] })
  await child.exited
  expect(child.signalCode).toBe('SIGKILL')
  const found = await diskObjects(dir).get('a/b.txt')
  expect(new TextDecoder().decode(found?.body as Uint8Array)).toBe('kept')
  remove()
})

test('disk objects: a put of what is there already waits until its name is on disk', async () => {
  const { dir, remove } = folder()
  const objects = diskObjects(dir)
  const bytes = new TextEncoder().encode('kept')
  await objects.put('a/b.txt', bytes, 'text/plain')
  const handle = await open(join(dir, 'a'), 'r')
  const synced: number[] = []
  const syncing = spyOn(Object.getPrototypeOf(handle), 'sync').mockImplementation(async function (this: FileHandle) {
    synced.push((await this.stat()).ino)
  })
  const { ino } = await handle.stat()
  await handle.close()
  try {
    await objects.put('a/b.txt', bytes, 'text/plain')
    expect(synced).toEqual([ino])
    await objects.putStream?.('a/b.txt', growing({ pieces: 1 }), 'text/plain')
    expect(synced).toEqual([ino, ino])
  } finally {
    syncing.mockRestore()
    remove()
  }
})

test('s3FromUrl() reads bucket, prefix and settings; the keys come from the environment', () => {
  const env = { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'secret' }
  const keys = { accessKeyId: 'id', secretAccessKey: 'secret' }
  expect(s3FromUrl('s3://media?region=eu-west-1', env)).toEqual({ bucket: 'media', region: 'eu-west-1', ...keys })
  expect(s3FromUrl('s3://media', { ...env, AWS_REGION: 'eu-north-1' })).toEqual({
    bucket: 'media',
    region: 'eu-north-1',
    ...keys,
  })
  const url =
    's3://media/farebox/live/?endpoint=https://s3.example.com&public=https://media.example.com/live&path_style=false'
  const more = {
    endpoint: 'https://s3.example.com',
    publicBaseUrl: 'https://media.example.com/live',
    forcePathStyle: false,
  }
  expect(s3FromUrl(url, env)).toEqual({
    bucket: 'media',
    prefix: 'farebox/live',
    region: 'us-east-1',
    ...more,
    ...keys,
  })
})

test('s3FromUrl() without keys leaves them to the chain of the SDK, and takes the token of temporary ones', () => {
  expect(s3FromUrl('s3://media?region=eu-west-1', {})).toEqual({ bucket: 'media', region: 'eu-west-1' })
  const env = { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'secret', AWS_SESSION_TOKEN: 'token' }
  expect(s3FromUrl('s3://media?region=eu-west-1', env)).toMatchObject({ accessKeyId: 'id', sessionToken: 'token' })
})

test('s3FromUrl() tells every mistake at once, and no secret', () => {
  const mistakesOf = (url: string, env = {}) => {
    try {
      return s3FromUrl(url, env)
    } catch (error) {
      return (error as Error).message.split('\n')
    }
  }
  expect(mistakesOf('https://media')).toEqual(['must be s3://bucket or s3://bucket/prefix'])
  expect(mistakesOf('s3://id:hunter2@Me/../.x?endpoint=ftp://x&public=x&path_style=1&pathstyle=true')).toEqual([
    'the bucket must be 3 to 63 lower-case letters, digits, dots and hyphens',
    'keys must be in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, not in the URL',
    'the prefix must be plain words separated by slashes',
    'endpoint must be an http or https URL without user, query and fragment',
    'public must be an http or https URL without user, query and fragment',
    'path_style must be true or false',
    'unknown setting pathstyle; allowed: region, endpoint, public, path_style',
  ])
  const halves = 'set both, or neither to use a role or a profile'
  expect(mistakesOf('s3://media?region=x', { AWS_ACCESS_KEY_ID: 'id' })).toEqual([
    `AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not; ${halves}`,
  ])
  expect(mistakesOf('s3://media?region=x', { AWS_SECRET_ACCESS_KEY: 'secret' })).toEqual([
    `AWS_SECRET_ACCESS_KEY is set, and AWS_ACCESS_KEY_ID is not; ${halves}`,
  ])
  expect(mistakesOf('s3://media', { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'secret' })).toEqual([
    'the region is missing: add ?region=, or set AWS_REGION',
  ])
})

function folder(): { dir: string; remove(): void } {
  const dir = mkdtempSync(join(tmpdir(), 'farebox-objects-'))
  return { dir, remove: () => rmSync(dir, { recursive: true, force: true }) }
}
