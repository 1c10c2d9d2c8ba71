import { describe, expect, spyOn, test } from 'bun:test'
import type { ChatOrder, ChatVendor } from '../../../../core/mod.ts'
import { quotedInputs } from '../../../../core/products/lib/quoted_inputs.ts'
import { encodePayment, kit, ORIGIN, testClock } from '../../../kit.ts'

const PATH = '/api/v1/chat/completions'
const bodyOf = (text: string) => ({
  model: 'openai/gpt-6-luna',
  messages: [{ role: 'user', content: text.repeat(2_000) }],
  max_tokens: 100,
})
const BODY = bodyOf('look again ')

/** A vendor that records what it is asked. */
function recording() {
  const orders: ChatOrder[] = []
  const vendor: ChatVendor = {
    format: 'chat',
    async ask(order) {
      orders.push(order)
      const message = { role: 'assistant', content: 'Done.' }
      return { kind: 'whole', body: { choices: [{ index: 0, message, finish_reason: 'stop' }] } }
    },
  }
  return { vendor, orders }
}

/** How often a long text was parsed meanwhile. */
async function parsesOf(work: () => Promise<unknown>): Promise<number> {
  const spy = spyOn(JSON, 'parse')
  try {
    await work()
    return spy.mock.calls.filter(([text]) => text.length > 10_000).length
  } finally {
    spy.mockRestore()
  }
}

function requestOf(body: string, path = PATH, headers: Record<string, string> = {}) {
  const request = new Request(`http://farebox.test${path}`, { method: 'POST', headers })
  return { requestContext: { path, params: {}, request }, body }
}

describe('a request that is quoted and then paid', () => {
  test('is parsed once, and asks the vendor for what it says', async () => {
    const { vendor, orders } = recording()
    const alice = kit({ chatVendor: vendor }).buyer()
    const parses = await parsesOf(async () => {
      const challenge = await alice.ask(BODY, { path: PATH })
      expect(challenge.status).toBe(402)
      const paid = await alice.buy(BODY, { path: PATH, payment: alice.sign(challenge) })
      expect(paid.status).toBe(200)
    })
    expect(parses).toBe(1)
    expect(orders.map(({ body }) => body.messages)).toEqual([BODY.messages])
  })

  test('is parsed again for a second payment: no two calls share an input', async () => {
    const { vendor, orders } = recording()
    const farebox = kit({ chatVendor: vendor })
    const [alice, bob] = [farebox.buyer('alice'), farebox.buyer('bob')]
    const challenge = await alice.ask(BODY, { path: PATH })
    const parses = await parsesOf(async () => {
      await alice.buy(BODY, { path: PATH, payment: alice.sign(challenge) })
      await bob.buy(BODY, { path: PATH, payment: bob.sign(challenge) })
    })
    expect(parses).toBe(1)
    expect(orders).toHaveLength(2)
    expect(orders[0]?.body.messages).not.toBe(orders[1]?.body.messages as never)
  })

  test('pays for the body that it brings, not for the one that was quoted', async () => {
    const { vendor, orders } = recording()
    const alice = kit({ chatVendor: vendor }).buyer()
    const challenge = await alice.ask(BODY, { path: PATH })
    const other = bodyOf('look aghin ')
    await alice.buy(other, { path: PATH, payment: alice.sign(challenge) })
    expect(orders.map(({ body }) => body.messages)).toEqual([other.messages])
  })

  test('is refused for another content type, although its body was quoted', async () => {
    const farebox = kit({ chatVendor: recording().vendor })
    const alice = farebox.buyer()
    const challenge = await alice.ask(BODY, { path: PATH })
    const headers = { 'content-type': 'text/plain', 'payment-signature': encodePayment(alice.sign(challenge)) }
    const request = new Request(`${ORIGIN}${PATH}`, { method: 'POST', headers, body: JSON.stringify(BODY) })
    expect((await farebox.gateway.fetch(request)).status).toBe(400)
  })

  test('is not served once no vendor is configured for it', async () => {
    const { vendor } = recording()
    let isConfigured = true
    const alice = kit({ ports: { vendors: { chat: () => (isConfigured ? vendor : undefined) } } }).buyer()
    const challenge = await alice.ask(BODY, { path: PATH })
    isConfigured = false
    const paid = await alice.buy(BODY, { path: PATH, payment: alice.sign(challenge) })
    expect(paid.status).toBe(503)
  })

  test('is refused once its address has spent its budget for unpaid work, although its body was quoted', async () => {
    const alice = kit({ chatVendor: recording().vendor, unpaidCharacters: 100_000 }).buyer()
    const large = bodyOf('look again '.repeat(5))
    const challenge = await alice.ask(large, { path: PATH })
    const nextStatus = async () => (await alice.ask(bodyOf('once more, '.repeat(5)), { path: PATH })).status
    for (let status = 402; status === 402; status = await nextStatus());
    const paid = await alice.buy(large, { path: PATH, payment: alice.sign(challenge) })
    expect(paid.status).toBe(429)
  })
})

