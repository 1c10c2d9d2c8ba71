/** Chat completions: the OpenAI-compatible chat API, quoted before the model runs and settled after (contract 6.1). */
import { Type } from '@sinclair/typebox'
import { checkChatExtras, checkTools, checkTurns } from './unsupported_fields.ts'
import { ChatBody } from './request.ts'
import { answerChat, requestRecord } from './answer.ts'
import { isOpen, isServed } from './fallbacks.ts'
import { findRow, isChatOffered, notConfigured, sampleRow } from './offered_rows.ts'
import { chatPriceRange, priceInputs, quote, worstCost } from './quote.ts'
import { quotedInputs } from '../lib/quoted_inputs.ts'
import { type ChatInput, countPrompt, sizeRequest } from './sized_request.ts'
import { chatCost } from './cost.ts'
import { asQuoted } from '../../endpoint/prices.ts'
import { free, STANDARD_PRICES, streamed, type StreamedContext, type Offering } from '../../endpoint/mod.ts'
import { json } from '../../http/reply.ts'
import { inputParser, refused } from '../../http/request_body.ts'
import { print, type Usdc, usdc } from '../../x402/money.ts'
import { chatPriceParts } from './price.ts'
import type { Fields } from '../../lib/json.ts'

const MINUTE_MS = 60_000
const EXAMPLE = { messages: [{ role: 'user', content: 'Why is the sky blue?' }], max_tokens: 1_000 }

const usage = Type.Object({
  prompt_tokens: Type.Integer(),
  completion_tokens: Type.Integer(),
  total_tokens: Type.Integer(),
})
const output = Type.Object({
  id: Type.String(),
  object: Type.Literal('chat.completion'),
  created: Type.Integer({ description: 'Unix time in seconds.' }),
  model: Type.String(),
  choices: Type.Array(
    Type.Object({
      index: Type.Integer(),
      message: Type.Object({ role: Type.String(), content: Type.String() }),
      finish_reason: Type.String(),
    }),
  ),
  usage,
})

/** Validates a body and sizes it. `model` is the one in the path, where the path names one. */
async function chatInputOf(
  body: Readonly<Record<string, unknown>>,
  model: string | undefined,
  context: StreamedContext,
): Promise<ChatInput> {
  const named = model ?? body.model
  if (typeof named !== 'string') throw refused('model', 'is required')
  checkTurns((body as Fields).messages, 'messages')
  checkTools(body as Fields)
  checkChatExtras(body as Fields)
  return await sizeRequest(
    { row: findRow(named, context), format: 'chat', chat: body as Fields, stream: body.stream === true },
    context,
  )
}

const shared = {
  tag: 'chat',
  input: ChatBody,
  output,
  uploads: true,
  errorFormat: 'chat',
  price: quote,
  worstCost,
  cost: chatCost,
  priceRange: chatPriceRange,
  isAvailable: isOpen,
  isOffered: isChatOffered(),
  quoted: quotedInputs,
  remember: requestRecord,
  sample: (offering: Offering): Fields => ({ model: sampleRow(offering)?.id ?? '', ...EXAMPLE }),
  check: (
    body: Readonly<Record<string, unknown>>,
    { params }: { params: Readonly<Record<string, string>> },
    context: StreamedContext,
  ) => chatInputOf(body, params.model, context),
  answer: (order: Parameters<typeof answerChat>[0]) => answerChat(order, () => undefined),
} as const

const completions = streamed<ChatInput>({
  ...shared,
  name: 'chat.completions',
  path: '/api/v1/chat/completions',
  summary: 'Converse with a model',
  description:
    'Compatible with the common chat API; streams when asked to. The quote is the estimated prompt and 10% of max_tokens at the rates of /api/v1/models, at least the minimum there, plus the fee. Free models need no payment.',
})

