import { expect } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import { memoryChain } from '../../adapters/chains/evm/memory.ts'
import type { Inline, Paid } from '../../core/endpoint/mod.ts'
import { rowOf } from '../../core/http/errors.ts'
import type { Endpoint } from '../../core/mod.ts'
import { type Answer, decodeHeader, door, located, ORIGIN, read, x402Scheme } from '../kit.ts'
import { law, type Law } from './law.ts'
import { expectNothingRead, expectOwnerReads, strangerHears } from './public_payment.ts'
import { deserted, shot, type EndpointFixture } from './endpoint_fixture.ts'
import { offerLaws, resultLaws } from './sale_laws.ts'

/** Nothing is made again for whoever collects it; what can end by itself is looked at. */
const pollsOf = ({ isStillValid: stands }: EndpointFixture['endpoint']): number => (stands ? 1 : 0)

/**
 * Endpoints that settle before the reply and answer with the result alone. Every other paid endpoint may become a
 * job.
 */
export const isOneShot = (endpoint: Endpoint): endpoint is Inline =>
  endpoint.kind === 'sold' && endpoint.delivery === 'inline'

/** Everything in the order that a buyer may get wrong: as raw bodies, and field by field. */
function badOrders(endpoint: Paid): {
  readonly bodies: readonly string[]
  readonly fields: readonly Record<string, unknown>[]
} {
  const { from, path, input, example } = endpoint
  const bodies = ['{"broken', 'null', '[]', '"text"']
  const names = Object.keys(input.properties)
  if (from === 'query')
    return {
      bodies: takesBodies(endpoint) ? bodies : [],
      fields: names.flatMap((name) => ['?', 'x'.repeat(200)].map((wrong) => ({ [name]: wrong }))),
    }
  const isOwnMember = (name: string) => !path.includes(`{${name}}`)
  const without = (input.required ?? [])
    .filter(isOwnMember)
    .map((name) => ({ ...(example as object), [name]: undefined }))
  const wrong = names.filter(isOwnMember).map((name) => ({ ...(example as object), [name]: { wrong: true } }))
  return { bodies: [...bodies, ...[...without, ...wrong].map((body) => JSON.stringify(body))], fields: [] }
}

const takesBodies = ({ method, methods = [method] }: Paid): boolean => methods.includes('POST')
/** Schema of a result; undefined where its vendor decides. */
const membersOf = ({ output }: Paid): readonly string[] | undefined =>
  output.properties && !output.additionalProperties ? Object.keys(output.properties) : undefined

/** A body of undeclared length, at least this long. */
const flood = (length: number) => new Blob([' '.repeat(length)]).stream() as ReadableStream<Uint8Array>

const dollars = (atomic: string, decimals = 6): string => (Number(atomic) / 1e6).toFixed(decimals)
const paidness = ({ status, headers }: Answer): string => headers.get('x-payment-status') ?? String(status)
/** Contract 9.9: search and market data word a replay differently. */
const replayError = (endpoint: Paid): string =>
  isCoded(endpoint) ? 'Payment authorization already used' : 'Payment verification failed'
/** Whose vendor's failure is told as one (contract 9.10, 13.5). */
const isUpstream = ({ errorFormat, errors = [] }: Paid): boolean =>
  errorFormat === 'market' || errors.some((code) => rowOf(code).status === 502)
const isCoded = ({ errorFormat }: Paid): boolean => errorFormat !== 'market'
/** Members of a 402 that some results have as well. */
const CHALLENGED = ['price', 'model', 'poll_url', 'status']
const RESEND = 600_000

// ── the laws ────────────────────────────────────────────────────────────────────────────────────────────────────────

async function sell(...at: Parameters<typeof shot>) {
  const { buy, sellJob, ...scene } = await shot(...at)
  return { ...scene, buy, collect: buy, job: sellJob, endOf: paidness, replayed: '402' }
}

