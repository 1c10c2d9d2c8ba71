import { describe, expect, test } from 'bun:test'
import { scriptedVendor } from '../../fakes/images.ts'
import { catalog, type ImageOverride, type ImageRow, imageRows, overrideImages } from '../../../core/mod.ts'
import { FOX, kit, ORIGIN, read } from '../../kit.ts'

const IMAGE_1 = 'vendor-a/image-1'
const NEW: ImageOverride = { id: 'house/brush', vendor: 'local', upstream: 'brush-9', sizes: { '640x480': '0.004' } }

const mistakes = (...overrides: readonly ImageOverride[]) => overrideImages(imageRows, overrides).mistakes

function rows(...overrides: readonly ImageOverride[]): readonly ImageRow[] {
  const { rows, mistakes } = overrideImages(imageRows, overrides)
  expect(mistakes).toEqual([])
  return rows
}

function row(id: string, ...overrides: readonly ImageOverride[]): ImageRow {
  const found = rows(...overrides).find((each) => each.id === id)
  if (!found) throw new Error(`there is no row ${id}`)
  return found
}

const known = (id: string): ImageRow => row(id)
const gateway = (...overrides: readonly ImageOverride[]) => kit({ catalog: catalog({ images: rows(...overrides) }) })
const listed = async ({ gateway }: ReturnType<typeof kit>): Promise<any[]> =>
  (await read(await gateway.fetch(new Request(`${ORIGIN}/api/v1/images/models`)))).body.data

describe('an override', () => {
  test('changes what it names, and leaves the rest of the row and the other rows alone', () => {
    const changes: readonly Omit<ImageOverride, 'id' | 'sizes' | 'redirect'>[] = [
      { aliases: ['a', 'b'] },
      { name: 'Brush' },
      { maker: 'house' },
      { vendor: 'local' },
      { upstream: 'brush-9' },
      { edits: { maxImages: 2, mask: false } },
      { slow: true },
      { hidden: true },
    ]
    for (const change of changes) {
      const changed = rows({ id: IMAGE_1, ...change })
      expect(changed.map((each) => (each.id === IMAGE_1 ? { ...known(IMAGE_1), ...change } : known(each.id)))).toEqual([
        ...changed,
      ])
    }
  })

  test('of sizes replaces every size and rate (contract 8.10)', async () => {
    const subject = gateway({ id: IMAGE_1, sizes: { '1024x1024': '0.03', '512x512': '0.01' } })
    const alice = subject.buyer()
    expect((await alice.ask(FOX)).body.price).toMatchObject({ amount: '0.032500', pricePerImage: 0.03 })
    expect((await alice.ask({ ...FOX, size: '512x512' })).body.price.amount).toBe('0.011500')
    expect((await alice.ask({ ...FOX, size: '1536x1024' })).body.valid_sizes).toEqual(['1024x1024', '512x512'])
  })

  test('without fields changes nothing', () => {
    expect(rows()).toEqual([...imageRows])
    expect(rows({ id: IMAGE_1 })).toEqual([...imageRows])
  })

  test('with malformed sizes or rates is refused, and the message names them', () => {
    expect(mistakes({ id: IMAGE_1, sizes: {} })).toEqual([`images ${IMAGE_1}.sizes: at least one is needed`])
    for (const sizes of [{ large: '0.1' }, { '1024': '0.1' }, { '1024x1024': 'cheap' }, { '1024x1024': '-1' }]) {
      expect(mistakes({ id: IMAGE_1, sizes })).toEqual([expect.stringMatching(/^images vendor-a\/image-1\.sizes: /)])
    }
  })

  test('every mistake is reported at once', () => {
    const found = mistakes(
      { id: 'new/one' },
      { id: IMAGE_1, sizes: { large: '1' } },
      { id: 'vendor-c/image-1', redirect: 'nobody' },
    )
    expect(found.map((mistake) => mistake.split(':', 1)[0])).toEqual([
      'images new/one',
      'images vendor-a/image-1.sizes',
      'images vendor-c/image-1.redirect',
    ])
  })
})

