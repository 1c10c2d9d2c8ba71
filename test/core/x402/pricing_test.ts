import { describe, expect, test } from 'bun:test'
import { catalog } from '../../../core/products/catalog.ts'
import { dollars, print } from '../../../core/x402/money.ts'
import { imageSizes } from '../../../core/products/images/price.ts'
import { mediaPrice } from '../../../core/x402/pricing.ts'
import { kit } from '../../kit.ts'
import vectors from '../../vectors/pricing.json'

const { images } = catalog()

describe('image prices', () => {
  test('every row of the contract is in the catalog at its rate, and nothing else is (contract 5.8, 5.9, 5.12, 5.13)', () => {
    const rows = images.all.flatMap(({ id, sizes }) =>
      sizes.map(({ size, rate }) => `${id} ${size} ${Number(rate.num) / Number(rate.den)}`),
    )
    expect(rows.sort()).toEqual(vectors.map(({ model, size, rate }) => `${model} ${size} ${Number(rate)}`).sort())
  })

  test('the ten models of the contract are listed in its order', () => {
    expect(images.all.map(({ id }) => id)).toEqual([...new Set(vectors.map(({ model }) => model))])
  })

  test('only vendor-e/image-pro is always a job', () => {
    expect(images.all.filter(({ slow }) => slow).map(({ id }) => id)).toEqual(['vendor-e/image-pro'])
  })

  for (const { model, size, rate, billed } of vectors) {
    test(`${model} at ${size} bills what the contract says for 1 to 10 images (contract 1.15, 5.4)`, () => {
      for (const [n, amount] of Object.entries(billed)) expect(print(mediaPrice(dollars(rate), Number(n)))).toBe(amount)
    })
  }

  test('the gateway quotes every row and every n at the billed price (contract 5.1, 5.4, 5.5, 5.6, 5.7, 5.8, 5.9, 5.10, 5.11, 5.12, 5.13, 5.14, 5.29)', async () => {
    const buyer = kit().buyer()
    for (const { model, size, rate, billed } of vectors) {
      for (const [n, amount] of Object.entries(billed)) {
        const { status, body } = await buyer.ask({ model, size, n: Number(n), prompt: 'a red fox' })
        expect(status).toBe(402)
        expect(body.price).toEqual({
          amount,
          currency: 'USD',
          pricePerImage: Number(rate),
          totalImages: Number(n),
          marginPercent: 5,
          transactionFee: 0.001,
        })
        expect(body.accepts[0].amount).toBe(String(Math.round(Number(amount) * 1e6)))
      }
    }
  })

  test('vendor-e/image-pro costs one price below 2.36 million pixels and another above (contract 5.15)', () => {
    const sizes = images.get('vendor-e/image-pro')?.sizes ?? []
    const below = sizes.filter(({ width, height }) => width * height < 2_360_000)
    const above = sizes.filter(({ width, height }) => width * height > 2_360_000)
    const bill = (some: typeof sizes) => [...new Set(some.map(({ rate }) => print(mediaPrice(rate, 1))))]
    expect([below.length, above.length, bill(below), bill(above)]).toEqual([3, 5, ['0.048250'], ['0.095500']])
  })

  test('the fee is added once, after the margin, and the sum rounded up once (contract 1.14, 1.16)', () => {
    expect(print(mediaPrice(dollars('0.0000001'), 1))).toBe('0.001001')
    expect(print(mediaPrice(dollars('0.000001'), 10))).toBe('0.001011')
    expect(print(mediaPrice(dollars('0'), 10))).toBe('0.001000')
  })

  test('imageSizes() reads pixels and refuses what is not a size', () => {
    expect(imageSizes({ '2848x1600': '0.09' })).toEqual([
      { size: '2848x1600', width: 2848, height: 1600, rate: { num: 9n, den: 100n } },
    ])
    for (const wrong of ['1024', '1024X1024', '1x1', '1024x', '1024x1024 ', 'square'])
      expect(() => imageSizes({ [wrong]: '0.1' })).toThrow('not an image size')
    expect(() => imageSizes({ '64x64': 'cheap' })).toThrow('not a decimal amount')
  })
})

describe('the catalog', () => {
  const [row] = images.all
  if (!row) throw new Error('an empty catalog')

  test('finds a row by its id and by any alias', () => {
    const { images } = catalog({ images: [{ ...row, aliases: ['openai/gpt-image-1', 'gpt-image-1'] }] })
    expect(images.get('gpt-image-1')?.id).toBe('vendor-a/image-1')
    expect(images.get('openai/gpt-image-1')).toBe(images.get(row.id))
    expect(images.get('constructor')).toBeUndefined()
  })

  test('refuses two rows of one name', () => {
    expect(() => catalog({ images: [row, row] })).toThrow('two catalog rows have the name vendor-a/image-1')
    expect(() => catalog({ images: [row, { ...row, id: 'other', aliases: [row.id] }] })).toThrow('two catalog rows')
  })
})