export const oneShotLaws: readonly Law<EndpointFixture>[] = [
  ...offerLaws(sell),
  ...resultLaws(sell, {}),
  law(
    'the quote is one: in three equal headers, in the body, and in its price to four decimals or six (contract 1.3, 1.6, 1.12)',
    async (subject) => {
      const {
        challenge: { headers, body },
        endpoint,
        gateway,
      } = await shot(subject)
      const required = headers.get('payment-required')
      expect([headers.get('x-payment-required'), x402Scheme(headers)]).toEqual([
        required,
        `X402 requirements=${required}`,
      ])
      const { x402Version, accepts, resource } = decodeHeader(required)
      expect([body.x402Version, body.accepts, resource.url]).toEqual([
        x402Version,
        accepts,
        ORIGIN + located(endpoint.path, endpoint.example).url,
      ])
      expect(body.price.amount).toMatch(/^\d+\.(\d{4}|\d{6})$/)
      const decimals = body.price.amount.split('.')[1].length
      for (const { amount } of accepts) expect(body.price.amount).toBe(dollars(amount, decimals))
      if (endpoint.errorFormat !== 'market') return
      expect(body.x402.accepts).toEqual(accepts)
      const [printed] = /\/api\/v1\/[^\s"]+/.exec(JSON.stringify(body.example)) ?? []
      expect((await read(await gateway.fetch(new Request(ORIGIN + printed)))).body.accepts).toEqual(accepts)
    },
  ),
  law('a challenge is ASCII, with headers under 6 KB, and never cached (contract 1.10)', async (subject) => {
    const { headers, body } = (await shot(subject)).challenge
    const required = headers.get('payment-required') ?? ''
    expect(atob(required) + JSON.stringify(body)).toMatch(/^[ -~]+$/)
    expect(3 * required.length).toBeLessThan(6144)
    expect(headers.get('cache-control')).toContain('no-store')
  }),
  law('a probe is answered with the quote, and buys nothing even with a payment', async (subject) => {
    const { endpoint, challenge, payment, raw, requestCount, chain } = await shot(subject)
    const required = challenge.headers.get('payment-required')
    const methods = endpoint.methods ?? [endpoint.method]
    const polls = ['HEAD', ...(methods.includes('GET') ? [] : ['GET'])]
    const probes = [
      ...polls.flatMap((method) => [{ method }, { method, payment }, { method, query: true }]),
      ...methods.map((method) => ({ method })),
    ]
    for (const { method, ...how } of probes) {
      const { status, headers } = await raw(method, how)
      expect([method, status, headers.get('payment-required')]).toEqual([method, 402, required])
    }
    const { status, headers } = await raw('OPTIONS')
    expect([status, methods.every((method) => headers.get('allow')?.includes(method))]).toEqual([204, true])
    expect([requestCount(), chain.transfers]).toEqual([0, []])
  }),
  law(
    'bad input is 400 on the right side of the quote, takes no payment and frees it (contract 1.52)',
    async (subject) => {
      const { raw, ask, buy, alice, endpoint, payment, challenge, chain } = await shot(subject)
      const isLate = endpoint.order === 'quote_then_check'
      const { bodies, fields } = badOrders(endpoint)
      for (const body of bodies) {
        const [unpaid, paid] = [await raw('POST', { body }), await raw('POST', { body, payment })]
        expect([body, unpaid.status, paid.status]).toEqual([body, isLate ? 402 : 400, 400])
        expect([unpaid.headers.has('payment-required'), paid.headers.has('payment-required')]).toEqual([isLate, false])
      }
      for (const more of fields) {
        const [unpaid, paid] = [await ask({ more }), await buy({ more, payment: alice.sign(challenge) })]
        // Everybody is told that the object named by the path does not exist.
        const isNowhere =
          unpaid.status === 404 ||
          (unpaid.status === 400 && Object.keys(more).every((name) => endpoint.path.includes(`{${name}}`)))
        const usual = isLate ? 402 : 400
        expect([
          more,
          unpaid.status,
          isNowhere ? paid.status === unpaid.status : [400, 404].includes(paid.status),
        ]).toEqual([more, isNowhere ? unpaid.status : usual, true])
        expect(paid.headers.has('payment-required')).toBe(false)
      }
      expect(chain.transfers).toEqual([])
      expect((await buy()).status).toBe(200)
    },
  ),
  law('a body over the cap is 413, with a body (contract 3.5)', async (subject) => {
    const { raw, endpoint } = await shot(subject, { maxBody: 500, maxUpload: 500 })
    if (!takesBodies(endpoint)) return expect((await raw('POST', { body: '{}' })).status).toBe(405)
    for (const body of ['{}'.padEnd(501), flood(501)]) {
      const { status, body: isOwnMember } = await raw('POST', {
        body,
        headers: typeof body === 'string' ? { 'content-length': '501' } : {},
      })
      expect([status, typeof isOwnMember?.error]).toEqual([413, 'string'])
    }
  }),
  law('an unknown field changes nothing, or is refused by its name (contract 4.2)', async (subject) => {
    const known = await shot(subject)
    const { ask, buy, challenge, endpoint, chain } = await shot(subject)
    if (endpoint.unknownFields === 'refused') {
      for (const { status, headers, body } of [
        await ask({ more: { some_unknown_field: 1 } }),
        await buy({ more: { some_unknown_field: 1 } }),
      ]) {
        expect([status, headers.has('payment-required'), body.details[0].path, chain.transfers]).toEqual([
          400,
          false,
          'some_unknown_field',
          [],
        ])
      }
      return
    }
    const more = { some_unknown_field: endpoint.from === 'query' ? '1' : { deep: [1] } }
    const { status, body } = await ask({ more })
    expect([status, body]).toEqual([402, challenge.body])
    const [plain, wordy] = [await known.buy(), await buy({ more })]
    expect([wordy.status, wordy.body]).toEqual([200, plain.body])
  }),
  law('it is sold under each of its methods alike, and under no other', async (subject) => {
    const { alice, buy, raw, endpoint, challenge, payment, chain } = await shot(subject)
    const methods = endpoint.methods ?? [endpoint.method]
    const answers: Answer[] = []
    for (const method of methods) answers.push(await buy({ method, payment: alice.sign(challenge) }))
    expect(answers.map(({ status, body }) => [status, body])).toEqual(methods.map(() => [200, answers[0]?.body]))
    for (const method of ['PUT', 'PATCH', 'DELETE']) {
      const { status, headers, body } = await raw(method, { payment, query: true })
      expect([method, status, headers.has('allow'), typeof body?.error]).toEqual([method, 405, true, 'string'])
    }
    expect(chain.transfers).toHaveLength(methods.length)
  }),
  law('what the operator has not configured is 503 in place of the 402 (contract 1.57)', async (subject) => {
    const { challenge, alice } = await shot(subject)
    const { endpoint, open } = await subject.open()
    const { buyer, chain } = open({ ports: { vendors: {} } })
    const { method, path, example } = endpoint
    for (const payment of [undefined, alice.sign(challenge)]) {
      const send = payment ? buyer().buy(example, { method, path, payment }) : buyer().ask(example, { method, path })
      const { status, headers } = await send
      expect([status, headers.has('payment-required')]).toEqual([503, false])
    }
    expect(chain.transfers).toEqual([])
  }),
  law('nothing is asked of a vendor before the payment is verified (contract 1.29)', async (subject) => {
    const before: number[] = []
    const scene: { requestCount?: () => number } = {}
    const chain = memoryChain({
      before: (question) => void (question === 'verify' && before.push(scene.requestCount?.() ?? -1)),
    })
    const { alice, challenge, buy, requestCount } = Object.assign(scene, await shot(subject, { chain }))
    expect((await buy({ payment: alice.sign(challenge, { value: 1n }) })).status).toBe(402)
    expect(requestCount()).toBe(0)
    expect((await buy()).status).toBe(200)
    expect([before, requestCount() > 0]).toEqual([[0, 0], true])
  }),
  law('exactly the quote moves, and the receipt is in the headers (contract 1.1, 1.32)', async (subject) => {
    const { alice, chain, buy, challenge } = await shot(subject)
    const before = alice.balance()
    const { headers } = await buy()
    const [{ amount, payTo, network }] = challenge.body.accepts
    expect(chain.transfers).toMatchObject([{ from: alice.wallet, to: payTo.toLowerCase(), value: BigInt(amount) }])
    expect(before - alice.balance()).toBe(BigInt(amount))
    const transaction = chain.transfers[0]?.transaction ?? ''
    expect(decodeHeader(headers.get('payment-response'))).toMatchObject({
      success: true,
      transaction,
      network,
      payer: alice.wallet,
    })
    expect([headers.get('x-payment-receipt'), headers.get('x-payment-status')]).toEqual([transaction, 'settled'])
  }),
  law('the reply is the bare result, in the shape that the menu promises (contract 2.27)', async (subject) => {
    const { endpoint, buy } = await shot(subject)
    const { status, headers, body } = await buy()
    expect([status, headers.get('content-type'), headers.get('cache-control')]).toEqual([
      200,
      'application/json',
      'private, no-store',
    ])
    expect([...Value.Errors(endpoint.output, body)].map(({ path, message }) => `${path} ${message}`)).toEqual([])
    const members = membersOf(endpoint)
    if (members) expect(Object.keys(body).filter((name) => !members.includes(name))).toEqual([])
  }),
  law(
    'an identical resend within ten minutes gets the stored reply, already settled (contract 1.39)',
    async (subject) => {
      const { buy, clock, chain, requestCount } = await shot(subject)
      const first = await buy()
      const work = requestCount()
      for (const [header, passing] of [
        ['payment-signature', 0],
        ['x-payment', RESEND - 1],
        ['payment-signature', 1],
      ] as const) {
        await clock.advance(passing)
        const { status, headers, body } = await buy({ header })
        expect([status, headers.get('x-payment-status'), body]).toEqual([200, 'already_settled', first.body])
        expect(headers.get('payment-response')).toBe(first.headers.get('payment-response'))
      }
      expect([chain.transfers.length, requestCount()]).toEqual([1, work])
    },
  ),
  law('an identical resend after ten minutes is a replay, and makes nothing (contract 1.39)', async (subject) => {
    const { buy, clock, chain, requestCount, endpoint } = await shot(subject)
    await buy()
    const work = requestCount()
    await clock.advance(RESEND + 1)
    const { status, body } = await buy()
    expect([status, body.error, body.code]).toEqual([
      402,
      replayError(endpoint),
      isCoded(endpoint) ? 'PAYMENT_REPLAY' : undefined,
    ])
    expect([chain.transfers.length, requestCount()]).toEqual([1, work])
  }),
  law(
    'another request with a used authorization is refused under both header names, and names its call (contract 1.24, 1.25)',
    async (subject) => {
      const { alice, buy, another, chain, payment, endpoint, requestCount, keyed } = await shot(subject)
      const bought = await buy()
      const work = requestCount()
      for (const header of ['payment-signature', 'x-payment']) {
        const { status, headers, body } = await another({ header })
        const code = isCoded(endpoint) ? 'PAYMENT_REPLAY' : undefined
        expect([status, body.error, body.code, body.recoverable, headers.has('payment-required')]).toEqual([
          402,
          replayError(endpoint),
          code,
          true,
          true,
        ])
        expect(body.poll_url).toBe(`/api/v1/calls/${body.job_id}`)
        const collected = await alice.poll(await keyed(body.job_id), payment)
        expect([collected.status, collected.body]).toEqual([200, bought.body])
      }
      expect([chain.transfers.length, requestCount()]).toEqual([1, work])
    },
  ),
  law(
    'what a settlement publishes reads nothing; the poll URL of our own reply reads, and so does a fresh signature, which is not spent (contract 1.40, 1.41, 1.42, 2.4, 2.5)',
    async (subject) => {
      const { endpoint, gateway, alice, challenge, buy, another, payment, chain, keyed } = await shot(subject)
      expect(paidness(await buy())).toBe('settled')
      const { job_id: id } = (await another()).body
      const { url, rest } = located(endpoint.path, endpoint.example)
      const query = new URLSearchParams(rest as Record<string, string>).toString()
      const own =
        endpoint.method === 'GET'
          ? { method: 'GET', path: query === '' ? url : `${url}?${query}` }
          : { method: 'POST', path: url, body: rest }
      const other =
        endpoint.method === 'GET'
          ? { ...own, path: `${url}?another_request=1` }
          : { ...own, body: `${JSON.stringify(rest)}\n` }
      expectNothingRead(
        await strangerHears(gateway, { payment, orders: [own, other], polls: [endpoint.job.poll.replace('{id}', id)] }),
      )
      await expectOwnerReads(
        { gateway, keyed, fresh: () => alice.sign(challenge), empty: () => chain.drain(alice.wallet) },
        { id, payment },
      )
      expect(chain.transfers).toHaveLength(1)
    },
  ),
  law('the same request many times at once makes one call and one transfer', async (subject) => {
    const alone = await shot(subject)
    await alone.buy()
    const ready = door()
    const { alice, buy, clock, chain, payment, requestCount } = await shot(subject, { before: () => ready.passed })
    const buying = Array.from({ length: 20 }, () => buy())
    await clock.settle()
    ready.open()
    const answers = await Promise.all(buying)
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(19).fill(402)])
    const pollUrls = [...new Set(answers.flatMap(({ status, body }) => (status === 402 ? (body.poll_url ?? []) : [])))]
    expect([pollUrls.length, chain.transfers.length, requestCount()]).toEqual([1, 1, alone.requestCount()])
    expect((await alice.poll(pollUrls[0], payment)).status).toBe(200)
  }),
  law(
    'a vendor that fails, or never answers, charges nothing, and the same signed request buys afterwards (contract 1.28, 2.25)',
    async (subject) => {
      for (const failing of [() => Promise.reject(new Error('out of order')), () => new Promise(() => {})]) {
        let isBroken = true
        const { buy, streamed, chain } = await shot(subject, { before: () => (isBroken ? failing() : undefined) })
        const buying = buy()
        await streamed(120_000)
        const { status, headers } = await buying
        expect([
          status >= 500,
          decodeHeader(headers.get('payment-response')).success,
          headers.has('payment-required'),
        ]).toEqual([true, false, false])
        expect(chain.transfers).toEqual([])
        isBroken = false
        expect(paidness(await buy())).toBe('settled')
        expect(chain.transfers).toHaveLength(1)
      }
    },
  ),
  law(
    'a refused settlement withholds the result, which a poll or a resend collects and pays for (contract 1.30, 1.33)',
    async (subject) => {
      const { endpoint, alice, buy, requestCount, chain, payment } = await shot(subject)
      chain.simulate('refused', 'refused')
      const withheld = await buy()
      const polled = await alice.poll(withheld.body.poll_url, payment)
      for (const { status, headers, body } of [withheld, polled]) {
        const visible = Object.keys(body).filter(
          (name) => membersOf(endpoint)?.includes(name) && !CHALLENGED.includes(name),
        )
        expect([status, body.error, visible]).toEqual([402, 'Payment settlement failed', []])
        expect(decodeHeader(headers.get('payment-response'))).toMatchObject({
          success: false,
          transaction: '',
          errorReason: expect.any(String),
        })
      }
      const work = requestCount()
      expect(paidness(await alice.poll(withheld.body.poll_url, payment))).toBe('settled')
      const again = await shot(subject)
      again.chain.simulate('refused')
      await again.buy()
      expect(paidness(await again.buy())).toBe('settled')
      expect([chain.transfers.length, requestCount(), again.chain.transfers.length, again.requestCount()]).toEqual([
        1,
        work + pollsOf(endpoint),
        1,
        work,
      ])
    },
  ),
  law(
    'a settlement of unknown outcome is served all the same, and ends in one transfer (contract 1.35)',
    async (subject) => {
      for (const weather of ['landed', 'dropped', 'late'] as const) {
        const { alice, buy, another, chain, payment, gateway, ports, endpoint, keyed } = await shot(subject)
        chain.simulate(weather)
        const { status, headers, body } = await buy()
        expect([status, headers.get('x-payment-settled'), headers.get('x-payment-settle-error-class')]).toEqual([
          200,
          'false',
          'unknown',
        ])
        expect([
          headers.has('payment-required'),
          headers.has('payment-response'),
          Value.Check(endpoint.output, body),
        ]).toEqual([false, false, true])
        if (weather !== 'landed') {
          chain.simulate('dropped', 'dropped')
          const [resent, polled] = [await buy(), await alice.poll(await keyed((await another()).body.job_id), payment)]
          expect([
            resent.status,
            resent.headers.get('x-payment-settle-error-class'),
            resent.body,
            polled.status,
          ]).toEqual([200, 'unknown', body, 202])
        }
        await gateway.maintain()
        chain.deliver()
        await gateway.maintain()
        expect([chain.transfers.length, await ports.storage.unsettled(Number.MAX_SAFE_INTEGER, 9)]).toEqual([1, []])
        expect(paidness(await buy())).toBe('already_settled')
        const [{ transaction = '' } = {}] = chain.transfers
        expect(
          decodeHeader(
            (await alice.poll(await keyed((await another()).body.job_id), payment)).headers.get('payment-response'),
          ),
        ).toMatchObject({ success: true, transaction })
      }
    },
  ),
  law('a buyer who hangs up is not charged, and collects by a resend or a poll (contract 2.22)', async (subject) => {
    for (const way of ['resend', 'poll'] as const) {
      const { alice, buy, another, chain, payment, requestCount, endpoint } = await deserted(subject)
      expect(chain.transfers).toEqual([])
      const work = requestCount()
      const pollUrl = (await another()).body.poll_url
      expect(paidness(way === 'resend' ? await buy() : await alice.poll(pollUrl, payment))).toBe('settled')
      expect([chain.transfers.length, requestCount()]).toEqual([1, work + pollsOf(endpoint)])
    }
  }),
  law(
    'polls and resends at the same moment settle once: one reads settled, the others already_settled',
    async (subject) => {
      const { alice, buy, sellJob: stored, payment, clock, chain } = await shot(subject)
      const pollUrl = await stored(payment)
      const collecting = Array.from({ length: 6 }, (_, index) =>
        index % 2 === 0 ? alice.poll(pollUrl, payment) : buy(),
      )
      await clock.advance(1_000)
      expect((await Promise.all(collecting)).map(paidness).sort()).toEqual([
        ...Array(5).fill('already_settled'),
        'settled',
      ])
      expect(chain.transfers).toHaveLength(1)
    },
  ),
  law('work that dies with its process is failed, not charged, and its authorization is free', async (subject) => {
    let requestCount = 0
    const { buy, clock, restart, chain } = await shot(subject, {
      before: () => (requestCount++ === 0 ? new Promise<never>(() => {}) : undefined),
    })
    void buy()
    await clock.settle()
    const gateway = restart()
    await gateway.takeOver()
    const first = await buy({ gateway })
    // Work that is done once at a time waits until the dead one's turn is over.
    if (first.status === 503) await clock.advance(60_000)
    expect(paidness(first.status === 503 ? await buy({ gateway }) : first)).toBe('settled')
    expect(chain.transfers.length).toBe(1)
  }),
  law(
    'an error reads in the dialect of the endpoint, as JSON that is not cached, and leaks nothing (contract 3.19)',
    async (subject) => {
      const { raw, buy, alice, endpoint, payment, challenge } = await shot(subject, {
        before: () => Promise.reject(new Error('secret of the vendor')),
      })
      const refused = await buy({ payment: alice.sign(challenge, { value: 1n }) })
      expect([refused.status, refused.body.error, typeof refused.body.details, 'code' in refused.body]).toEqual([
        402,
        'Payment verification failed',
        'string',
        isCoded(endpoint),
      ])
      const answers = [
        await raw('POST', { body: '{"broken', payment }),
        await buy(),
        await alice.poll('/api/v1/calls/none', payment),
        refused,
      ]
      for (const { status, headers, body } of answers) {
        expect([status, headers.get('content-type'), headers.get('cache-control')?.includes('no-store')]).toEqual([
          status,
          'application/json',
          true,
        ])
        expect([status, typeof body.error]).toEqual([status, 'string'])
        if (!isCoded(endpoint)) expect([status, body.code]).toEqual([status, undefined])
        expect(JSON.stringify(body)).not.toContain('secret')
      }
      expect(answers.map(({ status }) => status)).toEqual([
        takesBodies(endpoint) ? 400 : 405,
        isUpstream(endpoint) ? 502 : 500,
        404,
        402,
      ])
    },
  ),
]
