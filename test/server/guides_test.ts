/** The guides: their links lead somewhere, they name what exists, and they are served as pages on their own. */
import { describe, expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import * as providers from '../../adapters/providers/index.ts'
import { endpoints, retiredGateway } from '../../core/mod.ts'
import { app } from '../../server/app.ts'
import { variables } from '../../server/config/file.ts'
import { guide, guides } from '../../server/docs/guides.ts'
import { kit, ORIGIN } from '../kit.ts'

/** The policy without the style. */
const REST = "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
const ROOT = join(import.meta.dirname, '../..')
const names = Object.keys(guides)
const all = Object.values(guides).join('\n')

const textOf = (path: string): string => {
  const { status, body } = guide(path) ?? {}
  if (status !== 200 || typeof body !== 'string') throw new Error(`${path} answers ${status}`)
  return body
}

/** Elements by name, the ids, and the attributes that load or lead somewhere. */
async function parsed(html: string) {
  const elements: string[] = []
  const links: string[] = []
  const ids: string[] = []
  const rewriter = new HTMLRewriter().on('*', {
    element(element) {
      elements.push(element.tagName)
      for (const name of ['src', 'href', 'action', 'srcset', 'style'])
        if (element.hasAttribute(name)) links.push(`${name}=${element.getAttribute(name)}`)
      const id = element.getAttribute('id')
      if (id !== null) ids.push(id)
    },
  })
  await rewriter.transform(new Response(html)).text()
  return { elements, links, ids }
}

describe('the files', () => {
  test('are those of the folder, each with a title and a first paragraph', () => {
    const files = readdirSync(join(ROOT, 'server/docs')).filter((file) => file.endsWith('.md'))
    expect(names.map((name) => `${name}.md`).toSorted()).toEqual(files.toSorted())
    for (const name of names) expect(guides[name]).toMatch(/^# .+\n\n.{40,}\n\n/)
  })

  test('link to files and headings that exist, from the README too', async () => {
    const readme = readFileSync(join(ROOT, 'README.md'), 'utf8')
    const headings = new Map(
      await Promise.all(names.map(async (name) => [name, (await parsed(textOf(`/docs/guide/${name}`))).ids] as const)),
    )
    const broken: string[] = []
    for (const [from, text] of [...Object.entries(guides), ['README', readme] as const]) {
      for (const [, target = ''] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
        if (/^https?:/.test(target)) continue
        const [path = '', anchor] = target.split('#')
        const [, name = ''] = /^(?:server\/docs\/)?(\w+)\.md$/.exec(path) ?? []
        const page = path === '' ? from : name
        const file = from === 'README' ? path : `server/docs/${/^pictures\/\w+\.png$/.exec(path)?.[0] ?? ' '}`
        const isThere = headings.has(page)
          ? anchor === undefined || headings.get(page)?.includes(anchor)
          : existsSync(join(ROOT, file))
        if (!isThere) broken.push(`${from}: ${target}`)
      }
    }
    expect(broken).toEqual([])
  })

  test('name every environment variable that the configuration reads', () => {
    const code = readdirSync(join(ROOT, 'server/config'), { encoding: 'utf8', recursive: true })
      .filter((file) => file.endsWith('.ts'))
      .map((file) => readFileSync(join(ROOT, 'server/config', file), 'utf8'))
      .join('\n')
    const read = [
      ...code.matchAll(/'([A-Z][A-Z0-9]*_[A-Z0-9_]+)'|\benv\.([A-Z][A-Z0-9_]+)|^ {2}([A-Z][A-Z0-9_]+): '/gm),
    ].map(([, quoted, member, row]) => quoted ?? member ?? row ?? '')
    const ofSchema = Object.keys(variables)
    const provided = Object.values(providers).flatMap(({ environment }) => Object.keys(environment))
    const named = new Set([...read, ...ofSchema, ...provided])
    expect(named.size).toBeGreaterThan(80)
    expect([...named].filter((name) => !new RegExp(`\\b${name}\\b`).test(all))).toEqual([])
  })

  test('name endpoints that are served', () => {
    const plain = (path: string) => path.replace(/\{[^}]*\}/g, '{}')
    const served = endpoints.flatMap(({ path, aliases = [] }) => [path, ...aliases]).map(plain)
    const paths = [
      ...all.matchAll(/`(?:GET |POST )?(\/(?:api\/v1|api\/|docs|openapi|changelog|\.well-known)[^\s`]*)`/g),
    ].map(([, path = '']) => path)
    const isServed = (path: string) =>
      served.some((each) => `${each}/`.startsWith(`${plain(path).replace(/\/[*…]$/, '')}/`))
    const known = ['/docs/guide/', '/api/v1/*', '/api/v1/haiku', '/api/v1/forecast/{city}']
    expect(paths.length).toBeGreaterThan(40)
    expect([...new Set(paths)].filter((path) => !known.includes(path) && !isServed(path))).toEqual([])
  })
})

describe('/docs/guide/', () => {
  test('is a page for each guide: no script, nothing from elsewhere, one style under its hash', async () => {
    for (const path of ['', ...names]) {
      const reply = guide(`/docs/guide/${path}`)
      const html = textOf(`/docs/guide/${path}`)
      const [, style = ''] = /<style>([^]*?)<\/style>/.exec(html) ?? []
      const hash = new Bun.CryptoHasher('sha256').update(style).digest('base64')
      expect(reply?.headers['content-security-policy']).toBe(`default-src 'none'; style-src 'sha256-${hash}'; ${REST}`)
      const { elements, links, ids } = await parsed(html)
      expect(
        elements.filter((name) =>
          ['script', 'iframe', 'img', 'form', 'object', 'embed', 'base', 'style', 'h1'].includes(name),
        ),
      ).toEqual(['style', 'h1', ...(path === 'keys' ? ['img'] : [])])
      expect(links.filter((link) => !/^(?:href=(#|\/|https:\/\/)|src=\/docs\/guide\/pictures\/)/.test(link))).toEqual(
        [],
      )
      for (const [, picture = ''] of html.matchAll(/<img src="([^"]+)"/g))
        expect(guide(picture)).toMatchObject({ status: 200, headers: { 'content-type': 'image/png' } })
      expect(new Set(ids).size).toBe(ids.length)
      expect(style).not.toMatch(/url\(|@import/)
    }
  })

  test('every link between pages leads to a page', async () => {
    for (const path of ['', ...names]) {
      const { links } = await parsed(textOf(`/docs/guide/${path}`))
      for (const link of links) {
        const [, target] = /^href=(\/docs\/guide\/[\w.]*)/.exec(link) ?? []
        if (target !== undefined) expect([path, target, guide(target)?.status]).toEqual([path, target, 200])
      }
    }
  })

  test('serves the source of each, and no other path', async () => {
    for (const name of names)
      expect(textOf(`/docs/guide/${name}.md`)).toBe(await Bun.file(join(ROOT, `server/docs/${name}.md`)).text())
    expect(guide('/docs/guide')).toMatchObject({ status: 308, headers: { location: '/docs/guide/' } })
    for (const path of [
      '/docs/guide/nothing',
      '/docs/guide/constructor',
      '/docs/guide/.md',
      '/docs/guide/../../package',
      '/docs/guides',
      '/docs',
    ])
      expect(guide(path)).toBeUndefined()
  })

  test('is there on a gateway that shows its documents, and not on one that hides them or is retired', async () => {
    const open = (gateway: Parameters<typeof app>[0]['gateways'][number]['gateway']) =>
      app({ gateways: [{ gateway, hosts: [] }], log: { ...kit().log, access: () => {}, flush: () => {} } })
    const ask = async (elysia: ReturnType<typeof open>, init?: RequestInit) =>
      (await elysia.fetch(new Request(`${ORIGIN}/docs/guide/quickstart`, init))).status
    const visible = open(kit().gateway)
    expect([
      await ask(visible),
      await ask(visible, { method: 'HEAD' }),
      await ask(visible, { method: 'POST' }),
    ]).toEqual([200, 200, 404])
    expect(await ask(open(kit({ hidden: ['docs'] }).gateway))).toBe(404)
    expect(await ask(open(retiredGateway('old')))).toBe(404)
  })
})
