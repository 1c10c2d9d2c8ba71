declare module 's3rver' {
  /** A Koa application; only what the tests touch. */
  export default class S3rver {
    constructor(options: {
      address: string
      port: number
      silent: boolean
      directory: string
      configureBuckets: { name: string }[]
    })
    readonly middleware: ((context: Context, next: () => Promise<void>) => Promise<void>)[]
    readonly store: Store
    run(): Promise<{ port: number }>
    close(): Promise<void>
  }

  type Context = {
    readonly method: string
    readonly path: string
    get(header: string): string
    status: number
    body: string
  }

  type Store = {
    getResourcePath(bucket: string, key: string, resource: string): string
    existsObject(bucket: string, key: string): Promise<boolean>
    putMetadata(bucket: string, key: string, metadata: object, md5: string): Promise<void>
    putObject(object: {
      bucket: string
      key: string
      content: Buffer | AsyncIterable<Uint8Array>
      metadata: object
    }): Promise<{ size: number; md5: string }>
  }
}
