/**
 * A real S3 server for tests, on loopback: `s3rver`, which ignores `If-None-Match` on puts, and the same taught to mind
 * or to refuse it.
 */
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import S3rver from 's3rver'
import type { S3Config } from '../../../../adapters/objects/s3/mod.ts'

export type S3Server = {
  /** Of a folder in the bucket that nobody else uses. */
  fresh(): S3Config
  /** Where the server keeps the bytes of a key. */
  fileOf(config: S3Config, key: string): string
  /** `PUT /farebox/…`, for each request so far. */
  readonly requests: readonly string[]
  stop(): Promise<void>
}

const BUCKET = 'farebox'

export async function s3Server(conditions: 'minded' | 'ignored' | 'refused'): Promise<S3Server> {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-s3-'))
  const server = new S3rver({
    address: '127.0.0.1',
    port: 0,
    silent: true,
    directory,
    configureBuckets: [{ name: BUCKET }],
  })
  const requests: string[] = []
  storeWhole(server)
  if (conditions === 'minded') server.middleware.unshift(conditionally(server))
  if (conditions === 'refused') server.middleware.unshift(refusing)
  server.middleware.unshift(async (context, next) => {
    requests.push(`${context.method} ${context.path}`)
    await next()
  })
  const { port } = await server.run()
  let count = 0

  return {
    requests,
    fresh: () => ({
      endpoint: `http://127.0.0.1:${port}`,
      region: 'us-east-1',
      bucket: BUCKET,
      accessKeyId: 'S3RVER',
      secretAccessKey: 'S3RVER',
      prefix: `folder-${count++}`,
    }),
    fileOf: ({ bucket, prefix = '' }, key) => join(directory, bucket, prefix, `${key}._S3rver_object`),
    async stop() {
      await server.close()
      await rm(directory, { recursive: true, force: true })
    },
  }
}

/**
 * `If-None-Match: *` as Amazon defines it: of all that write a key at once the first is stored, the rest are told 412.
 */
function conditionally(server: S3rver): S3rver['middleware'][number] {
  const last = new Map<string, Promise<void>>()
  return async (context, next) => {
    if (context.method !== 'PUT' || context.get('if-none-match') !== '*') return await next()
    const { path } = context
    const mine = (last.get(path) ?? Promise.resolve()).then(async () => {
      if (!(await server.store.existsObject(BUCKET, decodeURIComponent(path.slice(`/${BUCKET}/`.length)))))
        return await next()
      context.status = 412
      context.body =
        '<Error><Code>PreconditionFailed</Code><Message>At least one of the pre-conditions you specified did not hold</Message></Error>'
    })
    last.set(path, mine)
    await mine
  }
}

/** As stores do that know no conditional writes, but do not want to overlook them. */
const refusing: S3rver['middleware'][number] = async (context, next) => {
  if (context.get('if-none-match') === '') return await next()
  context.status = 501
  context.body =
    '<Error><Code>NotImplemented</Code><Message>A header that you provided implies functionality that is not implemented</Message></Error>'
}

/** Left to itself it answers before the bytes are in the file, and writes into a file that others read. */
function storeWhole({ store }: S3rver): void {
  let count = 0
  store.putObject = async ({ bucket, key, content, metadata }) => {
    const path = store.getResourcePath(bucket, key, 'object')
    await mkdir(dirname(path), { recursive: true })
    const chunks: Uint8Array[] = []
    for await (const chunk of Buffer.isBuffer(content) ? [content] : content) chunks.push(chunk)
    const bytes = Buffer.concat(chunks)
    const md5 = createHash('md5').update(bytes).digest('hex')
    const unfinished = `${path}.${count++}`
    await writeFile(unfinished, bytes)
    await store.putMetadata(bucket, key, metadata, md5)
    await rename(unfinished, path)
    return { size: bytes.length, md5 }
  }
}
