/** Streams between Gemini's streamGenerateContent (`alt=sse`) and `chat`. What ends a stream is held back to its end, where the usage is known. */
import { type Json, type Fields, fieldsOf, given, isFields, listOf, numberOf, textOf } from '../../../../lib/json.ts'
import { camel, signed, usageFrom, usageMetadataFrom } from './parts.ts'
import {
  type ChatReplyFacts,
  finishReason,
  geminiFinish,
  isBlocking,
  joinedCalls,
  logprobsFrom,
  logprobsResultFrom,
  partsFrom,
  readCandidate,
} from './reply.ts'
import { sseJson, sseText, tryJson } from '../sse.ts'
import type { Rewriter } from '../rewriter.ts'

const OVERLOADED = 503

/**
 * Gemini's events as chat chunks: one for each event and candidate, a finish for each at the end, the usage in a chunk without choices, `[DONE]`.
 * Older models say STOP in every event, so only the end is believed. After an error in the stream nothing follows, `[DONE]` least of all.
 */
export function chatFromGenerateContentStream(facts: ChatReplyFacts): Rewriter {
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

  /** What is known of a choice; its first delta names the role. */
  function choiceAt(index: number) {
    const known = open.get(index)
    if (known) return { state: known, role: {} }
    const state = { calls: 0, reason: undefined }
    open.set(index, state)
    return { state, role: { role: 'assistant', content: '' } }
  }

  function candidate(told: Fields, place: number): string {
    const index = numberOf(told.index) ?? place
    const { state, role } = choiceAt(index)
    const first = state.calls
    const { content, reasoning, calls, images, signature } = readCandidate(
      told,
      (call) => `call_${first + call}_${facts.id}`,
    )
    state.calls += calls.length
    if (textOf(told.finishReason) !== '') state.reason = told.finishReason
    const delta = given({
      ...role,
      reasoning_content: reasoning || undefined,
      ...(content === '' ? {} : { content }),
      tool_calls: calls.length > 0 ? calls.map((call, at) => ({ index: first + at, ...call })) : undefined,
      images: images.length > 0 ? images : undefined,
    })
    const logprobs = logprobsFrom(told.logprobsResult)
    const said = signed(delta, signature)
    if (Object.keys(said).length === 0 && logprobs === undefined) return ''
    return chunk([given({ index, delta: said, logprobs, finish_reason: null })])
  }

  return {
    on({ data }) {
      const told = tryJson(data)
      if (!told || isBroken) return ''
      if (isFields(told.error)) {
        isBroken = true
        const { message, status, code } = told.error
        return sseJson({
          error: {
            message: textOf(message),
            type: 'upstream_error',
            param: null,
            code: textOf(status) || (code ?? null),
          },
        })
      }
      const { candidates, promptFeedback, usageMetadata } = camel(told)
      if (isFields(usageMetadata)) usage = usageMetadata
      const said = listOf(candidates)
        .map((one, place) => candidate(camel(one), place))
        .join('')
      if (open.size > 0 || !isBlocking(promptFeedback)) return said
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
 * Chat chunks as Gemini's events: text and thoughts as they come; tool calls, whose arguments come in fragments, whole in the last event, with the
 * finish reasons and the usage. There is no `[DONE]` on this wire. After an error nothing follows.
 */
export function generateContentFromChatStream(facts: { readonly model: string }): Rewriter {
  const open = new Map<number, { fragments: Fields[]; reason: Json | undefined }>()
  let usage: Json | undefined
  let responseId = ''
  let isBroken = false

  const event = (candidates: readonly Fields[], more: Fields = {}) =>
    sseJson(given({ candidates, ...more, modelVersion: facts.model, responseId: responseId || undefined }))

  function choice(told: Fields, place: number): Fields[] {
    const index = numberOf(told.index) ?? place
    const state = open.get(index) ?? { fragments: [], reason: undefined }
    open.set(index, state)
    const { tool_calls: calls, ...delta } = fieldsOf(told.delta)
    for (const fragment of listOf(calls)) state.fragments.push(fieldsOf(fragment))
    if (textOf(told.finish_reason) !== '') state.reason = told.finish_reason
    const parts = partsFrom(delta)
    const logprobsResult = logprobsResultFrom(told.logprobs)
    return parts.length === 0 && !logprobsResult
      ? []
      : [given({ content: { role: 'model', parts }, index, logprobsResult })]
  }

  return {
    on({ data }) {
      const told = tryJson(data)
      if (!told || isBroken) return ''
      if (isFields(told.error)) {
        isBroken = true
        return sseJson({
          error: {
            code: numberOf(told.error.code) ?? OVERLOADED,
            message: textOf(told.error.message),
            status: 'UNAVAILABLE',
          },
        })
      }
      responseId ||= textOf(told.id)
      if (isFields(told.usage)) usage = told.usage
      const candidates = listOf(told.choices).flatMap((one, place) => choice(fieldsOf(one), place))
      return candidates.length > 0 ? event(candidates) : ''
    },
    end() {
      if (isBroken || open.size === 0) return ''
      const candidates = [...open].map(([index, { fragments, reason }]) => {
        const calls = partsFrom({ tool_calls: joinedCalls(fragments) })
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
