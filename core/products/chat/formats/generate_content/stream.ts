/**
 * Translates streams between Gemini's streamGenerateContent (`alt=sse`) and `chat`. Closing events are held back until
 * the usage is known.
 */
import { type Json, type Fields, fieldsOf, given, isFields, listOf, numberOf, textOf } from '../../../../lib/json.ts'
import { camel, withSignature, usageFrom, usageMetadataFrom } from './parts.ts'
import {
  type ChatReplyFacts,
  finishReason,
  geminiFinish,
  isBlocking,
  mergedCalls,
  logprobsFrom,
  logprobsResultFrom,
  partsFrom,
  readCandidate,
} from './reply.ts'
import { sseJson, sseText, tryJson } from '../sse.ts'
import type { StreamTranslator } from '../stream_translator.ts'

const OVERLOADED = 503

/**
 * Gemini's events as chat chunks: one for each event and candidate, a finish for each at the end, a chunk with the
 * usage and no choices, then `[DONE]`. Older models send STOP in every event, so only the last reason counts. Nothing
 * follows an error, not even `[DONE]`.
 */
export function chatFromGenerateContentStream(facts: ChatReplyFacts): StreamTranslator {
  const open = new Map<number, { calls: number; reason: Json | undefined }>()
  let usage: Json | undefined
  let isBroken = false

  const chunk = (choices: readonly Fields[], more: Fields = {}) =>
    sseJson({
      id: facts.id,
      object: 'chat.completion.chunk',
      created: facts.created,
      model: facts.model,
      choices,
      ...more,
    })

  /** The state of a choice. Its first delta names the role. */
  function choiceAt(index: number) {
    const known = open.get(index)
    if (known) return { state: known, role: {} }
    const state = { calls: 0, reason: undefined }
    open.set(index, state)
    return { state, role: { role: 'assistant', content: '' } }
  }

  function candidate(entry: Fields, position: number): string {
    const index = numberOf(entry.index) ?? position
    const { state, role } = choiceAt(index)
    const first = state.calls
    const { content, reasoning, calls, images, signature } = readCandidate(
      entry,
      (call) => `call_${first + call}_${facts.id}`,
    )
    state.calls += calls.length
    if (textOf(entry.finishReason) !== '') state.reason = entry.finishReason
    const delta = given({
      ...role,
      reasoning_content: reasoning || undefined,
      ...(content === '' ? {} : { content }),
      tool_calls: calls.length > 0 ? calls.map((call, at) => ({ index: first + at, ...call })) : undefined,
      images: images.length > 0 ? images : undefined,
    })
    const logprobs = logprobsFrom(entry.logprobsResult)
    const fields = withSignature(delta, signature)
    if (Object.keys(fields).length === 0 && logprobs === undefined) return ''
    return chunk([given({ index, delta: fields, logprobs, finish_reason: null })])
  }

  return {
    on({ data }) {
      const payload = tryJson(data)
      if (!payload || isBroken) return ''
      if (isFields(payload.error)) {
        isBroken = true
        const { message, status, code } = payload.error
        return sseJson({
          error: {
            message: textOf(message),
            type: 'upstream_error',
            param: null,
            code: textOf(status) || (code ?? null),
          },
        })
      }
      const { candidates, promptFeedback, usageMetadata } = camel(payload)
      if (isFields(usageMetadata)) usage = usageMetadata
      const chunks = listOf(candidates)
        .map((one, position) => candidate(camel(one), position))
        .join('')
      if (open.size > 0 || !isBlocking(promptFeedback)) return chunks
      const { state, role } = choiceAt(0)
      state.reason = 'SAFETY'
      return chunk([{ index: 0, delta: role, finish_reason: null }])
    },
    end() {
      if (isBroken) return ''
      const finishes = [...open].map(([index, { calls, reason }]) =>
        chunk([{ index, delta: {}, finish_reason: finishReason(reason, calls > 0) }]),
      )
      const counts = usageFrom(usage)
      const last = counts ? chunk([], { usage: counts }) : ''
      return `${finishes.join('')}${last}${sseText({ data: '[DONE]' })}`
    },
  }
}

/**
 * Chat chunks as Gemini's events. Text and thoughts are sent as they arrive. Tool calls, whose arguments arrive in
 * fragments, are sent complete in the last event, with the finish reasons and the usage. This format has no `[DONE]`.
 * Nothing follows an error.
 */
export function generateContentFromChatStream(facts: { readonly model: string }): StreamTranslator {
  const open = new Map<number, { fragments: Fields[]; reason: Json | undefined }>()
  let usage: Json | undefined
  let responseId = ''
  let isBroken = false

  const event = (candidates: readonly Fields[], more: Fields = {}) =>
    sseJson(given({ candidates, ...more, modelVersion: facts.model, responseId: responseId || undefined }))

  function choice(entry: Fields, position: number): Fields[] {
    const index = numberOf(entry.index) ?? position
    const state = open.get(index) ?? { fragments: [], reason: undefined }
    open.set(index, state)
    const { tool_calls: calls, ...delta } = fieldsOf(entry.delta)
    for (const fragment of listOf(calls)) state.fragments.push(fieldsOf(fragment))
    if (textOf(entry.finish_reason) !== '') state.reason = entry.finish_reason
    const parts = partsFrom(delta)
    const logprobsResult = logprobsResultFrom(entry.logprobs)
    return parts.length === 0 && !logprobsResult
      ? []
      : [given({ content: { role: 'model', parts }, index, logprobsResult })]
  }

  return {
    on({ data }) {
      const payload = tryJson(data)
      if (!payload || isBroken) return ''
      if (isFields(payload.error)) {
        isBroken = true
        return sseJson({
          error: {
            code: numberOf(payload.error.code) ?? OVERLOADED,
            message: textOf(payload.error.message),
            status: 'UNAVAILABLE',
          },
        })
      }
      responseId ||= textOf(payload.id)
      if (isFields(payload.usage)) usage = payload.usage
      const candidates = listOf(payload.choices).flatMap((one, position) => choice(fieldsOf(one), position))
      return candidates.length > 0 ? event(candidates) : ''
    },
    end() {
      if (isBroken || open.size === 0) return ''
      const candidates = [...open].map(([index, { fragments, reason }]) => {
        const calls = partsFrom({ tool_calls: mergedCalls(fragments) })
        return {
          content: { role: 'model', parts: calls.length > 0 ? calls : [{ text: '' }] },
          finishReason: geminiFinish(reason),
          index,
        }
      })
      return event(candidates, given({ usageMetadata: usageMetadataFrom(usage) }))
    },
  }
}
