/**
 * Whole replies between Gemini's generateContent and `chat`. Sources: types of @google/genai 3.1.0; decision 75 (finish reasons, usage).
 * Lenient: what a vendor leaves out is left out, and nothing throws.
 */
import { type Json, type Fields, fieldsOf, given, isFields, listOf, numberOf, textOf } from '../../../../lib/json.ts'
import {
  callPart,
  camel,
  contentText,
  dataUriParts,
  jsonText,
  shownText,
  signatureOf,
  signed,
  toolCall,
  usageFrom,
  usageMetadataFrom,
} from './parts.ts'

const FILTERED = [
  'SAFETY',
  'RECITATION',
  'BLOCKLIST',
  'PROHIBITED_CONTENT',
  'SPII',
  'LANGUAGE',
  'IMAGE_SAFETY',
  'IMAGE_PROHIBITED_CONTENT',
  'IMAGE_RECITATION',
]

/** What a chat reply says of itself and Gemini does not. `created` in unix seconds. */
export type ChatReplyFacts = { readonly model: string; readonly created: number; readonly id: string }

/** A candidate's finish reason in chat's words. Calls are `tool_calls` whatever Gemini says, unless it was stopped for safety. */
export function finishReason(reason: Json | undefined, hasCalls: boolean): string {
  if (FILTERED.includes(textOf(reason))) return 'content_filter'
  if (hasCalls) return 'tool_calls'
  return reason === 'MAX_TOKENS' ? 'length' : 'stop'
}

/** The same in Gemini's words; a turn of calls ends with STOP. */
export function geminiFinish(reason: Json | undefined): string {
  if (reason === 'length') return 'MAX_TOKENS'
  return reason === 'content_filter' ? 'SAFETY' : 'STOP'
}

/** The parts of a candidate by kind. `callId` names the calls that have no id, by their place. */
export function readCandidate(candidate: Fields, callId: (place: number) => string) {
  const parts = listOf(camel(candidate.content).parts).map(camel)
  const shown = parts.filter(({ thought }) => thought !== true)
  const thoughts = parts.filter(({ thought }) => thought === true)
  const calls = parts
    .filter(({ functionCall }) => isFields(functionCall))
    .map((part, place) => toolCall(part, callId(place)))
  const bearer = shown.findLast((part) => part.functionCall === undefined && textOf(part.thoughtSignature) !== '')
  return {
    content: shown.map((part) => shownText(part) ?? '').join(''),
    reasoning: thoughts.map((part) => textOf(part.text)).join(''),
    calls,
    images: shown.flatMap(imageOf),
    signature: textOf(bearer?.thoughtSignature),
  }
}

/** An image that the model drew, as OpenRouter's `images` of a message. */
function imageOf(part: Fields): Fields[] {
  const { mimeType, data } = camel(part.inlineData)
  return textOf(data) === ''
    ? []
    : [{ type: 'image_url', image_url: { url: `data:${textOf(mimeType) || 'image/png'};base64,${textOf(data)}` } }]
}

/**
 * A Gemini reply as a chat completion. A prompt that was blocked is an empty message that ends with content_filter; a reply with neither candidate nor
 * block has no choices, so that nobody takes it for an answer. Without counts there is no `usage`.
 */
export function chatFromGenerateContentReply(reply: Fields, facts: ChatReplyFacts): Fields {
  const { candidates, promptFeedback, usageMetadata } = camel(reply)
  const choices = listOf(candidates).map((candidate, place) => {
    const { index, finishReason: reason, logprobsResult, ...rest } = camel(candidate)
    const { content, reasoning, calls, images, signature } = readCandidate(rest, (call) => `call_${call}_${facts.id}`)
    const message = given({
      role: 'assistant',
      content,
      reasoning_content: reasoning || undefined,
      tool_calls: calls.length > 0 ? calls : undefined,
      images: images.length > 0 ? images : undefined,
    })
    const logprobs = logprobsFrom(logprobsResult)
    const finish_reason = finishReason(reason, calls.length > 0)
    return given({ index: numberOf(index) ?? place, message: signed(message, signature), logprobs, finish_reason })
  })
  const blocked = { index: 0, message: { role: 'assistant', content: '' }, finish_reason: 'content_filter' }
  const { id, created, model } = facts
  const isBlocked = choices.length === 0 && isBlocking(promptFeedback)
  return given({
    id,
    object: 'chat.completion',
    created,
    model,
    choices: isBlocked ? [blocked] : choices,
    usage: usageFrom(usageMetadata),
  })
}