const byModel = streamed<ChatInput>({
  ...shared,
  name: 'chat.model',
  variantOf: 'chat.completions',
  path: '/api/v1/chat/{model...}',
  summary: 'Converse with the model that the path names',
  description: 'The same as /api/v1/chat/completions, with the model in the path, its slash raw or as %2F.',
  sample: (offering) => ({ model: sampleRow(offering)?.id ?? '', ...EXAMPLE }),
})

const parseChatBody = inputParser(ChatBody, 'kept')

const estimate = free({
  name: 'chat.estimate',
  isOffered: isChatOffered(),
  method: 'POST',
  path: '/api/v1/chat/estimate',
  uploads: true,
  summary: 'What a chat request would cost',
  description: 'The quote of the same body at /api/v1/chat/completions, and what it is made from.',
  tag: 'chat',
  errorFormat: 'chat',
  input: ChatBody,
  limit: { requests: 120, windowMs: MINUTE_MS },
  errors: ['INVALID_BODY', 'INVALID_MODEL', 'CONTEXT_LENGTH_EXCEEDED', 'NOT_CONFIGURED'],
  sample: (offering) => ({ body: shared.sample(offering) }),
  output: Type.Object({
    model: Type.String(),
    billing_mode: Type.String(),
    price: Type.Object({
      amount: Type.String({ description: 'US dollars, fee included; what a 402 would ask.' }),
      currency: Type.Literal('USD'),
    }),
    estimate: Type.Object({
      prompt_tokens: Type.Integer(),
      max_tokens: Type.Integer({ description: 'Of each answer, clamped to what the model can give.' }),
      messages_removed: Type.Integer({ description: 'The oldest turns, where the prompt does not fit.' }),
      reasoning_effort: Type.Optional(Type.String({ description: 'The effort that is sent upstream.' })),
    }),
    parts: Type.Optional(
      Type.Object(
        {
          input: Type.String({ description: 'The prompt at the input rate.' }),
          output: Type.String({ description: 'The quoted share of max_tokens at the output rate, for every answer.' }),
          floor_applied: Type.Boolean({ description: 'Whether the minimum stands in place of input and output.' }),
          surcharge: Type.String({ description: 'Of live search.' }),
          fee: Type.String(),
          total: Type.String({ description: 'Their sum, rounded up: price.amount.' }),
        },
        {
          description: 'Exact US dollars. Absent where a request has a flat price, or none.',
        },
      ),
    ),
  }),
  async answer(request, context) {
    const order = await chatInputOf(parseChatBody(await request.json()), undefined, context)
    if (!isServed(order, context)) throw notConfigured(order.row)
    const { row, chat: prompt, maxTokens, effort } = order
    const { mode } = row.billing
    const promptTokens =
      mode === 'paid' ? order.promptTokens : await countPrompt({ row, format: 'chat', chat: prompt }, context)
    return json(200, {
      model: row.id,
      billing_mode: mode,
      price: { amount: print(quotedAmount(order, context)), currency: 'USD' },
      estimate: {
        prompt_tokens: promptTokens,
        max_tokens: maxTokens,
        messages_removed: Number(order.headers['x-messages-removed'] ?? 0),
        ...(effort && { reasoning_effort: effort }),
      },
      ...(mode === 'paid' && { parts: partsOf(order, context) }),
    })
  },
})

/** The amount that a 402 of the same body asks. */
function quotedAmount(order: ChatInput, context: StreamedContext): Usdc {
  const price = quote(order, context)
  return price === 'free' ? usdc(0n) : asQuoted(completions, price, context).amount
}

function partsOf(order: ChatInput, context: StreamedContext): Fields {
  const inputs = { ...priceInputs(order), markup: context.prices }
  const { input, output, floorApplied, surcharge, fee, total } = chatPriceParts(
    inputs,
    (context.prices ?? STANDARD_PRICES).marginOf(completions),
  )
  return { input, output, floor_applied: floorApplied, surcharge, fee, total }
}

export const chat = [completions, estimate, byModel]
