import { expect } from 'bun:test'
import type { SearchAnswer, SearchJob, SearchVendor } from '../../core/mod.ts'
import { never, stopped } from './abort.ts'
import type { Law } from './law.ts'

const JOB: SearchJob = { query: 'what is the x402 payment protocol?', sources: ['web'], maxResults: 10 }
const OTHER: SearchJob = { ...JOB, query: 'how many decimals does USDC have?', maxResults: 2 }

const isPage = (url: string) => /^https?:\/\/[^/]/.test(url) && URL.canParse(url)

export const searchVendorLaws: readonly Law<SearchVendor>[] = [
  {
    name: 'answers with a summary in words, and names the model that wrote it',
    async check(subject) {
      const { summary, model } = await (await subject.open()).search(JOB, never())
      expect([/\p{L}{2}/u.test(summary), summary.trim(), model.trim().length > 0]).toEqual([true, summary, true])
    },
  },
  {
    name: 'cites pages by their address, each once',
    async check(subject) {
      const { citations } = await (await subject.open()).search(JOB, never())
      expect(citations.length).toBeGreaterThan(0)
      expect([citations.filter((url) => !isPage(url)), new Set(citations).size]).toEqual([[], citations.length])
    },
  },
  {
    name: 'cites at most as many pages as were asked for',
    async check(subject) {
      const vendor = await subject.open()
      for (const maxResults of [1, 2, 50])
        expect((await vendor.search({ ...JOB, maxResults }, never())).citations.length).toBeLessThanOrEqual(maxResults)
    },
  },
  {
    name: 'the sources used are a whole number, or not reported',
    async check(subject) {
      const { sourcesUsed = 0 } = await (await subject.open()).search(JOB, never())
      expect([Number.isSafeInteger(sourcesUsed), sourcesUsed >= 0]).toEqual([true, true])
    },
  },
  {
    name: 'takes a query in any script, of any length that is sold',
    async check(subject) {
      const vendor = await subject.open()
      for (const query of ['狐と雪 🦊', '\u202e<svg onload=x>', '\ud800', '"', 'x402 '.repeat(200), '?']) {
        expect((await vendor.search({ ...JOB, query }, never())).summary).toMatch(/./)
      }
    },
  },
  {
    name: 'takes every source and range of days that is sold',
    async check(subject) {
      const vendor = await subject.open()
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
    },
  },
  {
    name: 'searches at the same time do not mix',
    async check(subject) {
      const vendor = await subject.open()
      const alone: SearchAnswer[] = []
      for (const job of [JOB, OTHER]) alone.push(await vendor.search(job, never()))
      expect(await Promise.all([JOB, OTHER, JOB, OTHER].map((job) => vendor.search(job, never())))).toEqual([
        ...alone,
        ...alone,
      ])
    },
  },
  {
    name: 'a job is read, never changed',
    async check(subject) {
      const job = Object.freeze({ ...JOB, sources: Object.freeze(['news', 'web'] as const) })
      await (await subject.open()).search(job, never())
      expect(job).toEqual({ ...JOB, sources: ['news', 'web'] })
    },
  },
  {
    name: 'an aborted signal ends the search with its reason, before it begins and while it runs',
    async check(subject) {
      const vendor = await subject.open()
      const reason = new Error('out of time')
      expect(await vendor.search(JOB, { signal: AbortSignal.abort(reason) }).catch((error: unknown) => error)).toBe(
        reason,
      )
      expect([reason, 'made']).toContain((await stopped((at) => vendor.search(JOB, at), reason)) as Error)
    },
  },
]
