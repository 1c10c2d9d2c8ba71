/** Answers with searches, whole or streamed (contract 7.37). */
import { type Fields, fieldsOf, type Json, listOf, objectsOf, textOf } from '../../../lib/json.ts'
import type { ChatAnswer, ChatOrder, ChatVendor } from '../../../ports/vendors/chat.ts'
import {
  askRound,
  goesOn,
  newRun,
  noteRound,
  noteTurns,
  type Order,
  reportedUsage,
  type Run,
  runSearch,
  searchCallOf,
  usageSoFar,
} from './rounds.ts'
import type { MadeSearch } from './search.ts'
import { searchingStream } from './stream.ts'
import { isSearchFunction } from './tool.ts'

/** Ask for an answer of one model. A fallback gets what is left of the searches. */
export type Searching = {
  ask(vendor: ChatVendor, order: ChatOrder, at: { readonly signal: AbortSignal }): Promise<ChatAnswer>
  /** Usage of a streamed answer so far, for a reader who leaves before it is sent. */
  usage(): Fields
  /** Whether a search was run, by whichever model. */
  isCostly(): boolean
}

export function searching(order: Order): Searching {
  const uses = { left: order.search.maxUses, run: 0 }
  let run: Run | undefined
  return {
    async ask(vendor, chat, { signal }) {
      const current = newRun(order, { vendor, chat, uses })
      run = current
      if (!chat.stream) return await wholeAnswer(current, signal)
      const first = await askRound(current, signal)
      return first.kind === 'stream'
        ? { kind: 'stream', stream: searchingStream(current, first.stream, signal) }
        : first
    },
    usage: () => (run ? usageSoFar(run) : {}),
    isCostly: () => uses.run > 0,
  }
}

/** A search of a whole answer, and the text that came before it. */
type Listed = { readonly before: string; readonly search: MadeSearch }

async function wholeAnswer(run: Run, signal: AbortSignal): Promise<ChatAnswer> {
  const listed: Listed[] = []
  for (;;) {
    const answer = await askRound(run, signal)
    if (answer.kind !== 'whole') return answer
    const [choice = {}] = objectsOf(answer.body.choices)
    const { tool_calls, ...message } = fieldsOf(choice.message)
    const calls = objectsOf(tool_calls)
    const searches = calls.filter(isSearchFunction)
    const others = calls.filter((call) => !isSearchFunction(call))
    noteRound(run, answer.body.usage, JSON.stringify(choice.message ?? null).length)
    const made: MadeSearch[] = []
    for (const [at, call] of searches.entries())
      made.push(await runSearch(run, searchCallOf(call, `search_${run.rounds}_${at}`), signal))
    const finish = textOf(choice.finish_reason)
    if (made.length === 0 || !goesOn(run, { finish, others: others.length }))
      return {
        kind: 'whole',
        body: finalBody(run, answer.body, { listed: [...listed, ...listedOf(message, made)], others }),
      }
    listed.push(...listedOf(message, made))
    await noteTurns(run, message, made)
  }
}

const listedOf = (message: Fields, made: readonly MadeSearch[]): Listed[] =>
  made.map((search, at) => ({ before: at === 0 ? textOf(message.content) : '', search }))

function finalBody(
  run: Run,
  body: Fields,
  { listed, others }: { readonly listed: readonly Listed[]; readonly others: readonly Fields[] },
): Fields {
  const [choice = {}] = objectsOf(body.choices)
  const { tool_calls: calls, ...message } = fieldsOf(choice.message)
  const isLastSearch = listOf(calls).length > others.length
  return {
    ...body,
    choices: [
      {
        ...choice,
        message: {
          ...message,
          // The text before the last searches is listed with them.
          ...(isLastSearch && { content: '' }),
          ...(others.length > 0 && { tool_calls: others }),
          ...(listed.length > 0 && { web_searches: listed as unknown as Json }),
        },
        finish_reason: isLastSearch && others.length === 0 ? 'stop' : (choice.finish_reason ?? 'stop'),
      },
    ],
    ...(body.usage !== undefined && { usage: reportedUsage(run) ?? null }),
  }
}
