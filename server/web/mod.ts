/**
 * The pages for people: the front page, and what it links to. Everything that they show and do comes from the public
 * API, so they have no more rights than any other client.
 */
import type { Reply } from '../../core/mod.ts'
import { isBrowser } from '../../core/http/mod.ts'
import { EXECUTABLE } from '../config/buyer_command.ts'
import { ASSETS, COMMAND_MARK, PAGES, POLICY, type WebFile } from './bundle.ts'
import { webFiles } from './files.ts'
import manifest from '../../package.json' with { type: 'json' }

/**
 * The reply to a GET of a page or of one of its files; undefined where there is none, or when a program asks for a page
 * that only people read.
 */
type WebPages = {
  (request: Request, at: { path: string; origin: string }): Promise<Reply> | Reply | undefined
  /** The 402 of a browser as the playground of that route, where it can be paid. Other replies stay as they are. */
  payable(request: Request, reply: Reply): Promise<Reply>
  /** The page of the operator's console, which has no data of its own. */
  console(request: Request): Promise<Reply>
}

/** A file with what is sent of it: its bytes, the same compressed, and their name for caches. */
type Served = { readonly type: string; readonly etag: string; readonly plain: Uint8Array; readonly gzip: Uint8Array }

const COMMON = { 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer' }
const HTML = 'text/html; charset=utf-8'
const PAGE = {
  ...COMMON,
  'cache-control': 'no-cache',
  'content-security-policy': `${POLICY}; frame-ancestors 'none'`,
  vary: 'accept, accept-encoding',
}
/** The name of an asset changes with what is in it. */
const ASSET = { ...COMMON, vary: 'accept-encoding', 'cache-control': 'public, max-age=31536000, immutable' }

const PATHS: ReadonlySet<string> = new Set(PAGES.filter(({ isForOperator }) => !isForOperator).map(({ path }) => path))

/** Whether this path belongs to the pages. */
export const isPage = (path: string): boolean => PATHS.has(path) || path.startsWith(ASSETS)

type PagesOptions = {
  readonly load?: () => Promise<readonly WebFile[]>
  /** How a page writes the command `farebox`. */
  readonly command?: string
}

/** The pages, from files that are made or read at the first request. */
export function webPages({ load = webFiles, command = EXECUTABLE }: PagesOptions = {}): WebPages {
  let files: Promise<ReadonlyMap<string, Served>> | undefined

  async function serve(request: Request, path: string): Promise<Reply> {
    files ??= load().then((made) => prepared(made, command))
    const file = (await files).get(path)
    if (!file) return { status: 404, headers: { ...COMMON, 'content-type': 'text/plain' }, body: 'Not found' }
    const { type, etag, plain, gzip } = file
    const headers = { ...(path.startsWith(ASSETS) ? ASSET : PAGE), 'content-type': type, etag }
    if (request.headers.get('if-none-match')?.includes(etag)) return { status: 304, headers, body: null }
    return /\bgzip\b/.test(request.headers.get('accept-encoding') ?? '')
      ? { status: 200, headers: { ...headers, 'content-encoding': 'gzip' }, body: gzip }
      : { status: 200, headers, body: plain }
  }

  function page(request: Request, { path, origin }: { path: string; origin: string }) {
    if (request.method !== 'GET' && request.method !== 'HEAD') return undefined
    if (path.startsWith(ASSETS)) return serve(request, path)
    if (PATHS.has(path) && isBrowser(request.headers)) return serve(request, path)
    return path === '/' ? links(origin) : undefined
  }

  async function payable(request: Request, reply: Reply): Promise<Reply> {
    if (reply.status !== 402 || request.method !== 'GET' || !isBrowser(request.headers)) return reply
    const { body } = await serve(new Request(request.url), '/play')
    const page = { 'content-type': HTML, 'content-security-policy': "frame-ancestors 'none'", vary: 'Accept' }
    return { status: 402, headers: { ...reply.headers, ...page }, body }
  }

  return Object.assign(page, { payable, console: (request: Request) => serve(request, '/console') })
}

async function prepared(files: readonly WebFile[], command: string): Promise<ReadonlyMap<string, Served>> {
  return new Map(
    files.map(({ path, type, body }) => {
      const text = type === HTML ? body.replace(COMMAND_MARK, () => Bun.escapeHTML(command)) : body
      const plain = new TextEncoder().encode(text)
      const etag = `"${new Bun.CryptoHasher('sha256').update(plain).digest('hex').slice(0, 16)}"`
      return [path, { type, etag, plain, gzip: Bun.gzipSync(plain) }] as const
    }),
  )
}

/** Replies to a program at `/` with links to everything. */
function links(origin: string): Reply {
  const body = {
    name: 'Farebox',
    version: manifest.version,
    description: 'Sells AI by the call, paid in USDC through x402 version 2. No account and no API key.',
    links: {
      openapi: `${origin}/openapi.json`,
      prices: `${origin}/api/pricing`,
      models: `${origin}/api/v1/models`,
      llms: `${origin}/llms.txt`,
      x402: `${origin}/.well-known/x402`,
      mcp: `${origin}/mcp`,
      reference: `${origin}/docs`,
      guides: `${origin}/docs/guide/`,
      health: `${origin}/api/health`,
    },
  }
  return {
    status: 200,
    headers: { ...COMMON, 'content-type': 'application/json', 'cache-control': 'public, max-age=300', vary: 'accept' },
    body: JSON.stringify(body, null, 2),
  }
}
