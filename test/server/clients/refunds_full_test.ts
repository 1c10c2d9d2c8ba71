/** The refund call of the official client of `batch-settlement`, unmodified, against one devnet gateway. */
import { beforeAll, describe, expect, test } from 'bun:test'
import { toClientEvmSigner } from '@x402/evm'
import { BatchSettlementEvmScheme } from '@x402/evm/batch-settlement/client'
import { decodePaymentRequiredHeader } from '@x402/core/http'
import { wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { createPublicClient, type Hex } from 'viem'
import { baseSepolia } from 'viem/chains'
import type { Running } from '../../../server/main.ts'
import { quietLog, startedGateways } from '../started_gateway.ts'
import { type Payer, payerAt } from './payer.ts'
import { steadyHttp } from '../../fault/between_blocks.ts'

const COMPLETIONS = '/api/v1/chat/completions'
const entries: { readonly message: string; readonly fields: unknown }[] = []
const { onDisk, startWith } = startedGateways(
  quietLog({ info: (message, fields) => void entries.push({ message, fields }) }),
)
let running: Running
let payer: Payer

beforeAll(async () => {
  running = await startWith({ ...onDisk, OPERATOR_TOKEN: 'token-of-the-operator' })
  payer = await payerAt(running.url)
}, 60_000)

/** The client with a channel of its own by `salt`. */
function official(salt: number) {
  const node = createPublicClient({ chain: baseSepolia, transport: steadyHttp(payer.devnet.rpc_url) })
  const signer = toClientEvmSigner(payer.account, node as never)
  const hex: Hex = `0x${salt.toString(16).padStart(64, '0')}`
  const scheme = new BatchSettlementEvmScheme(signer, { salt: hex })
  const pay = wrapFetchWithPaymentFromConfig(fetch, { schemes: [{ network: 'eip155:*', client: scheme }] })
  return { scheme, pay }
}

const ask = (text: string, more: object = {}) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({
    model: 'farebox/echo',
    messages: [{ role: 'user', content: text }],
    max_tokens: 200,
    ...more,
  }),
})

const chargedBy = (response: Response): bigint => BigInt(Number(response.headers.get('x-payment-charged')) * 1e6 || 0)

const calls = async (): Promise<unknown> =>
  await (
    await fetch(`${running.url}/operator/payments`, { headers: { authorization: 'Bearer token-of-the-operator' } })
  ).json()

