/** A service that Prism makes of an OpenAPI document of test/vectors: it judges every request by the document, and answers with its examples. */
import { afterAll, beforeAll } from 'bun:test'
import { join } from 'node:path'
import { getHttpOperationsFromSpec } from '@stoplight/prism-cli/dist/operations.js'
import { createServer } from '@stoplight/prism-http-server'

type Quiet = { child(): Quiet; success(): void; start(): void } & Record<
  'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal',
  () => void
>
const none = () => {}
const quiet: Quiet = {
  child: () => quiet,
  success: none,
  start: none,
  trace: none,
  debug: none,
  info: none,
  warn: none,
  error: none,
  fatal: none,
}

/** Started once for a test file; `url()` once its tests run. */
export function byPrism(document: string): { url(): string } {
  let url = ''
  let stop = async () => {}
  beforeAll(async () => {
    const operations = await getHttpOperationsFromSpec(join(import.meta.dirname, '../../../vectors', document))
    const config = {
      isProxy: false,
      mock: { dynamic: false },
      checkSecurity: true,
      validateRequest: true,
      validateResponse: true,
      errors: false,
      upstreamProxy: undefined,
    } as const
    const server = createServer(operations, { cors: false, config, components: { logger: quiet as never } })
    url = await server.listen(0, '127.0.0.1')
    stop = () => server.close()
  })
  afterAll(() => stop())
  return { url: () => url }
}
