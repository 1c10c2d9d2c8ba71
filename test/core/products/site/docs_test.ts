import { describe, expect, test } from 'bun:test'
import { changelog } from '../../../../core/products/site/changelog_data.ts'
import { endpoints } from '../../../../core/products/mod.ts'
import { Type } from '@sinclair/typebox'
import { flatPrice, paid } from '../../../../core/mod.ts'
import { scriptedChat } from '../../../fakes/chat.ts'
import { embedded, kit, type KitOptions, ORIGIN, read, testClock } from '../../../kit.ts'

const open = async (path: string, options: KitOptions = {}) =>
  await kit({
    chatVendor: scriptedChat(),
    ports: { vendors: embedded(testClock()) },
    ...options,
  }).gateway.fetch(new Request(ORIGIN + path))

/** Elements by name, and the attributes that load or lead somewhere. */
async function parsed(html: string) {
  const names: string[] = []
  const links: string[] = []
  const ids: string[] = []
  const rewriter = new HTMLRewriter().on('*', {
    element(element) {
      names.push(element.tagName)
      for (const name of ['src', 'href', 'action', 'srcset', 'style'])
        if (element.hasAttribute(name)) links.push(`${name}=${element.getAttribute(name)}`)
      const id = element.getAttribute('id')
      if (id !== null) ids.push(id)
    },
  })
  await rewriter.transform(new Response(html)).text()
  return { names, links, ids }
}

