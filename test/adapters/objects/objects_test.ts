import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { diskObjects } from '../../../adapters/objects/disk.ts'
import { memoryObjects } from '../../../adapters/objects/memory.ts'
import { s3FromUrl, s3Objects } from '../../../adapters/objects/s3/mod.ts'
import type { Objects } from '../../../core/ports/mod.ts'
import { brokenObjects } from '../../conformance/broken_objects.ts'
import { type Subject, runBroken, runLaws } from '../../conformance/law.ts'
import { objectLaws, shortObjectLaws } from '../../conformance/objects.ts'
import { teachMultipart } from './s3/s3_multipart.ts'
import { type S3Server, s3Server } from './s3/s3_server.ts'

runLaws('memory objects', objectLaws, memory)
runLaws('disk objects', objectLaws, disk)
runLaws('s3 objects', objectLaws, () => s3(servers.minded))
runLaws('s3 objects, on a store that ignores conditions', objectLaws, () => s3(servers.ignored))
runBroken('objects', shortObjectLaws, brokenObjects)

const servers = {} as { minded: S3Server; ignored: S3Server }
beforeAll(async () => {
  teachMultipart()
  servers.minded = await s3Server('minded')
  servers.ignored = await s3Server('ignored')
})
afterAll(async () => {
  await servers.minded.stop()
  await servers.ignored.stop()
})

async function s3(server: S3Server): Promise<Subject<Objects>> {
  const config = server.fresh()
  return { open: async () => s3Objects(config), close: async () => {} }
}

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

// ── s3 ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

test('s3 objects: 20 MB arrive whole, with their type, and come back as a stream', async () => {
  const config = servers.minded.fresh()
  const objects = s3Objects(config)
  const bytes = crypto.getRandomValues(new Uint8Array(65_536))
  const large = new Uint8Array(20_000_000).map((_, n) => bytes[n & 65_535] ?? 0)
  await objects.put('video/large.mp4', large, 'video/mp4')
  expect(Bun.hash(await Bun.file(servers.minded.fileOf(config, 'video/large.mp4')).bytes())).toBe(Bun.hash(large))
  const found = await objects.get('video/large.mp4')
  expect(found).toMatchObject({ size: large.length, type: 'video/mp4' })
  expect(found?.body).toBeInstanceOf(ReadableStream)
  expect(Bun.hash(await new Response(found?.body as ReadableStream).bytes())).toBe(Bun.hash(large))
})

test('s3 objects: what is stored is what was put, no framing around it', async () => {
  for (const server of [servers.minded, servers.ignored]) {
    const config = server.fresh()
    const bytes = Uint8Array.from({ length: 70_000 }, (_, n) => n & 255)
    await s3Objects(config).put('images/one.png', bytes, 'image/png')
    expect(await Bun.file(server.fileOf(config, 'images/one.png')).bytes()).toEqual(bytes)
  }
})

test('s3 objects: a stream goes in parts of five megabytes, and a short one in one request', async () => {
  const config = servers.minded.fresh()
  const objects = s3Objects(config)
  const asked = async (work: () => Promise<unknown> | undefined) => {
    const before = servers.minded.requests.length
    await work()
    return servers.minded.requests.slice(before).map((request) => request.split(' ', 1)[0])
  }
  expect(await asked(() => objects.putStream?.('video/long.mp4', growing({ pieces: 12 }), 'video/mp4'))).toEqual([
    'HEAD',
    'POST',
    'PUT',
    'PUT',
    'PUT',
    'HEAD',
    'POST',
  ])
  expect(await asked(() => objects.putStream?.('video/short.mp4', growing({ pieces: 4 }), 'video/mp4'))).toEqual([
    'HEAD',
    'HEAD',
    'PUT',
  ])
  expect(await asked(() => objects.putStream?.('video/long.mp4', growing({ pieces: 20 }), 'video/mp4'))).toEqual([
    'HEAD',
  ])
})

test('s3 objects: the upload of a stream that breaks is aborted', async () => {
  const config = servers.minded.fresh()
  const broken = new Error('broken')
  await expect(s3Objects(config).putStream?.('video/a.mp4', growing({ pieces: 20, broken }), 'video/mp4')).rejects.toBe(
    broken,
  )
  expect(servers.minded.requests.at(-1)?.split(' ', 1)[0]).toBe('DELETE')
})

