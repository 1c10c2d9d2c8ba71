import { describe, expect, test } from 'bun:test'
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { wholeAnswer } from '../../fakes/chat.ts'
import { ApiError } from '../../../core/mod.ts'
import { decodeHeader, door, read } from '../../kit.ts'
import { COMPLETIONS, SKY, slowChain, STREAM, table } from './stream_kit.ts'

const FREE = 'nvidia/gpt-oss-120b'
const never = new Promise<never>(() => {})

/** The payment report of the reply. */
const settledness = ({ headers }: { headers: Headers }) => [
  headers.get('x-payment-settled'),
  headers.get('x-payment-settle-error-class'),
  headers.has('payment-response'),
]

describe('a whole answer', () => {
  test('is stored, then settled, then served with its receipt (contract 6.46)', async () => {
    const order: unknown[] = []
    const chain = memoryChain({ before: (question) => (question === 'settle' ? inspect() : undefined) })
    const { alice, post, signed, ports } = await table(undefined, { chain })
    async function inspect(): Promise<void> {
      for (const { workStatus, result } of await ports.storage.unsettled(Number.MAX_SAFE_INTEGER, 9))
        order.push([workStatus, result !== null])
    }
    const before = alice.balance()
    const response = await post(SKY, { payment: await signed(SKY) })
    expect([response.status, chain.transfers.length, order]).toEqual([200, 1, [['completed', true]]])
    expect(settledness(response)).toEqual([null, null, true])
    expect([response.headers.get('x-payment-receipt'), before - alice.balance()]).toEqual([
      chain.transfers[0]?.transaction ?? '',
      chain.transfers[0]?.value ?? 0n,
    ])
    expect((await response.json()).choices[0].message.content).toBe('Hello')
  })

  test('waits ten seconds for a slow chain, and is then served; its money is settled in the background (contract 6.46, 6.49)', async () => {
    const { chain, open } = slowChain()
    const { post, signed, clock, ports, idle } = await table(undefined, { chain })
    const payment = await signed(SKY)
    let response: Response | undefined
    const answering = post(SKY, { payment }).then((it) => (response = it))
    await clock.advance(9_999)
    expect(response).toBeUndefined()
    await clock.advance(1)
    await answering
    expect([response?.status, ...settledness(response as Response)]).toEqual([200, 'false', 'unknown', false])
    expect((await (response as Response).json()).choices[0].message.content).toBe('Hello')
    open()
    await idle()
    const [transfer] = chain.transfers
    expect([chain.transfers.length, transfer?.value]).toEqual([1, BigInt(payment.accepted.amount)])
    expect(await ports.storage.unsettled(Number.MAX_SAFE_INTEGER, 9)).toEqual([])
    expect((await read(await post(SKY, { payment }))).headers.get('x-payment-status')).toBe('already_settled')
  })

  test('whose settlement has an unknown outcome is served, and tried again until it is paid', async () => {
    for (const weather of ['landed', 'late', 'dropped'] as const) {
      const { post, signed, chain, gateway, ports } = await table()
      chain.simulate(weather)
      const response = await post(SKY, { payment: await signed(SKY) })
      expect([weather, response.status, ...settledness(response)]).toEqual([weather, 200, 'false', 'unknown', false])
      expect((await post(SKY, { payment: await signed(SKY) })).status).toBe(200)
      if (weather === 'late') chain.deliver()
      await gateway.maintain()
      expect([weather, chain.transfers.length, await ports.storage.unsettled(Number.MAX_SAFE_INTEGER, 9)]).toEqual([
        weather,
        2,
        [],
      ])
    }
  })

  test('while the chain is away is served, and settled when the chain is back', async () => {
    let isAway = false
    const chain = memoryChain({
      before: (question) =>
        question === 'settle' && isAway ? Promise.reject(new Error('connection refused')) : undefined,
    })
    const { clock, post, signed, gateway } = await table(undefined, { chain })
    isAway = true
    const response = await post(SKY, { payment: await signed(SKY) })
    expect([response.status, ...settledness(response)]).toEqual([200, 'false', 'unknown', false])
    await gateway.maintain()
    isAway = false
    await clock.advance(1_000)
    await gateway.maintain()
    expect(chain.transfers).toHaveLength(1)
  })

  test('whose caller leaves aborts its vendor at once, costs nothing, and leaves the authorization free', async () => {
    for (const isDeaf of [false, true]) {
      let signal: AbortSignal | undefined
      let isFirst = true
      const { post, signed, clock, chain, chat } = await table(async (_, at) => {
        if (!isFirst) return wholeAnswer()
        isFirst = false
        signal = at.signal
        return await (isDeaf
          ? never
          : new Promise((_, reject) => at.signal.addEventListener('abort', () => reject(at.signal.reason))))
      })
      const gone = new AbortController()
      const payment = await signed(SKY)
      const answer = post(SKY, { payment, gone: gone.signal })
      await clock.settle()
      gone.abort()
      expect([signal?.aborted, (await answer).status]).toEqual([true, 503])
      expect(chain.transfers).toEqual([])
      expect([(await post(SKY, { payment })).status, chat.orders.length, chain.transfers.length]).toEqual([200, 2, 1])
    }
  })

  test('whose caller left before it was asked for asks no vendor', async () => {
    const { post, signed, chat, chain } = await table()
    expect((await post(SKY, { payment: await signed(SKY), gone: AbortSignal.abort() })).status).toBe(503)
    expect([chat.orders.length, chain.transfers.length]).toEqual([0, 0])
  })

  test('that does not come within 120 seconds is 504 TIMEOUT, aborts its vendor and costs nothing (contract 6.52)', async () => {
    let signal: AbortSignal | undefined
    let isFirst = true
    const { post, signed, clock, chain } = await table(async (_, at) => {
      if (!isFirst) return wholeAnswer()
      isFirst = false
      signal = at.signal
      return await never
    })
    const payment = await signed(SKY)
    const answer = post(SKY, { payment })
    await clock.advance(119_999)
    expect(signal?.aborted).toBe(false)
    await clock.advance(1)
    const { status, body } = await read(await answer)
    expect([status, body.code, body.error.code, signal?.aborted, chain.transfers.length]).toEqual([
      504,
      'TIMEOUT',
      'TIMEOUT',
      true,
      0,
    ])
    expect((await post(SKY, { payment })).status).toBe(200)
  })

  test('that would come after its authorization is cut before, so that nobody has an answer that cannot be paid', async () => {
    const { post, alice, clock, chain } = await table(() => never)
    const payment = alice.sign(await alice.ask(SKY, { path: COMPLETIONS }), {
      validBefore: BigInt(clock.now() / 1000 + 20),
    })
    const answer = post(SKY, { payment })
    await clock.advance(10_000)
    const { status, body } = await read(await answer)
    expect([status, body.code, chain.transfers.length]).toEqual([504, 'TIMEOUT', 0])
    expect(body.message).toBe(
      'The model did not answer within 10 seconds, and the authorization lives no longer. Nothing was charged.',
    )
  })

  test('that is ready after its authorization has ended unsent is withheld, also where the chain cannot say so (contract 1.64)', async () => {
    const ready = door()
    const chain = memoryChain({
      before(question) {
        if (question === 'fate') throw new Error('the node is away')
      },
    })
    const script = async () => {
      await ready.passed
      return wholeAnswer()
    }
    const { post, signed, clock } = await table(script, { chain, timeouts: { answerMs: 900_000, marginMs: -900_000 } })
    const answer = post(SKY, { payment: await signed(SKY) })
    await clock.advance(400_000)
    ready.open()
    const { status, body } = await read(await answer)
    expect([status, body.error, JSON.stringify(body).includes('Hello')]).toEqual([
      402,
      'Payment settlement failed',
      false,
    ])
  })

  test('that fails says so in our words, costs nothing, and leaves the authorization free', async () => {
    const errors: readonly [Error, number, string][] = [
      [new Error('secret of the vendor'), 503, 'MODEL_UNAVAILABLE'],
      [new ApiError('INVALID_PARAMETER', { message: 'seed must be a number' }), 400, 'INVALID_PARAMETER'],
    ]
    for (const [error, expected, code] of errors) {
      const { post, signed, chain } = await table(async (_, { attempt }) =>
        attempt === 1 ? Promise.reject(error) : wholeAnswer(),
      )
      const payment = await signed(SKY)
      const { status, body } = await read(await post(SKY, { payment }))
      expect([status, body.code, JSON.stringify(body).includes('secret'), chain.transfers.length]).toEqual([
        expected,
        code,
        false,
        0,
      ])
      expect((await post(SKY, { payment })).status).toBe(200)
    }
  })
})

