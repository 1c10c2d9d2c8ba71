/**
 * A stream of chat whose searches are run on the way: the chunks of all rounds as one stream, a search as a chunk with
 * `web_search` in its delta, once when it begins and once with what it found.
 */
import { eventSplitter } from '../../../lib/event_splitter.ts'
import { type Fields, fieldsOf, isFields, type Json, numberOf, objectsOf, textOf } from '../../../lib/json.ts'
import type { ChatStream } from '../../../ports/vendors/chat.ts'
import { emptyAnswer, isEmpty, isNonBlank } from '../formats/empty_answer.ts'
import { parseEvent, sseJson, tryJson } from '../formats/sse.ts'
import { askRound, goesOn, noteRound, noteTurns, reportedUsage, type Run, runSearch, searchCallOf } from './rounds.ts'
import { isSearchFunction } from './tool.ts'

export function searchingStream(run: Run, first: ChatStream, signal: AbortSignal): ChatStream {
  const stop = new AbortController()
  const end = () => stop.abort(signal.reason)
  signal.addEventListener('abort', end, { once: true })
  const state: Streaming = { run, upstream: first, signal: stop.signal, calls: 0, hasWords: false }
  const texts = textsOf(state)
  const encoder = new TextEncoder()
  const { beginsBy } = first
  return {
    async next() {
      const { done, value } = await texts.next()
      if (done) signal.removeEventListener('abort', end)
      return done ? undefined : encoder.encode(value)
    },
    cancel() {
      signal.removeEventListener('abort', end)
      stop.abort()
      state.upstream.cancel()
    },
    apiErrorOf: (event) => first.apiErrorOf?.(event),
    ...(beginsBy !== undefined && { beginsBy }),
  }
}

type Streaming = {
  readonly run: Run
  readonly signal: AbortSignal
  upstream: ChatStream
  /** Calls of the caller's tools in earlier rounds: indexes go on. */
  calls: number
  /** Whether a round has answered anything. */
  hasWords: boolean
}

async function* textsOf(state: Streaming): AsyncGenerator<string, undefined> {
  const { run, signal } = state
  for (;;) {
    const round = newRound(state.calls)
    yield* passedOn(state.upstream, round)
    // An error, or the end of the connection: the reader of the stream sees both.
    if (round.isBroken || round.finish === undefined) return undefined
    noteRound(run, round.usage, round.characters)
    const all = [...round.found.values()]
    const searches = all.filter(({ isSearch }) => isSearch)
    const made = []
    for (const [at, { call }] of searches.entries()) {
      const called = searchCallOf(call, `search_${run.rounds}_${at}`)
      yield searchChunk(round.head, { id: called.id, query: called.query })
      const search = await runSearch(run, called, signal)
      made.push(search)
      yield searchChunk(round.head, search as unknown as Fields)
    }
    const others = all.length - searches.length
    state.hasWords ||= others > 0 || hasWords(round.message)
    if (made.length === 0 || !goesOn(run, { finish: round.finish, others })) {
      // A failed search is shown, but does not count as an answer.
      const isSearched = made.length > 0 || run.rounds > 1
      if (isSearched && run.searches === 0 && !state.hasWords) throw emptyAnswer()
      const finish = made.length > 0 && others === 0 && round.finish === 'tool_calls' ? 'stop' : round.finish
      return yield* ending(run, round, finish)
    }
    state.calls += others
    await noteTurns(run, round.message, made)
    const next = await askRound(run, signal)
    if (next.kind !== 'stream') throw new Error('the vendor has answered a stream with a whole answer')
    state.upstream = next.stream
    // Cancelled while the model was called.
    if (signal.aborted) next.stream.cancel()
  }
}

type Round = {
  /** Index of the first call of the caller's tools. */
  readonly firstIndex: number
  /** Calls of this round, by their index or id. */
  readonly found: Map<string, FoundCall>
  /** The assistant's turn, as far as it is text. */
  message: Fields
  /** Members of a chunk beside its choices. */
  head: Fields
  finish: string | undefined
  usage: Json
  characters: number
  isBroken: boolean
}
type FoundCall = { readonly at: number; isSearch: boolean; call: Fields; waiting: Fields[] }

const newRound = (firstIndex: number): Round => ({
  firstIndex,
  found: new Map(),
  message: {},
  head: {},
  finish: undefined,
  usage: null,
  characters: 0,
  isBroken: false,
})