test.each([
  ['a part is refused', { refused: 2 }, ['could not put', 'DELETE']],
  ['nobody may begin', { refused: 0 }, ['could not put', 'POST']],
  ['somebody else was first', { isTaken: true }, ['6 bytes', 'DELETE']],
  ['the answer to its completion was lost', { isLost: true }, ['20971520 bytes', 'HEAD']],
])('s3 objects: a stream of which %s', async (_, troubles, [outcome = '', last]) => {
  const store = partsServer(troubles)
  const objects = s3Objects({ ...servers.minded.fresh(), endpoint: store.url })
  const said = await objects
    .putStream?.('video/a.mp4', growing({ pieces: 20 }), 'video/mp4')
    .then(({ size }) => `${size} bytes`, String)
  expect(said).toContain(outcome)
  expect(store.asked.at(-1)).toBe(last)
  expect(store.most()).toBeLessThanOrEqual(2)
  await store.stop()
})

test('s3 objects: a store reads no further than its reader, and learns when he hangs up', async () => {
  let sent = 0
  const left = Promise.withResolvers<void>()
  const store = createServer((_, response) => {
    const more = (): void => {
      sent += 65_536
      if (response.write(new Uint8Array(65_536))) return more()
      response.once('drain', more)
    }
    response.writeHead(200, { 'content-type': 'video/mp4', 'content-length': 10_000_000_000 }).on('close', left.resolve)
    more()
  })
  await new Promise<void>((resolve) => void store.listen(0, '127.0.0.1', resolve))
  const { port } = store.address() as { port: number }
  const objects = s3Objects({ ...servers.minded.fresh(), endpoint: `http://127.0.0.1:${port}` })
  const { body } = (await objects.get('video/endless.mp4')) ?? {}
  if (!(body instanceof ReadableStream)) throw new Error('not a stream')
  const reader = body.getReader()
  expect((await reader.read()).value?.length).toBeGreaterThan(0)
  await reader.cancel()
  await left.promise
  expect(sent).toBeLessThan(50_000_000)
  store.close()
})

test('s3 objects: an object that ends early is an error, never a shorter object', async () => {
  const server = Bun.listen({
    hostname: '127.0.0.1',
    port: 0,
    socket: {
      data(socket) {
        socket.write(`HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: 400000\r\n\r\n${'x'.repeat(1_000)}`)
        socket.end()
      },
    },
  })
  const objects = s3Objects({ ...servers.minded.fresh(), endpoint: `http://127.0.0.1:${server.port}` })
  const found = await objects.get('images/broken.png')
  await expect(new Response(found?.body as ReadableStream).bytes()).rejects.toThrow('the object store')
  server.stop(true)
})

test('s3 objects: a store that refuses conditions is asked without, and asked first', async () => {
  const server = await s3Server('refused')
  const config = server.fresh()
  const objects = s3Objects(config)
  await objects.put('a', new Uint8Array([1]), 'image/png')
  await objects.put('a', new Uint8Array([2]), 'image/png')
  expect((await objects.get('a'))?.body).toEqual(new Uint8Array([1]))
  expect(server.requests.map((request) => request.split(' ', 1)[0])).toEqual([
    'HEAD',
    'PUT',
    'HEAD',
    'PUT',
    'HEAD',
    'GET',
  ])
  await server.stop()
})

test('s3 objects: errors tell the code of the store, and neither keys nor addresses', async () => {
  const config = servers.minded.fresh()
  const secret = 'wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY'
  const broken = [
    { ...config, secretAccessKey: secret, accessKeyId: 'AKIAIOSFODNN7EXAMPLE' },
    { ...config, secretAccessKey: secret, endpoint: 'http://127.0.0.1:1' },
  ]
  for (const each of broken) {
    const objects = s3Objects(each)
    for (const ask of [() => objects.put('a', new Uint8Array(1), 'image/png'), () => objects.get('a')]) {
      const error = await ask().catch((reason: unknown) => reason)
      expect(error).toBeInstanceOf(Error)
      expect((error as Error).message).toMatch(/^the object store could not [a-z ]+ \(\w+(, \d{3})?\)$/)
      expect(Bun.inspect(error)).not.toContain(secret)
    }
  }
})