export const isBlocking = (feedback: Json | undefined) => textOf(camel(feedback).blockReason) !== ''

/** A chat completion as a Gemini reply. A reason to refuse is told as text, for Gemini has no other place for it. */
export function generateContentFromChatReply(reply: Fields, facts: { readonly model: string }): Fields {
  const candidates = listOf(reply.choices).map((choice, place) => {
    const { index, message, finish_reason, logprobs } = fieldsOf(choice)
    return given({
      content: { role: 'model', parts: replyParts(fieldsOf(message)) },
      finishReason: geminiFinish(finish_reason),
      index: numberOf(index) ?? place,
      logprobsResult: logprobsResultFrom(logprobs),
    })
  })
  return given({
    candidates,
    usageMetadata: usageMetadataFrom(reply.usage),
    modelVersion: facts.model,
    responseId: textOf(reply.id) || undefined,
  })
}

/** The parts of a message or of a delta; its calls must be whole. Empty where it says nothing. */
export function partsFrom(message: Fields): Fields[] {
  const thought = textOf(message.reasoning_content) || textOf(message.reasoning)
  const said = contentText(message.content) + textOf(message.refusal)
  const signature = signatureOf(message)
  const images = listOf(message.images).flatMap((image) => {
    const inlineData = dataUriParts(textOf(fieldsOf(fieldsOf(image).image_url).url))
    return inlineData ? [{ inlineData }] : []
  })
  const legacy = isFields(message.function_call) ? [{ function: message.function_call }] : []
  return [
    ...(thought === '' ? [] : [{ text: thought, thought: true }]),
    ...(said === '' && signature === '' ? [] : [given({ text: said, thoughtSignature: signature || undefined })]),
    ...images,
    ...[...listOf(message.tool_calls).map(fieldsOf), ...legacy].map(callPart),
  ]
}

/** A candidate without parts surprises clients, so an empty answer is an empty text. */
function replyParts(message: Fields): Fields[] {
  const parts = partsFrom(message)
  return parts.length > 0 ? parts : [{ text: '' }]
}

// ── probabilities of tokens ─────────────────────────────────────────────────────────────────────────────────────────

export function logprobsFrom(result: Json | undefined): Fields | undefined {
  if (!isFields(result)) return undefined
  const { chosenCandidates, topCandidates } = camel(result)
  const token = (told: Json) => ({
    token: textOf(fieldsOf(told).token),
    logprob: numberOf(camel(told).logProbability) ?? 0,
    bytes: null,
  })
  const tops = listOf(topCandidates)
  const content = listOf(chosenCandidates).map((chosen, at) => ({
    ...token(chosen),
    top_logprobs: listOf(fieldsOf(tops[at]).candidates).map(token),
  }))
  return { content, refusal: null }
}

export function logprobsResultFrom(logprobs: Json | undefined): Fields | undefined {
  const content = listOf(fieldsOf(logprobs).content)
  if (content.length === 0) return undefined
  const token = (told: Json) => ({
    token: textOf(fieldsOf(told).token),
    logProbability: numberOf(fieldsOf(told).logprob) ?? 0,
  })
  const tops = content.map((told) => ({ candidates: listOf(fieldsOf(told).top_logprobs).map(token) }))
  return { chosenCandidates: content.map(token), topCandidates: tops }
}

/** Fragments of one call, as streamed chat brings them: joined, they are an entry of `tool_calls`. */
export function joinedCalls(fragments: readonly Fields[]): Fields[] {
  const calls: { index: Json; id: string; name: string; written: string; signature: string }[] = []
  for (const fragment of fragments) {
    const { name, arguments: written } = fieldsOf(fragment.function)
    const id = textOf(fragment.id)
    const index = fragment.index ?? 0
    const known = calls.findLast((call) => call.index === index && (id === '' || call.id === '' || call.id === id))
    const call = known ?? { index, id, name: '', written: '', signature: '' }
    if (!known) calls.push(call)
    call.id ||= id
    call.name ||= textOf(name)
    call.written += isFields(written) ? jsonText(written) : textOf(written)
    call.signature ||= signatureOf(fragment)
  }
  return calls.map(({ id, name, written, signature }) =>
    signed({ id, type: 'function', function: { name, arguments: written } }, signature),
  )
}
