/** Products and protocols in files of the operator's own, as the page "Sell your API" has them. */
import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { endpoints } from '../../../core/mod.ts'
import { parseConfig } from '../../../server/config/mod.ts'
import { ownProducts, ownProtocol, ownProtocols } from '../../../server/wiring/own_files.ts'
import { kit, read } from '../../kit.ts'
import { blocks, guideText } from '../../runtime/readme.ts'

const dir = mkdtempSync(join(tmpdir(), 'farebox-own-'))
afterAll(() => rmSync(dir, { recursive: true }))

const page = await guideText('sell_your_api')
const [haiku = ''] = blocks(page, '## 1. Write the product', 'ts')
const [forecast = ''] = blocks(page, '## Wrap an HTTP API', 'ts')
const [painter = ''] = blocks(page, '## A vendor of your own', 'ts')
const [painterToml = ''] = blocks(page, '## A vendor of your own', 'toml')

let written = 0
/** Each file has a name of its own, because a module is loaded once. */
function save(source: string): string {
  const path = join(dir, `own_${written++}.ts`)
  writeFileSync(path, source)
  return path
}

async function selling(source: string) {
  const own = await ownProducts({ products: [save(source)] })
  return kit({ endpoints: [...own, ...endpoints] })
}

describe('the products of the page', () => {
  test('a function is quoted, sold, and listed in the documents', async () => {
    const { gateway, buyer } = await selling(haiku)
    const alice = buyer()
    const order = { about: 'snow' }
    const quote = await alice.ask(order, { path: '/api/v1/haiku' })
    expect([quote.status, quote.body.price.amount]).toEqual([402, '0.011000'])
    const sold = await alice.buy(order, { path: '/api/v1/haiku' })
    expect(sold.body.lines[0]).toBe('first light on snow')
    expect((await alice.ask({ about: '' }, { path: '/api/v1/haiku' })).status).toBe(400)
    const openapi = await read(await gateway.fetch(new Request('http://127.0.0.1/openapi.json')))
    expect(Object.keys(openapi.body.paths)).toContain('/api/v1/haiku')
  })
})

describe('a product that cannot be sold stops the start', () => {
  const changed = (from: string, to: string) => haiku.replace(from, to)
  const cases: readonly [string, string, RegExp][] = [
    ['an export that is missing', 'export const product = 1', /must export a list of products: .*\(\{ … \}\)\]$/],
    ['an export of another kind', 'export const products = 1', /must export a list of products: .*, got number$/],
    ['nothing to sell', 'export const products = []', /must export a list of products/],
    ['a plain object', "export const products = [{ name: 'x' }]", /products\[0\]\.kind: must be made by paid\(\)/],
    ['a name', changed("name: 'haiku'", "name: 'Haiku!'"), /products\[0\]\.name: must be lower-case .*, got "Haiku!"$/],
    [
      'a taken name',
      changed("name: 'haiku'", "name: 'images.generations'"),
      /products\[0\]\.name: images\.generations is taken/,
    ],
    ['a path', changed("'/api/v1/haiku'", "'api/v1/haiku'"), /path: must begin with a slash, got "api\/v1\/haiku"$/],
    ['a taken path', changed("'/api/v1/haiku'", "'/api/v1/images/generations'"), /is taken by images\.generations$/],
    ['an example', changed("about: 'snow'", 'about: 1'), /products\[0\]\.example\.about: expected string$/],
    [
      'an amount',
      changed("flatPrice('0.01', prices)", '0.01'),
      /price\.amount: must be an amount such as .*, got 0\.01$/,
    ],
    ['a price', changed("flatPrice('0.01', prices)", "flatPrice('1,5')"), /price: the example cannot be priced: /],
    ['a time', changed('maxTimeoutSeconds: 300', 'maxTimeoutSeconds: 0.5'), /maxTimeoutSeconds: .*, got 0\.5$/],
    ['a public price', changed('publicPrice: {}', 'publicPrice: 1'), /price\.publicPrice: must be an object/],
    ['what does not compile', 'export const products = [', /own_\d+\.ts:1:25: /],
    ['an import that is missing', "import x from 'nowhere'; export const products = [x]", /nowhere/],
    ['what throws', "throw new Error('no key')", /does not load: no key$/],
  ]
  test.each(cases)('%s', async (_, source, message) => {
    const path = save(source)
    const refused = ownProducts({ products: [path] })
    await expect(refused).rejects.toThrow(message)
    await expect(refused).rejects.toThrow(`products: ${path}`.slice(0, 12))
    await expect(refused).rejects.toThrow(path)
  })

  test('a file that is not there', async () => {
    await expect(ownProducts({ products: [join(dir, 'nothing.ts')] })).rejects.toThrow('products: there is no file ')
  })

  test('two files with the same product', async () => {
    await expect(ownProducts({ products: [save(haiku), save(haiku)] })).rejects.toThrow('name: haiku is taken')
  })
})

