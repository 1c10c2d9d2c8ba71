import type { SearchAnswer, SearchJob, SearchVendor } from '../../core/mod.ts'
import { breaking, type Broken } from './law.ts'

const turns = async (count: number) => {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve))
}

/** An answer that depends on its job alone. */
const found = ({ query, maxResults }: SearchJob): SearchAnswer => ({
  summary: `pages about ${query}`.trim(),
  citations: Array.from(
    { length: Math.min(maxResults, 3) },
    (_, index) => `https://page${index}.example/${query.length}`,
  ),
  sourcesUsed: 3,
  model: 'pages-1',
})

/** Keeps every law; takes a few turns, so that an abort can come in between. */
export function pageVendor(): SearchVendor {
  return {
    async search(job, { signal }) {
      for (let turn = 0; turn < 6; turn++) {
        signal.throwIfAborted()
        await turns(1)
      }
      return found(job)
    },
  }
}

const breakingOne = breaking<SearchVendor>(pageVendor)
const broken = (law: string, but: string, wrap: (good: SearchVendor) => SearchVendor['search']) =>
  breakingOne(law, but, (good) => ({ search: wrap(good) }))

const answering = (law: string, but: string, spoil: (good: SearchAnswer, job: SearchJob) => SearchAnswer) =>
  broken(law, but, (good) => async (job, at) => spoil(await good.search(job, at), job))

export const brokenSearchVendors: readonly Broken<SearchVendor>[] = [
  answering('answers with a summary in words, and names the model that wrote it', 'does not say who wrote', (good) => ({
    ...good,
    model: '',
  })),
  answering('cites pages by their address, each once', 'cites a page twice', (good, { maxResults }) => ({
    ...good,
    citations: [...good.citations, ...good.citations].slice(0, maxResults),
  })),
  answering('cites at most as many pages as were asked for', 'cites all that it has read', (good) => ({
    ...good,
    citations: ['https://a.example/', 'https://b.example/', 'https://c.example/'],
  })),
  answering('the sources used are a whole number, or not reported', 'guesses at its sources', (good) => ({
    ...good,
    sourcesUsed: 2.5,
  })),
  broken(
    'takes a query in any script, of any length that is sold',
    'reads ASCII only',
    (good) => (job, at) =>
      /^[ -~]*$/.test(job.query) ? good.search(job, at) : Promise.reject(new Error('unreadable')),
  ),
  broken(
    'takes every source and range of days that is sold',
    'knows no news',
    (good) => (job, at) => (job.sources.includes('web') ? good.search(job, at) : Promise.reject(new Error('no news'))),
  ),
  broken('searches at the same time do not mix', 'looks for the newest query for all', (good) => {
    let newest: SearchJob | undefined
    return async (job, at) => {
      newest = job
      await turns(1)
      return await good.search(newest, at)
    }
  }),
  broken('a job is read, never changed', 'sorts the sources of its job', (good) => (job, at) => {
    if (job.sources.length > 1) (job.sources as string[]).sort()
    return good.search(job, at)
  }),
  broken(
    'an aborted signal ends the search with its reason, before it begins and while it runs',
    'does not look up from its work',
    () => async (job) => {
      await turns(40)
      return found(job)
    },
  ),
]
