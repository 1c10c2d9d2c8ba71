import { describe, expect, test } from 'bun:test'
import { openaiChat, type OpenaiChatConfig } from '../../../../adapters/providers/openai/chat.ts'
import type { Fields } from '../../../../core/mod.ts'
import { chatVendorLaws } from '../../../conformance/chat_vendors.ts'
import { runLaws } from '../../../conformance/law.ts'
import { chatSetup, ordered } from '../lib/chat_kit.ts'
import { ERROR_FORMATS, lawful } from '../lib/chat_stand_in.ts'
import { calm } from '../lib/provider_kit.ts'

runLaws(
  'openaiChat()',
  chatVendorLaws,
  lawful(openaiChat, () => ERROR_FORMATS.chat),
)

const MARK = { cache_control: { type: 'ephemeral' } }
const SIGNED = { extra_content: { google: { thought_signature: 'sig' } } }
const CALL = { id: 'c1', type: 'function', function: { name: 'f', arguments: '{}' } }
const USER = { role: 'user', content: [{ type: 'text', text: 'see' }] }
const TOOL = { type: 'function', function: { name: 'f' } }

/** The fields that `body` is sent as, beside `model`, `stream` and the cap. */
async function sentTo(baseUrl: string, body: Fields, more: Partial<OpenaiChatConfig> = {}): Promise<Fields> {
  let json = ''
  const fetch: OpenaiChatConfig['fetch'] = async (_, init) => {
    json = String(init.body)
    return Response.json({
      choices: [{ index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }],
    })
  }
  await openaiChat({ ...chatSetup(baseUrl, { fetch }).config, ...more }).ask(ordered(body), calm())
  const { model, stream, max_tokens, max_completion_tokens, ...rest } = JSON.parse(json) as Fields
  return rest
}

describe('openaiChat() sends no member of another wire', () => {
  const assistant = { role: 'assistant', content: 'a', reasoning_content: 'hm' }
  const foreign = {
    reasoning_signature: 's',
    reasoning_blocks: [],
    citations: [],
    other_blocks: [],
    content_before_tools: 'so',
  }

  test('in messages, parts, calls and tools', async () => {
    const body = {
      prompt_cache: true,
      search_parameters: {},
      ...MARK,
      messages: [
        { ...USER, content: [{ type: 'text', text: 'see', ...MARK }] },
        { ...assistant, ...foreign, ...SIGNED },
        { role: 'assistant', content: null, tool_calls: [{ ...CALL, ...SIGNED }], ...SIGNED },
      ],
      tools: [{ ...TOOL, ...MARK }],
    }
    expect(await sentTo('https://api.deepseek.com', body)).toEqual({
      messages: [USER, assistant, { role: 'assistant', content: null, tool_calls: [CALL] }],
      tools: [TOOL],
    })
  })

  test('but words that came before a call, where the protocol has them', async () => {
    const messages = [USER, { role: 'assistant', content: '', content_before_tools: 'so', tool_calls: [CALL] }]
    expect((await sentTo('https://api.deepseek.com', { messages })).messages).toEqual([
      USER,
      { role: 'assistant', content: 'so', tool_calls: [CALL] },
    ])
  })

  test('but signatures of thoughts, to their own host', async () => {
    const messages = [{ role: 'assistant', content: '', tool_calls: [{ ...CALL, ...SIGNED }], ...SIGNED }]
    expect((await sentTo('https://generativelanguage.googleapis.com/v1beta/openai', { messages })).messages).toEqual(
      messages,
    )
  })

  test('but marks of a cache, to whom the operator says reads them', async () => {
    const body = {
      ...MARK,
      messages: [{ role: 'user', content: [{ type: 'text', text: 'see', ...MARK }] }],
      tools: [{ ...TOOL, ...MARK }],
    }
    expect(await sentTo('https://openrouter.ai/api/v1', body, { acceptsCacheControl: true })).toEqual(body)
  })

  test('and to OpenAI itself, its regional hosts included, neither thoughts nor `thinking`', async () => {
    const body = { messages: [USER, assistant], thinking: { type: 'enabled' } }
    for (const host of ['api.openai.com', 'eu.api.openai.com'])
      expect(await sentTo(`https://${host}/v1`, body)).toEqual({
        messages: [USER, { role: 'assistant', content: 'a' }],
      })
    for (const host of ['api.deepseek.com', 'api.openai.com.example.net'])
      expect(await sentTo(`https://${host}/v1`, body)).toEqual(body)
  })
})