describe('a storage that fails under a whole answer', () => {
  type Verb = 'claimSettlement' | 'finishSettlement' | 'moveCall'
  const failing = (verb: Verb, after: boolean, times = 1) => {
    const storage = memoryStorage()
    let left = times
    const broken = async (...args: never[]): Promise<unknown> => {
      const ask = storage[verb] as (...args: never[]) => Promise<unknown>
      if (left-- <= 0) return await ask(...args)
      if (after) await ask(...args)
      throw new Error('disk full')
    }
    return { ...storage, [verb]: broken } as typeof storage
  }

  for (const after of [false, true]) {
    for (const verb of ['claimSettlement', 'finishSettlement'] as const) {
      test(`${after ? 'after' : 'before'} ${verb} took effect is alerted, charges once, and the same request gets its answer`, async () => {
        const { post, signed, chain, clock, gateway, log, idle } = await table(undefined, {
          ports: { storage: failing(verb, after) },
        })
        const payment = await signed(SKY)
        const first = await post(SKY, { payment })
        expect([verb, first.status]).toEqual([verb, verb === 'finishSettlement' ? 200 : 503])
        expect(log.lines.some(({ level }) => level === 'alert')).toBe(true)
        await idle()
        await clock.advance(45_000)
        await gateway.maintain()
        const again = await read(await post(SKY, { payment }))
        expect([again.status, again.body.choices[0].message.content, chain.transfers.length]).toEqual([200, 'Hello', 1])
      })
    }
  }

  test('after it was served is alerted, and tried again until it is settled', async () => {
    const storage = memoryStorage()
    let isBroken = true
    const slow = {
      ...storage,
      claimSettlement: async (...args: Parameters<typeof storage.claimSettlement>) => {
        if (isBroken) await clock.wait(11_000)
        if (isBroken) throw new Error('disk full')
        return await storage.claimSettlement(...args)
      },
    }
    const { post, signed, clock, chain, log, streamed, idle } = await table(undefined, { ports: { storage: slow } })
    const payment = await signed(SKY)
    const answer = post(SKY, { payment })
    await clock.advance(10_000)
    expect([(await answer).status, ...settledness(await answer)]).toEqual([200, 'false', 'unknown', false])
    await streamed(20_000)
    expect(
      log.lines.some(
        ({ level, message }) => level === 'alert' && message.startsWith('an answer was served, and storage failed'),
      ),
    ).toBe(true)
    isBroken = false
    await streamed(60_000)
    await idle()
    expect(chain.transfers).toHaveLength(1)
  })

  test('while it records a debt is alerted, and the answer is withheld all the same', async () => {
    const storage = memoryStorage()
    const putRecord: typeof storage.putRecord = (record, now) =>
      record.kind === 'unpaid_call' ? Promise.reject(new Error('disk full')) : storage.putRecord(record, now)
    const broken = { ...storage, putRecord }
    const { post, signed, chain, log } = await table(undefined, { ports: { storage: broken } })
    chain.simulate('refused')
    const response = await post(SKY, { payment: await signed(SKY) })
    expect([response.status, ...settledness(response)]).toEqual([402, null, null, true])
    expect(log.lines.map(({ level, message }) => [level, message])).toContainEqual([
      'alert',
      'an unpaid call could not be recorded',
    ])
  })

  test('leaves no timer behind', async () => {
    const { post, signed, clock } = await table(undefined, { ports: { storage: failing('claimSettlement', false) } })
    expect((await post(SKY, { payment: await signed(SKY) })).status).toBe(503)
    expect(clock.waiting).toBe(0)
  })

  test('while it records that work failed frees the authorization', async () => {
    const { post, signed, chain } = await table(
      async (_, { attempt }) => (attempt === 1 ? Promise.reject(new Error('down')) : wholeAnswer()),
      { ports: { storage: failing('moveCall', false) } },
    )
    const payment = await signed(SKY)
    expect((await post(SKY, { payment })).status).toBe(503)
    expect([(await post(SKY, { payment })).status, chain.transfers.length]).toEqual([200, 1])
  })
})

