/** The vendor interfaces for web search. */
import type { Fields } from '../../lib/json.ts'

/** A search request (contract 9.3). Dates are YYYY-MM-DD. */
export type SearchJob = {
  readonly query: string
  readonly sources: readonly ('web' | 'news')[]
  readonly maxResults: number
  readonly fromDate?: string
  readonly toDate?: string
}

/** `citations` in citation order; `sourcesUsed` when the upstream reports it. */
export type SearchAnswer = {
  readonly summary: string
  readonly citations: readonly string[]
  readonly sourcesUsed?: number
  readonly model: string
}

/** Searches the live web. Throws an `ApiError` with a text for the caller. */
export interface SearchVendor {
  search(job: SearchJob, at: { signal: AbortSignal }): Promise<SearchAnswer>
}

/** The kinds of questions, named after their endpoints. */
export type WebQuestion = 'search' | 'find-similar' | 'answer' | 'contents'

/** Searches the web and reads its pages. Returns raw JSON text, because its numbers must not be rounded. */
export interface WebSearchVendor {
  ask(question: WebQuestion, order: Fields, at: { signal: AbortSignal }): Promise<string>
}
