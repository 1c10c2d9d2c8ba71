/** Who searches the web. */
import type { Fields } from '../../lib/json.ts'

/** What a search is asked for (contract 9.3). Dates are YYYY-MM-DD. */
export type SearchJob = {
  readonly query: string
  readonly sources: readonly ('web' | 'news')[]
  readonly maxResults: number
  readonly fromDate?: string
  readonly toDate?: string
}

/** `citations` in the order in which they are cited; `sourcesUsed` where the upstream reports it. */
export type SearchAnswer = {
  readonly summary: string
  readonly citations: readonly string[]
  readonly sourcesUsed?: number
  readonly model: string
}

/** Searches the live web. Throws an `ApiError` for what the caller should hear of. */
export interface SearchVendor {
  search(job: SearchJob, at: { signal: AbortSignal }): Promise<SearchAnswer>
}

/** What the web can be asked for, each in the words of its endpoint. */
export type WebQuestion = 'search' | 'find-similar' | 'answer' | 'contents'

/**
 * Searches the web and reads its pages. Answers, like all that is passed on, with JSON as text: its numbers are not
 * ours to round.
 */
export interface WebSearchVendor {
  ask(question: WebQuestion, order: Fields, at: { signal: AbortSignal }): Promise<string>
}
