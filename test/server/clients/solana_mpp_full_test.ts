/** `@solana/mpp`, the client of `solana/charge`, against the Solana gateway of the devnet, by `fetch` and by MCP. */
import { beforeAll, expect, test } from 'bun:test'
import { decodeUrl, readChallenges } from '../../../core/mpp/mod.ts'
import { solanaWallet } from '../../../server/cli/buy/solana_wallet.ts'
import { program } from '../../programs/mod.ts'
import { gatewayProcesses } from '../gateway_process.ts'

const COMPLETIONS = '/api/v1/chat/completions'

const processes = gatewayProcesses()
let url: string
let method: unknown
let mppx: { fetch(url: string, init: RequestInit): Promise<Response> }
let balance: () => Promise<bigint>
/** Transactions that the client has signed. */
const signed: string[] = []

beforeAll(async () => {
  const first = await processes.start(processes.dir()).url
  const { gateways } = (await (await fetch(`${first}/devnet`)).json()) as any
  const { base_url, rpc_url, asset, buyer } = gateways.find(({ name }: { name: string }) => name === 'solana')
  url = base_url
  const wallet = await solanaWallet(buyer.private_key, { rpcUrl: rpc_url, offer: { asset } } as never)
  balance = async () => (await wallet.balance()) ?? 0n
  const { Mppx } = await program('mppx/client')
  const { solana } = await program('@solana/mpp/client')
  const { createKeyPairSignerFromBytes, getBase58Encoder } = await program('@solana/kit')
  const signer = await createKeyPairSignerFromBytes(getBase58Encoder().encode(buyer.private_key))
  const onProgress = (step: { type: string; transaction?: string }) => {
    if (step.type === 'signed') signed.push(step.transaction ?? '')
  }
  // No node is named: the challenge has all that is signed.
  method = solana.charge({ signer, rpcUrl: 'http://127.0.0.1:1', onProgress })
  mppx = Mppx.create({ polyfill: false, methods: [method] })
}, 120_000)

const order = (more: object = {}, headers: Record<string, string> = {}): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify({ model: 'farebox/echo', messages: [{ role: 'user', content: 'hello' }], ...more }),
})

async function quoted(): Promise<bigint> {
  const { accepts } = (await (await fetch(url + COMPLETIONS, order())).json()) as any
  return BigInt(accepts[0].amount)
}

test('@solana/mpp buys equal answers at once, a stream and a picture, each charged once, without asking a node (contract 24.14)', async () => {
  const [before, price] = [await balance(), await quoted()]
  const buy = async () => await mppx.fetch(url + COMPLETIONS, order())
  const answers = [await buy(), ...(await Promise.all([buy(), buy(), buy()]))]
  for (const { status, headers } of answers) {
    const receipt = decodeUrl(headers.get('payment-receipt') ?? '')
    expect([status, receipt]).toEqual([
      200,
      expect.objectContaining({ status: 'success', method: 'solana', reference: headers.get('x-payment-receipt') }),
    ])
  }
  expect(new Set(signed).size).toBe(4)
  const stream = await mppx.fetch(url + COMPLETIONS, order({ stream: true }))
  expect([stream.status, (await stream.text()).includes('[DONE]')]).toEqual([200, true])
  const keyed = await mppx.fetch(url + COMPLETIONS, order({}, { authorization: 'Bearer unused' }))
  expect([keyed.status, keyed.headers.has('payment-receipt')]).toEqual([200, true])
  expect(before - (await balance())).toBe(price * 6n)
  const picture = { model: 'vendor-d/image-cv4', prompt: 'a lighthouse', size: '512x512' }
  const image = await mppx.fetch(`${url}/api/v1/images/generations`, { ...order(), body: JSON.stringify(picture) })
  expect([image.status, image.headers.has('payment-receipt')]).toEqual([200, true])
}, 60_000)

test('McpClient.wrap of mppx pays a tool of /mcp once, on Solana', async () => {
  const { Client, StreamableHTTPClientTransport } = await program('@modelcontextprotocol/client')
  const { McpClient } = await program('mppx/mcp/client')
  const before = await balance()
  const client = new Client({ name: 'buyer', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)))
  try {
    McpClient.wrap(client, { methods: [method] })
    const result = await client.callTool({ name: 'chat_completions', arguments: JSON.parse(String(order().body)) })
    expect(JSON.stringify(result.content)).toContain('You said: ')
    expect(result.receipt).toMatchObject({ method: 'solana', status: 'success' })
  } finally {
    await client.close()
  }
  expect(before - (await balance())).toBe(await quoted())
}, 60_000)

test('the document of OpenAPI offers solana/charge, and passes mppx validation without a warning', async () => {
  const { validate } = await program('mppx/discovery')
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as any
  expect(validate(document)).toEqual([])
  const { offers } = document.paths[COMPLETIONS].post['x-payment-info']
  expect(offers).toEqual([expect.objectContaining({ method: 'solana', intent: 'charge' })])
})

test('the signature of a transaction that the client has sent itself is refused: we pay the fee of ours', async () => {
  const header = (await fetch(url + COMPLETIONS, order())).headers.get('www-authenticate') ?? ''
  const [challenge] = readChallenges(header)
  const credential = { challenge, payload: { type: 'signature', signature: '1'.repeat(88) } }
  const authorization = `Payment ${Buffer.from(JSON.stringify(credential)).toString('base64url')}`
  const refused = await fetch(url + COMPLETIONS, order({}, { authorization }))
  const body = (await refused.json()) as any
  expect([refused.status, body.type]).toEqual([402, expect.stringContaining('invalid-payload')])
  expect(readChallenges(refused.headers.get('www-authenticate') ?? '').map((each) => each.method)).toEqual(['solana'])
})