async function* passedOn(upstream: ChatStream, round: Round): AsyncGenerator<string, undefined> {
  const splitter = eventSplitter()
  for (;;) {
    const bytes = await upstream.next()
    const events = bytes === undefined ? [splitter.flush()] : splitter.push(bytes)
    const text = events.map((raw) => passedEvent(round, raw)).join('')
    if (text !== '') yield text
    if (bytes === undefined) return undefined
  }
}

function passedEvent(round: Round, raw: string): string {
  const { event, data } = parseEvent(raw) ?? {}
  if (raw === '' || data === '[DONE]' || round.isBroken) return ''
  if (data === undefined) return `${raw}\n\n`
  const chunk = tryJson(data)
  const isError = event === 'error' || !chunk || (chunk.error ?? null) !== null || chunk.object === 'error'
  if (isError) {
    round.isBroken = true
    return `${raw}\n\n`
  }
  return passedChunk(round, chunk)
}

/** A chunk without its searches, its finish and its usage, which wait for the last round. */
function passedChunk(round: Round, { choices, usage, ...head }: Fields): string {
  round.head = { ...round.head, ...head }
  if (isFields(usage)) round.usage = usage
  const choice = objectsOf(choices).find(({ index }) => (numberOf(index) ?? 0) === 0)
  if (!choice) return ''
  const { tool_calls: pieces, ...delta } = fieldsOf(choice.delta)
  if (typeof choice.finish_reason === 'string') round.finish = choice.finish_reason
  // The reader of the stream makes errors of these.
  const isFinal = choice.finish_reason === 'error'
  round.message = withDelta(round.message, delta)
  round.characters += JSON.stringify(choice.delta ?? null).length
  const calls = objectsOf(pieces).flatMap((piece) => passedCall(round, piece))
  const passed = { ...delta, ...(calls.length > 0 && { tool_calls: calls }) }
  if (Object.keys(passed).length === 0 && !isFinal) return ''
  return sseJson({ ...head, choices: [{ ...choice, delta: passed, finish_reason: isFinal ? 'error' : null }] })
}

/** Texts grow; other members are those of the last delta. */
function withDelta(message: Fields, delta: Fields): Fields {
  const grown = Object.entries(delta).map(([name, value]): [string, Json] => {
    const before = message[name]
    return [name, typeof value === 'string' && typeof before === 'string' && name !== 'role' ? before + value : value]
  })
  return { ...message, ...Object.fromEntries(grown) }
}

/** The pieces of a call of the caller's tools; nothing of a search, and nothing until the name of a call is known. */
function passedCall(round: Round, piece: Fields): Fields[] {
  const { found } = round
  const id = textOf(piece.id)
  const indexed = typeof piece.index === 'number' ? `at ${piece.index}` : undefined
  const known = indexed ?? (id === '' ? [...found.keys()].at(-1) : `id ${id}`) ?? 'at 0'
  const before = found.get(known)
  // Some vendors give every call the same index.
  const isOther = before !== undefined && id !== '' && textOf(before.call.id) !== '' && textOf(before.call.id) !== id
  if (isOther) {
    found.delete(known)
    found.set(`${known} before ${id}`, before)
  }
  const call: FoundCall =
    before && !isOther
      ? before
      : { at: round.firstIndex + found.size, isSearch: false, call: { function: {} }, waiting: [] }
  if (!before || isOther) found.set(known, call)
  const { name, arguments: text } = fieldsOf(piece.function)
  const written = fieldsOf(call.call.function)
  call.call = {
    id: textOf(call.call.id) || id,
    function: { name: textOf(written.name) || textOf(name), arguments: textOf(written.arguments) + textOf(text) },
  }
  call.isSearch = isSearchFunction(call.call)
  call.waiting.push({ ...piece, index: call.at })
  const isNamed = textOf(fieldsOf(call.call.function).name) !== ''
  return isNamed && !call.isSearch ? call.waiting.splice(0) : []
}

const hasWords = (message: Fields): boolean =>
  isNonBlank(message.reasoning_content) || !isEmpty({ choices: [{ message }] }, 'chat')

const searchChunk = (head: Fields, search: Fields): string =>
  sseJson({ ...head, choices: [{ index: 0, delta: { web_search: search }, finish_reason: null }] })

function* ending(run: Run, { head }: Round, finish: string): Generator<string, undefined> {
  const usage = reportedUsage(run)
  const last = sseJson({ ...head, choices: [{ index: 0, delta: {}, finish_reason: finish }] })
  yield `${last}${usage ? sseJson({ ...head, choices: [], usage }) : ''}data: [DONE]\n\n`
  return undefined
}