test('s3 objects: without its bucket nothing is missing, everything fails', async () => {
  const config = servers.minded.fresh()
  await s3Objects(config).ready()
  const objects = s3Objects({ ...config, bucket: 'nobodys-bucket' })
  await expect(objects.ready()).rejects.toThrow('the object store could not open its bucket (NotFound, 404)')
  await expect(objects.put('a', new Uint8Array(1), 'image/png')).rejects.toThrow(
    'the object store could not put (NoSuchBucket, 404)',
  )
  await expect(objects.get('a')).rejects.toThrow('the object store could not get (NoSuchBucket, 404)')
})

test('s3 objects: url() is public where there is a public address, and only for keys', () => {
  const config = { region: 'auto', bucket: 'media', accessKeyId: 'a', secretAccessKey: 'b' }
  expect(s3Objects(config).url?.('images/a.png')).toBeUndefined()
  const objects = s3Objects({ ...config, publicBaseUrl: 'https://media.example.com/farebox/' })
  expect(objects.url?.('images/a.png')).toBe('https://media.example.com/farebox/images/a.png')
  expect(objects.url?.('../secret')).toBeUndefined()
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
    'keys belong into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, not into the URL',
    'the prefix must be plain words with slashes between them',
    'endpoint must be an http or https URL without user, query and fragment',
    'public must be an http or https URL without user, query and fragment',
    'path_style must be true or false',
    'there is no setting pathstyle',
    'the environment variable AWS_ACCESS_KEY_ID is not set',
    'the environment variable AWS_SECRET_ACCESS_KEY is not set',
  ])
  expect(mistakesOf('s3://media', { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'secret' })).toEqual([
    'the region is missing: add ?region=, or set AWS_REGION',
  ])
})

const PIECE = 1024 * 1024

/** Pieces of a megabyte, made as they are asked for; then the end, or an error. */
function growing({ pieces, broken }: { pieces: number; broken?: Error }): ReadableStream<Uint8Array> {
  let count = 0
  const pull = (controller: ReadableStreamDefaultController<Uint8Array>) => {
    if (count++ < pieces) return controller.enqueue(new Uint8Array(PIECE).fill(count))
    if (broken) return controller.error(broken)
    controller.close()
  }
  return new ReadableStream({ pull }, { highWaterMark: 0 })
}

/** A store that has troubles with parts: it refuses one (or to begin, as 0), has meanwhile got the key from somebody else, or does not say that it has completed. */
function partsServer({
  refused,
  isTaken = false,
  isLost = false,
}: {
  refused?: number
  isTaken?: boolean
  isLost?: boolean
}) {
  const asked: string[] = []
  let [flying, most, size] = [0, 0, 0]
  let stored: number | undefined
  const denied = () => new Response('<Error><Code>AccessDenied</Code></Error>', { status: 403 })
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const { method } = request
      const query = new URL(request.url).searchParams
      asked.push(method)
      if (method === 'HEAD')
        return stored === undefined ? new Response(null, { status: 404 }) : new Response(new Uint8Array(stored))
      if (method === 'PUT') {
        most = Math.max(most, ++flying)
        const { length } = await request.bytes()
        size += length
        flying--
        return query.get('partNumber') === String(refused)
          ? denied()
          : new Response(null, { headers: { etag: `"${query.get('partNumber')}"` } })
      }
      if (method === 'DELETE') return new Response(null, { status: 204 })
      if (query.has('uploads'))
        return refused === 0
          ? denied()
          : new Response('<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>')
      if (isTaken) stored = 6
      if (isTaken) return new Response('<Error><Code>PreconditionFailed</Code></Error>', { status: 412 })
      stored = size
      if (isLost) return new Response('<Error><Code>NoSuchUpload</Code></Error>', { status: 404 })
      return new Response('<CompleteMultipartUploadResult><ETag>"e"</ETag></CompleteMultipartUploadResult>')
    },
  })
  return { url: `http://127.0.0.1:${server.port}`, asked, most: () => most, stop: () => server.stop(true) }
}

function folder(): { dir: string; remove(): void } {
  const dir = mkdtempSync(join(tmpdir(), 'farebox-objects-'))
  return { dir, remove: () => rmSync(dir, { recursive: true, force: true }) }
}
