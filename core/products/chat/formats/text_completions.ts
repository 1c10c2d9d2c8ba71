/** The older completions format: one text in, texts out. Served by chat models, for which the prompt is a user turn. */
import { type Fields, fieldsOf, isFields, type Json, objectsOf, textOf } from '../../../lib/json.ts'
import { sseJson, tryJson } from './sse.ts'
import type { StreamTranslator } from './stream_translator.ts'

/** Members that both formats have. A chat member that this format lacks, such as `tools`, could not be answered. */
const SHARED = [
  'model',
  'max_tokens',
  'stream',
  'stream_options',
  'stop',
  'temperature',
  'top_p',
  'n',
  'presence_penalty',
  'frequency_penalty',
  'logit_bias',
  'seed',
  'user',
] as const

/** The chat request. Members that chat lacks are dropped. */
export function chatFromText(body: Fields): Fields {
  const shared = SHARED.flatMap((name): [string, Json][] => {
    const value = body[name] ?? null
    return value === null ? [] : [[name, value]]
  })
  return { ...Object.fromEntries(shared), messages: [{ role: 'user', content: body.prompt ?? '' }] }
}

const choiceOf = (text: string, { index, finish_reason }: Fields): Fields => ({
  text,
  index: index ?? 0,
  logprobs: null,
  finish_reason: finish_reason ?? null,
})

/** A refusal is text here: the format has no other place for it. */
const wordsOf = ({ content, refusal }: Fields): string =>
  textOf(content) ||
  objectsOf(content)
    .map(({ text }) => textOf(text))
    .join('') ||
  textOf(refusal)

const idOf = (id: Json | undefined): string => `cmpl-${textOf(id).replace(/^chatcmpl-/, '')}`

export function textFromChatReply({ id, created, choices, usage }: Fields, model: string): Fields {
  const texts = objectsOf(choices).map((choice) => choiceOf(wordsOf(fieldsOf(choice.message)), choice))
  return {
    id: idOf(id),
    object: 'text_completion',
    created: created ?? 0,
    model,
    choices: texts,
    ...(isFields(usage) && { usage }),
  }
}

/** `includesUsage`: the usage is sent in a chunk without choices; without it, beside the finish. */
export function textFromChatStream(model: string, { includesUsage }: { includesUsage: boolean }): StreamTranslator {
  /** The chunk with the finish, which waits for the usage. */
  let last: Fields | undefined
  let isOver = false

  function end(): string {
    if (isOver) return ''
    isOver = true
    return `${last ? sseJson(last) : ''}data: [DONE]\n\n`
  }

  return {
    on({ data }) {
      if (data === '[DONE]') return end()
      const chunk = isOver ? undefined : tryJson(data)
      if (!chunk) return ''
      const { id, created, choices, usage } = chunk
      const head = { id: idOf(id), object: 'text_completion', created: created ?? 0, model }
      const texts = objectsOf(choices).map((choice) => choiceOf(wordsOf(fieldsOf(choice.delta)), choice))
      const isFinish = texts.some(({ finish_reason }) => finish_reason !== null)
      const before = last && (isFinish || texts.length === 0) && includesUsage ? sseJson(last) : ''
      if (texts.length === 0 && isFields(usage) && includesUsage) {
        last = undefined
        return before + sseJson({ ...head, choices: [], usage })
      }
      if (texts.length === 0 && last && isFields(usage)) last = { ...last, usage }
      if (isFinish) {
        const first = last && !includesUsage ? sseJson(last) : before
        last = { ...head, choices: texts, ...(isFields(usage) && !includesUsage && { usage }) }
        return first
      }
      return texts.some(({ text }) => text !== '') ? sseJson({ ...head, choices: texts }) : ''
    },
    end,
  }
}
