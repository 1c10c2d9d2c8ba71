import { describe, expect, test } from 'bun:test'
import { createServer } from 'node:net'
import { mediaStreamer } from '../../../adapters/http/media_download.ts'
import { NoMedia } from '../../../core/mod.ts'
import { mediaTypeOf } from '../../../adapters/http/media_input.ts'
import { flood, standIn, until } from '../providers/lib/provider_kit.ts'

const MP4 = '\0\0\0\x18ftypmp42\0\0\0\0mp42isom'
const clip = (length = 200_000): Uint8Array => {
  const bytes = new Uint8Array(length).map((_, n) => n & 255)
  bytes.set(Buffer.from(MP4, 'latin1'))
  return bytes
}
const answer = (body: Uint8Array | ReadableStream<Uint8Array>, type = 'video/mp4') =>
  new Response(body as BodyInit, { headers: { 'content-type': type } })

describe('mediaTypeOf()', () => {
  const EBML = '\x1aE\xdf\xa3\x01\0\0\0\0\0\0\x1fB\x86\x81\x01B\xf7\x81\x01B\xf2\x81\x04B\xf3\x81\x08B\x82\x84'
  test.each([
    ['video/mp4', MP4],
    ['video/mp4', '\0\0\0\x20ftypisom\0\0\x02\0isomiso2avc1mp41'],
    ['video/quicktime', '\0\0\0\x14ftypqt  \0\0\x02\0qt  '],
    ['video/webm', `${EBML}webmB\x87\x81\x04`],
    [undefined, `${EBML}matroska`],
    ['audio/mpeg', 'ID3\x04\0\0\0\0\0\x23'],
    ['audio/mpeg', '\xff\xfb\x90\x64'],
    ['audio/wav', 'RIFF\x24\0\0\0WAVEfmt '],
    ['image/webp', 'RIFF\x24\0\0\0WEBPVP8 '],
    ['image/avif', '\0\0\0\x1cftypavif'],
    ['image/jpeg', '\xff\xd8\xff\xe0'],
    [undefined, '\0\0\0\x1cftypM4A '],
    [undefined, '<html><body>ftypmp42</body></html>'],
    [undefined, ''],
  ])('knows %p', (type, head) => expect([mediaTypeOf(Buffer.from(head, 'latin1'))]).toEqual([type]))
})

