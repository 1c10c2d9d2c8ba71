import { expect } from 'bun:test'
import type { SearchAnswer, SearchJob, SearchVendor } from '../../core/mod.ts'
import { never, stopped } from './abort.ts'
import { law, portLaw, type Law } from './law.ts'

const JOB: SearchJob = { query: 'what is the x402 payment protocol?', sources: ['web'], maxResults: 10 }
const OTHER: SearchJob = { ...JOB, query: 'how many decimals does USDC have?', maxResults: 2 }

const isPage = (url: string) => /^https?:\/\/[^/]/.test(url) && URL.canParse(url)

export const searchVendorLaws: readonly Law<SearchVendor>[] = [
  law('answers with a summary in words, and names the model that wrote it', async (subject) => {
    const { summary, model } = await (await subject.open()).search(JOB, never())
    expect([/\p{L}{2}/u.test(summary), summary.trim(), model.trim().length > 0]).toEqual([true, summary, true])
  }),
  law('cites pages by their address, each once', async (subject) => {
    const { citations } = await (await subject.open()).search(JOB, never())
    expect(citations.length).toBeGreaterThan(0)
    expect([citations.filter((url) => !isPage(url)), new Set(citations).size]).toEqual([[], citations.length])
  }),
  portLaw('cites at most as many pages as were asked for', async (vendor) => {
    for (const maxResults of [1, 2, 50])
      expect((await vendor.search({ ...JOB, maxResults }, never())).citations.length).toBeLessThanOrEqual(maxResults)
  }),
  law('the sources used are a whole number, or not reported', async (subject) => {
    const { sourcesUsed = 0 } = await (await subject.open()).search(JOB, never())
    expect([Number.isSafeInteger(sourcesUsed), sourcesUsed >= 0]).toEqual([true, true])
  }),
  portLaw('takes a query in any script, of any length that is sold', async (vendor) => {
    for (const query of ['狐と雪 🦊', '\u202e<svg onload=x>', '\ud800', '"', 'x402 '.repeat(200), '?']) {
      expect((await vendor.search({ ...JOB, query }, never())).summary).toMatch(/./)
    }
  }),
  portLaw('takes every source and range of days that is sold', async (vendor) => {
    const days = [
      {},
      { fromDate: '2026-01-01' },
      { toDate: '2026-12-31' },
      { fromDate: '2026-02-28', toDate: '2026-02-28' },
    ]
    for (const sources of [['web'], ['news'], ['web', 'news']] as const) {
      for (const range of days)
        expect((await vendor.search({ ...JOB, sources, ...range }, never())).summary).toMatch(/./)
    }
  }),
  portLaw('searches at the same time do not mix', async (vendor) => {
    const alone: SearchAnswer[] = []
    for (const job of [JOB, OTHER]) alone.push(await vendor.search(job, never()))
    expect(await Promise.all([JOB, OTHER, JOB, OTHER].map((job) => vendor.search(job, never())))).toEqual([
      ...alone,
      ...alone,
    ])
  }),
  law('a job is read, never changed', async (subject) => {
    const job = Object.freeze({ ...JOB, sources: Object.freeze(['news', 'web'] as const) })
    await (await subject.open()).search(job, never())
    expect(job).toEqual({ ...JOB, sources: ['news', 'web'] })
  }),
  portLaw('an aborted signal ends the search with its reason, before it begins and while it runs', async (vendor) => {
    const reason = new Error('out of time')
    expect(await vendor.search(JOB, { signal: AbortSignal.abort(reason) }).catch((error: unknown) => error)).toBe(
      reason,
    )
    expect([reason, 'made']).toContain((await stopped((at) => vendor.search(JOB, at), reason)) as Error)
  }),
]
