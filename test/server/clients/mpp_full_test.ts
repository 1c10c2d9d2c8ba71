/** The public client of MPP, against the devnet, whose 402s offer several schemes of x402 as well. */
import { beforeAll, expect, test } from 'bun:test'
import { program } from '../../programs/mod.ts'
import { gatewayProcesses } from '../gateway_process.ts'
import { type Payer, payerAt } from './payer.ts'

const processes = gatewayProcesses()
let url: string
let payer: Payer
let mppx: { fetch(url: string, init: RequestInit): Promise<Response> }

beforeAll(async () => {
  url = await processes.start(processes.dir()).url
  payer = await payerAt(url)
  const { Mppx, evm } = await program('mppx/client')
  const method = (evm.charge ?? evm)({ account: payer.account, authorization: { name: 'USDC', version: '2' } })
  mppx = Mppx.create({ polyfill: false, methods: [method] })
}, 120_000)

const order = (more: object = {}, headers: Record<string, string> = {}): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify({ model: 'farebox/echo', messages: [{ role: 'user', content: 'hello' }], ...more }),
})

test('mppx buys a whole answer and a stream, beside an Authorization of its own too, each charged once', async () => {
  const before = await payer.balance()
  const quote = await fetch(`${url}/api/v1/chat/completions`, order())
  const { accepts } = (await quote.json()) as { accepts: readonly { scheme: string; amount: string }[] }
  const price = BigInt(accepts.find(({ scheme }) => scheme === 'exact')?.amount ?? 0)
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