describe('quotedInputs()', () => {
  const TEXT = 'x'.repeat(100_000)

  function empty() {
    const clock = testClock()
    const inputs = quotedInputs({})
    return {
      clock,
      store: (body: string, input: unknown = body, request = requestOf(body)) =>
        inputs.begin(request, clock).store(input),
      take: (body: string, request = requestOf(body)) => inputs.take(request)?.input,
      inputs,
    }
  }

  test('gives an input once', () => {
    const { store, take } = empty()
    store(TEXT, 'input')
    expect([take(TEXT), take(TEXT)]).toEqual(['input', undefined])
  })

  test('tells gateways, paths and bodies of one length apart', () => {
    const { store, take } = empty()
    store(TEXT)
    expect(empty().take(TEXT)).toBeUndefined()
    expect(take(`${TEXT.slice(1)}y`)).toBeUndefined()
    expect(take(TEXT, requestOf(TEXT, '/api/v1/messages'))).toBeUndefined()
    expect(take(TEXT)).toBe(TEXT)
  })

  test('tells apart what the check has read of the headers', () => {
    const { take, inputs, clock } = empty()
    const beta = requestOf(TEXT, PATH, { 'anthropic-beta': 'one', 'user-agent': 'a' })
    const beginning = inputs.begin(beta, clock)
    expect([beginning.head.header('anthropic-beta'), beginning.head.header('x-absent')]).toEqual(['one', null])
    beginning.store('input')
    expect(take(TEXT, requestOf(TEXT, PATH, { 'anthropic-beta': 'two' }))).toBeUndefined()
    expect(take(TEXT)).toBeUndefined()
    expect(take(TEXT, requestOf(TEXT, PATH, { 'anthropic-beta': 'one', 'x-absent': '' }))).toBeUndefined()
    expect(take(TEXT, requestOf(TEXT, PATH, { 'anthropic-beta': 'one', 'user-agent': 'b' }))).toBe('input')
  })

  test('forgets after ten seconds, and waits for nothing then', async () => {
    const { store, take, clock } = empty()
    store(TEXT)
    await clock.advance(9_999)
    expect(clock.waiting).toBe(1)
    await clock.advance(1)
    expect([take(TEXT), clock.waiting]).toEqual([undefined, 0])
  })

  test('waits for nothing once all are taken', () => {
    const { store, take, clock } = empty()
    store(TEXT)
    take(TEXT)
    expect(clock.waiting).toBe(0)
  })

  test('holds four million characters at most, and drops the oldest first', () => {
    const { store, take } = empty()
    const bodies = Array.from({ length: 42 }, (_, index) => `${TEXT}${String(index).padStart(3, '0')}`)
    for (const body of bodies) store(body)
    expect(bodies.map((body) => take(body) !== undefined)).toEqual(bodies.map((_, index) => index > 0))
  })

  test('stores neither short bodies, nor long ones, nor bytes', () => {
    const { store, take, inputs, clock } = empty()
    for (const body of ['x'.repeat(8_191), 'x'.repeat(262_145)]) {
      store(body)
      expect(take(body)).toBeUndefined()
    }
    const bytes = { ...requestOf(''), body: new Uint8Array(10_000) }
    inputs.begin(bytes, clock).store('input')
    expect(inputs.take(bytes)).toBeUndefined()
  })
})
