/** Content that a model cannot read is refused before the quote, on every chat format (contract 6.60). */
import { describe, expect, test } from 'bun:test'
import { PIXEL } from '../../../fakes/images.ts'
import { scriptedChat } from '../../../fakes/chat.ts'
import { catalog, type ChatFormat, type ChatRow, chatRows } from '../../../../core/mod.ts'
import { kit, ORIGIN, read } from '../../../kit.ts'

const PDF = 'JVBERi0xLjQK'
const WAV = 'UklGRgAAAABXQVZF'
const [, PNG = ''] = PIXEL.split(',')

type Medium = 'image' | 'file' | 'audio'
type ModelRequest = { readonly path: string; readonly body: Record<string, unknown> }

const completions = (content: unknown): ModelRequest => ({
  path: '/api/v1/chat/completions',
  body: { messages: [{ role: 'user', content }] },
})
const messages = (content: unknown): ModelRequest => ({
  path: '/api/v1/messages',
  body: { max_tokens: 10, messages: [{ role: 'user', content }] },
})
const responses = (input: unknown): ModelRequest => ({ path: '/api/v1/responses', body: { input } })
const generate = (parts: unknown): ModelRequest => ({
  path: '/api/v1beta/models/{model}:generateContent',
  body: { contents: [{ role: 'user', parts }] },
})
const source = (media_type: string, data: string) => ({ type: 'base64', media_type, data })
const inline = (mimeType: string, data: string) => ({ inlineData: { mimeType, data } })
const called = { type: 'function_call', call_id: 'c1', name: 'look', arguments: '{}' }

/** Each way to send a medium, in each format that has one. */
const WAYS: Readonly<Record<Medium, Readonly<Record<string, ModelRequest>>>> = {
  image: {
    chat: completions([{ type: 'image_url', image_url: { url: PIXEL } }]),
    messages: messages([{ type: 'image', source: source('image/png', PNG) }]),
    'messages, in a tool result': messages([
      { type: 'tool_result', tool_use_id: 't', content: [{ type: 'image', source: source('image/png', PNG) }] },
    ]),
    'messages, in a document': messages([
      { type: 'document', source: { type: 'content', content: [{ type: 'image', source: source('image/png', PNG) }] } },
    ]),
    responses: responses([{ role: 'user', content: [{ type: 'input_image', image_url: PIXEL }] }]),
    'responses, as the output of a function': responses([
      called,
      { type: 'function_call_output', call_id: 'c1', output: [{ type: 'input_image', image_url: PIXEL }] },
    ]),
    generate_content: generate([{ text: 'x' }, inline('image/png', PNG)]),
    'generate_content, in the answer of a function': generate([
      { functionResponse: { name: 'look', response: {}, parts: [inline('image/png', PNG)] } },
    ]),
  },
  file: {
    chat: completions([{ type: 'file', file: { file_data: `data:application/pdf;base64,${PDF}` } }]),
    messages: messages([{ type: 'document', source: source('application/pdf', PDF) }]),
    'messages, in a tool result': messages([
      {
        type: 'tool_result',
        tool_use_id: 't',
        content: [{ type: 'document', source: source('application/pdf', PDF) }],
      },
    ]),
    responses: responses([
      {
        role: 'user',
        content: [{ type: 'input_file', filename: 'a.pdf', file_data: `data:application/pdf;base64,${PDF}` }],
      },
    ]),
    'responses, as the output of a function': responses([
      called,
      { type: 'function_call_output', call_id: 'c1', output: [{ type: 'input_file', file_data: PDF }] },
    ]),
    generate_content: generate([{ text: 'x' }, inline('application/pdf', PDF)]),
    'generate_content, in the answer of a function': generate([
      {
        function_response: {
          name: 'look',
          response: {},
          parts: [{ inline_data: { mime_type: 'application/pdf', data: PDF } }],
        },
      },
    ]),
  },
  audio: {
    chat: completions([{ type: 'input_audio', input_audio: { data: WAV, format: 'wav' } }]),
    responses: responses([
      { role: 'user', content: [{ type: 'input_audio', input_audio: { data: WAV, format: 'wav' } }] },
    ]),
    generate_content: generate([{ text: 'x' }, inline('audio/wav', WAV)]),
  },
}

/** One row for each set of inputs, on every API. */
const [base] = chatRows.filter(({ id }) => id === 'farebox/echo')
if (!base) throw new Error('no echo')
const rowOf = (id: string, more: Partial<ChatRow>): ChatRow => ({
  ...base,
  id: `test/${id}`,
  aliases: [],
  vendor: 'test',
  ...more,
})
const rows = [
  rowOf('text', {}),
  rowOf('sees', { images: 'tiles_512' }),
  rowOf('documents', { images: 'tiles_512', reads: ['file'] }),
  rowOf('all', { images: 'tiles_512', reads: ['file', 'audio', 'video'] }),
]
const isReadBy = (row: ChatRow, medium: Medium) =>
  medium === 'image' ? row.images !== undefined : row.reads?.includes(medium) === true

