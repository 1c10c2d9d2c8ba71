/** Laws of the translation between the chat and the messages wire: requests and whole replies. */
import { describe, expect, test } from 'bun:test'
import { ApiError } from '../../../../../core/http/errors.ts'
import { messagesFromChat } from '../../../../../core/products/chat/formats/messages/request_from_chat.ts'
import {
  chatFromMessagesReply,
  messagesFromChatReply,
} from '../../../../../core/products/chat/formats/messages/reply.ts'
import { chatFromMessages } from '../../../../../core/products/chat/formats/messages/request_to_chat.ts'
import type { Fields } from '../../../../../core/lib/json.ts'

const facts = { model: 'vendor-g/large', created: 1_700_000_000 }
const order = (body: Fields, maxTokens = 8_192) => messagesFromChat(body, { maxTokens })
const withContent = (content: Fields[]) => ({ messages: [{ role: 'user', content }] })
const png = 'data:image/png;base64,aWltYWdl'
const mark = { type: 'ephemeral' }

/** A conversation that has everything, in chat. */
const talk: Fields = {
  model: 'vendor-g/large',
  max_tokens: 900,
  temperature: 0.5,
  top_p: 0.9,
  top_k: 40,
  stop: ['END'],
  stream: true,
  user: 'wallet-1',
  messages: [
    { role: 'system', content: 'Be brief.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'What is this?' },
        { type: 'image_url', image_url: { url: png } },
        { type: 'image_url', image_url: { url: 'https://a.example/b.jpg' } },
      ],
    },
    {
      role: 'assistant',
      content: 'Let me look.',
      reasoning_content: 'A picture.',
      reasoning_signature: 'c2ln',
      tool_calls: [
        { id: 'call_1', type: 'function', function: { name: 'look', arguments: '{"at":1}' } },
        { id: 'call_2', type: 'function', function: { name: 'look', arguments: '{"at":' } },
      ],
    },
    { role: 'tool', tool_call_id: 'call_1', content: 'a fox' },
    { role: 'tool', tool_call_id: 'call_2', content: 'a hen' },
    { role: 'user', content: 'And?' },
    { role: 'assistant', content: 'A fox and a hen.' },
  ],
  tools: [
    {
      type: 'function',
      function: {
        name: 'look',
        description: 'Looks.',
        parameters: { type: 'object', properties: { at: { type: 'integer' } } },
      },
    },
  ],
  tool_choice: 'required',
  parallel_tool_calls: false,
}

/** The same in messages. */
const talked: Fields = {
  model: 'vendor-g/large',
  max_tokens: 900,
  temperature: 0.5,
  top_p: 0.9,
  top_k: 40,
  stop_sequences: ['END'],
  stream: true,
  metadata: { user_id: 'wallet-1' },
  system: 'Be brief.',
  messages: [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'What is this?' },
        { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'aWltYWdl' } },
        { type: 'image', source: { type: 'url', url: 'https://a.example/b.jpg' } },
      ],
    },
    {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'A picture.', signature: 'c2ln' },
        { type: 'text', text: 'Let me look.' },
        { type: 'tool_use', id: 'call_1', name: 'look', input: { at: 1 } },
        { type: 'tool_use', id: 'call_2', name: 'look', input: { INVALID_JSON: '{"at":' } },
      ],
    },
    {
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 'call_1', content: 'a fox' },
        { type: 'tool_result', tool_use_id: 'call_2', content: 'a hen' },
        { type: 'text', text: 'And?' },
      ],
    },
    { role: 'assistant', content: 'A fox and a hen.' },
  ],
  tools: [
    { name: 'look', description: 'Looks.', input_schema: { type: 'object', properties: { at: { type: 'integer' } } } },
  ],
  tool_choice: { type: 'any', disable_parallel_tool_use: true },
}