describe('the refund of the official client', () => {
  test('sends back what is left, on the route where it bought; it is no sale (contract 1.86)', async () => {
    const { scheme, pay } = official(1)
    const before = await payer.balance()
    const bought = await pay(running.url + COMPLETIONS, ask('One'))
    const charged = chargedBy(bought)
    expect([bought.status, charged > 0n]).toEqual([200, true])
    const ledger = await calls()
    const settled = await scheme.refund(running.url + COMPLETIONS)
    expect(settled).toMatchObject({
      success: true,
      transaction: expect.stringMatching(/^0x[0-9a-f]{64}$/),
      payer: payer.account.address,
      amount: String(2_000_000n - charged),
      extra: { channelState: { balance: String(charged), totalClaimed: String(charged), refundNonce: '1' } },
    })
    expect(settled.extra).not.toHaveProperty('chargedAmount')
    expect(settled.extensions ?? {}).not.toHaveProperty('offer-receipt')
    expect(before - (await payer.balance())).toBe(charged)
    expect(await calls()).toEqual(ledger)
    expect(entries.filter(({ message }) => message === 'a deposit was refunded')).toMatchObject([
      { fields: { payer: payer.account.address, transaction: settled.transaction } },
    ])
    const metrics = await (
      await fetch(`${running.url}/metrics`, { headers: { authorization: 'Bearer token-of-the-operator' } })
    ).text()
    expect(metrics).toContain(`farebox_refunds_usdc_total{gateway="devnet"} ${Number(settled.amount) / 1e6}\n`)
    const again = await pay(running.url + COMPLETIONS, ask('Two'))
    expect(again.status).toBe(200)
    expect(before - (await payer.balance())).toBe(charged + 2_000_000n)
  })

  test('sends back a part, and the channel goes on without a deposit (contract 1.86)', async () => {
    const { scheme, pay } = official(2)
    await (await pay(running.url + COMPLETIONS, ask('One'))).text()
    const before = await payer.balance()
    expect(await scheme.refund(running.url + COMPLETIONS, { amount: '1500000' })).toMatchObject({ amount: '1500000' })
    expect((await payer.balance()) - before).toBe(1_500_000n)
    expect((await pay(running.url + COMPLETIONS, ask('Two'))).status).toBe(200)
    expect((await payer.balance()) - before).toBe(1_500_000n)
  })

  test('is corrected when a stream has moved the channel, and then sent (contract 1.87)', async () => {
    const { scheme, pay } = official(3)
    await (await pay(running.url + COMPLETIONS, ask('One'))).text()
    await (await pay(running.url + COMPLETIONS, ask('Stream', { stream: true }))).text()
    expect(await scheme.refund(running.url + COMPLETIONS)).toMatchObject({ success: true })
    const state = await official(3)
      .scheme.refund(running.url + COMPLETIONS)
      .catch((error: Error) => error.message)
    expect(state).toContain('channel has no remaining balance')
  })

  test('is refused by name where it asks for too much (contract 1.87)', async () => {
    const { scheme, pay } = official(4)
    await (await pay(running.url + COMPLETIONS, ask('One'))).text()
    await expect(scheme.refund(running.url + COMPLETIONS, { amount: '2000000' })).rejects.toThrow(
      'invalid_batch_settlement_evm_refund_amount_invalid',
    )
  })

  test('works on a route of GET as well, whatever it costs; a refusal offers nothing at a price (contract 1.86, 1.87)', async () => {
    const { scheme, pay } = official(5)
    await (await pay(running.url + COMPLETIONS, ask('One'))).text()
    let refused: Response | undefined
    const recording = async (...[url, init]: Parameters<typeof fetch>): Promise<Response> => {
      const response = await fetch(url, init)
      if (new Headers(init?.headers).has('payment-signature')) refused = response.clone()
      return response
    }
    const options = { amount: '9999999', fetch: recording as typeof fetch }
    await expect(scheme.refund(`${running.url}${COMPLETIONS}`, options)).rejects.toThrow('refund_amount_invalid')
    const { accepts, error } = decodePaymentRequiredHeader(refused?.headers.get('payment-required') ?? '')
    expect([refused?.status, error]).toEqual([402, 'invalid_batch_settlement_evm_refund_amount_invalid'])
    expect(new Set(accepts.map(({ amount }) => amount))).toEqual(new Set(['0']))
    const body = (await refused?.json()) as { extensions?: object; code: string; message: string }
    expect(body).toMatchObject({ code: 'PAYMENT_INVALID' })
    expect(JSON.stringify(body.extensions ?? {})).not.toContain('"offers"')
    const price = `${running.url}/api/v1/stocks/us/price/AAPL`
    expect(await scheme.refund(price, { amount: '1000' })).toMatchObject({ success: true, amount: '1000' })
    expect(await scheme.refund(`${running.url}/api/v1/images/generations`)).toMatchObject({ success: true })
  })

  test('among purchases of the same channel at the same time, everything charged is paid and the rest is back (contract 1.87)', async () => {
    const before = await payer.balance()
    const opened = await official(6).pay(running.url + COMPLETIONS, ask('Open'))
    const charges = [chargedBy(opened)]
    const outcomes: string[] = []
    const purchase = async (text: string): Promise<void> => {
      const response = await official(6)
        .pay(running.url + COMPLETIONS, ask(text))
        .catch((error: Error) => error)
      const isBought = response instanceof Response && response.status === 200
      if (isBought) charges.push(chargedBy(response))
      outcomes.push(isBought ? 'bought' : 'not bought')
    }
    const refund = async (options: object): Promise<void> => {
      const settled = await official(6)
        .scheme.refund(running.url + COMPLETIONS, options)
        .catch((error: Error) => error)
      outcomes.push(settled instanceof Error ? 'not refunded' : 'refunded')
    }
    for (let round = 0; round < 12; round++) {
      const options = round % 3 === 0 ? {} : { amount: String(1_000 + round) }
      await Promise.all([purchase(`One ${round}`), refund(options), purchase(`Two ${round}`), refund({})])
    }
    await refund({})
    for (const each of ['bought', 'refunded']) expect(outcomes).toContain(each)
    const charged = charges.reduce((sum, each) => sum + each, 0n)
    expect(before - (await payer.balance())).toBe(charged)
    const body = (await calls()) as { payments: { charged_usdc?: string; status: string }[] }
    expect(body.payments.filter(({ status }) => !['settled', 'failed'].includes(status))).toEqual([])
  }, 60_000)
})
