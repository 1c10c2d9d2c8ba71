import { describe, expect, test } from 'bun:test'
import { demoSearch } from '../../../../server/devnet/demo/search.ts'
import type { SearchJob } from '../../../../core/mod.ts'
import { runLaws } from '../../../conformance/law.ts'
import { searchVendorLaws } from '../../../conformance/search.ts'
import { calm } from '../../../adapters/providers/lib/provider_kit.ts'

const JOB: SearchJob = { query: 'what is x402?', sources: ['web', 'news'], maxResults: 10 }
const ask = (more: Partial<SearchJob> = {}) => demoSearch().search({ ...JOB, ...more }, calm())
const slugs = async (more: Partial<SearchJob>) =>
  (await ask(more)).citations.map((url) => url.slice(url.lastIndexOf('/') + 1))

runLaws('demoSearch()', searchVendorLaws, async () => ({ open: async () => demoSearch(), close: async () => {} }))

describe('demoSearch()', () => {
  test.each(['what is x402?', 'xyzzy', '狐'])(
    'says of %p that it is a bundled sample and not the web',
    async (query) => {
      const { summary, model } = await ask({ query })
      expect(summary).toMatch(/^Sample search: .* bundled documents.* not (a )?results? from the web\./)
      expect(model).toBe('farebox/sample-search')
    },
  )

  test('cites addresses that nobody can take for pages of the web', async () => {
    const { citations } = await ask({ query: 'x402 usdc base farebox search payment', maxResults: 50 })
    expect(citations.filter((url) => !/^https:\/\/(sample|news)\.farebox\.example\//.test(url))).toEqual([])
  })

  test.each([
    ['what is x402?', 'x402'],
    ['Farebox', 'farebox'],
    ['how many decimals has USDC', 'usdc'],
    ['base chain id', 'base'],
    ['EIP-712 typed data', 'eip-712'],
    ['price of a live search', 'search-price'],
    ['MICROPAYMENT', 'micropayments'],
  ])('finds for %p first %p', async (query, slug) => {
    expect((await slugs({ query }))[0]).toBe(slug)
  })

  test('ranks alike every time, and quotes what it found first', async () => {
    const first = await ask()
    for (let times = 0; times < 3; times++) expect(await ask()).toEqual(first)
    expect(first.summary).toContain('The x402 payment protocol:')
  })

  test('keeps to the sources and days that were asked for, both days included', async () => {
    const query = 'payment search answers codes price'
    expect((await slugs({ query, sources: ['news'] })).sort()).toEqual([
      'chat-reasoning',
      'payment-codes',
      'search-price',
    ])
    expect(await slugs({ query, sources: ['news'], fromDate: '2026-08-26', toDate: '2026-08-26' })).toEqual([
      'payment-codes',
    ])
    expect(await slugs({ query, sources: ['web'], fromDate: '2030-01-01' })).toEqual([])
    expect(
      (await slugs({ query, sources: ['web'] })).filter((slug) =>
        ['search-price', 'payment-codes', 'chat-reasoning'].includes(slug),
      ),
    ).toEqual([])
  })

  test('finds nothing for words that say nothing', async () => {
    expect((await ask({ query: 'what is the a of' })).citations).toEqual([])
  })
})
