import { describe, expect, test } from 'bun:test'
import { openaiChat } from '../../../../adapters/providers/openai/chat.ts'
import { chatSetup, apiErrorOf, HELLO, ordered, reading, sse, STREAMED } from './chat_kit.ts'
import { calm, KEY, errorText, standIn } from './provider_kit.ts'

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

/** What, status, body, and what it reads as: code, param, seconds, and ! for an alert. */
const rows: readonly Row[] = [
  ['a rate limit', 429, e({ code: 'rate_limit_exceeded' }), 'RATE_LIMITED 17'],
  ['a rate limit without a body', 429, '', 'RATE_LIMITED 17'],
  ['a spent quota', 429, e({ type: 'insufficient_quota', code: 'insufficient_quota' }), 'PROVIDER_CONFIG_ERROR !'],
  ['a billing limit', 400, e({ code: 'billing_hard_limit_reached' }), 'PROVIDER_CONFIG_ERROR !'],
  ['a low credit balance', 400, m('Your credit balance is too low'), 'PROVIDER_CONFIG_ERROR !'],
  ['an empty account', 402, m('Insufficient Balance'), 'PROVIDER_CONFIG_ERROR !'],
  ['a wrong key', 401, e({ code: 'invalid_api_key' }), 'PROVIDER_CONFIG_ERROR !'],
  [
    'a wrong key as a 400',
    400,
    { code: 'Client specified an invalid argument', error: `Incorrect API key provided: ${SECRET}` },
    'PROVIDER_CONFIG_ERROR !',
  ],
  ['a forbidden project', 403, e({}), 'PROVIDER_CONFIG_ERROR !'],
  ['a model that is gone', 404, e({ code: 'model_not_found', param: 'model' }), 'PROVIDER_CONFIG_ERROR !'],
  ['a model that is gone as a 400', 400, m('Model Not Exist'), 'PROVIDER_CONFIG_ERROR !'],
  ['a model that the key may not use', 400, e({ param: 'model' }), 'PROVIDER_CONFIG_ERROR !'],
  ['another 4xx', 410, e({}), 'PROVIDER_CONFIG_ERROR !'],
  ['a redirect', 307, '', 'PROVIDER_CONFIG_ERROR !'],
  ['a member that only we sent', 400, e({ param: 'service_tier' }), 'PROVIDER_CONFIG_ERROR !'],
  [
    'a limit by a name that the gateway chose (contract 6.63)',
    400,
    m("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", {
      code: 'unsupported_parameter',
      param: 'max_tokens',
    }),
    'PROVIDER_CONFIG_ERROR !',
  ],
  [
    'a member that only we sent, in words (contract 6.63)',
    400,
    m('Unknown field service_tier'),
    'PROVIDER_CONFIG_ERROR !',
  ],
  ['an internal error', 500, e({ type: 'server_error' }), 'MODEL_UNAVAILABLE'],
  ['a bad gateway', 502, '<html>', 'MODEL_UNAVAILABLE'],
  ['an outage', 503, e({}), 'MODEL_UNAVAILABLE'],
  ['an overload', 529, e({ type: 'overloaded_error' }), 'MODEL_UNAVAILABLE'],
  ['a timeout of its own', 408, '', 'UPSTREAM_TIMEOUT'],
  ['a timeout behind it', 504, '', 'UPSTREAM_TIMEOUT'],
  ['a timeout of its edge', 524, '', 'UPSTREAM_TIMEOUT'],
  ['too large a request', 413, e({ code: 'rate_limit_exceeded' }), 'TOO_LARGE'],
  [
    'the context, by code',
    400,
    e({ code: 'context_length_exceeded', param: 'messages' }),
    'CONTEXT_LENGTH_EXCEEDED messages',
  ],
  [
    'the context, by type',
    400,
    e({ code: 400, type: 'exceed_context_size_error' }),
    'CONTEXT_LENGTH_EXCEEDED messages',
  ],
  [
    'the context, in words',
    400,
    m("This model's maximum context length is 4096 tokens."),
    'CONTEXT_LENGTH_EXCEEDED messages',
  ],
  [
    "the context, in xAI's words",
    400,
    m("This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
    'CONTEXT_LENGTH_EXCEEDED messages',
  ],
  [
    "the context, in Anthropic's words",
    400,
    m('prompt is too long: 208310 tokens > 200000 maximum'),
    'CONTEXT_LENGTH_EXCEEDED messages',
  ],
  [
    "the context, in Gemini's words",
    400,
    m('The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).'),
    'CONTEXT_LENGTH_EXCEEDED messages',
  ],
  [
    "the context, in OpenAI's other words",
    400,
    m('Input tokens exceed the configured limit of 272000 tokens.'),
    'CONTEXT_LENGTH_EXCEEDED messages',
  ],
  [
    "the context, in llama.cpp's words",
    500,
    m('the request exceeds the available context size'),
    'CONTEXT_LENGTH_EXCEEDED messages',
  ],
  ["the context, by Z.ai's code", 400, e({ code: '1261' }), 'CONTEXT_LENGTH_EXCEEDED messages'],
  ['a filter, by code', 400, e({ code: 'content_filter' }), 'CONTENT_POLICY'],
  ['a policy, by code', 400, e({ code: 'content_policy_violation' }), 'CONTENT_POLICY'],
  [
    'a policy, in words',
    400,
    m('Your prompt was flagged as potentially violating our usage policy.', { code: 'invalid_prompt' }),
    'CONTENT_POLICY',
  ],
  [
    "a policy, as xAI's 403",
    403,
    { code: 'x', error: 'Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO' },
    'CONTENT_POLICY',
  ],
  ["a policy, by Z.ai's code", 400, e({ code: '1301' }), 'CONTENT_POLICY'],
  ["an account in arrears, by Z.ai's code", 429, e({ code: '1113' }), 'PROVIDER_CONFIG_ERROR !'],
  ["too many at once, by Z.ai's code", 400, e({ code: '1302' }), 'RATE_LIMITED 17'],
  ['an image, by code', 400, e({ code: 'invalid_image_url', param: 'messages' }), 'INVALID_IMAGE'],
  ['an image, by path', 400, e({ code: 'invalid_value', param: 'messages[0].content[1].image_url' }), 'INVALID_IMAGE'],
  ['an image, in words', 400, m('Could not process image'), 'INVALID_IMAGE'],
  ['a link, in words', 400, m('Unable to download the file. Please verify the URL'), 'INVALID_IMAGE'],
  ['a download, in words', 400, m('Error while downloading https://example.com/a.png'), 'INVALID_IMAGE'],
  ['an unsupported image, in words', 400, m('You uploaded an unsupported image.', { code: 'x' }), 'INVALID_IMAGE'],
  ['a parameter', 400, e({ code: 'unsupported_value', param: 'temperature' }), 'INVALID_PARAMETER temperature'],
  ['a path', 400, e({ param: 'messages[0].content' }), 'INVALID_PARAMETER messages[0].content'],
  [
    'a path with dots',
    400,
    e({ param: 'tools.0.function.parameters' }),
    'INVALID_PARAMETER tools.0.function.parameters',
  ],
  ['a path that ends in words of its own', 400, e({ param: `messages[0].${KEY}` }), 'INVALID_PARAMETER messages[0]'],
  ['the cap, as we spell it', 400, e({ param: 'max_completion_tokens' }), 'INVALID_PARAMETER max_tokens'],
  [
    "a path in Anthropic's words",
    400,
    m('messages.0.content: text content blocks must be non-empty'),
    'INVALID_PARAMETER messages.0.content',
  ],
  [
    'a parameter in quotes',
    422,
    m("Unsupported parameter: 'top_k' is not supported with this model."),
    'INVALID_PARAMETER top_k',
  ],
  [
    "a parameter in DeepSeek's words",
    400,
    m('Invalid temperature value, the valid range is [0, 2.0]'),
    'INVALID_PARAMETER temperature',
  ],
  [
    "a parameter in FastAPI's body",
    422,
    { detail: [{ loc: ['body', 'messages', 0, 'content'], msg: SECRET }] },
    'INVALID_PARAMETER messages.0.content',
  ],
  [
    "a parameter in Google's body",
    400,
    { error: { message: SECRET, details: [{ fieldViolations: [{ field: 'temperature' }] }] } },
    'INVALID_PARAMETER temperature',
  ],
  ['a parameter that nobody sent', 400, e({ param: 'constructor' }), 'INVALID_PARAMETER'],
  ['a 400 that names nothing', 400, m('Bad request.'), 'INVALID_PARAMETER'],
  ['a 400 without JSON', 400, SECRET, 'INVALID_PARAMETER'],
]

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
