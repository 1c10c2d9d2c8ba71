/** The public clients of MPP, and of both protocols, against the devnet, whose 402s offer several schemes of x402. */
import { beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { ExactEvmScheme } from '@x402/evm'
import { wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { LOOPBACK, program, PROGRAMS_DIR } from '../../programs/mod.ts'
import { gatewayProcesses } from '../gateway_process.ts'
import { type Payer, payerAt } from './payer.ts'

const processes = gatewayProcesses()
let url: string
let payer: Payer
let method: unknown
let mppx: { fetch(url: string, init: RequestInit): Promise<Response> }

beforeAll(async () => {
  url = await processes.start(processes.dir()).url
  payer = await payerAt(url)
  const { Mppx, evm } = await program('mppx/client')
  method = (evm.charge ?? evm)({ account: payer.account, authorization: { name: 'USDC', version: '2' } })
  mppx = Mppx.create({ polyfill: false, methods: [method] })
}, 120_000)

const order = (more: object = {}, headers: Record<string, string> = {}): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify({ model: 'farebox/echo', messages: [{ role: 'user', content: 'hello' }], ...more }),
})

/** Amount of the `exact` offer for an order, in base units. */
async function quoted(): Promise<bigint> {
  const quote = await fetch(`${url}/api/v1/chat/completions`, order())
  const { accepts } = (await quote.json()) as { accepts: readonly { scheme: string; amount: string }[] }
  return BigInt(accepts.find(({ scheme }) => scheme === 'exact')?.amount ?? 0)
}

/** The command `mppx`, with the wallet of the devnet. */
async function cli(...args: readonly string[]) {
  const child = Bun.spawn(['node', join(PROGRAMS_DIR, 'node_modules/mppx/dist/bin.js'), ...args], {
    env: {
      PATH: process.env.PATH ?? '',
      HOME: processes.dir(),
      NO_COLOR: '1',
      ...LOOPBACK,
      MPPX_PRIVATE_KEY: payer.devnet.buyer.private_key,
      MPPX_RPC_URL: payer.devnet.rpc_url,
    },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
  return { code, text: out + err }
}

test('mppx buys a whole answer and a stream, beside an Authorization of its own too, each charged once', async () => {
  const before = await payer.balance()
  const price = await quoted()
  const whole = await mppx.fetch(`${url}/api/v1/chat/completions`, order())
  expect([whole.status, whole.headers.has('payment-receipt')]).toEqual([200, true])
  const keyed = await mppx.fetch(`${url}/api/v1/chat/completions`, order({}, { authorization: 'Bearer unused' }))
  expect([keyed.status, keyed.headers.has('payment-receipt')]).toEqual([200, true])
  const stream = await mppx.fetch(`${url}/api/v1/chat/completions`, order({ stream: true }))
  expect([stream.status, (await stream.text()).includes('[DONE]')]).toEqual([200, true])
  expect(before - (await payer.balance())).toBe(price * 3n)
}, 60_000)

test('the document of OpenAPI passes mppx validation without a warning', async () => {
  const { validate } = await program('mppx/discovery')
  expect(validate(await (await fetch(`${url}/openapi.json`)).json())).toEqual([])
})

test('the command mppx pays by MPP, and its validate has no warning and no failure', async () => {
  const before = await payer.balance()
  const price = await quoted()
  const body = String(order().body)
  const bought = await cli(`${url}/api/v1/chat/completions`, '-J', body, '-v')
  expect([bought.code, bought.text]).toEqual([0, expect.stringContaining('You said: ')])
  expect(bought.text).toMatch(/Payment Receipt[^]*reference +0x[0-9a-f]{64}/)
  expect(before - (await payer.balance())).toBe(price)
  const checked = await cli('validate', url, '--endpoint', 'POST:/api/v1/chat/completions', '--body', body)
  expect([checked.code, checked.text]).toEqual([0, expect.stringMatching(/Summary: \d+ passed\n/)])
  expect(before - (await payer.balance())).toBe(price * 2n)
}, 60_000)

test('McpClient.wrap of mppx pays a tool of /mcp once, by MPP', async () => {
  const { Client, StreamableHTTPClientTransport } = await program('@modelcontextprotocol/client')
  const { McpClient } = await program('mppx/mcp/client')
  const before = await payer.balance()
  const client = new Client({ name: 'buyer', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)))
  try {
    McpClient.wrap(client, { methods: [method] })
    const result = await client.callTool({ name: 'chat_completions', arguments: JSON.parse(String(order().body)) })
    expect(JSON.stringify(result.content)).toContain('You said: ')
    expect(result.receipt).toMatchObject({ method: 'evm', status: 'success' })
  } finally {
    await client.close()
  }
  expect(before - (await payer.balance())).toBe(await quoted())
}, 60_000)

test('@faremeter/fetch and @x402/fetch pay by exact of x402, beside the challenge of MPP', async () => {
  const { wrap } = await program('@faremeter/fetch')
  const { createPaymentHandler } = await program('@faremeter/payment-evm/exact')
  const { createLocalWallet } = await program('@faremeter/wallet-evm')
  const wallet = await createLocalWallet({ id: 84_532, name: 'Base Sepolia' }, payer.devnet.buyer.private_key)
  const clients: readonly ((url: string, init: RequestInit) => Promise<Response>)[] = [
    wrap(fetch, { handlers: [createPaymentHandler(wallet)] }),
    wrapFetchWithPaymentFromConfig(fetch, {
      schemes: [{ network: 'eip155:*', client: new ExactEvmScheme(payer.account) }],
    }),
  ]
  for (const buy of clients) {
    const before = await payer.balance()
    const reply = await buy(`${url}/api/v1/chat/completions`, order())
    expect([reply.status, reply.headers.has('payment-response'), reply.headers.has('payment-receipt')]).toEqual([
      200,
      true,
      false,
    ])
    expect(before - (await payer.balance())).toBe(await quoted())
  }
}, 60_000)
