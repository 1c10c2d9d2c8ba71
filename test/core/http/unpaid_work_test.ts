/** Work before payment is bounded: by the window of a model, and by a budget of each address. */
import { describe, expect, test } from 'bun:test'
import { scriptedChat } from '../../fakes/chat.ts'
import { countTokens } from '../../../adapters/token_counter.ts'
import { catalog } from '../../../core/mod.ts'
import type { CountTokens } from '../../../core/ports/vendors/chat.ts'
import { memoized } from '../../../core/products/chat/token_estimate.ts'
import { unpaidWork } from '../../../core/http/unpaid_work.ts'
import { encodePayment, type KitOptions, kit, ORIGIN, read, testClock } from '../../kit.ts'

const MODEL = 'vendor-d/chat-5.1'
const COMPLETIONS = '/api/v1/chat/completions'
const user = (content: string) => ({ role: 'user', content })

/** A tokenizer with a token for each character, in slices of 256, that says how many it has looked at. */
function counter() {
  const seen = { characters: 0 }
  const count: CountTokens = async (text, { limit: most = Number.POSITIVE_INFINITY, spend } = {}) => {
    let tokens = 0
    for (let at = 0; at < text.length && tokens <= most; at += 256) {
      const slice = text.slice(at, at + 256).length
      spend?.(slice)
      seen.characters += slice
      tokens += slice
    }
    return tokens
  }
  return { seen, count }
}

function gatewayOf({
  countTokens: wrapped = (count) => count,
  ...options
}: Omit<KitOptions, 'ports'> & { countTokens?: (count: CountTokens) => CountTokens } = {}) {
  const { seen, count } = counter()
  const subject = kit({
    chatVendor: scriptedChat(),
    ...options,
    ports: { countTokens: wrapped(count) },
  })
  const ask = async (messages: readonly object[], { ip = '192.0.2.1', path = COMPLETIONS, headers = {} } = {}) => {
    const request = new Request(ORIGIN + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ model: MODEL, max_tokens: 10, messages }),
    })
    return await read(await subject.gateway.fetch(request, { ip }))
  }
  return { ...subject, seen, ask }
}

const WINDOW = catalog().chat.get(MODEL)?.contextWindow ?? 0

describe('counting ends where the window is passed', () => {
  test('in one long message: 400, after few more characters than the window of eight million', async () => {
    const { ask, seen } = gatewayOf()
    const { status, body } = await ask([user('狐'.repeat(8_000_000))])
    expect([status, body.code]).toEqual([400, 'CONTEXT_LENGTH_EXCEEDED'])
    expect(seen.characters).toBeLessThanOrEqual(WINDOW + 256)
  })

  test('in long system messages, on a surface that trims nothing, and in an estimate', async () => {
    for (const [path, messages] of [
      [COMPLETIONS, [{ role: 'system', content: 'x'.repeat(WINDOW) }, user('x'.repeat(WINDOW)), user('y')]],
      ['/api/v1/messages', [user('x'.repeat(WINDOW)), user('x'.repeat(WINDOW))]],
      ['/api/v1/chat/estimate', [user('x'.repeat(1_000_000))]],
    ] as const) {
      const { ask, seen } = gatewayOf()
      const { status } = await ask(messages, { path })
      expect([path, status, seen.characters <= WINDOW + 512]).toEqual([path, 400, true])
    }
  })

  test('counts only the newest turns of a trimmed conversation, and quotes what stays', async () => {
    const { ask, seen } = gatewayOf()
    const turns = Array.from({ length: 1_000 }, () => user('x'.repeat(1_000)))
    const system = { role: 'system', content: 's'.repeat(1_000) }
    const trimmed = await ask([...turns, system, user('last')])
    expect(trimmed.status).toBe(402)
    expect(seen.characters).toBeLessThanOrEqual(WINDOW + 1_024)
    // A token less than the window: the priming, the system message, the last turn, and so many of 1,004 before it.
    const stay = Math.floor((WINDOW - 1 - 3 - 1_004 - 8) / 1_004)
    const whole = await ask([...turns.slice(0, stay), system, user('last')])
    expect(trimmed.body.price).toEqual(whole.body.price)
    const estimate = await ask([...turns, system, user('last')], { path: '/api/v1/chat/estimate' })
    expect(estimate.body.estimate).toMatchObject({
      prompt_tokens: 3 + 1_004 + 8 + stay * 1_004,
      messages_removed: 1_000 - stay,
    })
  })

  test('in the tokenizer itself: it reports more than the limit, and reads no further', async () => {
    let polled = 0
    const tokens = await countTokens('fox '.repeat(100_000), {
      limit: 1_000,
      spend: (characters) => void (polled += characters),
    })
    expect(tokens).toBeGreaterThan(1_000)
    expect(polled).toBeLessThan(6_000)
    const whole = await countTokens('fox '.repeat(1_000))
    expect(await countTokens('fox '.repeat(1_000), { limit: whole })).toBe(whole)
  })

  test('a count that ended early is remembered for those who would end it as early, and for nobody else', async () => {
    const { seen, count } = counter()
    const counted = memoized(count)
    const text = 'x'.repeat(10_000)
    expect(await counted(text, { limit: 1_000 })).toBe(1_024)
    expect([await counted(text, { limit: 500 }), seen.characters]).toEqual([1_024, 1_024])
    expect(await Promise.all([counted(text), counted(text, { limit: 20_000 })])).toEqual([10_000, 10_000])
    expect([await counted(text, { limit: 5 }), seen.characters]).toEqual([10_000, 1_024 + 10_000])
  })
})