describe('a new row', () => {
  test('needs a vendor, an upstream id and sizes; the rest follows', () => {
    const made = row('house/brush', NEW)
    expect(made).toMatchObject({
      id: 'house/brush',
      aliases: [],
      name: 'house/brush',
      maker: 'local',
      vendor: 'local',
      upstream: 'brush-9',
      slow: false,
    })
    expect(made.sizes).toMatchObject([{ size: '640x480', width: 640, height: 480 }])
    for (const missing of ['vendor', 'upstream', 'sizes'] as const) {
      const { [missing]: _, ...rest } = NEW
      expect([missing, mistakes(rest as ImageOverride)]).toEqual([
        missing,
        [`images house/brush: not in the built-in catalog, so ${missing} is required`],
      ])
    }
  })

  test('is sold and listed like the others', async () => {
    const subject = gateway({ ...NEW, name: 'Brush', maker: 'house', edits: { maxImages: 1, mask: true } })
    expect(await listed(subject)).toContainEqual({
      id: 'house/brush',
      object: 'model',
      name: 'Brush',
      owned_by: 'house',
      pricing: { sizes: [{ size: '640x480', price: 0.004 }] },
    })
    const { status, body } = await subject.buyer().buy({ model: 'house/brush', prompt: 'fog', size: '640x480' })
    expect([status, body.price.amount]).toEqual([200, '0.005200'])
    expect(subject.vendor.jobs).toMatchObject([{ model: 'brush-9', width: 640, height: 480 }])
    expect((await subject.buyer().ask({ model: 'house/brush', prompt: 'fog' })).body.valid_sizes).toEqual(['640x480'])
  })
})

describe('an alias id', () => {
  const named = { id: IMAGE_1, aliases: ['gpt-image-1', 'openai/gpt-image-1'] }

  test('works in requests; the quote, the job and the ledger use the row’s own', async () => {
    for (const model of named.aliases) {
      const subject = gateway(named)
      const alice = subject.buyer()
      expect((await alice.ask({ ...FOX, model })).body.price).toEqual((await alice.ask(FOX)).body.price)
      const job = kit({ catalog: catalog({ images: rows(named) }), inlineMs: 0 })
      const { body } = await job.buyer().buy({ ...FOX, model })
      expect(body.model).toBe(IMAGE_1)
      expect((await job.ports.storage.getCall(body.id))?.model).toBe(IMAGE_1)
    }
  })

  test('is not listed as a model of its own', async () => {
    expect((await listed(gateway(named))).map(({ id }) => id)).toEqual(imageRows.map(({ id }) => id))
  })
})

describe('two rows with one name', () => {
  test('are a mistake, by id or by alias', () => {
    expect(mistakes({ id: IMAGE_1, aliases: ['vendor-a/image-2'] })).toEqual([
      'images: two rows are called vendor-a/image-2',
    ])
    expect(mistakes({ id: IMAGE_1, aliases: ['x'] }, { id: 'vendor-a/image-2', aliases: ['x'] })).toEqual([
      'images: two rows are called x',
    ])
    expect(mistakes({ id: IMAGE_1, aliases: ['x', 'x', IMAGE_1] })).toEqual([
      'images: two rows are called x',
      `images: two rows are called ${IMAGE_1}`,
    ])
  })

  test('are two entries for one row as well', () => {
    expect(mistakes({ id: IMAGE_1, slow: true }, { id: IMAGE_1, hidden: true })).toEqual([
      `images: two entries change ${IMAGE_1}`,
    ])
  })
})

describe('a hidden row', () => {
  const hidden = { id: IMAGE_1, hidden: true }

  test('is sold, but neither listed nor named in errors', async () => {
    const subject = gateway(hidden)
    const alice = subject.buyer()
    expect((await listed(subject)).map(({ id }) => id)).not.toContain(IMAGE_1)
    expect((await alice.buy(FOX)).status).toBe(200)
    const { body } = await alice.ask({ ...FOX, model: 'nobody' })
    expect(body.available_models).toEqual(imageRows.map(({ id }) => id).filter((id) => id !== IMAGE_1))
    expect(
      (await alice.ask({ model: 'nobody', prompt: 'x', image: 'x' }, { path: '/api/v1/images/image2image' })).body
        .message,
    ).not.toContain(IMAGE_1)
  })

  test('is not what a probe is quoted, nor in the price range', async () => {
    const dear = { ...NEW, sizes: { '640x480': '900' }, hidden: true }
    const { gateway: open } = gateway(hidden, dear)
    expect((await read(await open.fetch(new Request(`${ORIGIN}/api/v1/images/generations`)))).body.price.amount).toBe(
      '0.064000',
    )
    const { services } = (await read(await open.fetch(new Request(`${ORIGIN}/.well-known/x402`)))).body
    expect(services[0].pricing).toMatchObject({ min: '0.016750', max: '1.576000' })
  })
})