describe('mediaStreamer()', () => {
  const calm = () => ({ signal: new AbortController().signal, maxBytes: 1_000_000 })

  test('brings the bytes as they come, the type that they are, and the length', async () => {
    const { url, host, seen } = standIn(() => answer(clip(), 'application/octet-stream'))
    const { body, type, size } = await mediaStreamer({ trusted: [host] })(`${url}/a.mp4?x=1`, calm())
    expect([type, size]).toEqual(['video/mp4', 200_000])
    expect(Bun.hash(await new Response(body).bytes())).toBe(Bun.hash(clip()))
    expect([seen[0]?.headers.get('accept-encoding'), seen[0]?.headers.get('authorization')]).toEqual(['identity', null])
  })

  test('leaves what it cannot check to its header', async () => {
    const { url, host } = standIn(() => answer(new Uint8Array(10), 'audio/pcm; rate=24000'))
    const { body, type } = await mediaStreamer({ trusted: [host] })(url, calm())
    expect([type, (await new Response(body).bytes()).length]).toEqual(['audio/pcm', 10])
  })

  test('tells what nobody could be given from what it could not fetch', async () => {
    const kindOf = async (reply: () => Response, isTrusted = true) => {
      const { url, host } = standIn(reply)
      return await mediaStreamer({ trusted: isTrusted ? [host] : [] })(url, calm()).catch(
        (error: unknown) => error instanceof NoMedia,
      )
    }
    const worthless = [
      () => answer(Buffer.from('<html>oops</html>')),
      () => answer(new Uint8Array(0)),
      () => answer(new Uint8Array(0), 'application/octet-stream'),
      ...[400, 401, 403, 404, 410, 451].map((status) => () => new Response('no', { status })),
    ]
    const away = [408, 425, 429, 500, 503].map((status) => () => new Response('no', { status }))
    expect(await Promise.all([...worthless, ...away].map((reply) => kindOf(reply)))).toEqual([
      ...worthless.map(() => true),
      ...away.map(() => false),
    ])
    expect(await kindOf(() => answer(clip()), false)).toBe(false)
  })

  test("calls no host of the operator's own for a foreign URL", async () => {
    const { url, host, seen } = standIn(() => answer(clip()))
    await expect(mediaStreamer({ trusted: [host] })(url, { ...calm(), foreign: true })).rejects.toThrow(
      'private address',
    )
    expect(seen).toEqual([])
  })

  test.each([
    ['HTML that says it is a clip', () => answer(Buffer.from('<html>oops</html>')), 'is no video'],
    ['an empty clip', () => answer(new Uint8Array(0)), 'is no video'],
    ['HTML that says it is sound', () => answer(Buffer.from('<html>oops</html>'), 'audio/mpeg'), 'is no audio'],
    ['a 404', () => new Response('gone', { status: 404 }), 'answered 404'],
    [
      'what is compressed, unasked',
      () =>
        new Response(Bun.gzipSync(clip() as Uint8Array<ArrayBuffer>), {
          headers: { 'content-type': 'video/mp4', 'content-encoding': 'gzip' },
        }),
      'compressed',
    ],
    ['more bytes than it may be, by its header', () => answer(clip(1_000_001)), 'more than 1000000 bytes'],
    [
      'a redirect without end',
      () => new Response(null, { status: 302, headers: { location: '/again' } }),
      'more than 4 redirects',
    ],
  ])('refuses %s', async (_, reply, why) => {
    const { url, host } = standIn(reply)
    await expect(mediaStreamer({ trusted: [host] })(url, calm())).rejects.toThrow(why)
  })

  test('judges each redirect anew: a public host cannot lead to a private one', async () => {
    const inner = standIn(() => answer(clip()))
    const outer = standIn(() => new Response(null, { status: 302, headers: { location: inner.url } }))
    await expect(mediaStreamer({ trusted: [outer.host] })(outer.url, calm())).rejects.toThrow('private address')
    expect([outer.seen.length, inner.seen.length]).toEqual([1, 0])
  })

  test('lets go of ten gigabytes after the first one too many', async () => {
    const { state, body } = flood(MP4)
    const { url, host } = standIn(() => answer(body))
    const media = await mediaStreamer({ trusted: [host] })(url, calm())
    await expect(new Response(media.body).bytes()).rejects.toThrow('more than 1000000 bytes')
    await until(() => state.cancelled)
  })

  test('hangs up when its body is cancelled', async () => {
    const { state, body } = flood(MP4)
    const { url, host } = standIn(() => answer(body))
    const media = await mediaStreamer({ trusted: [host] })(url, { ...calm(), maxBytes: 1e12 })
    expect(media.size).toBeUndefined()
    const reader = media.body.getReader()
    expect((await reader.read()).value?.length).toBeGreaterThan(0)
    await reader.cancel()
    await until(() => state.cancelled)
  })

  test('ends with its signal and its reason: before the head, between reads, and while one waits', async () => {
    for (const waits of ['head', 'between', 'read'] as const) {
      const whenAnswerStarts = waits === 'head' ? '' : MP4 + 'x'.repeat(100)
      let isLeft = false
      const stalled = () =>
        new ReadableStream<Uint8Array>({
          start: (controller) => controller.enqueue(Buffer.from(whenAnswerStarts || '\0', 'latin1')),
          cancel: () => void (isLeft = true),
        })
      const { url, host, seen } = standIn(() => answer(stalled()))
      const stop = new AbortController()
      const opening = mediaStreamer({ trusted: [host] })(url, { ...calm(), signal: stop.signal })
      opening.catch(() => {})
      if (waits === 'head') await until(() => seen.length === 1)
      const reader = waits === 'head' ? undefined : (await opening).body.getReader()
      await reader?.read()
      const reading = waits === 'read' ? reader?.read() : undefined
      reading?.catch(() => {})
      stop.abort(new Error('too late'))
      await expect(reading ?? reader?.read() ?? opening).rejects.toThrow('too late')
      await until(() => isLeft)
    }
  })

  test.each([
    ['its declared length', `content-length: 1000\r\n\r\n${MP4}${'x'.repeat(100)}`],
    ['its last chunk', `transfer-encoding: chunked\r\n\r\n80\r\n${MP4}${'x'.repeat(128 - MP4.length)}\r\n`],
  ])('a body that ends before %s is an error, never a shorter one', async (_, rest) => {
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.once('data', () =>
        socket.end(Buffer.from(`HTTP/1.1 200 OK\r\ncontent-type: video/mp4\r\n${rest}`, 'latin1')),
      )
    })
    const port = await new Promise<number>((resolve) =>
      server.listen(0, '127.0.0.1', () => resolve((server.address() as { port: number }).port)),
    )
    const read = async () =>
      await new Response(
        (await mediaStreamer({ trusted: [`127.0.0.1:${port}`] })(`http://127.0.0.1:${port}/`, calm())).body,
      ).bytes()
    await expect(read()).rejects.toThrow()
    server.close()
  })
})
