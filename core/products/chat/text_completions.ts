/** The older completions API, for programs that know no other: sold like chat (contract 6.68). */
import { Type } from '@sinclair/typebox'
import { streamed } from '../../endpoint/mod.ts'
import { type Fields, fieldsOf } from '../../lib/json.ts'
import { answerChat, requestRecord } from './answer.ts'
import { isOpen } from './fallbacks.ts'
import { chatCost } from './cost.ts'
import { chatFromText, textFromChatReply, textFromChatStream } from './formats/text_completions.ts'
import { findRow, isChatOffered, sampleRow } from './offered_rows.ts'
import { chatPriceRange, quote, worstCost } from './quote.ts'
import { invalidParameter } from './request.ts'
import { type ChatInput, sizeRequest } from './sized_request.ts'

/** Output of a request that names no `max_tokens`, as in the public API. */
const USUAL_TOKENS = 16

const input = Type.Object({
  model: Type.String({ minLength: 1, maxLength: 200 }),
  prompt: Type.String({ minLength: 1, description: 'One text. For a chat model it is a user turn.' }),
  max_tokens: Type.Optional(Type.Integer({ minimum: 1, default: USUAL_TOKENS })),
  stream: Type.Optional(Type.Boolean()),
  stop: Type.Optional(Type.Union([Type.String(), Type.Array(Type.String()), Type.Null()])),
  temperature: Type.Optional(Type.Union([Type.Number({ minimum: 0, maximum: 2 }), Type.Null()])),
  top_p: Type.Optional(Type.Union([Type.Number({ minimum: 0, maximum: 1 }), Type.Null()])),
  n: Type.Optional(Type.Union([Type.Integer({ minimum: 1, maximum: 8 }), Type.Null()])),
})

const output = Type.Object({
  id: Type.String(),
  object: Type.Literal('text_completion'),
  created: Type.Integer({ description: 'Unix time in seconds.' }),
  model: Type.String(),
  choices: Type.Array(
    Type.Object({
      text: Type.String(),
      index: Type.Integer(),
      logprobs: Type.Null(),
      finish_reason: Type.Union([Type.String(), Type.Null()]),
    }),
  ),
  usage: Type.Optional(
    Type.Object({
      prompt_tokens: Type.Integer(),
      completion_tokens: Type.Integer(),
      total_tokens: Type.Integer(),
    }),
  ),
})

/** Members that ask for what a chat model does not do; the values are those that ask for nothing. */
const TEXT_ONLY: Readonly<Record<string, readonly unknown[]>> = {
  suffix: [null, ''],
  echo: [null, false],
  best_of: [null, 1],
  logprobs: [null, 0, false],
}

const create = streamed<ChatInput>({
  name: 'text.completions',
  variantOf: 'chat.completions',
  path: '/api/v1/completions',
  summary: 'Complete a text',
  description:
    'The older completions API. The prompt is a user turn of a chat model, which answers it; `suffix`, `echo`, `best_of`, `logprobs` and lists of prompts are not supported.',
  tag: 'chat',
  input,
  output,
  uploads: true,
  errorFormat: 'chat',
  price: quote,
  worstCost,
  cost: chatCost,
  priceRange: (offering) => chatPriceRange(offering),
  isAvailable: isOpen,
  isOffered: isChatOffered(),
  remember: requestRecord,
  sample: (offering) => ({
    model: sampleRow(offering)?.id ?? '',
    prompt: 'Why is the sky blue?',
    max_tokens: 1_000,
  }),

  async check(request, _head, context) {
    const body = request as Fields
    for (const [name, idle] of Object.entries(TEXT_ONLY)) {
      const value = body[name] ?? null
      if (!idle.includes(value)) throw invalidParameter(name, 'is not supported: a chat model answers the prompt.')
    }
    const chat = chatFromText(body)
    return await sizeRequest(
      {
        row: findRow(body.model as string, context),
        format: 'chat',
        chat,
        stream: body.stream === true,
        defaultTokens: USUAL_TOKENS,
      },
      context,
    )
  },

  answer: (order) =>
    answerChat(order, ({ id }) => ({
      reply: (chat) => textFromChatReply(chat, id),
      stream: () =>
        textFromChatStream(id, {
          includesUsage: fieldsOf(order.input.body.stream_options).include_usage === true,
        }),
    })),
})

export const textCompletions = [create]
