/** A chat answer as it is streamed: its text, and the comments in which the receipt comes. */
import { eventSplitter } from '../../../../core/lib/mod.ts'

type Streamed = {
  readonly text: string
  readonly tokens?: { readonly prompt_tokens: number; readonly completion_tokens: number }
  /** By name, such as `x-payment-receipt`. */
  readonly comments: Readonly<Record<string, string>>
  /** Why the answer is not whole. */
  readonly problem?: string
  /** It ended before its last event: the rest can be asked for again. */
  readonly isCut?: true
}

type Chunk = {
  readonly choices?: readonly { readonly delta?: { readonly content?: string | null } }[]
  readonly usage?: Streamed['tokens'] | null
  readonly error?: { readonly message?: string }
}

/**
 * Reads the events to their end, without one that breaks off, and tells of each change. Never rejects: what came before
 * a break was paid for.
 */
export async function readEvents(
  body: ReadableStream<Uint8Array>,
  changed: (so_far: Streamed) => void,
): Promise<Streamed> {
  let state: Streamed = { text: '', comments: {} }
  let isWhole = false
  const read = (line: string): void => {
    const [, name, value] = /^: (\S+) (.*)$/.exec(line) ?? []
    if (name !== undefined) state = { ...state, comments: { ...state.comments, [name]: value ?? '' } }
    if (line === 'data: [DONE]') isWhole = true
    else if (line.startsWith('data:')) state = added(state, line.slice('data:'.length))
    else return
    changed(state)
  }
  try {
    const reader = body.getReader()
    const splitter = eventSplitter()
    for (;;) {
      const { done, value } = await reader.read()
      if (done) break
      for (const event of splitter.push(value)) event.split('\n').forEach(read)
    }
  } catch {
    isWhole = false
  }
  return isWhole || state.problem !== undefined ? state : { ...state, problem: 'the connection was lost', isCut: true }
}

function added(state: Streamed, data: string): Streamed {
  let chunk: Chunk
  try {
    chunk = JSON.parse(data) as Chunk
  } catch {
    return { ...state, problem: 'an event could not be read' }
  }
  const { choices, usage, error } = chunk
  return {
    ...state,
    text: state.text + (choices?.[0]?.delta?.content ?? ''),
    ...(usage && { tokens: usage }),
    ...(error && { problem: error.message ?? 'no reason was given' }),
  }
}
