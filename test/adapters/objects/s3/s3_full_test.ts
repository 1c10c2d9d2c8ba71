import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createServer } from 'node:http'
import { s3Objects } from '../../../../adapters/objects/s3/mod.ts'
import type { Objects } from '../../../../core/ports/mod.ts'
import { type Subject, runLaws } from '../../../conformance/law.ts'
import { objectLaws } from '../../../conformance/objects.ts'
import { growing } from '../growing.ts'
import { teachMultipart } from './s3_multipart.ts'
import { type S3Server, s3Server } from './s3_server.ts'

runLaws('s3 objects', objectLaws, () => s3(servers.minded))
runLaws('s3 objects, on a store that ignores conditions', objectLaws, () => s3(servers.ignored))

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
  const requestsOf = async (work: () => Promise<unknown> | undefined) => {
    const before = servers.minded.requests.length
    await work()
    return servers.minded.requests.slice(before).map((request) => request.split(' ', 1)[0])
  }
  expect(await requestsOf(() => objects.putStream?.('video/long.mp4', growing({ pieces: 12 }), 'video/mp4'))).toEqual([
    'HEAD',
    'POST',
    'PUT',
    'PUT',
    'PUT',
    'HEAD',
    'POST',
  ])
  expect(await requestsOf(() => objects.putStream?.('video/short.mp4', growing({ pieces: 4 }), 'video/mp4'))).toEqual([
    'HEAD',
    'HEAD',
    'PUT',
  ])
  expect(await requestsOf(() => objects.putStream?.('video/long.mp4', growing({ pieces: 20 }), 'video/mp4'))).toEqual([
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
  const text = await objects
    .putStream?.('video/a.mp4', growing({ pieces: 20 }), 'video/mp4')
    .then(({ size }) => `${size} bytes`, String)
  expect(text).toContain(outcome)
  expect(store.requestsOf.at(-1)).toBe(last)
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

/**
 * A store that has troubles with parts: it refuses one (or to begin, as 0), has meanwhile got the key from somebody
 * else, or does not say that it has completed.
 */
function partsServer({
  refused,
  isTaken = false,
  isLost = false,
}: {
  refused?: number
  isTaken?: boolean
  isLost?: boolean
}) {
  const requestsOf: string[] = []
  let [flying, most, size] = [0, 0, 0]
  let stored: number | undefined
  const denied = () => new Response('<Error><Code>AccessDenied</Code></Error>', { status: 403 })
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const { method } = request
      const query = new URL(request.url).searchParams
      requestsOf.push(method)
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
  return {
    url: `http://127.0.0.1:${server.port}`,
    requestsOf: requestsOf,
    most: () => most,
    stop: () => server.stop(true),
  }
}
