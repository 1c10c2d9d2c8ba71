/** Searches in the usage of an answer: `web_search`, beside the tokens of all rounds. */
import { countOf, isFields, type Json } from '../../../lib/json.ts'

/** The searches in a usage; undefined if it has none. */
export function searchesIn(usage: Json): { searches: number; pages: number; longestPrompt: number } | undefined {
  const counted = isFields(usage) ? usage.web_search : undefined
  if (!isFields(counted)) return undefined
  return {
    searches: countOf(counted.searches),
    pages: countOf(counted.pages),
    longestPrompt: countOf(counted.longest_prompt),
  }
}
