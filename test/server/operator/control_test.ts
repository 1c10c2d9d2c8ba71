/** /operator/controls: what can be changed, what is refused with which words, and that other replicas hear of it. */
import { describe, expect, test } from 'bun:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { controls } from '../../../core/payment/control/controls.ts'
import { operatorDocument } from '../../../server/operator/openapi.ts'
import { operatorApi } from '../../../server/operator/mod.ts'
import { kit, testClock } from '../../kit.ts'

const WALLET = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8'

function operated() {
  const clock = testClock()
  const storage = memoryStorage()
  const [control, replica] = [controls({ storage, clock }), controls({ storage, clock })]
  const made = kit({ controls: replica, ports: { clock, storage } })
  const options = { controls: control, clock, products: () => ['chat', 'images'], gateways: ['base', 'solana'] }
  const api = operatorApi({ ledger: storage, clock, version: '1.2.3', control: options })
  return {
    ...made,
    replica,
    async call(method: string, path: string, body?: unknown) {
      const request = new Request(`http://localhost/operator/controls${path}`, {
        method,
        ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      })
      const reply = await api(request, { path: `/operator/controls${path}`, search: '' })
      return { status: reply.status, body: reply.body === null ? null : JSON.parse(String(reply.body)) }
    },
  }
}

describe('the controls', () => {
  test('are read, set and deleted one by one; another replica has them after its next look', async () => {
    const { call, replica, buyer } = operated()
    const limit = { usdc_per_day: '10', requests_per_minute: 60 }
    for (const [path, body] of [
      [`/blocked/${WALLET}`, { reason: 'abuse' }],
      [`/allowed/${WALLET}`, {}],
      [`/wallet_limits/*`, limit],
      [`/gateway_limits/base`, limit],
    ] as const) {
      expect([path, await call('GET', path)]).toMatchObject([path, { status: 404, body: { error: 'Not set' } }])
      expect(await call('PUT', path, body)).toEqual({ status: 200, body })
      expect(await call('GET', path.toLowerCase())).toEqual({ status: 200, body })
      expect(replica.rules().blocked).toEqual({})
    }
    await replica.refresh()
    expect(replica.rules()).toMatchObject({ wallet_limits: { '*': limit }, gateway_limits: { base: limit } })
    expect(Object.keys(replica.rules().blocked)).toEqual([WALLET.toLowerCase()])
    expect((await buyer('bob').buy()).status).toBe(403)
    expect((await call('DELETE', `/allowed/${WALLET}`)).status).toBe(204)
    expect((await call('DELETE', `/allowed/${WALLET}`)).status).toBe(204)
    await replica.refresh()
    expect((await buyer('bob').buy()).status).toBe(200)
    expect(Object.keys((await call('GET', '')).body).sort()).toEqual([
      'allowed',
      'blocked',
      'gateway_limits',
      'maintenance',
      'margins',
      'wallet_limits',
    ])
  })

  test('switch maintenance on and off', async () => {
    const { call, replica, buyer } = operated()
    expect((await call('GET', '/maintenance')).body).toEqual({ on: false })
    expect((await call('PUT', '/maintenance', { message: 'Back at nine.' })).body).toEqual({
      on: true,
      message: 'Back at nine.',
    })
    await replica.refresh()
    expect((await buyer().ask()).status).toBe(503)
    expect((await call('DELETE', '/maintenance')).body).toEqual({ on: false })
    await replica.refresh()
    expect((await buyer().ask()).status).toBe(402)
  })

  test('a margin says from when it is in force, and ends with another change', async () => {
    const { call, clock } = operated()
    const { body } = await call('PUT', '/margins/images', { percent: '12.5' })
    expect(body).toMatchObject({ percent: '12.5', in_force: false })
    expect(Date.parse(body.from) - clock.now()).toBe(10_000)
    await clock.advance(10_000)
    expect((await call('GET', '/margins/images')).body).toMatchObject({ percent: '12.5', in_force: true })
    await call('DELETE', '/margins/images')
    expect((await call('GET', '/margins/images')).body).toMatchObject({ percent: '0', in_force: false })
  })

  test('a wallet of Solana is removed by the spelling of the list, which is no address', async () => {
    const { call } = operated()
    const wallet = 'LGvEwjrK8k6toRRCckrnJ54Kbcstn6iXeezTWodzEHua'
    await call('PUT', `/blocked/${wallet}`, {})
    const [listed = ''] = Object.keys((await call('GET', '')).body.blocked)
    expect((await call('DELETE', `/blocked/${listed}`)).status).toBe(204)
    expect((await call('GET', '')).body.blocked).toEqual({})
    expect((await call('PUT', `/blocked/${listed}`, {})).status).toBe(400)
  })

  test('what cannot be set is refused with the field, the value and what is allowed, and nothing changes', async () => {
    const { call } = operated()
    for (const [path, body, ...words] of [
      ['/margins/tea', { percent: '5' }, '"tea"', 'one of chat, images'],
      ['/margins/images', { percent: 5 }, 'percent', '5', 'a decimal in quotes'],
      ['/margins/images', { percent: '-100' }, 'percent', '"-100"'],
      ['/blocked/alice', {}, '"alice"', 'an EVM address or a Solana key'],
      ['/gateway_limits/mars', { usdc_per_day: '1' }, '"mars"', 'one of base, solana'],
      ['/wallet_limits/*', {}, 'body', 'usdc_per_day'],
      ['/wallet_limits/*', { usdc_per_week: '1' }, 'usdc_per_week', 'requests_per_minute (integer from 1 to'],
      ['/wallet_limits/*', { requests_per_day: 0 }, 'requests_per_day', '0'],
      ['/maintenance', '{', 'body', 'is no JSON'],
      ['/maintenance', { retry_after_seconds: 1e6 }, 'retry_after_seconds', '86400'],
    ] as const) {
      const { status, body: answered } = await call('PUT', path, body)
      expect([path, status]).toEqual([path, 400])
      for (const word of words) expect(`${path}: ${answered.message}`).toContain(word)
      expect(answered.details.length).toBeGreaterThan(0)
    }
    const { body } = await call('GET', '')
    expect(body).toEqual({
      maintenance: { on: false },
      blocked: {},
      allowed: {},
      margins: {},
      wallet_limits: {},
      gateway_limits: {},
    })
    expect([(await call('PUT', '/tea', {})).status, (await call('POST', '/maintenance', {})).status]).toEqual([
      404, 405,
    ])
  })

  test('are described in the OpenAPI document, path by path', async () => {
    const document = structuredClone(operatorDocument('1.2.3', { hasControls: true }))
    expect(await new Validator().validate(document)).toMatchObject({ valid: true })
    const { call } = operated()
    for (const kind of Object.keys((await call('GET', '')).body))
      expect(Object.keys(document.paths).some((path) => path.startsWith(`/operator/controls/${kind}`))).toBe(true)
  })

  test('two operators who change at once both change', async () => {
    const { call } = operated()
    const wallets = Array.from({ length: 10 }, (_, n) => `0x${String(n).repeat(40)}`)
    await Promise.all(wallets.map((wallet) => call('PUT', `/blocked/${wallet}`, {})))
    expect(Object.keys((await call('GET', '')).body.blocked).sort()).toEqual(wallets)
  })
})