describe('/docs', () => {
  test('is a page on its own: nothing from elsewhere, one style and one script under their hashes (contract 19.9)', async () => {
    const response = await open('/docs')
    const html = await response.text()
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
    const [, style = ''] = /<style>([^]*?)<\/style>/.exec(html) ?? []
    const [, script = ''] = /<script>([^]*?)<\/script>/.exec(html) ?? []
    const hashOf = (text: string) => new Bun.CryptoHasher('sha256').update(text).digest('base64')
    expect(response.headers.get('content-security-policy')).toBe(
      `default-src 'none'; style-src 'sha256-${hashOf(style)}'; script-src 'sha256-${hashOf(script)}'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
    )
    const { names, links } = await parsed(html)
    expect(
      names.filter((name) => ['script', 'iframe', 'img', 'form', 'object', 'embed', 'base', 'meta'].includes(name)),
    ).toEqual(['meta', 'meta', 'script'])
    expect(links.filter((link) => !/^href=(#|\/)/.test(link))).toEqual([])
    expect(style).not.toMatch(/url\(|@import/)
  })

  test('has every operation of openapi.json, with its path, its price and an example (contract 19.9)', async () => {
    const html = await (await open('/docs')).text()
    const { paths } = (await read(await open('/openapi.json'))).body
    const { ids } = await parsed(html)
    for (const [path, item] of Object.entries<Record<string, any>>(paths)) {
      const own = Object.values(item).filter((node) => !node['x-alias-of'] && !node['x-quote-of'])
      for (const { operationId, summary } of own) {
        expect(ids).toContain(operationId)
        expect(html).toContain(summary.replaceAll("'", '&#39;'))
      }
      if (own.length > 0) expect(html).toContain(`<span class="path">${path}</span>`)
    }
    expect(html).toContain('0.01675 to 1.576 USDC')
    expect(html).toContain('0.081 USDC')
    expect(html).toContain(`curl -i '${ORIGIN}/api/v1/images/generations'`)
    expect(html).toContain('<details class="example">')
  })

  test('every link within the page leads to a place, and every place has one name', async () => {
    const { links, ids } = await parsed(await (await open('/docs')).text())
    expect(new Set(ids).size).toBe(ids.length)
    for (const link of links.filter((each) => each.startsWith('href=#')))
      expect(ids).toContain(link.slice('href=#'.length))
  })

  test('every link out of the page is answered', async () => {
    const { links } = await parsed(await (await open('/docs')).text())
    for (const link of new Set(links.filter((each) => each.startsWith('href=/'))))
      expect([link, (await open(link.slice('href='.length))).status]).toEqual([link, 200])
  })

  test('whatever an endpoint says is text, not markup', async () => {
    const rude = paid({
      name: 'rude',
      path: '/api/v1/rude',
      summary: '<script>alert(1)</script>',
      description: '"><img src=x onerror=alert(1)> and `<b>code</b>`',
      tag: '<i>tag</i>',
      input: Type.Object({ 'a<b': Type.Optional(Type.String({ description: '<u>' })) }),
      output: Type.Object({}),
      example: { 'a<b': "it's </pre><script>" },
      price: () => ({ amount: flatPrice('0.01'), maxTimeoutSeconds: 300, publicPrice: {} }),
      run: async () => ({ result: null }),
      show: () => ({}),
    })
    const html = await (await open('/docs', { endpoints: [...endpoints, rude] })).text()
    const { names } = await parsed(html)
    expect(names.filter((name) => ['script', 'img', 'i', 'u'].includes(name))).toEqual(['script'])
    expect(html).toContain('<code>&lt;b&gt;code&lt;/b&gt;</code>')
    expect(html).toContain(`it'\\''s &lt;/pre&gt;&lt;script&gt;`)
  })

  test('is at most 40 KB compressed, as it is sent, and has every error with what to do about it (contract 19.22)', async () => {
    const html = await (await open('/docs')).text()
    expect(Bun.gzipSync(html).length).toBeLessThan(40_000)
    expect(html.length).toBeLessThan(180_000)
    const { components } = (await read(await open('/openapi.json'))).body
    for (const [name, { content }] of Object.entries<Record<string, any>>(components.responses)) {
      const status = /_(\d{3})/.exec(name)?.[1]
      const table = html.slice(html.indexOf(`<section id="error-${status}">`)).split('</section>')[0]
      for (const code of Object.keys(content['application/json'].examples ?? {})) {
        const [, advice] = new RegExp(`<tr><td>${code}<td>[^]*?<td>([^]*?)(<tr>|</tbody>)`).exec(table!) ?? []
        expect([status, code, (advice ?? '').length > 10]).toEqual([status, code, true])
      }
    }
  })

  test('tells of every change', async () => {
    const html = await (await open('/docs')).text()
    for (const { date, title } of changelog) expect(html).toContain(`<code>${date}</code></td><td><b>${title}</b>`)
  })
})

describe('GET /changelog', () => {
  test('lists the dated changes of the contract, newest first (contract 19.9, 21.12)', async () => {
    const { status, body, headers } = await read(await open('/changelog'))
    expect([status, body.object, headers.get('cache-control')]).toEqual([200, 'list', 'public, max-age=3600'])
    const dates = body.data.map(({ date }: { date: string }) => date)
    expect(dates).toEqual(['2026-09-29', '2026-08-29', '2026-08-27', '2026-08-26'])
    const entryOf = (date: string) => JSON.stringify(body.data.find((each: { date: string }) => each.date === date))
    expect(entryOf('2026-09-29')).toContain('/api/v1/search')
    expect(entryOf('2026-08-27')).toContain('reasoning_content')
    expect(entryOf('2026-08-26')).toContain('PAYMENT_INVALID')
  })

  test('speaks of paths that are served', () => {
    const served = endpoints.map(({ path }) => path)
    for (const { paths = [] } of changelog) for (const path of paths) expect(served).toContain(path)
  })
})

describe('requests that browsers and robots send by themselves', () => {
  test('/favicon.ico is an icon of 16 by 16 pixels', async () => {
    const response = await open('/favicon.ico')
    const bytes = new DataView(await response.arrayBuffer())
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'image/x-icon'])
    expect([bytes.getUint16(0, true), bytes.getUint16(2, true), bytes.getUint16(4, true)]).toEqual([0, 1, 1])
    expect([bytes.getUint8(6), bytes.getUint8(7), bytes.getUint16(12, true)]).toEqual([16, 16, 32])
    expect(bytes.getUint32(14, true) + bytes.getUint32(18, true)).toBe(bytes.byteLength)
    expect([bytes.getUint32(22, true), bytes.getInt32(26, true), bytes.getInt32(30, true)]).toEqual([40, 16, 32])
  })

  test('/robots.txt lets robots read what is for everybody, and keeps them from what belongs to buyers', async () => {
    const response = await open('/robots.txt')
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/plain; charset=utf-8'])
    expect(await response.text()).toBe('User-agent: *\nAllow: /\nDisallow: /api/media/\nDisallow: /api/v1/wallet/\n')
  })
})