describe('requests', () => {
  test('a conversation with everything goes to messages, and back, and means the same', () => {
    expect(order(talk)).toEqual(talked)
    expect(chatFromMessages(talked)).toEqual(talk)
    expect(order(chatFromMessages(talked))).toEqual(talked)
  })

  test('chatFromMessages() keeps cache marks on the parts that carry them', () => {
    const chat = chatFromMessages({
      system: [
        { type: 'text', text: 'a', cache_control: mark },
        { type: 'text', text: 'b' },
      ],
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'hi', cache_control: mark }] },
        { role: 'assistant', content: [{ type: 'tool_use', id: 't1', name: 'f', input: {} }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't1', content: 'ok', cache_control: mark }] },
      ],
    })
    expect(chat.messages).toEqual([
      {
        role: 'system',
        content: [
          { type: 'text', text: 'a', cache_control: mark },
          { type: 'text', text: 'b' },
        ],
      },
      { role: 'user', content: [{ type: 'text', text: 'hi', cache_control: mark }] },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 't1', type: 'function', function: { name: 'f', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 't1', content: [{ type: 'text', text: 'ok', cache_control: mark }] },
    ])
  })

  test('chatFromMessages() shows what a tool showed in a message after all results, and notes its errors', () => {
    const { messages } = chatFromMessages(
      withContent([
        { type: 'text', text: 'see' },
        {
          type: 'tool_result',
          tool_use_id: 'a',
          content: [
            { type: 'text', text: 'shot' },
            { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'aWltYWdl' } },
          ],
        },
        { type: 'tool_result', tool_use_id: 'b', is_error: true, content: 'no such file' },
        { type: 'tool_result', tool_use_id: 'c' },
      ]),
    )
    expect(messages).toEqual([
      { role: 'tool', tool_call_id: 'a', content: 'shot\n[image: in the next message]' },
      { role: 'tool', tool_call_id: 'b', content: 'Error:\nno such file' },
      { role: 'tool', tool_call_id: 'c', content: '' },
      {
        role: 'user',
        content: [
          { type: 'image_url', image_url: { url: png } },
          { type: 'text', text: 'see' },
        ],
      },
    ])
  })

  test('chatFromMessages() reads documents as text or as files, and refuses those that it cannot hand on', () => {
    const read = (source: Fields) =>
      fieldsOf(chatFromMessages(withContent([{ type: 'document', title: 'T', context: 'C', source }])).messages).content
    expect(read({ type: 'text', media_type: 'text/plain', data: 'body' })).toBe('T\n\nC\n\nbody')
    expect(read({ type: 'base64', media_type: 'application/pdf', data: 'cGRm' })).toEqual([
      { type: 'text', text: 'C' },
      { type: 'file', file: { filename: 'T', file_data: 'data:application/pdf;base64,cGRm' } },
    ])
    expect(read({ type: 'content', content: 'x' })).toEqual([
      { type: 'text', text: 'T' },
      { type: 'text', text: 'C' },
      { type: 'text', text: 'x' },
    ])
    expect(() => read({ type: 'url', url: 'https://a.example/b.pdf' })).toThrow(ApiError)
    expect(() => read({ type: 'file', file_id: 'file_1' })).toThrow(ApiError)
  })

  test('chatFromMessages() keeps what chat has no word for as it came, for the vendor to judge', () => {
    const odd = { type: 'server_tool_use', id: 's', name: 'web', input: {} }
    const web = { type: 'web_search_20250305', name: 'web_search' }
    const found = {
      type: 'search_result',
      title: 'T',
      source: 'https://a.example',
      content: [
        { type: 'text', text: 'one' },
        { type: 'text', text: 'two' },
      ],
    }
    const cited = { type: 'text', text: 'c', citations: [{ type: 'char_location' }] }
    const results = [
      {
        type: 'tool_result',
        tool_use_id: 'a',
        content: [odd, { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'cGRm' } }],
      },
    ]
    const content = [
      ...results,
      found,
      { type: 'document', source: { type: 'content', content: [{ type: 'text', text: 'in' }] } },
    ]
    const chat = chatFromMessages({
      messages: [
        { role: 'system', content: 'late' },
        { role: 'assistant', content: [odd, cited] },
        { role: 'user', content },
        { role: 'assistant', content: [] },
      ],
      tools: [web],
    })
    expect(chat.tools).toEqual([web])
    expect(chat.messages).toEqual([
      { role: 'system', content: 'late' },
      { role: 'assistant', content: [odd, cited] },
      { role: 'tool', tool_call_id: 'a', content: `${JSON.stringify(odd)}\n[file: in the next message]` },
      {
        role: 'user',
        content: [
          { type: 'file', file: { filename: 'document.pdf', file_data: 'data:application/pdf;base64,cGRm' } },
          { type: 'text', text: 'T\n\nhttps://a.example\n\none\n\ntwo' },
          { type: 'text', text: 'in' },
        ],
      },
    ])
    const choose = (tool_choice: Fields) => chatFromMessages({ messages: [], tool_choice }).tool_choice
    expect([{ type: 'auto' }, { type: 'none' }, { type: 'any' }, { type: 'tool', name: 'f' }].map(choose)).toEqual([
      'auto',
      'none',
      'required',
      { type: 'function', function: { name: 'f' } },
    ])
    expect(() => choose({ type: 'odd' })).toThrow(ApiError)
  })

  test('chatFromMessages() reads effort off output_config, else off the thinking budget, and keeps thinking', () => {
    const effort = (more: Fields) => chatFromMessages({ messages: [], ...more }).reasoning_effort
    expect(effort({ output_config: { effort: 'max' }, thinking: { type: 'enabled', budget_tokens: 1024 } })).toBe('max')
    expect(
      [1_024, 8_000, 31_999].map((budget_tokens) => effort({ thinking: { type: 'enabled', budget_tokens } })),
    ).toEqual(['low', 'medium', 'high'])
    expect(effort({ thinking: { type: 'disabled' } })).toBeUndefined()
    expect(chatFromMessages({ messages: [], thinking: { type: 'adaptive' } })).toEqual({
      messages: [],
      thinking: { type: 'adaptive' },
    })
    const schema = { type: 'object' }
    const request = { type: 'json_schema', json_schema: { name: 'output', schema } }
    expect(chatFromMessages({ messages: [], output_config: { format: { type: 'json_schema', schema } } })).toEqual({
      messages: [],
      response_format: request,
    })
  })

  test('thinking survives the way through chat when it is signed, however many blocks it has, and is dropped when not', () => {
    const through = (content: Fields[]) =>
      order(chatFromMessages({ messages: [{ role: 'assistant', content: [...content, { type: 'text', text: 'x' }] }] }))
        .messages
    const one = { type: 'thinking', thinking: 'one', signature: 's1' }
    const hidden = { type: 'redacted_thinking', data: 'zzz' }
    for (const content of [
      [one],
      [one, { ...one, thinking: 'two' }],
      [hidden],
      [one, hidden],
      [{ ...one, thinking: '' }],
    ]) {
      expect(through(content)).toEqual([{ role: 'assistant', content: [...content, { type: 'text', text: 'x' }] }])
    }
    expect(through([{ ...one, signature: '' }])).toEqual([{ role: 'assistant', content: 'x' }])
  })

  test('messagesFromChat() lifts system texts up, and keeps their blocks only where one is marked', () => {
    const messages = [
      { role: 'system', content: 'a' },
      { role: 'user', content: 'q' },
      { role: 'developer', content: [{ type: 'text', text: 'b' }] },
    ]
    expect(order({ messages })).toEqual({
      max_tokens: 8_192,
      system: 'a\n\nb',
      messages: [{ role: 'user', content: 'q' }],
    })
    const marked = [...messages, { role: 'system', content: [{ type: 'text', text: 'c', cache_control: mark }] }]
    expect(order({ messages: marked }).system).toEqual([
      { type: 'text', text: 'a' },
      { type: 'text', text: 'b' },
      { type: 'text', text: 'c', cache_control: mark },
    ])
  })

  test('messagesFromChat() merges turns of one role, puts results first, and leaves empty turns out', () => {
    const { messages } = order({
      messages: [
        { role: 'user', content: 'a' },
        { role: 'assistant', content: null },
        { role: 'user', content: [{ type: 'text', text: '' }] },
        { role: 'user', content: 'b' },
        { role: 'tool', tool_call_id: 'functions.f:0', content: [{ type: 'image_url', image_url: { url: png } }] },
        { role: 'assistant', content: '', reasoning_content: 'unsigned' },
      ],
    })
    const source = { type: 'base64', media_type: 'image/png', data: 'aWltYWdl' }
    const result = { type: 'tool_result', tool_use_id: 'functions_2e_f_3a_0', content: [{ type: 'image', source }] }
    expect(messages).toEqual([
      { role: 'user', content: [result, { type: 'text', text: 'a' }, { type: 'text', text: 'b' }] },
    ])
  })

  test('messagesFromChat() reads legacy functions', () => {
    const body = order({
      functions: [{ name: 'f', parameters: { properties: {} } }],
      function_call: { name: 'f' },
      messages: [
        { role: 'user', content: 'q' },
        { role: 'assistant', content: null, function_call: { name: 'f', arguments: '' } },
        { role: 'function', name: 'f', content: 'r' },
      ],
    })
    expect(body.tools).toEqual([{ name: 'f', input_schema: { type: 'object', properties: {} } }])
    expect(body.tool_choice).toEqual({ type: 'tool', name: 'f' })
    expect(body.messages).toEqual([
      { role: 'user', content: 'q' },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'function_1', name: 'f', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'function_1', content: 'r' }] },
    ])
  })

  test('messagesFromChat() maps every tool choice, and none without tools', () => {
    const tools = [{ type: 'function', function: { name: 'f' } }]
    const choice = (tool_choice: Fields | string, more: Fields = { tools }) =>
      order({ messages: [], tool_choice, ...more }).tool_choice
    expect(['auto', 'none', 'required'].map((name) => choice(name))).toEqual([
      { type: 'auto' },
      { type: 'none' },
      { type: 'any' },
    ])
    expect(choice({ type: 'function', function: { name: 'f' } })).toEqual({ type: 'tool', name: 'f' })
    expect(choice('auto', {})).toBeUndefined()
    expect(choice('auto', { tools, parallel_tool_calls: false })).toEqual({
      type: 'auto',
      disable_parallel_tool_use: true,
    })
    expect(choice('none', { tools, parallel_tool_calls: false })).toEqual({ type: 'none' })
    expect(order({ messages: [], tools, parallel_tool_calls: false }).tool_choice).toEqual({
      type: 'auto',
      disable_parallel_tool_use: true,
    })
    expect(() => choice('sometimes')).toThrow(ApiError)
  })

  test('messagesFromChat() gives thinking a budget that fits under max_tokens', () => {
    const budget = (max_tokens: number, thinking: Fields) => order({ messages: [], max_tokens, thinking }).thinking
    expect(budget(8_000, { type: 'enabled' })).toEqual({ type: 'enabled', budget_tokens: 4_000 })
    expect(budget(1_500, { type: 'enabled' })).toEqual({ type: 'enabled', budget_tokens: 1_024 })
    expect(budget(1_025, { type: 'enabled', budget_tokens: 9_999 })).toEqual({ type: 'enabled', budget_tokens: 1_024 })
    expect(budget(1_024, { type: 'enabled' })).toBeUndefined()
    expect(budget(100, { type: 'disabled' })).toEqual({ type: 'disabled' })
    expect(budget(100, { type: 'adaptive' })).toEqual({ type: 'adaptive' })
    expect(order({ messages: [], reasoning_effort: 'high' })).toEqual({
      messages: [],
      max_tokens: 8_192,
      output_config: { effort: 'high' },
    })
    for (const reasoning_effort of ['none', 'minimal'])
      expect(order({ messages: [], reasoning_effort }).thinking).toEqual({ type: 'disabled' })
  })

  test('messagesFromChat() caps, renames and drops parameters', () => {
    const dropped = {
      n: 2,
      seed: 1,
      logprobs: true,
      top_logprobs: 2,
      frequency_penalty: 1,
      presence_penalty: 1,
      logit_bias: {},
      stream_options: {},
      service_tier: 'auto',
      store: true,
      response_format: {},
      search_parameters: {},
    }
    const body = order({
      ...dropped,
      messages: [],
      temperature: 1.7,
      top_p: null,
      top_k: 3,
      stop: 'x',
      max_completion_tokens: 70,
      max_tokens: 90,
      context_management: { edits: [] },
    })
    expect(body).toEqual({
      messages: [],
      temperature: 1,
      top_k: 3,
      stop_sequences: ['x'],
      max_tokens: 70,
      context_management: { edits: [] },
    })
  })

  test('messagesFromChat() sends nothing that it does not know, on its own level or among the members of a tool', () => {
    const smuggled = { type: 'web_search_20250305', max_uses: 100, allowed_callers: ['x'] }
    const mark = { type: 'ephemeral' }
    const extras = {
      speed: 'fast',
      mcp_servers: [{}],
      container: 'c',
      inference_geo: 'us',
      betas: ['x'],
      x_unknown: 1,
      input: 'x',
    }
    const tools = [
      { type: 'function', max_uses: 9, cache_control: mark, function: { name: 'f', strict: true, ...smuggled } },
      { type: 'custom', name: 'g', input_schema: { properties: {} }, url: 'x' },
    ]
    const body = order({
      ...extras,
      messages: [],
      tools,
      functions: [{ name: 'h', ...smuggled }],
      metadata: { user_id: 'u', other: 1 },
    })
    expect(Object.keys(body).sort()).toEqual(['max_tokens', 'messages', 'metadata', 'tools'])
    expect(body.metadata).toEqual({ user_id: 'u' })
    expect(body.tools).toEqual([
      { name: 'f', input_schema: { type: 'object', properties: {} }, strict: true, cache_control: mark },
      { name: 'g', input_schema: { type: 'object', properties: {} } },
      { name: 'h', input_schema: { type: 'object', properties: {} } },
    ])
    const bash = { type: 'bash_20250124', name: 'bash' }
    expect(order({ messages: [], tools: [bash] }).tools).toEqual([bash])
    expect(() => order({ messages: [], tools: [{ type: 'web_search_20250305', name: 'web_search' }] })).toThrow(
      ApiError,
    )
    expect(() => order(withContent([{ type: 'file', file: { file_id: 'file-1' } }]))).toThrow(ApiError)
  })

  test('messagesFromChat() turns data URIs and files into sources', () => {
    const block = (part: Fields) =>
      (fieldsOf(order(withContent([part, { type: 'text', text: 'x' }])).messages).content as Fields[])[0]
    const source = (url: string) => block({ type: 'image_url', image_url: { url, detail: 'high' } })?.source
    expect(source('data:image/jpg;base64,AAAA')).toEqual({ type: 'base64', media_type: 'image/jpeg', data: 'AAAA' })
    expect(source('data:image/svg+xml,%3Csvg/%3E')).toEqual({
      type: 'base64',
      media_type: 'image/svg+xml',
      data: 'PHN2Zy8+',
    })
    expect(() => source('ftp://a.example/b.png')).toThrow(ApiError)
    const pdf = { type: 'base64', media_type: 'application/pdf', data: 'cGRm' }
    expect(block({ type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,cGRm' } })).toEqual(
      { type: 'document', title: 'a.pdf', source: pdf },
    )
    expect(block({ type: 'file', file: { file_data: 'data:text/markdown;base64,w6k=' } })?.source).toEqual({
      type: 'text',
      media_type: 'text/plain',
      data: 'é',
    })
  })

  test('prompt_cache marks the last user turn, the system text and the last tool, and never more than four blocks (contract 6.15)', () => {
    const tools = [1, 2].map((at) => ({ type: 'function', function: { name: `f${at}` } }))
    const messages = [
      { role: 'system', content: 's' },
      { role: 'user', content: 'a' },
      { role: 'assistant', content: 'b' },
      { role: 'user', content: 'c' },
      { role: 'assistant', content: 'd' },
    ]
    const body = order({ messages, tools, prompt_cache: true })
    expect(body.prompt_cache).toBeUndefined()
    expect(body.system).toEqual([{ type: 'text', text: 's', cache_control: mark }])
    expect((body.messages as Fields[]).map(({ content }) => content)).toEqual([
      'a',
      'b',
      [{ type: 'text', text: 'c', cache_control: mark }],
      'd',
    ])
    expect((body.tools as Fields[]).map(({ cache_control }) => cache_control)).toEqual([undefined, mark])

    const own = { type: 'ephemeral', ttl: '1h' }
    const parts = (marks: number) =>
      [1, 2, 3, 4, 5].map((at) => ({ type: 'text', text: `${at}`, ...(at <= marks && { cache_control: own }) }))
    for (const marks of [0, 1, 2, 3, 4]) {
      const marked = JSON.stringify(
        order({
          messages: [
            { role: 'system', content: 's' },
            { role: 'user', content: parts(marks) },
          ],
          tools,
          prompt_cache: true,
        }),
      )
      expect(marked.split('"1h"').length - 1).toBe(marks)
      expect(marked.split('cache_control').length - 1).toBe(Math.min(4, marks + 3))
    }
    const ends = order({
      messages: [{ role: 'user', content: [{ type: 'text', text: 'x', cache_control: own }] }],
      prompt_cache: true,
    })
    expect(ends.messages).toEqual([{ role: 'user', content: [{ type: 'text', text: 'x', cache_control: own }] }])
  })

  test('unreadable input is an error with its path', () => {
    const wrong: [() => unknown, string][] = [
      [() => chatFromMessages({}), 'messages'],
      [() => chatFromMessages({ messages: [1] }), 'messages[0]'],
      [() => chatFromMessages({ messages: [{ role: 'tool', content: 'x' }] }), 'messages[0].role'],
      [() => chatFromMessages({ messages: [], system: [{ type: 'image' }] }), 'system[0].type'],
      [
        () => chatFromMessages({ messages: [{ role: 'assistant', content: [{ type: 'tool_use', name: 'f' }] }] }),
        'messages[0].content[0].id',
      ],
      [() => order({}), 'messages'],
      [() => order({ messages: [{ role: 'tool', content: 'x' }] }), 'messages[0].tool_call_id'],
      [() => order({ messages: [{ role: 'function', name: 'f', content: 'x' }] }), 'messages[0].name'],
      [() => order(withContent([{ type: 'image_url' }])), 'messages[0].content[0].image_url'],
    ]
    for (const [call, path] of wrong) expect(messageOf(call)).toStartWith(`${path}: `)
  })
})