test('the receipt of a whole answer names payer, network and transaction', async () => {
  const { post, signed, alice, chain } = await table()
  const { headers } = await post(SKY, { payment: await signed(SKY) })
  expect(decodeHeader(headers.get('payment-response'))).toMatchObject({
    success: true,
    payer: alice.wallet,
    network: 'eip155:84532',
    transaction: chain.transfers[0]?.transaction,
  })
})

test('a free answer asks neither storage nor chain, whole or streamed, and looks at no payment', async () => {
  const refuse = new Proxy(
    {},
    { get: (_, name) => () => Promise.reject(new Error(`${String(name)} was asked`)) },
  ) as never
  const { post, chain, chat } = await table(undefined, { ports: { storage: refuse }, freeTier: [] })
  const payment = chain.sign(chain.offer(1n), { from: 'alice', now: 0 })
  const whole = await read(await post({ ...SKY, model: FREE }, { payment }))
  expect([
    whole.status,
    whole.headers.get('x-free-model'),
    whole.headers.get('payment-response'),
    whole.body.choices[0].message.content,
  ]).toEqual([200, 'true', null, 'Hello'])
  const text = await (await post({ ...STREAM, model: FREE })).text()
  expect([text.endsWith('\n\ndata: [DONE]\n\n'), text.includes(': x-payment'), chat.orders.length]).toEqual([
    true,
    false,
    2,
  ])
})
