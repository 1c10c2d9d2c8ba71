import { beforeAll, describe, expect, test } from 'bun:test'
import { bundle, PAGES, type WebFile } from '../../../server/web/bundle.ts'
import { isPage, webPages } from '../../../server/web/mod.ts'

const BROWSER = { accept: 'text/html,application/xhtml+xml', 'user-agent': 'Mozilla/5.0' }
const ORIGIN = 'https://ai.example.com'

let files: readonly WebFile[]
let pages: ReturnType<typeof webPages>
beforeAll(async () => {
  files = (await bundle()).files
  pages = webPages({ load: () => Promise.resolve(files), command: '/opt/farebox/farebox' })
})

const get = async (path: string, headers: Record<string, string> = BROWSER, method = 'GET') =>
  await pages(new Request(ORIGIN + path, { method, headers }), { path, origin: ORIGIN })

describe('a page', () => {
  test('is HTML for a browser, without anything inline or foreign', async () => {
    for (const { path, title } of PAGES.filter(({ isForOperator }) => !isForOperator)) {
      const { status, headers = {}, body } = (await get(path)) ?? {}
      const html = new TextDecoder().decode(body as Uint8Array)
      expect(status).toBe(200)
      expect(html).toContain(`<title>${title}</title>`)
      expect(html).toContain('<meta name="farebox-command" content="/opt/farebox/farebox">')
      expect(html).not.toMatch(/<script(?![^>]* src="\/web\/)|<style|style=|https?:\/\//)
      expect(headers['content-security-policy']).toContain("default-src 'none'; script-src 'self'; style-src 'self'")
    }
  })

  test('names scripts and styles that exist and may be kept for ever', async () => {
    const html = files.filter(({ type }) => type.startsWith('text/html'))
    const assets = html.flatMap(({ body }) =>
      [...body.matchAll(/(?:href|src)="(\/web\/[^"]+)"/g)].map(([, path]) => path),
    )
    const own = PAGES.filter(({ hasStyles }) => hasStyles).length
    expect(assets.length).toBe(2 * PAGES.length + own)
    for (const path of assets) {
      const reply = await get(path ?? '')
      expect(reply?.status).toBe(200)
      expect(reply?.headers['cache-control']).toBe('public, max-age=31536000, immutable')
    }
  })

  test('is compressed where the browser can read that, and not sent again where it has it', async () => {
    const plain = await get('/')
    const small = await get('/', { ...BROWSER, 'accept-encoding': 'br, gzip' })
    expect(small?.headers['content-encoding']).toBe('gzip')
    expect(Bun.gunzipSync(small?.body as Uint8Array<ArrayBuffer>)).toEqual(plain?.body as Uint8Array<ArrayBuffer>)
    const again = await get('/', { ...BROWSER, 'if-none-match': plain?.headers.etag ?? '' })
    expect([again?.status, again?.body]).toEqual([304, null])
  })

  test('that does not exist is passed to the gateway; a missing file is 404', async () => {
    expect(isPage('/nothing')).toBe(false)
    expect(await get('/nothing')).toBeUndefined()
    expect((await get('/web/nothing.js'))?.status).toBe(404)
    expect(await get('/', BROWSER, 'POST')).toBeUndefined()
  })
})

test('the page of the console is served where the app asks for it, and nowhere else', async () => {
  expect(isPage('/console')).toBe(false)
  expect(await get('/console')).toBeUndefined()
  const { status, headers, body } = await pages.console(new Request(`${ORIGIN}/console`, { headers: BROWSER }))
  expect([status, headers['content-security-policy']]).toEqual([200, expect.stringContaining("default-src 'none'")])
  expect(new TextDecoder().decode(body as Uint8Array)).toContain('<title>Console · Farebox</title>')
})

test('a program gets links at the front page (contract 19.20)', async () => {
  const reply = await get('/', { accept: '*/*' })
  expect(JSON.parse(String(reply?.body)).links).toMatchObject({
    openapi: `${ORIGIN}/openapi.json`,
    prices: `${ORIGIN}/api/pricing`,
  })
})

test('no script of the pages compiles text, which their policy forbids', () => {
  const scripts = files.filter(({ path }) => path.endsWith('.js'))
  expect(scripts.length).toBeGreaterThan(PAGES.length)
  expect(scripts.filter(({ body }) => /\b(Function|eval)\(/.test(body)).map(({ path }) => path)).toEqual([])
})

test('the first load of each page is below 60 kB compressed', () => {
  for (const { path } of PAGES) {
    const html = files.find((file) => file.path === path)
    const named = files.filter((file) => html?.body.includes(file.path) && file !== html)
    const size = [html, ...named].reduce((sum, file) => sum + Bun.gzipSync(file?.body ?? '').length, 0)
    expect(size).toBeLessThan(60_000)
  }
})