describe('the configuration', () => {
  test('names files relative to itself, for products and for protocols', () => {
    const read = parseConfig(
      `products = ["./haiku.ts"]\n${painterToml}`,
      { PAINTER_KEY: 'k' },
      '/etc/farebox/farebox.toml',
    )
    if (!read.ok) throw new Error(read.mistakes.join('\n'))
    expect(read.config.products).toEqual(['/etc/farebox/haiku.ts'])
    expect(read.config.images.servings.get('mine/lines')?.protocol).toBe('/etc/farebox/painter.ts')
  })

  test('refuses a name that is neither a protocol nor a file', () => {
    const read = parseConfig('[vendors.mine]\nprotocol = "painter"\n')
    expect(!read.ok && read.mistakes[0]).toMatch(
      /^vendors\.mine\.protocol: must be one of .*, or a file such as \.\/mine\.ts, got "painter"$/,
    )
    const list = parseConfig('products = ["haiku"]\n')
    expect(!list.ok && list.mistakes[0]).toBe('products.0: must be a file such as ./mine.ts, got "haiku"')
  })
})

describe('a vendor of a file', () => {
  const configured = (path: string) => {
    const read = parseConfig(painterToml.replace('./painter.ts', path), { PAINTER_KEY: 'k' })
    if (!read.ok) throw new Error(read.mistakes.join('\n'))
    return read.config
  }

  test('makes the images of its models', async () => {
    const jobs: unknown[] = []
    const upstream = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      async fetch(request) {
        jobs.push([request.headers.get('authorization'), await request.json()])
        return Response.json({ pictures: ['AAAA', 'BBBB'] })
      },
    })
    const path = save(painter.replace('http://127.0.0.1:7860', `http://127.0.0.1:${upstream.port}`))
    const own = await ownProtocols(configured(path))
    const create = ownProtocol(own, 'images', path)?.create
    const vendor = create?.({ key: 'k' } as never, {} as never)
    const job = { model: 'lines-1', prompt: 'a line', width: 8, height: 8, n: 2 }
    const made = await vendor?.generate(job, { signal: new AbortController().signal })
    expect(made?.map(({ url }) => url)).toEqual(['data:image/png;base64,AAAA', 'data:image/png;base64,BBBB'])
    expect(jobs).toEqual([['Bearer k', job]])
    await upstream.stop(true)
  })

  test('without the export of its kind stops the start', async () => {
    const path = save('export const chat = () => ({})')
    await expect(ownProtocols(configured(path))).rejects.toThrow(
      `protocol: ${path} must export a function that makes the vendor: export const images = (config) => ({ … })`,
    )
  })
})

describe('an HTTP API behind a product', () => {
  test('is asked once per paid call; its 404 is told, and its failure charges nothing', async () => {
    const requested: string[] = []
    const upstream = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch(request) {
        const { pathname, search } = new URL(request.url)
        requested.push(pathname + search)
        if (pathname === '/v1/oslo') return Response.json({ temperatures: [-3, -5, 1] })
        return new Response(null, { status: pathname === '/v1/atlantis' ? 404 : 500 })
      },
    })
    const source = forecast.replace('https://weather.example.com', `http://127.0.0.1:${upstream.port}`)
    const alice = (await selling(source)).buyer()
    const before = alice.balance()
    const at = { path: '/api/v1/forecast/{city}', method: 'GET' } as const
    const sold = await alice.buy({ city: 'oslo', days: '3' }, at)
    expect(sold.body.temperatures).toEqual([-3, -5, 1])
    expect(requested).toEqual(['/v1/oslo?days=3'])
    const paid = before - alice.balance()
    const absent = await alice.buy({ city: 'atlantis' }, at)
    expect([absent.status, absent.body.message]).toEqual([404, 'There is no forecast for atlantis.'])
    const down = await alice.buy({ city: 'rome' }, at)
    expect([down.status, down.body.error]).toEqual([500, 'The forecast could not be made'])
    expect([paid, before - alice.balance()]).toEqual([7_000n, 7_000n])
    await upstream.stop(true)
  })
})
