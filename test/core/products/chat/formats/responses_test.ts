import { describe, expect, test } from 'bun:test'
import {
  chatFromResponsesReply,
  responseFailure,
  responsesFromChatReply,
} from '../../../../../core/products/chat/formats/responses/reply.ts'
import { chatFromResponses, responsesFromChat } from '../../../../../core/products/chat/formats/responses/request.ts'
import { builtInTools } from '../../../../../core/products/chat/formats/responses/tools.ts'
import { liveSearch } from '../../../../../core/products/chat/formats/responses/search.ts'
import type { Fields } from '../../../../../core/lib/json.ts'
import {
  answer,
  call,
  called,
  calling,
  chatTool,
  chatUsage,
  facts,
  made,
  PIXEL,
  refusing,
  request,
  schema,
  spoken,
  weather,
} from './responses_samples.ts'

describe('responsesFromChat()', () => {
  test('leading system and developer turns become instructions, later ones developer items', () => {
    const messages = [
      { role: 'system', content: 'Be brief.' },
      { role: 'developer', content: [{ type: 'text', text: 'Be kind.' }] },
      { role: 'user', content: 'Hello' },
      { role: 'system', content: 'Now rhyme.' },
    ]
    expect(responsesFromChat({ model: 'm', messages })).toEqual({
      model: 'm',
      instructions: 'Be brief.\n\nBe kind.',
      input: [
        { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Hello' }] },
        { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'Now rhyme.' }] },
      ],
      store: false,
    })
  })

  test('images keep their detail, files and unknown parts stay', () => {
    const content = [
      { type: 'text', text: 'What is it?' },
      { type: 'image_url', image_url: { url: PIXEL, detail: 'high' } },
      { type: 'image_url', image_url: { url: 'https://example.org/a.png' } },
      { type: 'file', file: { file_data: 'data:application/pdf;base64,AA==', filename: 'a.pdf' } },
      { type: 'input_file', file_id: 'file_1' },
      { type: 'hologram', depth: 3 },
    ]
    expect(responsesFromChat({ messages: [{ role: 'user', content }] }).input).toEqual([
      {
        type: 'message',
        role: 'user',
        content: [
          { type: 'input_text', text: 'What is it?' },
          { type: 'input_image', image_url: PIXEL, detail: 'high' },
          { type: 'input_image', image_url: 'https://example.org/a.png', detail: 'auto' },
          { type: 'input_file', file_data: 'data:application/pdf;base64,AA==', filename: 'a.pdf' },
          { type: 'input_file', file_id: 'file_1' },
          { type: 'hologram', depth: 3 },
        ],
      },
    ])
  })

  test('calls and their results become items, and a turn that only calls says nothing', () => {
    const messages = [
      { role: 'user', content: 'Weather?' },
      {
        role: 'assistant',
        content: '',
        reasoning_content: 'two places',
        tool_calls: [call('call_a', 'Bern'), call('call_b', 'Oslo')],
      },
      { role: 'tool', tool_call_id: 'call_a', content: '12' },
      {
        role: 'tool',
        tool_call_id: 'call_b',
        content: [
          { type: 'text', text: '-' },
          { type: 'text', text: '3' },
        ],
      },
      { role: 'assistant', content: 'Twelve and minus three.' },
    ]
    expect(responsesFromChat({ messages }).input).toEqual([
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Weather?' }] },
      { type: 'function_call', call_id: 'call_a', name: 'weather', arguments: '{"place":"Bern"}' },
      { type: 'function_call', call_id: 'call_b', name: 'weather', arguments: '{"place":"Oslo"}' },
      { type: 'function_call_output', call_id: 'call_a', output: '12' },
      { type: 'function_call_output', call_id: 'call_b', output: '-3' },
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Twelve and minus three.' }] },
    ])
  })

  test('functions of old clients belong to the call before them', () => {
    const messages = [
      { role: 'user', content: 'Weather?' },
      { role: 'assistant', content: null, function_call: { name: 'weather', arguments: '{}' } },
      { role: 'function', name: 'weather', content: '12' },
    ]
    const { input, tools, tool_choice } = responsesFromChat({
      messages,
      functions: [weather],
      function_call: { name: 'weather' },
    })
    expect(input).toMatchObject([
      {},
      { type: 'function_call', call_id: 'call_legacy_1' },
      { type: 'function_call_output', call_id: 'call_legacy_1', output: '12' },
    ])
    expect(tools).toEqual([{ type: 'function', ...weather, strict: false }])
    expect(tool_choice).toEqual({ type: 'function', name: 'weather' })
  })

  test('settings find their new places, and what Responses refuses is left out', () => {
    const order = responsesFromChat({
      messages: [{ role: 'user', content: 'Hello' }],
      max_tokens: 50,
      max_completion_tokens: 70,
      tools: [
        { type: 'function', function: { ...weather, strict: true } },
        { type: 'function', function: { name: 'now' } },
      ],
      tool_choice: { type: 'function', function: { name: 'now' } },
      parallel_tool_calls: false,
      response_format: { type: 'json_schema', json_schema: { name: 'degrees', schema, strict: true } },
      reasoning_effort: 'high',
      verbosity: 'low',
      user: 'u',
      metadata: { a: 'b' },
      temperature: 0.5,
      top_p: 0.9,
      prompt_cache_key: 'k',
      safety_identifier: 's',
      service_tier: 'flex',
      custom_member: [1],
      store: true,
      n: 2,
      stop: ['x'],
      seed: 1,
      logprobs: true,
      presence_penalty: 1,
      frequency_penalty: 1,
      stream_options: {},
      prompt_cache: true,
      search_parameters: {},
      top_k: 3,
      background: true,
      previous_response_id: 'resp_other',
      conversation: 'conv_other',
      prompt: { id: 'p' },
    })
    expect(order).toEqual({
      input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Hello' }] }],
      max_output_tokens: 70,
      tools: [
        { type: 'function', ...weather, strict: true },
        { type: 'function', name: 'now', parameters: { type: 'object', properties: {} }, strict: false },
      ],
      tool_choice: { type: 'function', name: 'now' },
      parallel_tool_calls: false,
      text: { format: { type: 'json_schema', name: 'degrees', schema, strict: true }, verbosity: 'low' },
      reasoning: { effort: 'high' },
      user: 'u',
      metadata: { a: 'b' },
      temperature: 0.5,
      top_p: 0.9,
      prompt_cache_key: 'k',
      safety_identifier: 's',
      service_tier: 'flex',
      custom_member: [1],
      store: false,
    })
  })

  test('a cap below the least that Responses takes is raised to it', () => {
    expect(responsesFromChat({ messages: [], max_tokens: 1 }).max_output_tokens).toBe(16)
    expect(responsesFromChat({ messages: [], max_tokens: 17 }).max_output_tokens).toBe(17)
    expect(responsesFromChat({ messages: [] })).not.toHaveProperty('max_output_tokens')
  })

  test('every word of tool_choice passes', () => {
    for (const word of ['auto', 'none', 'required'])
      expect(responsesFromChat({ messages: [], tool_choice: word }).tool_choice).toBe(word)
    const allowed = {
      type: 'allowed_tools',
      allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: 'now' } }] },
    }
    const translated = responsesFromChat({ messages: [], tool_choice: allowed }).tool_choice ?? null
    expect(translated).toEqual({ type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'now' }] })
    expect(
      chatFromResponses({ input: 'x', tools: [{ type: 'function', name: 'now' }], tool_choice: translated })
        .tool_choice,
    ).toEqual(allowed)
  })
})

