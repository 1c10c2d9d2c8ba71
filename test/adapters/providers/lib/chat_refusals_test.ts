import { describe, expect, test } from 'bun:test'
import { openaiChat } from '../../../../adapters/providers/openai/chat.ts'
import { chatSetup, apiErrorOf, HELLO, ordered, reading, sse, STREAMED } from './chat_kit.ts'
import { calm, KEY, errorText, standIn } from './provider_kit.ts'
import { rowsOf } from '../../../vectors/rows.ts'

const SECRET = `your key ${KEY} of org-9f8e7d has a balance of $13.37, see chatcmpl-upstream-77`
const ORDER = {
  temperature: 3,
  tools: [{ type: 'function', function: { name: 'f', parameters: {} } }],
  max_tokens: 64,
  top_k: 5,
}

type Error = Readonly<Record<string, unknown>>
type Row = readonly [string, number, unknown, string]
const e = (error: Error) => ({ error: { message: SECRET, ...error } })
const m = (message: string, more: Error = {}) => ({
  error: { type: 'invalid_request_error', ...more, message: `${message} (${SECRET})` },
})

/** Name, status, body, and the error that comes of it: code, param, seconds, and ! for an alert. */
const rows = rowsOf<Row>('chat/vendor_refusals', { $SECRET: SECRET, $KEY: KEY })

/** Replies that no HTTP status can carry inside a 200. */
const OUTSIDE = [
  'a redirect',
  'a bad gateway',
  'a 400 without JSON',
  'a rate limit without a body',
  'a timeout of its own',
  'a timeout behind it',
  'a timeout of its edge',
]

const vendor = (answer: () => Response) => {
  const { config, log } = chatSetup(`${standIn(answer).url}/v1`, {
    parameters: { service_tier: 'flex' },
    maxTokensField: 'max_completion_tokens',
  } as object)
  return { chat: openaiChat(config), log }
}
const headers = { 'retry-after': '17', 'x-request-id': 'req_1' }

describe.each([
  ['a whole order', ordered(ORDER)],
  ['a stream', ordered(ORDER, STREAMED)],
])('a refusal of %s,', (_, order) => {
  const named = rows.map(([what, status, body, expected]) => ({ what, status, body, expected }))
  test.each(named)('$what ($status), reads as $expected, and quotes nothing', async ({ status, body, expected }) => {
    const { chat, log } = vendor(
      () =>
        new Response(typeof body === 'string' ? body : JSON.stringify(body), {
          status,
          headers: { ...headers, 'content-type': 'application/json' },
        }),
    )
    expect(await reading(chat.ask(order, calm()), log)).toBe(expected)
    const words = await errorText(chat.ask(order, calm()), log)
    expect(
      [KEY, '13.37', 'org-9f8e7d', 'upstream-77', 'example.com', 'SAFETY_CHECK'].filter((secret) =>
        words.includes(secret),
      ),
    ).toEqual([])
  })
})

test('a refusal of a member that the gateway set is the operator’s, of one that the caller sent the caller’s (contract 6.63)', async () => {
  const refusal = m('max_tokens is too large: 64.', { param: 'max_tokens' })
  const read = async (ours?: readonly string[]) => {
    const { chat, log } = vendor(() => Response.json(refusal, { status: 400, headers }))
    return await reading(chat.ask({ ...ordered(ORDER), ...(ours && { ours }) }, calm()), log)
  }
  expect([await read(['max_tokens']), await read(['tool_choice']), await read()]).toEqual([
    'PROVIDER_CONFIG_ERROR !',
    'INVALID_PARAMETER max_tokens',
    'INVALID_PARAMETER max_tokens',
  ])
})

