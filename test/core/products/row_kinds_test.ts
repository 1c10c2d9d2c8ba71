/**
 * Models of a kind that a product declares from its own folder: found, changed by the operator, listed and sold like
 * all others.
 */
import { describe, expect, test } from 'bun:test'
import { Type } from '@sinclair/typebox'
import { paid, type CatalogRow, rowKind } from '../../../core/endpoint/mod.ts'
import { catalog, endpoints, hasModel, narrowed, overrideRows, rowSettings, smallOf } from '../../../core/mod.ts'
import { rate } from '../../../core/products/lib/row_overrides.ts'
import { models } from '../../../core/products/site/models.ts'
import { type Dollars, dollars } from '../../../core/x402/money.ts'
import { flatPrice } from '../../../core/x402/pricing.ts'
import { kit, ORIGIN, read } from '../../kit.ts'

type PoetRow = CatalogRow & { readonly rate: Dollars; readonly maxLines: number }

const BASHO: PoetRow = {
  id: 'poets/basho',
  aliases: ['basho'],
  name: 'Basho',
  maker: 'poets',
  vendor: 'acme',
  upstream: 'basho-1',
  rate: dollars('0.01'),
  maxLines: 3,
  isSmall: true,
}
const POETS = rowKind<PoetRow>({
  kind: 'poets',
  builtIn: [BASHO, { ...BASHO, id: 'poets/issa', aliases: [], hidden: true, isSmall: false }],
  settings: { rate: rate('Its price in US dollars for a poem.'), max_lines: Type.Integer({ description: 'Lines.' }) },
  usual: { maxLines: 3 },
  vendorOf: ({ vendor }) => (vendor === 'acme' ? {} : undefined),
  entry: () => ({
    description: 'Writes poems.',
    categories: ['poems'],
    billing_mode: 'flat',
    pricing: { per_track: 0.01 },
  }),
})
const poems = paid({
  name: 'poems',
  path: '/api/v1/poems',
  summary: 'Write a poem',
  tag: 'text',
  input: Type.Object({ model: Type.Optional(Type.String()) }),
  output: Type.Object({ by: Type.String() }),
  example: {},
  rows: POETS,
  check: ({ model }, offering) => ({ model: POETS.find(offering.catalog, model).id }),
  price: () => ({ amount: flatPrice('0.01'), maxTimeoutSeconds: 300, publicPrice: {} }),
  isAvailable: ({ model }, offering) =>
    POETS.vendorOf(POETS.find(offering.catalog, model), offering.vendors) !== undefined,
  run: async ({ input }) => ({ result: input.model ?? '' }),
  show: ({ made }) => ({ by: made }),
})
const withPoets = (rows?: readonly CatalogRow[]) =>
  catalog({ ...(rows && { declared: new Map([['poets', rows]]) }) }, [POETS])
const gatewayOf = (rows?: readonly CatalogRow[]) => kit({ endpoints: [...endpoints, poems], catalog: withPoets(rows) })

describe('rowKind()', () => {
  test('finds a row by id or alias, the first by default; an unknown one is 400 with what is listed', async () => {
    const alice = gatewayOf().buyer()
    for (const model of [undefined, 'basho', 'poets/basho'])
      expect((await alice.buy({ model }, poems)).body.by).toBe('poets/basho')
    expect((await alice.ask({ model: 'homer' }, poems)).body).toMatchObject({
      error: 'Invalid model',
      available_models: ['poets/basho'],
    })
  })

  test('is sold at the vendor that the row names, and 503 where there is none', async () => {
    const alice = gatewayOf([{ ...BASHO, vendor: 'nobody' }]).buyer()
    expect((await alice.ask({}, poems)).status).toBe(503)
  })

  test('lists its rows among the models, hidden ones by name only', async () => {
    const { gateway } = gatewayOf()
    const [list] = models
    const { body } = await read(await gateway.fetch(new Request(ORIGIN + list?.path)))
    const ids = body.data.map(({ id }: { id: string }) => id)
    expect([ids.includes('poets/basho'), ids.includes('poets/issa')]).toEqual([true, false])
    const one = await read(await gateway.fetch(new Request(`${ORIGIN}/api/v1/models/poets/issa`)))
    expect(one.body).toMatchObject({ id: 'poets/issa', categories: ['poems'], pricing: { transaction_fee: 0.001 } })
  })

  test('a catalog may be narrowed to its cheap ones, and knows every name', () => {
    const whole = withPoets()
    expect([smallOf(whole), hasModel(whole, 'basho'), hasModel(whole, 'homer')]).toEqual([['poets/basho'], true, false])
    expect(POETS.all(narrowed(whole, smallOf(whole))).map(({ id }) => id)).toEqual(['poets/basho'])
  })
})

describe('overrideRows()', () => {
  const over = (...tables: Parameters<typeof overrideRows>[1]) => overrideRows(POETS, tables, ['acme', 'other'])

  test('changes a row by the settings that it names', () => {
    const { rows, mistakes } = over({ id: 'poets/basho', rate: '0.02', max_lines: 5, vendor: 'other' })
    expect([mistakes, rows[0]]).toEqual([
      [],
      { ...BASHO, rate: dollars('0.02'), maxLines: 5, vendor: 'other' } as CatalogRow,
    ])
  })

  test('adds a row that names its vendor, its upstream and whatever is not usual', () => {
    const { rows, mistakes } = over({ id: 'local/me', vendor: 'acme', upstream: 'me', rate: '1' })
    expect([mistakes, rows.at(-1)]).toEqual([
      [],
      {
        id: 'local/me',
        aliases: [],
        name: 'local/me',
        maker: 'acme',
        vendor: 'acme',
        upstream: 'me',
        maxLines: 3,
        rate: dollars('1'),
      } as CatalogRow,
    ])
  })

  test('names every mistake with its row', () => {
    expect(
      over({ id: 'new', vendor: 'nobody' }, { id: 'poets/basho', aliases: ['poets/issa'] }, { id: 'new' }).mistakes,
    ).toEqual([
      'poets: two entries change new',
      'poets new.vendor: must be one of acme, other, got "nobody"',
      'poets new: not in the built-in catalog, so upstream, rate must be set',
      'poets new: not in the built-in catalog, so vendor, upstream, rate must be set',
      'poets: two rows are called poets/issa',
    ])
  })

  test('takes a table of the fields that all rows have and of its own', () => {
    const { properties, required } = rowSettings(POETS)
    expect([Object.keys(properties), required]).toEqual([
      ['id', 'aliases', 'name', 'maker', 'vendor', 'upstream', 'hidden', 'rate', 'max_lines'],
      ['id'],
    ])
  })
})