describe('liveSearch()', () => {
  const messages = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'News?' },
  ]

  test('searches the web where no source is named, and asks for dates and counts in words', () => {
    const order = liveSearch({
      messages,
      search_parameters: { mode: 'auto', from_date: '2026-01-01', to_date: '2026-02-01', max_search_results: 3 },
    })
    expect(order).toMatchObject({
      tools: [{ type: 'web_search' }],
      tool_choice: 'auto',
      include: ['web_search_call.action.sources'],
      store: false,
    })
    expect(order.instructions).toBe(
      'Be brief.\n\nUse only sources published on or after 2026-01-01. Use only sources published on or before 2026-02-01. Use at most 3 sources.',
    )
    expect(order).not.toHaveProperty('search_parameters')
  })

  test('X has its own tool, which takes the dates; mode on requires a search', () => {
    const sources = [
      { type: 'web', allowed_websites: ['a.org'] },
      { type: 'x', included_x_handles: ['b'] },
      { type: 'news' },
    ]
    const order = liveSearch({
      messages,
      tools: [chatTool],
      search_parameters: { mode: 'on', sources, from_date: '2026-01-01' },
    })
    expect(order.tools).toEqual([
      { type: 'function', ...weather, strict: false },
      { type: 'web_search', allowed_domains: ['a.org'] },
      { type: 'x_search', from_date: '2026-01-01', allowed_x_handles: ['b'] },
    ])
    expect(order.tool_choice).toBe('required')
    expect(order.instructions).toContain('Search these kinds of sources too: news.')
    expect(liveSearch({ messages, search_parameters: { sources: ['x'] } }).tools).toEqual([{ type: 'x_search' }])
  })

  test('asks in words for options beyond a limit', () => {
    const allowed_websites = ['1.org', '2.org', '3.org', '4.org', '5.org', '6.org']
    const order = liveSearch({
      messages,
      search_parameters: { sources: [{ type: 'web', allowed_websites, excluded_websites: ['7.org'] }] },
    })
    expect(order.tools).toEqual([{ type: 'web_search', allowed_domains: allowed_websites.slice(0, 5) }])
    expect(order.instructions).toContain('6.org')
    expect(order.instructions).toContain('Use nothing from: 7.org.')
  })

  test('mode off searches nothing, and none takes away only the functions', () => {
    const body = { messages, tools: [chatTool], tool_choice: 'none' }
    expect(liveSearch({ ...body, search_parameters: { mode: 'off', from_date: '2026-01-01' } })).toEqual(
      responsesFromChat(body),
    )
    expect(liveSearch({ ...body, search_parameters: { mode: 'auto' } })).toMatchObject({
      tools: [{ type: 'web_search' }],
      tool_choice: 'auto',
    })
  })
})