for (const format of ['chat', 'messages', 'responses', 'generate_content'] as const satisfies readonly ChatFormat[]) {
  const chatVendor = scriptedChat(undefined, { format })
  const { gateway } = kit({ chatVendor, catalog: catalog({ chat: rows, images: [], video: [], audio: [] }) })
  const ask = async (row: ChatRow, { path, body }: ModelRequest) =>
    await read(
      await gateway.fetch(
        new Request(ORIGIN + path.replace('{model}', row.id), {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ model: row.id, ...body }),
        }),
      ),
    )

  describe(`on a vendor that speaks ${format}`, () => {
    for (const [medium, ways] of Object.entries(WAYS))
      for (const [way, request] of Object.entries(ways))
        test(`${medium} by ${way}: a quote of who reads it, 400 of who does not, and no order (contract 6.60)`, async () => {
          for (const row of rows) {
            const { status, body } = await ask(row, request)
            const isRead = isReadBy(row, medium as Medium)
            expect([row.id, status]).toEqual([row.id, isRead ? 402 : 400])
            if (!isRead) expect(body.error.message).toContain(row.id)
          }
          expect(chatVendor.orders).toEqual([])
        })
  })
}

test('a refusal names the type and what the model reads (contract 6.60)', async () => {
  const alice = kit({ chatVendor: scriptedChat() }).buyer()
  const { path, body } = WAYS.file.chat as ModelRequest
  const { status, body: refused } = await alice.ask({ model: 'vendor-d/chat-5.1', ...body }, { path })
  expect([status, refused.error]).toEqual([
    400,
    {
      message:
        'vendor-d/chat-5.1 cannot read files (application/pdf); it reads text. Choose a model whose input_modalities at GET /api/v1/models name file.',
      type: 'invalid_request_error',
      code: 'INVALID_PARAMETER',
      param: 'messages.0.content.0.file',
    },
  ])
})

test('media outside of a user turn are 400 on generate-content, where they would be dropped (contract 6.60)', async () => {
  const alice = kit({ chatVendor: scriptedChat(undefined, { format: 'generate_content' }) }).buyer()
  const path = '/api/v1beta/models/vendor-b/chat-3.8-flash:generateContent'
  const contents = [{ role: 'user', parts: [{ text: 'x' }] }]
  for (const body of [
    { contents, systemInstruction: { parts: [inline('image/png', PNG)] } },
    { contents: [...contents, { role: 'model', parts: [inline('image/png', PNG)] }] },
  ]) {
    const { status, body: refused } = await alice.ask(body, { path })
    expect([status, refused.error.message]).toEqual([400, expect.stringContaining('parts.0.inlineData')])
  }
})

test('a model that reads less does not stand in for one that reads the request (contract 6.60)', async () => {
  const [first, second] = [
    rowOf('first', { billing: { mode: 'free' }, images: 'tiles_512', reads: ['file'], fallbacks: ['test/second'] }),
    rowOf('second', { billing: { mode: 'free' }, images: 'tiles_512' }),
  ]
  const requests: string[] = []
  const chatVendor = scriptedChat(async ({ model }) => {
    requests.push(model)
    throw new Error('away')
  })
  const alice = kit({
    chatVendor,
    catalog: catalog({
      chat: [
        { ...first, upstream: 'first' },
        { ...second, upstream: 'second' },
      ],
      images: [],
    }),
  }).buyer()
  for (const [way, orders] of [
    [WAYS.image.chat, ['first', 'second']],
    [WAYS.file.chat, ['first']],
  ] as const) {
    requests.length = 0
    expect((await alice.ask({ model: first.id, ...way?.body }, { path: way?.path ?? '' })).status).toBe(503)
    expect(requests).toEqual([...orders])
  }
})

test('the list says what each chat model reads (contract 8.15)', async () => {
  const { gateway } = kit({ chatVendor: scriptedChat() })
  const { body } = await read(await gateway.fetch(new Request(`${ORIGIN}/api/v1/models`)))
  for (const row of chatRows.filter(({ hidden }) => !hidden)) {
    const { input_modalities: listed } = body.data.find(({ id }: { id: string }) => id === row.id)
    expect([row.id, listed]).toEqual([row.id, ['text', ...(row.images ? ['image'] : []), ...(row.reads ?? [])]])
  }
})
