/**
 * The rounds of an answer with searches: the model is asked, its searches are run, and it is asked again with what they
 * found (contract 7.37).
 */
import { type Fields, fieldsOf, isFields, type Json, listOf, textOf } from '../../../lib/json.ts'
import type { ChatAnswer, ChatOrder, ChatVendor, CountTokens } from '../../../ports/vendors/chat.ts'
import type { WebSearchVendor } from '../../../ports/vendors/search.ts'
import { tryJson } from '../formats/sse.ts'
import { isCounted, usageOf } from '../formats/usage.ts'
import { type MadeSearch, MAX_QUERY, resultText, searchErrorOf, searchWeb } from './search.ts'
import { isSearchFunction, SEARCH_NAME, type WebSearch } from './tool.ts'

export type Order = {
  readonly search: WebSearch
  readonly websearch: WebSearchVendor
  readonly countTokens: CountTokens
  /** Tokens of the prompt without what searches find. */
  readonly promptTokens: number
}

/** State of the rounds with one model. */
export type Run = {
  readonly order: Order
  readonly vendor: ChatVendor
  readonly chat: ChatOrder
  /** `run`: searches that were sent and have not failed, those of other models among them. */
  readonly uses: { left: number; run: number }
  /** Turns after the caller's: the searches, and what they found. */
  readonly turns: Fields[]
  rounds: number
  /** Rounds whose usage is in the sums. */
  ended: number
  searches: number
  pages: number
  /** Sums over the rounds that have ended. `isReported` while the vendor has reported the usage of each. */
  usage: Fields
  isReported: boolean
  /** Tokens of the prompt of the current round, and the longest prompt of all. */
  promptTokens: number
  longestPrompt: number
}

export const newRun = (order: Order, parts: Pick<Run, 'vendor' | 'chat' | 'uses'>): Run => ({
  order,
  ...parts,
  turns: [],
  rounds: 0,
  ended: 0,
  searches: 0,
  pages: 0,
  usage: {},
  isReported: true,
  promptTokens: order.promptTokens,
  longestPrompt: 0,
})

/** The request of the next round. The last one has no search to call, so that the model answers. */
export function askRound(run: Run, signal: AbortSignal): Promise<ChatAnswer> {
  const { chat, vendor, turns, uses } = run
  run.rounds++
  if (run.rounds === 1) return vendor.ask(chat, { signal })
  const { tool_choice: choice, ...body } = chat.body
  const tools = listOf(body.tools)
  const others = tools.filter((tool) => !isSearchFunction(tool))
  // Vendors refuse earlier calls in a request without tools.
  const offered = uses.left > 0 || others.length === 0 ? tools : others
  const ruled = { ...chat, ours: [...(chat.ours ?? []), 'messages', 'tools', 'tool_choice', 'max_tokens'] }
  return vendor.ask(
    {
      ...ruled,
      body: {
        ...body,
        messages: [...listOf(body.messages), ...turns],
        tools: offered,
        tool_choice: uses.left > 0 || others.length > 0 ? 'auto' : 'none',
        max_tokens: outputLeft(run),
      },
    },
    { signal },
  )
}

const outputLeft = ({ chat, usage }: Run): number =>
  Math.max(1, numberIn(chat.body, 'max_tokens') - numberIn(usage, 'completion_tokens'))

const numberIn = (fields: Fields, name: string): number => {
  const value = fields[name]
  return typeof value === 'number' && value > 0 ? value : 0
}

// ── a round that has ended ──────────────────────────────────────────────────────────────────────────────────────────

/** Adds a round. Where the vendor reports no usage it is estimated, so that a reader who leaves can be charged. */
export function noteRound(run: Run, reported: Json | undefined, characters: number): void {
  const usage = isFields(reported) ? usageOf(reported) : undefined
  const isKnown = isCounted(usage)
  run.isReported &&= isKnown
  run.ended = run.rounds
  const output = Math.ceil(characters / CHARACTERS_PER_TOKEN)
  run.usage = sum(run.usage, isKnown ? usage : { prompt_tokens: run.promptTokens, completion_tokens: output })
  run.longestPrompt = Math.max(run.longestPrompt, isKnown ? numberIn(usage, 'prompt_tokens') : run.promptTokens)
}