describe('an error in place of the first event of a stream', () => {
  const inside = rows
    .filter(([what]) => !OUTSIDE.includes(what))
    .map(([what, status, body, expected]) => ({ what, status, body, expected }))
  test.each(inside)('is a refusal like any other: $what, $expected', async ({ status, body, expected }) => {
    const error = (body as { error?: unknown }).error
    const event =
      typeof error === 'object' && error !== null
        ? { error: { ...error, status } }
        : { ...(body as object), error: error ?? 'x', code: status }
    const { chat, log } = vendor(() => sse(`: hello\n\nevent: error\ndata: ${JSON.stringify(event)}\n\n`, headers))
    const read = await reading(chat.ask(ordered(ORDER, STREAMED), calm()), log)
    expect(read).toBe(expected)
  })

  test.each([
    [
      'by its type alone',
      'event: error\ndata: {"type":"error","error":{"type":"rate_limit_error","message":"slow"}}\n\n',
      'RATE_LIMITED 17',
    ],
    ['with a number for a code', 'data: {"error":{"code":429,"message":"slow"}}\n\n', 'RATE_LIMITED 17'],
    [
      'beside empty choices',
      'data: {"id":"x","choices":[],"error":{"code":502,"message":"down"}}\n\n',
      'MODEL_UNAVAILABLE',
    ],
    ['without any code', 'data: {"error":{"message":"oops"}}\n\n', 'MODEL_UNAVAILABLE'],
    [
      'as vLLM writes it',
      'data: {"error":{"object":"error","message":"x","type":"BadRequestError","param":"temperature","code":400}}\n\n',
      'INVALID_PARAMETER temperature',
    ],
    ['cut off in the middle', 'data: {"error":{"message":"oo', 'MODEL_UNAVAILABLE'],
    ['cut off before its data', 'event: error\n', 'MODEL_UNAVAILABLE'],
  ])('%s', async (_, text, expected) => {
    const { chat, log } = vendor(() => sse(text, headers))
    expect(await reading(chat.ask(ordered(ORDER, STREAMED), calm()), log)).toBe(expected)
  })

  test.each([
    ['an error of null', 'data: {"error":null,"choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n'],
    [
      'the word in the text',
      `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: '{"error":{"code":429}}' } }] })}\n\n`,
    ],
    ['an error in a later event', 'data: {"choices":[]}\n\ndata: {"error":{"code":429}}\n\n'],
  ])('%s is no refusal', async (_, text) => {
    const { chat } = vendor(() => sse(text))
    expect((await chat.ask(STREAMED, calm())).kind).toBe('stream')
  })
})

describe('a vendor that does not stream', () => {
  const refusals = [
    ['names the parameter', e({ param: 'stream', code: 'unsupported_value' })],
    ['says so', m('Streaming is not supported for this model.')],
  ] as const
  test.each(refusals)('%s: STREAM_UNSUPPORTED for a stream', async (_, body) => {
    const { chat, log } = vendor(() => Response.json(body, { status: 400 }))
    expect(await reading(chat.ask(STREAMED, calm()), log)).toBe('STREAM_UNSUPPORTED stream')
  })

  test('`stream_options` is ours: the operator is told', async () => {
    const { chat, log } = vendor(() => Response.json(e({ param: 'stream_options' }), { status: 400 }))
    expect(await reading(chat.ask(STREAMED, calm()), log)).toBe('PROVIDER_CONFIG_ERROR !')
  })
})

test('an error for the caller names the member, and says that nothing was charged', async () => {
  const { chat, log } = vendor(() =>
    Response.json(e({ param: 'temperature', code: 'unsupported_value' }), { status: 400, headers }),
  )
  const { parts } = await apiErrorOf(chat.ask(ordered(ORDER), calm()))
  expect(parts).toEqual({
    message: 'The model did not accept `temperature`. Nothing was charged.',
    param: 'temperature',
  })
  expect(log.lines).toEqual([
    {
      level: 'info',
      message: "a vendor rejected the caller's input",
      fields: {
        vendor: 'openai-chat',
        maker: 'maker-x',
        status: 400,
        code: 'unsupported_value',
        request: 'req_1',
        apiError: 'INVALID_PARAMETER',
      },
    },
  ])
})

test('a failure tells the log why, and the caller nothing of it', async () => {
  const { chat, log } = vendor(() => Response.json(e({ type: 'server_error' }), { status: 500 }))
  expect((await apiErrorOf(chat.ask(HELLO, calm()))).parts).toEqual({
    message: 'The model is temporarily unavailable. Nothing was charged.',
  })
  expect(log.lines).toEqual([
    {
      level: 'warn',
      message: 'a chat vendor did not answer',
      fields: { vendor: 'openai-chat', maker: 'maker-x', why: 'openai-chat answered 500 (server_error)' },
    },
  ])
})
