import { expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { diskObjects } from '../../adapters/objects/disk.ts'
import { memoryObjects } from '../../adapters/objects/memory.ts'
import type { Objects } from '../../core/ports.ts'
import { brokenObjects } from '../conformance/broken_objects.ts'
import { type Subject, runBroken, runLaws } from '../conformance/law.ts'
import { objectLaws } from '../conformance/objects.ts'

runLaws('memory objects', objectLaws, memory)
runLaws('disk objects', objectLaws, disk)
runBroken('objects', objectLaws, brokenObjects)

async function memory(): Promise<Subject<Objects>> {
  const objects = memoryObjects()
  return { open: async () => objects, close: async () => {} }
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

test('disk objects: nothing unfinished is left behind, and nothing is open to others', async () => {
  const { dir, remove } = folder()
  const objects = diskObjects(join(dir, 'objects'))
  const racers = Array.from({ length: 10 }, (_, n) => objects.put('images/raced.png', new Uint8Array(1_000).fill(n), 'image/png'))
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
    const { diskObjects } = await import(${JSON.stringify(join(import.meta.dir, '../../adapters/objects/disk.ts'))})
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

function folder(): { dir: string; remove(): void } {
  const dir = mkdtempSync(join(tmpdir(), 'farebox-objects-'))
  return { dir, remove: () => rmSync(dir, { recursive: true, force: true }) }
}
