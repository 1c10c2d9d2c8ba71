/**
 * Teaches `s3rver` to keep a part before it says so, and to drop an upload: it answers while bytes are still on their
 * way to the file.
 */
import { createHash } from 'node:crypto'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import S3rver from 's3rver'

type Parts = {
  putPart(
    bucket: string,
    upload: string,
    part: string,
    content: AsyncIterable<Uint8Array>,
  ): Promise<{ size: number; md5: string }>
}

/** Of every server that is started from now on. */
export function teachMultipart(): void {
  const { run } = S3rver.prototype
  S3rver.prototype.run = function () {
    storeParts(this)
    // Behind what notes the requests.
    this.middleware.splice(1, 0, aborting(this))
    return run.call(this)
  }
}

function storeParts({ store }: S3rver): void {
  const taught = store as typeof store & Parts
  taught.putPart = async (bucket, upload, part, content) => {
    const path = join(folderOf(store, bucket, upload), part)
    const chunks: Uint8Array[] = []
    for await (const chunk of content) chunks.push(chunk)
    const bytes = Buffer.concat(chunks)
    const md5 = createHash('md5').update(bytes).digest('hex')
    await mkdir(dirname(path), { recursive: true })
    await writeFile(path, bytes)
    await writeFile(`${path}.md5`, md5)
    return { size: bytes.length, md5 }
  }
}

function aborting({ store }: S3rver): S3rver['middleware'][number] {
  return async (context, next) => {
    const upload = (context as typeof context & { query: Record<string, string> }).query.uploadId
    if (context.method !== 'DELETE' || !upload) return await next()
    const [, bucket = ''] = context.path.split('/')
    await rm(folderOf(store, bucket, upload), { recursive: true, force: true })
    context.status = 204
  }
}

const folderOf = (store: S3rver['store'], bucket: string, upload: string): string =>
  join(store.getResourcePath(bucket, undefined as never, 'uploads'), upload)
