/**
 * Translates complete replies between Gemini's generateContent and `chat`. Sources: types of @google/genai 3.1.0;
 * decision 75 (finish reasons, usage). Lenient: members that a vendor omits are omitted, and nothing throws.
 */
import { type Json, type Fields, fieldsOf, given, isFields, listOf, numberOf, textOf } from '../../../../lib/json.ts'
import {
  callPart,
  camel,
  contentText,
  dataUriParts,
  jsonText,
  visibleText,
  signatureOf,
  withSignature,
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

/** Members of a chat reply that Gemini does not send. `created` is in Unix seconds. */
export type ChatReplyFacts = { readonly model: string; readonly created: number; readonly id: string }

/**
 * Maps a candidate's finish reason to chat's. With calls it is `tool_calls`, unless the answer was stopped for safety.
 */
export function finishReason(reason: Json | undefined, hasCalls: boolean): string {
  if (FILTERED.includes(textOf(reason))) return 'content_filter'
  if (hasCalls) return 'tool_calls'
  return reason === 'MAX_TOKENS' ? 'length' : 'stop'
}

/** Maps chat's finish reason to Gemini's. A tool turn ends with STOP. */
export function geminiFinish(reason: Json | undefined): string {
  if (reason === 'length') return 'MAX_TOKENS'
  return reason === 'content_filter' ? 'SAFETY' : 'STOP'
}

/** Groups the parts of a candidate by kind. `callId` makes an id for a call without one, from its index. */
export function readCandidate(candidate: Fields, callId: (index: number) => string) {
  const parts = listOf(camel(candidate.content).parts).map(camel)
  const visible = parts.filter(({ thought }) => thought !== true)
  const thoughts = parts.filter(({ thought }) => thought === true)
  const calls = parts
    .filter(({ functionCall }) => isFields(functionCall))
    .map((part, index) => toolCall(part, callId(index)))
  const signedPart = visible.findLast((part) => part.functionCall === undefined && textOf(part.thoughtSignature) !== '')
  return {
    content: visible.map((part) => visibleText(part) ?? '').join(''),
    reasoning: thoughts.map((part) => textOf(part.text)).join(''),
    calls,
    images: visible.flatMap(imageOf),
    signature: textOf(signedPart?.thoughtSignature),
  }
}

/** A generated image as an entry of a message's `images`, as OpenRouter writes it. */
function imageOf(part: Fields): Fields[] {
  const { mimeType, data } = camel(part.inlineData)
  return textOf(data) === ''
    ? []
    : [{ type: 'image_url', image_url: { url: `data:${textOf(mimeType) || 'image/png'};base64,${textOf(data)}` } }]
}

/**
 * Converts a Gemini reply to a chat completion. A blocked prompt becomes an empty message that ends with
 * content_filter. A reply with neither candidates nor a block has no choices, so that it counts as no answer. Without
 * counts there is no `usage`.
 */
export function chatFromGenerateContentReply(reply: Fields, facts: ChatReplyFacts): Fields {
  const { candidates, promptFeedback, usageMetadata } = camel(reply)
  const choices = listOf(candidates).map((candidate, position) => {
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
    return given({
      index: numberOf(index) ?? position,
      message: withSignature(message, signature),
      logprobs,
      finish_reason,
    })
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

/** Converts a chat completion to a Gemini reply. A refusal becomes text, since Gemini has no member for it. */
export function generateContentFromChatReply(reply: Fields, facts: { readonly model: string }): Fields {
  const candidates = listOf(reply.choices).map((choice, position) => {
    const { index, message, finish_reason, logprobs } = fieldsOf(choice)
    return given({
      content: { role: 'model', parts: replyParts(fieldsOf(message)) },
      finishReason: geminiFinish(finish_reason),
      index: numberOf(index) ?? position,
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

/** The parts of a message or delta. Its tool calls must be complete. Empty where the message has no content. */
export function partsFrom(message: Fields): Fields[] {
  const thought = textOf(message.reasoning_content) || textOf(message.reasoning)
  const visibleText = (contentText(message.content) || textOf(message.content_before_tools)) + textOf(message.refusal)
  const signature = signatureOf(message)
  const images = listOf(message.images).flatMap((image) => {
    const inlineData = dataUriParts(textOf(fieldsOf(fieldsOf(image).image_url).url))
    return inlineData ? [{ inlineData }] : []
  })
  const legacyCalls = isFields(message.function_call) ? [{ function: message.function_call }] : []
  return [
    ...(thought === '' ? [] : [{ text: thought, thought: true }]),
    ...(visibleText === '' && signature === ''
      ? []
      : [given({ text: visibleText, thoughtSignature: signature || undefined })]),
    ...images,
    ...[...listOf(message.tool_calls).map(fieldsOf), ...legacyCalls].map(callPart),
  ]
}

/** Clients do not expect a candidate without parts, so an empty answer becomes an empty text. */
function replyParts(message: Fields): Fields[] {
  const parts = partsFrom(message)
  return parts.length > 0 ? parts : [{ text: '' }]
}

// ── log probabilities ───────────────────────────────────────────────────────────────────────────────────────────────

export function logprobsFrom(result: Json | undefined): Fields | undefined {
  if (!isFields(result)) return undefined
  const { chosenCandidates, topCandidates } = camel(result)
  const token = (entry: Json) => ({
    token: textOf(fieldsOf(entry).token),
    logprob: numberOf(camel(entry).logProbability) ?? 0,
    bytes: null,
  })
  const tops = listOf(topCandidates)
  const content = listOf(chosenCandidates).map((chosen, position) => ({
    ...token(chosen),
    top_logprobs: listOf(fieldsOf(tops[position]).candidates).map(token),
  }))
  return { content, refusal: null }
}

export function logprobsResultFrom(logprobs: Json | undefined): Fields | undefined {
  const content = listOf(fieldsOf(logprobs).content)
  if (content.length === 0) return undefined
  const token = (entry: Json) => ({
    token: textOf(fieldsOf(entry).token),
    logProbability: numberOf(fieldsOf(entry).logprob) ?? 0,
  })
  const tops = content.map((entry) => ({ candidates: listOf(fieldsOf(entry).top_logprobs).map(token) }))
  return { chosenCandidates: content.map(token), topCandidates: tops }
}

/** Joins the fragments of streamed tool calls into entries of `tool_calls`. */
export function mergedCalls(fragments: readonly Fields[]): Fields[] {
  const calls: { index: Json; id: string; name: string; args: string; signature: string }[] = []
  for (const fragment of fragments) {
    const { name, arguments: args } = fieldsOf(fragment.function)
    const id = textOf(fragment.id)
    const index = fragment.index ?? 0
    const existing = calls.findLast((call) => call.index === index && (id === '' || call.id === '' || call.id === id))
    const call = existing ?? { index, id, name: '', args: '', signature: '' }
    if (!existing) calls.push(call)
    call.id ||= id
    call.name ||= textOf(name)
    call.args += isFields(args) ? jsonText(args) : textOf(args)
    call.signature ||= signatureOf(fragment)
  }
  return calls.map(({ id, name, args, signature }) =>
    withSignature({ id, type: 'function', function: { name, arguments: args } }, signature),
  )
}
