/** Estimates the usage of a stream whose vendor counts nothing, from the first part of its text (contract 6.65). */
import { type Fields, fieldsOf, type Json, isFields, objectsOf, textOf } from '../../../lib/json.ts'
import { parseEvent, tryJson } from './sse.ts'
import { EVENT_END } from './stream_progress.ts'

export type SampledUsage = ReturnType<typeof sampledUsage>

export function sampledUsage(estimate: (characters: number) => Fields) {
  const samples: string[] = []
  let sampled = 0
  let passed = 0
  return {
    push(text: string): void {
      passed += text.length
      if (sampled >= SAMPLE) return
      sampled += text.length
      samples.push(text)
    },
    /** The usage, and the first chunk of the stream, whose id the usage is sent with. */
    estimated(): { readonly usage: Fields; readonly first: Fields } {
      const chunks = samples
        .join('')
        .split(EVENT_END)
        .flatMap((raw): Fields[] => [tryJson(parseEvent(raw)?.data ?? '') ?? {}])
      const length = chunks.reduce(
        (sum, { choices }) => sum + objectsOf(choices).reduce((all, { delta }) => all + deltaLength(delta), 0),
        0,
      )
      return { usage: estimate(Math.ceil((length * passed) / Math.max(1, sampled))), first: chunks[0] ?? {} }
    },
  }
}

/** Characters of a stream that are kept to estimate its usage. */
const SAMPLE = 65_536

/** Characters of an answer in one delta. */
function deltaLength(delta: Json | undefined): number {
  if (!isFields(delta)) return 0
  const calls = objectsOf(delta.tool_calls).map((call) => fieldsOf(call.function))
  return [delta.content, delta.reasoning_content, ...calls.flatMap(({ name, arguments: args }) => [name, args])].reduce(
    (sum: number, text) => sum + textOf(text).length,
    0,
  )
}