describe('characters counted for unpaid requests', () => {
  const BUDGET = 10_000
  const text = (length: number, mark = 'a') => [user(mark.repeat(length))]

  test('have a budget for each address: over it 429 with the wait, until the minute has filled it again (contract 6.57)', async () => {
    const { ask, clock, seen } = gatewayOf({ unpaidCharacters: BUDGET })
    expect([(await ask(text(6_000))).status, (await ask(text(6_000))).status]).toEqual([402, 402])
    const { status, headers, body } = await ask(text(6_000))
    expect([status, headers.get('retry-after')]).toEqual([429, '18'])
    expect(body.error.message ?? body.error).toContain('10000 characters')
    expect(seen.characters).toBe(12_000)
    expect((await ask(text(6_000), { ip: '192.0.2.2' })).status).toBe(402)
    await clock.advance(18_000)
    expect((await ask(text(500))).status).toBe(402)
    expect((await ask(text(500), { path: '/api/v1/chat/estimate' })).status).toBe(200)
    expect((await ask(text(500), { path: '/api/v1/chat/estimate' })).status).toBe(429)
  })

  test('are 10,000,000 a minute where nobody has configured another number (contract 6.57)', async () => {
    const { ask, seen } = gatewayOf()
    let requestCount = 0
    while ((await ask([user('a'.repeat(60_000))])).status === 402 && requestCount < 200) requestCount++
    expect([requestCount < 200, seen.characters >= 10_000_000, seen.characters < 10_060_000]).toEqual([
      true,
      true,
      true,
    ])
  })

  test('count for a whole IPv6 /64, and for all gateways of a process together', async () => {
    const { ask, restart } = gatewayOf({ unpaidCharacters: BUDGET })
    expect((await ask(text(12_000), { ip: '2001:db8::1' })).status).toBe(402)
    expect((await ask(text(10), { ip: '2001:db8::2' })).status).toBe(429)
    const request = new Request(ORIGIN + COMPLETIONS, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: MODEL, messages: text(10) }),
    })
    expect((await restart({ name: 'other' }).fetch(request, { ip: '2001:db8::3' })).status).toBe(429)
  })

  test('a payment header that proves nothing is not exempt', async () => {
    const { ask, seen } = gatewayOf({ unpaidCharacters: BUDGET })
    const headers = { 'payment-signature': encodePayment({ x402Version: 2, accepted: {}, payload: {} }) }
    const answers = []
    for (let at = 0; at < 5; at++) answers.push((await ask(text(6_000), { headers })).status)
    expect(answers).toEqual([402, 402, 429, 429, 429])
    expect(seen.characters).toBe(12_000)
  })

  test('are given back when the payment is verified: a buyer is not held up by what he buys', async () => {
    const { buyer, seen } = gatewayOf({ unpaidCharacters: BUDGET })
    const alice = buyer()
    const challenge = await alice.ask({ model: MODEL, messages: text(1_000) }, { path: COMPLETIONS })
    const statuses = []
    for (let at = 0; at < 20; at++)
      statuses.push(
        (
          await alice.buy(
            { model: MODEL, messages: text(1_000) },
            { path: COMPLETIONS, payment: alice.sign(challenge) },
          )
        ).status,
      )
    expect([new Set(statuses), seen.characters]).toEqual([new Set([200]), 21_000])
  })

  test('counts that are cached cost nothing: a buyer’s paid request passes on a spent budget', async () => {
    const { buyer, ask, seen } = gatewayOf({ unpaidCharacters: BUDGET, countTokens: memoized })
    const alice = buyer()
    const order = { model: MODEL, messages: text(15_000, 'b') }
    const challenge = await alice.ask(order, { path: COMPLETIONS })
    expect((await ask(text(3_000))).status).toBe(429)
    expect((await alice.buy(order, { path: COMPLETIONS, payment: alice.sign(challenge) })).status).toBe(200)
    expect(seen.characters).toBe(15_000)
  })

  test('weigh more beyond ASCII, as the work does', async () => {
    const spent = async (text: string) => {
      let sum = 0
      await countTokens(text, { spend: (characters) => void (sum += characters) })
      return sum
    }
    expect([await spent('abc'), await spent('é'), await spent('狐'), await spent('🦊')]).toEqual([3, 2, 3, 6])
  })

  test('are remembered for so many addresses at a time, the one unused for longest first forgotten', async () => {
    const { count } = counter()
    const work = unpaidWork({ countTokens: count, clock: testClock(), perMinute: 100, remembered: 3 })
    const isServed = async (ip: string) => {
      try {
        return (await work.from(ip).countTokens('x'.repeat(100))) > 0
      } catch {
        return false
      }
    }
    expect([await isServed('a'), await isServed('a')]).toEqual([true, false])
    for (const ip of ['b', 'c', 'd']) await isServed(ip)
    expect([await isServed('d'), await isServed('a')]).toEqual([false, true])
  })
})