describe('a redirected row', () => {
  test('keeps its name and is made by the fallback, at the fallback’s rate (contract 8.8, 21.11)', async () => {
    const subject = gateway({ id: 'vendor-c/image-pro', redirect: 'vendor-c/image-1' })
    const alice = subject.buyer()
    const { body } = await alice.buy({ model: 'vendor-c/image-pro', prompt: 'a fox' })
    expect(body.price.amount).toBe('0.022000')
    expect(subject.vendor.jobs).toMatchObject([{ model: known('vendor-c/image-1').upstream }])
    expect((await listed(subject)).find(({ id }) => id === 'vendor-c/image-pro').pricing.sizes).toEqual([
      { size: '1024x1024', price: 0.02 },
    ])
  })

  test('keeps the sizes that the fallback makes too, and is as slow', () => {
    const made = row('vendor-b/image-pro', { id: 'vendor-b/image-pro', redirect: 'vendor-e/image-pro' })
    expect([made.sizes.map(({ size }) => size), made.slow, made.servedBy, made.vendor]).toEqual([
      ['1024x1024', '2048x2048'],
      true,
      'vendor-e/image-pro',
      'vendor-e',
    ])
  })

  test('may go to a new row, and to one at the same rate', () => {
    const cheap = { ...NEW, sizes: { '1024x1024': '0.02' } }
    expect(row(IMAGE_1, cheap, { id: IMAGE_1, redirect: 'house/brush' })).toMatchObject({
      vendor: 'local',
      upstream: 'brush-9',
    })
  })

  test('edits no more than its fallback does', () => {
    expect(
      row('vendor-b/image-pro', { id: 'vendor-b/image-pro', redirect: 'vendor-e/image-pro' }).edits,
    ).toBeUndefined()
    expect(row('vendor-a/image-2', { id: 'vendor-a/image-2', redirect: 'vendor-b/image-flash' }).edits).toEqual({
      maxImages: 3,
      mask: false,
    })
    expect(row('vendor-b/image-flash', { id: 'vendor-b/image-flash', redirect: IMAGE_1 }).edits).toEqual({
      maxImages: 3,
      mask: false,
    })
    expect(row('vendor-c/image-2.0', { id: 'vendor-c/image-2.0', redirect: IMAGE_1 }).edits).toBeUndefined()
  })

  test('is a mistake to a dearer row, to none, to itself, or to one that makes none of its sizes', () => {
    expect(mistakes({ id: IMAGE_1, redirect: 'vendor-a/image-2' })).toHaveLength(3)
    expect(mistakes({ id: IMAGE_1, redirect: 'vendor-b/image-flash' })).toEqual([
      `images ${IMAGE_1}.redirect: vendor-b/image-flash costs more at 1024x1024`,
    ])
    for (const redirect of ['nobody/nothing', IMAGE_1])
      expect(mistakes({ id: IMAGE_1, redirect })).toEqual([
        `images ${IMAGE_1}.redirect: there is no other row called ${redirect}`,
      ])
    expect(mistakes(NEW, { id: IMAGE_1, redirect: 'house/brush' })).toEqual([
      `images ${IMAGE_1}.redirect: house/brush makes none of its sizes`,
    ])
    expect(mistakes({ id: 'new/one', redirect: IMAGE_1 })).toHaveLength(1)
  })

  test('is a mistake to a row that is redirected itself, in a circle too', () => {
    const [first, second] = [
      { id: 'vendor-c/image-pro', redirect: 'vendor-c/image-2.0' },
      { id: 'vendor-c/image-2.0', redirect: 'vendor-c/image-1' },
    ]
    expect(mistakes(first, second)).toEqual([
      'images vendor-c/image-pro.redirect: vendor-c/image-2.0 is redirected itself; name the row that does the work',
    ])
    expect(
      mistakes(
        { ...first, redirect: 'vendor-c/image-1' },
        { id: 'vendor-c/image-1', redirect: 'vendor-c/image-pro' },
      ).join(),
    ).toContain('redirected itself')
  })
})

test('a catalog without any editing model still has its documents, and refuses edits', async () => {
  const images = imageRows.filter(({ edits }) => edits === undefined)
  const { gateway: open, buyer } = kit({ catalog: catalog({ images }), vendor: scriptedVendor() })
  for (const path of ['/openapi.json', '/.well-known/x402'])
    expect((await open.fetch(new Request(ORIGIN + path))).status).toBe(200)
  expect((await buyer().ask({ prompt: 'x', image: 'x' }, { path: '/api/v1/images/image2image' })).status).toBe(400)
})
