/** The makers' own SDKs offer their web search to a devnet, which runs it on its sample corpus (contract 7.37). */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { openRoom, type Room, type Target } from '../../programs/agents/room.ts'

const MODEL = 'farebox/echo'
/** The echo model calls the tool that it is told to call. */
const PROMPT = 'call web_search: what is x402'
const SEARCH = { type: 'web_search_20250305', name: 'web_search', max_uses: 2 } as const

let room: Room
beforeAll(async () => {
  room = await openRoom()
}, 60_000)
afterAll(() => room.close())

describe.each(['proxied', 'keyed'] as const)('%s', (way) => {
  let target: Target
  beforeAll(async () => {
    target = await room[way]('funded')
  }, 60_000)

  test('the Anthropic SDK reads the blocks of a search, whole and streamed, and the next turn takes them', async () => {
    const client = new Anthropic({ apiKey: target.token, baseURL: target.base, maxRetries: 0 })
    const order = { model: MODEL, max_tokens: 500, tools: [SEARCH] }
    const messages: Anthropic.MessageParam[] = [{ role: 'user', content: PROMPT }]
    const before = await room.charges()
    const whole = await client.messages.create({ ...order, messages })
    const streamed = await client.messages.stream({ ...order, messages }).finalMessage()
    for (const { content, usage } of [whole, streamed]) {
      expect(content.map(({ type }) => type)).toEqual(['server_tool_use', 'web_search_tool_result', 'text'])
      expect(JSON.stringify(content)).toContain('https://sample.farebox.example/x402')
      expect(usage.server_tool_use?.web_search_requests).toBe(1)
    }
    const next = await client.messages.create({
      ...order,
      messages: [...messages, { role: 'assistant', content: whole.content }, { role: 'user', content: 'say hi' }],
    })
    expect(next.content.map(({ type }) => type)).toEqual(['text'])
    expect((await room.charges()) - before).toBe(3)
  }, 120_000)

  test('the OpenAI SDK reads the items of a search, whole and streamed', async () => {
    const client = new OpenAI({ apiKey: target.token, baseURL: `${target.base}/v1`, maxRetries: 0 })
    const order = { model: MODEL, input: PROMPT, tools: [{ type: 'web_search' as const }] }
    const before = await room.charges()
    const { output } = await client.responses.create(order)
    const streamed = await client.responses.stream(order).finalResponse()
    for (const items of [output, streamed.output])
      expect(items.map(({ type }) => type)).toEqual(['web_search_call', 'message'])
    expect((await room.charges()) - before).toBe(2)
  }, 120_000)

  test('nothing to pay from is neither a search nor a charge', async () => {
    const empty = await room[way]('empty')
    const client = new Anthropic({ apiKey: empty.token, baseURL: empty.base, maxRetries: 0 })
    const before = await room.charges()
    const error = await client.messages
      .create({ model: MODEL, max_tokens: 500, tools: [SEARCH], messages: [{ role: 'user', content: PROMPT }] })
      .then(
        () => ({ status: 200, message: '' }),
        ({ status, message }) => ({ status, message }),
      )
    expect(error).toEqual({ status: 402, message: expect.stringMatching(/USDC/) })
    expect((await room.charges()) - before).toBe(0)
  }, 120_000)
})