describe('chatFromResponses()', () => {
  test('a string is a user turn, and instructions a system turn', () => {
    const order = chatFromResponses({
      model: 'm',
      instructions: 'Be brief.',
      input: 'Hello',
      max_output_tokens: 9,
      stream: true,
      store: false,
      include: [],
    })
    expect(order).toEqual({
      model: 'm',
      stream: true,
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Hello' },
      ],
      max_tokens: 9,
    })
  })

  test('a request with tools, images, reasoning and structure comes back from Responses as it went', () => {
    const order = {
      model: 'm',
      messages: [
        { role: 'system', content: 'Be brief.' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Where?' },
            { type: 'image_url', image_url: { url: PIXEL, detail: 'low' } },
          ],
        },
        { role: 'assistant', content: 'I look.', tool_calls: [call('call_a', 'Bern'), call('call_b', 'Oslo')] },
        { role: 'tool', tool_call_id: 'call_a', content: '12' },
        { role: 'tool', tool_call_id: 'call_b', content: '-3' },
        { role: 'assistant', content: 'No.', refusal: 'I will not.' },
        { role: 'user', content: 'Why?' },
      ],
      tools: [{ type: 'function', function: { ...weather, strict: true } }],
      tool_choice: 'required',
      parallel_tool_calls: false,
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'degrees', description: 'd', schema, strict: true },
      },
      reasoning_effort: 'high',
      verbosity: 'low',
      max_tokens: 100,
      temperature: 1,
      top_p: 0.5,
      user: 'u',
      metadata: { a: 'b' },
    }
    expect(chatFromResponses(responsesFromChat(order))).toEqual(order)
    expect(
      chatFromResponses(responsesFromChat({ messages: [], response_format: { type: 'json_object' } })).response_format,
    ).toEqual({ type: 'json_object' })
  })

  test('reasoning with a readable summary goes to the turn that it led to', () => {
    const input = [
      { role: 'user', content: 'Weather?' },
      {
        type: 'reasoning',
        id: 'rs_1',
        summary: [
          { type: 'summary_text', text: 'One.' },
          { type: 'summary_text', text: 'Two.' },
        ],
      },
      { type: 'function_call', call_id: 'call_a', name: 'weather', arguments: '{}' },
      { type: 'function_call_output', call_id: 'call_a', output: [{ type: 'input_text', text: '12' }] },
      { type: 'reasoning', id: 'rs_2', summary: [], encrypted_content: 'opaque' },
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Twelve.' }] },
    ]
    expect(chatFromResponses({ input }).messages).toEqual([
      { role: 'user', content: 'Weather?' },
      {
        role: 'assistant',
        content: '',
        reasoning_content: 'One.\n\nTwo.',
        tool_calls: [{ id: 'call_a', type: 'function', function: { name: 'weather', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'call_a', content: '12' },
      { role: 'assistant', content: 'Twelve.' },
    ])
  })

  test('built-in tools are named and kept out; an item without a form in chat still counts', () => {
    const tools = [
      { type: 'web_search' },
      { type: 'function', ...weather },
      { type: 'mcp', server_url: 'x' },
      { type: 'web_search' },
      3,
    ]
    expect(builtInTools({ tools })).toEqual(['web_search', 'mcp', 'unknown'])
    expect(builtInTools({ tools: [chatTool] })).toEqual([])
    expect(builtInTools({})).toEqual([])
    expect(chatFromResponses({ input: 'x', tools, tool_choice: { type: 'web_search' } })).toEqual({
      messages: [{ role: 'user', content: 'x' }],
      tools: [chatTool],
    })
    expect(chatFromResponses({ input: 'x', tools: [{ type: 'mcp' }], tool_choice: 'required' })).toEqual({
      messages: [{ role: 'user', content: 'x' }],
    })
    const odd = { type: 'local_shell_call_output', id: 'c', output: 'long' }
    expect(chatFromResponses({ input: [odd] }).messages).toEqual([{ role: 'user', content: JSON.stringify(odd) }])
  })
})

// ── replies ─────────────────────────────────────────────────────────────────────────────────────────────────────────

describe('chatFromResponsesReply()', () => {
  test('joins text, reasoning and citations, and keeps every count', () => {
    expect(chatFromResponsesReply(answer, facts)).toEqual({
      id: 'chatcmpl-abc',
      object: 'chat.completion',
      created: facts.created,
      model: facts.model,
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: 'Hello world',
            reasoning_content: 'One.\n\nTwo.',
            annotations: [
              {
                type: 'url_citation',
                url_citation: { url: 'https://a.org', title: 'T', start_index: 0, end_index: 2 },
              },
              {
                type: 'url_citation',
                url_citation: { url: 'https://b.org', title: 'T', start_index: 6, end_index: 8 },
              },
              {
                type: 'url_citation',
                url_citation: { url: 'https://a.org', title: 'T', start_index: 9, end_index: 11 },
              },
            ],
          },
          finish_reason: 'stop',
        },
      ],
      usage: chatUsage,
      citations: ['https://a.org', 'https://b.org'],
    })
  })

  test('a tool turn has an empty content, and counts that were not given are not made up', () => {
    const { choices, usage } = chatFromResponsesReply(calling, facts)
    expect(choices).toEqual([
      {
        index: 0,
        message: {
          role: 'assistant',
          content: '',
          reasoning_content: 'Both.',
          tool_calls: [call('call_a', 'Bern'), call('call_b', 'Oslo')],
          content_before_tools: 'I look.',
        },
        finish_reason: 'tool_calls',
      },
    ])
    expect(usage).toEqual({ prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 })
    expect(chatFromResponsesReply({}, facts)).not.toHaveProperty('usage')
  })

  test('a refusal, a cut-off and a filter read as chat has them', () => {
    const first = (reply: Fields) => (chatFromResponsesReply(reply, facts).choices as Fields[])[0]
    expect(first(refusing)).toEqual({
      index: 0,
      message: { role: 'assistant', content: null, refusal: 'No.' },
      finish_reason: 'stop',
    })
    expect(
      first({ ...calling, status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } }),
    ).toMatchObject({ finish_reason: 'length' })
    expect(first({ ...answer, status: 'incomplete', incomplete_details: { reason: 'content_filter' } })).toMatchObject({
      finish_reason: 'content_filter',
    })
  })

  test('responseFailure() tells a failed Response from an answer', () => {
    expect(responseFailure({ status: 'failed', error: { code: 'server_error', message: 'Oops.' } })).toEqual({
      code: 'server_error',
      message: 'Oops.',
    })
    expect(responseFailure({ status: 'cancelled', error: null })).toEqual({
      code: 'cancelled',
      message: 'the response was cancelled',
    })
    expect(responseFailure(answer)).toBeUndefined()
  })
})

