import { describe, expect, test } from 'bun:test'
import type { Model } from '../../../server/web/pages/lib/api.ts'
import { networkName } from '../../../server/web/pages/lib/networks.ts'
import { cheapest, priceText, rateOf, usd } from '../../../server/web/pages/lib/prices.ts'

const model = (id: string, pricing: Model['pricing'], billing_mode = 'paid'): Model => ({
  id,
  name: id,
  owned_by: 'a',
  categories: ['chat'],
  billing_mode,
  pricing,
})

describe('prices on the pages', () => {
  test('have two decimals, and up to six where they say more', () => {
    expect([0, 0.5, 1.5, 0.0525, 0.01575, 0.000001, 150.224956, 3].map(usd)).toEqual([
      '$0.00',
      '$0.50',
      '$1.50',
      '$0.0525',
      '$0.01575',
      '$0.000001',
      '$150.224956',
      '$3.00',
    ])
  })

  test('name what they are for', () => {
    expect(rateOf(model('chat', { input: 0.5, output: 1.5 })).text).toBe('$0.50 in, $1.50 out per million tokens')
    expect(rateOf(model('image', { per_image: 0.021 })).text).toBe('$0.021 per image')
    expect(rateOf(model('free', { input: 0, output: 0 }, 'free')).text).toBe('free')
    expect(rateOf(model('unknown', { per_moon: 1 })).text).toBe('by the request')
    expect(priceText({ mode: 'dynamic', min: '0.003', max: '0.201' })).toBe('$0.003 to $0.201')
  })

  test('begin with the cheapest that costs something', () => {
    const models = [model('b', { per_image: 2 }), model('free', {}, 'free'), model('a', { per_image: 1 })]
    expect(cheapest(models)?.id).toBe('a')
    expect(cheapest(models.slice(1, 2))?.id).toBe('free')
    expect(cheapest([])).toBeUndefined()
  })

  test('are paid on a network that people know by name; an unknown one keeps its id', () => {
    expect(['base', 'eip155:8453', 'eip155:1'].map(networkName)).toEqual(['Base', 'Base', 'eip155:1'])
  })
})
