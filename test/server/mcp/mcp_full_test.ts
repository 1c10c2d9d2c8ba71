/** The SDK's own client of MCP, at a gateway's /mcp and at `farebox mcp`: lists, is asked to pay, pays, and reads. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { Database } from 'bun:sqlite'
import { statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { PROGRAMS } from '../../programs/mod.ts'
import { payerAt, signOffer } from '../clients/payer.ts'
import { gatewayProcesses } from '../gateway_process.ts'

type Result = {
  readonly isError?: boolean
  readonly structuredContent?: any
  readonly content: readonly { readonly type: string; readonly text?: string; readonly mimeType?: string }[]
  readonly _meta?: Readonly<Record<string, any>>
}
type Client = {
  connect(transport: unknown): Promise<void>
  listTools(): Promise<{ readonly tools: readonly { readonly name: string }[] }>
  callTool(call: { name: string; arguments: object; _meta?: object }): Promise<Result>
  setRequestHandler(method: string, handler: (request: { params: { message: string } }) => Promise<object>): void
  close(): Promise<void>
}
type Sdk = {
  readonly Client: new (info: object, options?: object) => Client
  readonly StreamableHTTPClientTransport: new (url: URL) => unknown
  readonly StdioClientTransport: new (options: object) => unknown
}

const resolve = createRequire(PROGRAMS).resolve
const FOX = { model: 'vendor-a/image-1', prompt: 'a red fox in the snow' }
const processes = gatewayProcesses()
const opened: Client[] = []
let sdk: Sdk
let url: string
let dir: string

beforeAll(async () => {
  dir = processes.dir()
  url = await processes.start(dir).url
  const [http, stdio] = await Promise.all([
    import(resolve('@modelcontextprotocol/client')),
    import(resolve('@modelcontextprotocol/client/stdio')),
  ])
  sdk = { ...http, ...stdio }
}, 120_000)

afterAll(() => Promise.all(opened.map((client) => client.close())))

async function connected(transport: unknown, options: object = {}): Promise<Client> {
  const client = new sdk.Client({ name: 'test', version: '1' }, options)
  opened.push(client)
  await client.connect(transport)
  return client
}

function local(args: readonly string[], options: object = {}): Promise<Client> {
  const main = join(import.meta.dirname, '../../../server/main.ts')
  const env = { PATH: process.env.PATH ?? '', HOME: dir }
  const transport = { command: process.execPath, args: [main, 'mcp', '--url', url, ...args], env, stderr: 'ignore' }
  return connected(new sdk.StdioClientTransport(transport), options)
}

test('over HTTP: the tools are listed, a demand is paid with what the client signs, and the picture is content', async () => {
  const client = await connected(new sdk.StreamableHTTPClientTransport(new URL(`${url}/mcp`)))
  const { tools } = await client.listTools()
  expect(tools.map(({ name }) => name)).toContain('videos_generations')
  for (const { name } of tools) expect(name).toMatch(/^[a-zA-Z0-9_-]{1,64}$/)
  // A client hands all of them to its model in each request.
  expect(JSON.stringify(tools).length / tools.length).toBeLessThan(1_000)
  const demand = await client.callTool({ name: 'images_generations', arguments: FOX })
  expect([demand.isError, demand.structuredContent.x402Version]).toEqual([true, 2])
  const { account } = await payerAt(url)
  const { accepts, resource } = demand.structuredContent
  const payment = await signOffer(account, { offer: accepts[0], resource })
  const bought = await client.callTool({
    name: 'images_generations',
    arguments: FOX,
    _meta: { 'x402/payment': payment },
  })
  expect(bought.content.map(({ type }) => type)).toEqual(['text', 'image', 'resource_link'])
  expect(bought._meta?.['x402/payment-response']).toMatchObject({ success: true })
}, 60_000)

describe('farebox mcp', () => {
  test('pays from the wallet within its caps, and notes what it spent in a file of its owner alone', async () => {
    const client = await local([])
    const bought = await client.callTool({ name: 'images_generations', arguments: FOX })
    expect(bought.content.map(({ type }) => type)).toEqual(['text', 'image', 'resource_link'])
    expect(bought.structuredContent.payment.status).toBe('settled')
    const path = join(dir, '.farebox/spending.db')
    expect(new Database(path, { readonly: true }).query('SELECT micros FROM spending').values()).toEqual([[22_000]])
    expect(statSync(path).mode & 0o077).toBe(0)
  }, 60_000)

  test('serves the tools that --tools names, and those to choose and collect by', async () => {
    const { tools } = await (await local(['--tools', 'chat,images_generations'])).listTools()
    const names = tools.map(({ name }) => name)
    expect(names).toEqual(['images_generations', 'chat_completions', 'models', 'collect_result'])
  }, 60_000)

  test('refuses what is above the cap of a call or of the day, in words, and pays nothing', async () => {
    const caps = ['--max-per-call', '0.03', '--max-per-day', '0.04', '--spending', join(dir, 'second.db')]
    const client = await local(caps)
    const dear = await client.callTool({ name: 'images_generations', arguments: { ...FOX, n: 2 } })
    expect([dear.isError, dear.content[0]?.text]).toEqual([
      true,
      expect.stringContaining(
        'The price is 0.043 USDC, above the cap of 0.03 USDC per call. Raise it with --max-per-call.',
      ),
    ])
    expect((await client.callTool({ name: 'images_generations', arguments: FOX })).isError).toBeUndefined()
    const late = await client.callTool({ name: 'images_generations', arguments: FOX })
    expect(late.content[0]?.text).toContain("0.018 USDC are left of today's cap. Raise it with --max-per-day.")
    const again = await local(caps)
    expect((await again.callTool({ name: 'images_generations', arguments: FOX })).isError).toBe(true)
  }, 60_000)

  test('asks the person behind the client, where it can, and pays when they agree', async () => {
    const questions: string[] = []
    const options = { capabilities: { elicitation: { form: {} } } }
    const client = await local(['--max-per-call', '0.01', '--spending', join(dir, 'third.db')], options)
    client.setRequestHandler('elicitation/create', async ({ params }) => {
      questions.push(params.message)
      return { action: 'accept', content: { approve: true } }
    })
    const bought = await client.callTool({ name: 'images_generations', arguments: FOX })
    expect(bought.structuredContent.payment.status).toBe('settled')
    expect(questions).toEqual(['The price is 0.022 USDC, above the cap of 0.01 USDC per call. Pay all the same?'])
  }, 60_000)
})