describe('responsesFromChatReply()', () => {
  test('makes a whole Response with items named after it', () => {
    const response = responsesFromChatReply(spoken, made)
    expect(response).toMatchObject({
      id: 'resp_1f',
      object: 'response',
      created_at: made.createdAt,
      status: 'completed',
      model: 'vendor/model',
      error: null,
      incomplete_details: null,
      instructions: 'Be brief.',
      max_output_tokens: 100,
      tools: request.tools,
      tool_choice: 'auto',
      parallel_tool_calls: true,
      store: false,
      reasoning: { effort: 'high', summary: null },
      text: { format: { type: 'text' } },
      metadata: { a: 'b' },
      temperature: 1,
      top_p: 1,
      output: [
        { id: 'rs_1f_0', type: 'reasoning', summary: [{ type: 'summary_text', text: 'One.' }] },
        {
          id: 'msg_1f_1',
          type: 'message',
          status: 'completed',
          content: [{ type: 'output_text', text: 'Hello world', annotations: [{ url: 'https://a.org' }] }],
        },
      ],
      usage: answer.usage as object,
    })
    expect(response).not.toHaveProperty('output_text')
  })

  test('calls are items of their own, and a cut-off is incomplete', () => {
    expect(responsesFromChatReply(called, made).output).toMatchObject([
      { id: 'rs_1f_0' },
      {
        id: 'fc_1f_1',
        type: 'function_call',
        status: 'completed',
        call_id: 'call_a',
        name: 'weather',
        arguments: '{"place":"Bern"}',
      },
      { id: 'fc_1f_2', call_id: 'call_b' },
    ])
    const cut = responsesFromChatReply({ choices: [{ message: { content: 'Hel' }, finish_reason: 'length' }] }, made)
    expect(cut).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output: [{ status: 'incomplete' }],
      usage: null,
    })
  })

  test('words before the calls are an item before them, and come back as such words (contract 6.27)', () => {
    const message = {
      role: 'assistant',
      content: '',
      content_before_tools: 'Looking.',
      tool_calls: [{ id: 'call_a', type: 'function', function: { name: 'weather', arguments: '{}' } }],
    }
    const response = responsesFromChatReply({ choices: [{ index: 0, message, finish_reason: 'tool_calls' }] }, made)
    expect(response.output).toMatchObject([
      { type: 'message', content: [{ type: 'output_text', text: 'Looking.' }] },
      { type: 'function_call', call_id: 'call_a' },
    ])
    expect(chatFromResponsesReply(response, facts)).toMatchObject({
      choices: [{ message: { content: '', content_before_tools: 'Looking.' } }],
    })
  })

  test('replies come back from Responses with what was said, called, reasoned and counted', () => {
    for (const reply of [spoken, called]) {
      const back = chatFromResponsesReply(responsesFromChatReply(reply, made), facts)
      expect(back).toMatchObject({ choices: (reply.choices ?? []) as object[], usage: reply.usage as object })
    }
  })
})