const REPLY: Fields = {
  id: 'msg_01',
  type: 'message',
  role: 'assistant',
  model: 'upstream',
  content: [
    { type: 'thinking', thinking: 'hm', signature: 'c2ln' },
    { type: 'text', text: 'Hel' },
    { type: 'text', text: 'lo' },
  ],
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage: { input_tokens: 10, cache_read_input_tokens: 4, cache_creation_input_tokens: 2, output_tokens: 7 },
}

describe('whole replies', () => {
  test('a message becomes a completion: cache counts are part of the prompt', () => {
    expect(chatFromMessagesReply(REPLY, facts)).toEqual({
      id: 'chatcmpl-01',
      object: 'chat.completion',
      created: facts.created,
      model: facts.model,
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'Hello', reasoning_content: 'hm', reasoning_signature: 'c2ln' },
          finish_reason: 'stop',
        },
      ],
      usage: {
        prompt_tokens: 16,
        completion_tokens: 7,
        total_tokens: 23,
        prompt_tokens_details: { cached_tokens: 4, cached_creation_tokens: 2 },
        cache_read_input_tokens: 4,
        cache_creation_input_tokens: 2,
      },
    })
  })

  test('a turn with tool calls has empty content and loses no text', () => {
    const content = [
      { type: 'text', text: 'Looking.' },
      { type: 'tool_use', id: 't1', name: 'look', input: { at: 1 } },
      { type: 'server_tool_use', id: 's1', name: 'web', input: {} },
    ]
    const { message, finish_reason } = choiceOf(
      chatFromMessagesReply({ ...REPLY, content, stop_reason: 'tool_use' }, facts),
    )
    expect(finish_reason).toBe('tool_calls')
    expect(message).toEqual({
      role: 'assistant',
      content: '',
      tool_calls: [{ id: 't1', type: 'function', function: { name: 'look', arguments: '{"at":1}' } }],
      content_before_tools: 'Looking.',
      other_blocks: [{ type: 'server_tool_use', id: 's1', name: 'web', input: {} }],
    })
    expect(order({ messages: [message] }).messages).toEqual([{ role: 'assistant', content: content.slice(0, 2) }])
  })

  test('every stop reason has its finish reason', () => {
    const reasons = {
      end_turn: 'stop',
      stop_sequence: 'stop',
      pause_turn: 'stop',
      max_tokens: 'length',
      model_context_window_exceeded: 'length',
      tool_use: 'tool_calls',
      refusal: 'content_filter',
    }
    for (const [stop_reason, finish] of Object.entries(reasons))
      expect(choiceOf(chatFromMessagesReply({ ...REPLY, stop_reason }, facts)).finish_reason).toBe(finish)
  })

  test('a message goes through chat and comes back the same, words before its calls too (contract 6.27)', () => {
    const content = [
      { type: 'thinking', thinking: 'hm', signature: 'c2ln' },
      { type: 'text', text: 'Looking.' },
      { type: 'tool_use', id: 't1', name: 'look', input: { at: [1] } },
    ]
    const reply = { ...REPLY, model: facts.model, content, stop_reason: 'tool_use' }
    expect(messagesFromChatReply(chatFromMessagesReply(reply, facts), facts)).toEqual(reply)
  })

  test('a completion becomes a message: leading thinking, text, tools, and input without what was cached', () => {
    const message = {
      role: 'assistant',
      content: 'Hi',
      reasoning_content: 'hm',
      tool_calls: [{ id: '', function: { name: 'f', arguments: 'not json' } }],
    }
    const usage = { prompt_tokens: 20, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 8 } }
    expect(
      messagesFromChatReply({ id: 'chatcmpl-9', choices: [{ message, finish_reason: 'stop' }], usage }, facts),
    ).toEqual({
      id: 'msg_9',
      type: 'message',
      role: 'assistant',
      model: facts.model,
      content: [
        { type: 'thinking', thinking: 'hm', signature: '' },
        { type: 'text', text: 'Hi' },
        { type: 'tool_use', id: 'toolu_9_0', name: 'f', input: { INVALID_JSON: 'not json' } },
      ],
      stop_reason: 'tool_use',
      stop_sequence: null,
      usage: { input_tokens: 12, output_tokens: 5, cache_read_input_tokens: 8 },
    })
    const stop = (finish_reason: string) =>
      messagesFromChatReply({ choices: [{ message: { content: 'x' }, finish_reason }] }, facts).stop_reason
    expect(['stop', 'length', 'tool_calls', 'content_filter', 'odd'].map(stop)).toEqual([
      'end_turn',
      'max_tokens',
      'tool_use',
      'end_turn',
      'end_turn',
    ])
  })
})

/** The first of a list of messages. */
const fieldsOf = (messages: Fields[string] | undefined): Fields => (messages as Fields[])[0] as Fields
const choiceOf = (reply: Fields): { message: Fields; finish_reason: string } =>
  (reply.choices as unknown as { message: Fields; finish_reason: string }[])[0]!

function messageOf(call: () => unknown): string {
  try {
    return `nothing was thrown: ${call()}`
  } catch (problem) {
    return problem instanceof ApiError ? problem.message : String(problem)
  }
}