const CHARACTERS_PER_TOKEN = 4

/** Adds numbers by name, in nested objects too. Members of other types are those of the last. */
function sum(all: Fields, more: Fields): Fields {
  const added = Object.entries(more).map(([name, value]): [string, Json] => {
    const before = all[name]
    if (typeof value === 'number' && typeof before === 'number') return [name, before + value]
    return [name, isFields(value) ? sum(fieldsOf(before), value) : value]
  })
  return { ...all, ...Object.fromEntries(added) }
}

/** The usage of all rounds, with the searches. Undefined where the vendor has not reported all of it. */
export const reportedUsage = (run: Run): Fields | undefined =>
  run.isReported ? { ...run.usage, total_tokens: totalOf(run.usage), web_search: searchesOf(run) } : undefined

const totalOf = (usage: Fields): number => numberIn(usage, 'prompt_tokens') + numberIn(usage, 'completion_tokens')

const searchesOf = ({ searches, pages, longestPrompt }: Run): Fields => ({
  searches,
  pages,
  longest_prompt: longestPrompt,
})

/** The rounds that have ended, and the prompt of the one that runs, if one does: between two of them a search runs. */
export function usageSoFar(run: Run): Fields {
  const running = run.ended < run.rounds ? run.promptTokens : 0
  const usage = sum(run.usage, { prompt_tokens: running, completion_tokens: 0 })
  const longest = Math.max(run.longestPrompt, running)
  return {
    ...usage,
    total_tokens: totalOf(usage),
    web_search: { ...searchesOf(run), longest_prompt: longest },
  }
}

// ── searches ────────────────────────────────────────────────────────────────────────────────────────────────────────

type SearchCall = { readonly id: string; readonly query: string }

/** A call of the search, as a model makes it. Its query is '' where the arguments are malformed. */
export function searchCallOf(call: Fields, fallbackId: string): SearchCall {
  const query = textOf(fieldsOf(tryJson(textOf(fieldsOf(call.function).arguments))).query).trim()
  return { id: textOf(call.id) || fallbackId, query: query.length > MAX_QUERY ? '' : query }
}

/**
 * Runs one search. It is counted when it is sent, and not if it fails: a reader who leaves meanwhile owes it. Rejects
 * only if `signal` aborts.
 */
export async function runSearch(run: Run, { id, query }: SearchCall, signal: AbortSignal): Promise<MadeSearch> {
  const { websearch: vendor, search, countTokens } = run.order
  signal.throwIfAborted()
  if (query === '') return { id, query, pages: [], error: 'invalid_tool_input' }
  if (run.uses.left < 1) return { id, query, pages: [], error: 'max_uses_exceeded' }
  run.uses.left--
  run.uses.run++
  run.searches++
  const onPages = (count: number) => void (run.pages += count)
  try {
    return { id, query, pages: await searchWeb(query, { vendor, search, countTokens, signal, onPages }) }
  } catch (error) {
    if (signal.aborted) throw error
    run.searches--
    run.uses.run--
    return { id, query, pages: [], error: searchErrorOf(error) }
  }
}

/** Whether the model is asked again: it waits for nothing else, and has output left. */
export const goesOn = (run: Run, { finish, others }: { finish: string; others: number }): boolean =>
  others === 0 && finish !== 'length' && finish !== 'content_filter' && run.rounds <= run.order.search.maxUses

/** The turns of the searches of a round, for the next one. */
export async function noteTurns(run: Run, message: Fields, made: readonly MadeSearch[]): Promise<void> {
  const results = made.map((each) => ({ role: 'tool', tool_call_id: each.id, content: resultText(each) }))
  const calls = made.map(({ id, query }) => ({
    id,
    type: 'function',
    function: { name: SEARCH_NAME, arguments: JSON.stringify({ query }) },
  }))
  run.turns.push({ ...message, role: 'assistant', tool_calls: calls }, ...results)
  const counts = await Promise.all(results.map(({ content }) => run.order.countTokens(content)))
  const written = Math.ceil(textOf(message.content).length / CHARACTERS_PER_TOKEN)
  run.promptTokens += counts.reduce((all, count) => all + count, written)
}
