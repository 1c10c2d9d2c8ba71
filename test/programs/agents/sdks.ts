/** Makers' SDKs and frameworks, unmodified: a program of a few lines each, with a base URL, a key and one tool. */
import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI, Type } from '@google/genai'
import OpenAI from 'openai'
import { program } from '../mod.ts'
import type { Client, Setup } from './agents.ts'

const MODEL = 'farebox/echo'
const TOOL = 'list_directory'
const DESCRIPTION = 'Lists the files of a folder.'
/** Answer of the tool, whatever it is asked. */
const FILES = 'README.md, src'
const SCHEMA = { type: 'object' as const, properties: { path: { type: 'string' } }, required: ['path'] }

/** Returns the text of the answer: streamed, or after a whole answer that calls the tool. */
type Program = (setup: Setup, prompt: string) => Promise<string>

async function openai({ base, token }: Setup, prompt: string): Promise<string> {
  const client = new OpenAI({ apiKey: token, baseURL: `${base}/v1` })
  const tools = [{ type: 'function' as const, function: { name: TOOL, description: DESCRIPTION, parameters: SCHEMA } }]
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: prompt }]
  if (prompt.includes(TOOL)) {
    const first = await client.chat.completions.create({ model: MODEL, messages, tools })
    const [choice] = first.choices
    if (!choice) throw new Error('no choice')
    messages.push(choice.message)
    for (const { id } of choice.message.tool_calls ?? [])
      messages.push({ role: 'tool', tool_call_id: id, content: FILES })
  }
  let text = ''
  for await (const chunk of await client.chat.completions.create({ model: MODEL, messages, tools, stream: true }))
    text += chunk.choices[0]?.delta.content ?? ''
  return text
}

async function responses({ base, token }: Setup, prompt: string): Promise<string> {
  const client = new OpenAI({ apiKey: token, baseURL: `${base}/v1` })
  const tools = [{ type: 'function' as const, name: TOOL, description: DESCRIPTION, parameters: SCHEMA, strict: false }]
  const input: OpenAI.Responses.ResponseInputItem[] = [{ role: 'user', content: prompt }]
  if (prompt.includes(TOOL)) {
    const { output } = await client.responses.create({ model: MODEL, input, tools })
    input.push(...(output as OpenAI.Responses.ResponseInputItem[]))
    for (const item of output)
      if (item.type === 'function_call')
        input.push({ type: 'function_call_output', call_id: item.call_id, output: FILES })
  }
  let text = ''
  for await (const event of await client.responses.create({ model: MODEL, input, tools, stream: true }))
    if (event.type === 'response.output_text.delta') text += event.delta
  return text
}

async function anthropic({ base, token }: Setup, prompt: string): Promise<string> {
  const client = new Anthropic({ apiKey: token, baseURL: base })
  const order = {
    model: MODEL,
    max_tokens: 500,
    tools: [{ name: TOOL, description: DESCRIPTION, input_schema: SCHEMA }],
  }
  const messages: Anthropic.MessageParam[] = [{ role: 'user', content: prompt }]
  if (prompt.includes(TOOL)) {
    const { content } = await client.messages.create({ ...order, messages })
    const results = content.flatMap((block) =>
      block.type === 'tool_use' ? [{ type: 'tool_result' as const, tool_use_id: block.id, content: FILES }] : [],
    )
    messages.push({ role: 'assistant', content }, { role: 'user', content: results })
  }
  return await client.messages.stream({ ...order, messages }).finalText()
}

async function google({ base, token }: Setup, prompt: string): Promise<string> {
  const client = new GoogleGenAI({ apiKey: token, httpOptions: { baseUrl: base } })
  const parameters = { type: Type.OBJECT, properties: { path: { type: Type.STRING } }, required: ['path'] }
  const config = { tools: [{ functionDeclarations: [{ name: TOOL, description: DESCRIPTION, parameters }] }] }
  const contents: any[] = [{ role: 'user', parts: [{ text: prompt }] }]
  if (prompt.includes(TOOL)) {
    const first = await client.models.generateContent({ model: MODEL, contents, config })
    const calls = first.functionCalls ?? []
    contents.push(first.candidates?.[0]?.content, {
      role: 'user',
      parts: calls.map(({ id, name }) => ({ functionResponse: { id, name, response: { output: FILES } } })),
    })
  }
  let text = ''
  for await (const part of await client.models.generateContentStream({ model: MODEL, contents, config }))
    text += part.text ?? ''
  return text
}

async function aiSdk({ base, token }: Setup, prompt: string): Promise<string> {
  const { generateText, jsonSchema, stepCountIs, streamText, tool } = await program('ai')
  const { createOpenAICompatible } = await program('@ai-sdk/openai-compatible')
  const model = createOpenAICompatible({ name: 'farebox', baseURL: `${base}/v1`, apiKey: token })(MODEL)
  const tools = {
    [TOOL]: tool({ description: DESCRIPTION, inputSchema: jsonSchema(SCHEMA), execute: async () => FILES }),
  }
  const order = { model, prompt, tools, stopWhen: stepCountIs(3) }
  if (prompt.includes(TOOL)) return (await generateText(order)).text
  let text = ''
  for await (const part of streamText({ ...order, onError: () => {} }).fullStream) {
    if (part.type === 'error') throw part.error
    if (part.type === 'text-delta') text += part.text
  }
  return text
}

async function langChain({ base, token }: Setup, prompt: string): Promise<string> {
  const { ChatOpenAI } = await program('@langchain/openai')
  const configuration = { baseURL: `${base}/v1` }
  const chat = new ChatOpenAI({ apiKey: token, model: MODEL, configuration }).bindTools([
    { type: 'function', function: { name: TOOL, description: DESCRIPTION, parameters: SCHEMA } },
  ])
  const messages: unknown[] = [{ role: 'user', content: prompt }]
  if (prompt.includes(TOOL)) {
    const first = await chat.invoke(messages)
    messages.push(first)
    for (const { id } of first.tool_calls) messages.push({ role: 'tool', tool_call_id: id, content: FILES })
  }
  let text = ''
  for await (const part of await chat.stream(messages)) text += part.text
  return text
}

const PROGRAMS: Readonly<Record<string, Program>> = {
  'OpenAI SDK, chat': openai,
  'OpenAI SDK, responses': responses,
  'Anthropic SDK': anthropic,
  'Google SDK': google,
  'AI SDK': aiSdk,
  LangChain: langChain,
}

export const SDKS: readonly Client[] = Object.entries(PROGRAMS).map(([name, run]) => ({
  name,
  tool: TOOL,
  besides: 0,
  async run(setup, prompt) {
    const started = performance.now()
    const [code, text] = await run(setup, prompt).then(
      (answer): [number, string] => [0, answer],
      (error: unknown): [number, string] => [1, String(error)],
    )
    return { code, text, ms: performance.now() - started }
  },
}))
