import { expect } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import { memoryChain } from '../../adapters/chains/evm/memory.ts'
import { type ScriptedAudio, scriptedAudio, TONE } from '../fakes/audio.ts'
import { PIXEL, type ScriptedVendor, scriptedVendor } from '../fakes/images.ts'
import { CLIP, type ScriptedVideo, scriptedVideo } from '../fakes/videos.ts'
import type { Paid } from '../../core/endpoint/mod.ts'
import { type Answer, decodeHeader, door, ORIGIN, read, x402Scheme } from '../kit.ts'
import { law, portLaw, type Law } from './law.ts'
import { expectNothingRead, expectOwnerReads, strangerHears } from './public_payment.ts'
import { READY, set, type EndpointFixture } from './endpoint_fixture.ts'
import { offerLaws, resultLaws } from './sale_laws.ts'

const post = ({ path }: Paid, body: string | null, headers: Record<string, string> = {}) =>
  new Request(ORIGIN + path, {
    method: 'POST',
    headers: { ...(body !== null && { 'content-type': 'application/json' }), ...headers },
    body,
  })

/** Bodies that the endpoint's schema refuses. */
function badBodies({ input, example }: Paid): readonly string[] {
  const good = example as Record<string, unknown>
  const without = (input.required ?? []).map((name) => ({ ...good, [name]: undefined }))
  const wrong = Object.keys(input.properties).map((name) => ({ ...good, [name]: { wrong: true } }))
  return ['{"broken', 'null', '[]', '"text"', ...[...without, ...wrong].map((body) => JSON.stringify(body))]
}

/** A body of undeclared length, at least this long. */
function spaces(length: number): ReadableStream<Uint8Array> {
  const chunk = new Uint8Array(Math.min(length, 1 << 20)).fill(0x20)
  let left = length
  return new ReadableStream(
    { pull: (it) => ((left -= chunk.length), it.enqueue(chunk), left > 0 ? undefined : it.close()) },
    { highWaterMark: 0 },
  )
}

/** A probe that is shown a catalog as well has less room for extensions, which are left out where there is none. */
function quoteIn(header: string | null, { discovery }: Paid): unknown {
  if (!discovery || header === null) return header
  const { extensions: _, ...quote } = decodeHeader(header)
  return quote
}

type Makers = {
  readonly vendor: ScriptedVendor
  readonly video: ScriptedVideo
  readonly audio: ScriptedAudio
  /** Jobs that they were given. */ requestCount(): number
}

/** Those who make pictures, films and sounds, after `before`: what it throws, they throw. */
function makersThat(before: () => Promise<unknown> | undefined = () => undefined): Makers {
  const vendor = scriptedVendor(async ({ n }) => (await before(), Array.from({ length: n }, () => ({ url: PIXEL }))))
  const video = scriptedVideo({
    pollUpstream: READY,
    submit: async (_, { attempt }) => (await before(), `job-${attempt}`),
  })
  const audio = scriptedAudio(async () => (await before(), { url: TONE }))
  return { vendor, video, audio, requestCount: () => vendor.jobs.length + video.jobs.length + audio.jobs.length }
}

/** The vendor's own URL of a result. */
function madeBy({ pollUpstream, tag }: Paid): string {
  if (tag === 'audio') return TONE
  return pollUpstream ? CLIP : PIXEL
}

const statusOf = ({ body }: Answer): string => body.payment?.status ?? body.code ?? body.error
const dollars = (atomic: string): string => (Number(atomic) / 1e6).toFixed(6)
const JOB = { inlineMs: 0 }
const HOUR = 3_600_000

// ── the laws ────────────────────────────────────────────────────────────────────────────────────────────────────────

const sell = async (...at: Parameters<typeof set>) => ({
  ...(await set(...at)),
  endOf: statusOf,
  replayed: 'PAYMENT_REPLAY',
})

export const endpointLaws: readonly Law<EndpointFixture>[] = [
  ...offerLaws(sell),
  ...resultLaws(sell, JOB),
  law(
    'the quote is one: in three equal headers, in the body, and in its price (contract 1.3, 1.6, 1.12)',
    async (subject) => {
      const {
        challenge: { headers, body },
        endpoint,
      } = await set(subject)
      const required = headers.get('payment-required')
      expect([headers.get('x-payment-required'), x402Scheme(headers)]).toEqual([
        required,
        `X402 requirements=${required}`,
      ])
      const { x402Version, accepts, resource } = decodeHeader(required)
      expect([body.x402Version, body.accepts, resource.url]).toEqual([x402Version, accepts, ORIGIN + endpoint.path])
      for (const { amount } of accepts) expect(body.price.amount).toBe(dollars(amount))
    },
  ),
  law('a challenge is ASCII, under 6 KB and never cached (contract 1.10)', async (subject) => {
    const { headers, body } = (await set(subject)).challenge
    const text = atob(headers.get('payment-required') ?? '') + JSON.stringify(body)
    expect(text).toMatch(/^[ -~]+$/)
    expect(3 * (headers.get('payment-required') ?? '').length + JSON.stringify(body).length).toBeLessThan(6144)
    expect(headers.get('cache-control')).toContain('no-store')
  }),
  law('a probe without a body is answered with the quote of the example', async (subject) => {
    const { gateway, endpoint, challenge } = await set(subject)
    const url = ORIGIN + endpoint.path
    for (const request of [post(endpoint, null), new Request(url), new Request(url, { method: 'HEAD' })]) {
      const response = await gateway.fetch(request)
      const [quoted, order] = [response, challenge].map(({ headers }) =>
        quoteIn(headers.get('payment-required'), endpoint),
      )
      expect([request.method, response.status, quoted]).toEqual([request.method, 402, order])
    }
  }),
  law(
    'bad input is 400 before the quote, with a payment as without, and takes none (contract 1.52)',
    async (subject) => {
      const { gateway, endpoint, payment, chain, collect } = await set(subject)
      for (const body of badBodies(endpoint)) {
        for (const headers of [{}, { 'payment-signature': btoa(JSON.stringify(payment)) }]) {
          const { status, headers: answered } = await read(await gateway.fetch(post(endpoint, body, headers)))
          expect([body, status, answered.get('payment-required')]).toEqual([body, 400, null])
        }
      }
      expect(chain.transfers).toEqual([])
      expect((await collect()).status).toBe(200)
    },
  ),
  law('a body over the cap is 413, with a body (contract 3.5)', async (subject) => {
    const { gateway, endpoint } = await set(subject, { maxBody: 500, maxUpload: 700 })
    const maxBody = endpoint.uploads ? 700 : 500
    const declared = post(endpoint, '{}', { 'content-length': String(maxBody + 1) })
    const streamed = new Request(ORIGIN + endpoint.path, { method: 'POST', body: spaces(maxBody + 1) })
    for (const request of [declared, streamed]) {
      const { status, body } = await read(await gateway.fetch(request))
      expect([status, typeof body?.error]).toEqual([413, 'string'])
    }
  }),
  law('an unknown field changes nothing (contract 4.2)', async (subject) => {
    const { alice, endpoint, challenge } = await set(subject)
    const { status, body } = await alice.ask(
      { ...(endpoint.example as object), some_unknown_field: { deep: [1] } },
      endpoint,
    )
    expect([status, body]).toEqual([402, challenge.body])
  }),
  portLaw(
    'what the operator has not configured is 503 in place of the 402 (contract 1.57)',
    async ({ endpoint, open }) => {
      const alice = open({
        ports: {
          vendors: {
            images: () => undefined,
            video: () => undefined,
            media: () => Promise.reject(new Error('no media')),
          },
        },
      }).buyer()
      const { status, headers } = await alice.ask(endpoint.example, endpoint)
      const needsNobody = status === 402 && (await alice.buy(endpoint.example, endpoint)).status < 300
      if (!needsNobody) expect([status, headers.get('payment-required')]).toEqual([503, null])
    },
  ),
  law('nothing is asked of a vendor before the payment is verified (contract 1.29)', async (subject) => {
    const { requestCount, ...makers } = makersThat()
    const before: number[] = []
    const chain = memoryChain({ before: (question) => void (question === 'verify' && before.push(requestCount())) })
    const { alice, challenge, buy, collect } = await set(subject, { ...makers, chain })
    expect((await buy({ payment: alice.sign(challenge, { value: 1n }) })).status).toBe(402)
    expect((await collect()).status).toBe(200)
    expect(before).toEqual([0, 0])
  }),
  law('exactly the quote moves, and the receipt says so in body and headers (contract 1.1, 1.32)', async (subject) => {
    const { alice, chain, collect, challenge } = await set(subject)
    const before = alice.balance()
    const { headers, body } = await collect()
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
    expect([headers.get('x-payment-receipt'), body.payment.tx_hash, body.price.amount]).toEqual([
      transaction,
      transaction,
      dollars(amount),
    ])
  }),
  law('the reply has the shape that the menu promises', async (subject) => {
    const { endpoint, collect } = await set(subject)
    const { body } = await collect()
    expect([...Value.Errors(endpoint.output, body)].map(({ path, message }) => `${path} ${message}`)).toEqual([])
  }),
  law('a used authorization is refused under both header names, and names its job', async (subject) => {
    const { alice, buy, collect, chain, payment } = await set(subject)
    const { body: bought } = await collect()
    for (const header of ['payment-signature', 'x-payment']) {
      const { status, headers, body } = await buy({ header })
      expect([status, body.code, body.job_id, body.recoverable, headers.has('payment-required')]).toEqual([
        402,
        'PAYMENT_REPLAY',
        bought.id,
        true,
        true,
      ])
      expect((await alice.poll(body.poll_url, payment)).status).toBe(200)
    }
    expect(chain.transfers).toHaveLength(1)
  }),
  law(
    'what a settlement publishes reads nothing; the poll URL of our own reply reads, and so does a fresh signature, which is not spent (contract 1.40, 1.41, 1.42, 2.4, 2.5)',
    async (subject) => {
      const { endpoint, gateway, alice, challenge, collect, payment, chain, keyed } = await set(subject)
      const { body } = await collect()
      const { path, example, method } = endpoint
      const url = await keyed(body.id)
      const polls = [url.replace(/\?.*$/, ''), endpoint.job.poll.replace('{id}', body.id)]
      const orders = [example, { ...(example as object), prompt: 'what have they bought?' }].map((order) => ({
        method,
        path,
        body: order,
      }))
      expectNothingRead(await strangerHears(gateway, { payment, orders, polls }))
      await expectOwnerReads(
        { gateway, keyed, fresh: () => alice.sign(challenge), empty: () => chain.drain(alice.wallet) },
        { id: body.id, payment },
      )
      expect(chain.transfers).toHaveLength(1)
    },
  ),
  law('the same request many times at once makes one job and one transfer', async (subject) => {
    const { alice, buy, idle, chain, payment } = await set(subject)
    const answers = await Promise.all(Array.from({ length: 20 }, () => buy()))
    await idle()
    const ids = new Set(answers.map(({ body }) => body.id ?? body.job_id))
    expect([ids.size, answers.filter(({ body }) => body.code === 'PAYMENT_REPLAY').length]).toEqual([1, 19])
    const pollUrl = answers.find(({ body }) => body.poll_url !== undefined)?.body.poll_url
    expect((await alice.poll(pollUrl, payment)).status).toBe(200)
    expect(chain.transfers).toHaveLength(1)
  }),
  law(
    'a failure of the vendor charges nothing, and the same signed request buys afterwards (contract 1.28, 2.25)',
    async (subject) => {
      let isBroken = true
      const { requestCount, ...makers } = makersThat(() =>
        isBroken ? Promise.reject(new Error('out of paint')) : undefined,
      )
      const { collect, chain } = await set(subject, makers)
      const { status, body } = await collect()
      if (requestCount() === 0) return
      expect(status === 200 ? body.payment_status : status).toBe(status === 200 ? 'not_charged' : 500)
      expect(chain.transfers).toEqual([])
      isBroken = false
      expect(statusOf(await collect())).toBe('settled')
    },
  ),
  law('media that cannot be mirrored is served as the vendor made it, and not called backed up', async (subject) => {
    let puts = 0
    const put = () => (puts++, Promise.reject(new Error('disk full')))
    const { endpoint, alice, payment, collect, chain, clock, keyed } = await set(subject, {
      ports: { objects: { put, get: async () => undefined, delete: async () => {} } },
    })
    const first = await collect()
    // A result that waits at its vendor is tried again for a minute.
    if (first.status === 202) await clock.advance(60_000)
    const { status, body } = first.status === 202 ? await alice.poll(await keyed(first.body.id), payment) : first
    expect([status, chain.transfers.length]).toEqual([200, 1])
    if (puts === 0) return
    const polled = await alice.poll(await keyed(body.id), payment)
    for (const text of [body, polled.body].map((each) => JSON.stringify(each))) {
      expect([
        text.includes(madeBy(endpoint)),
        text.includes('"backed_up":true'),
        text.includes('/api/media/'),
      ]).toEqual([true, false, false])
    }
    expect(JSON.stringify(polled.body)).toContain('"backed_up":false')
  }),
  law(
    'polls at the same moment settle once: one reads settled, the others already_settled (contract 1.31, 2.10)',
    async (subject) => {
      const { alice, job, payment, clock, chain } = await set(subject, JOB)
      const pollUrl = await job(payment)
      const polls = Array.from({ length: 6 }, () => alice.poll(pollUrl, payment))
      await clock.advance(1_000)
      expect((await Promise.all(polls)).map(statusOf).sort()).toEqual([...Array(5).fill('already_settled'), 'settled'])
      expect(chain.transfers).toHaveLength(1)
    },
  ),
  law('a paid result stays readable when its authorization has expired and its wallet is empty', async (subject) => {
    const { alice, job, payment, chain, clock } = await set(subject, JOB)
    const pollUrl = await job(payment)
    expect(statusOf(await alice.poll(pollUrl, payment))).toBe('settled')
    chain.drain(alice.wallet)
    await clock.advance(HOUR)
    expect((await alice.poll(pollUrl, payment)).status).toBe(200)
  }),
  law('a buyer who hangs up is not charged, and collects by polling', async (subject) => {
    const { passed, open } = door()
    const { requestCount, ...makers } = makersThat(() => passed)
    const { alice, buy, idle, clock, chain, payment } = await set(subject, makers)
    const gone = new AbortController()
    const answer = buy({ gone: gone.signal })
    await clock.settle()
    gone.abort()
    open()
    await answer
    await idle()
    if (requestCount() === 0) return
    expect(chain.transfers).toEqual([])
    const { body } = await buy()
    expect(statusOf(await alice.poll(body.poll_url, payment))).toBe('settled')
  }),
  law(
    'a refused settlement withholds the result, and a later poll collects it (contract 1.30, 1.33)',
    async (subject) => {
      const { alice, collect, chain, payment } = await set(subject)
      chain.simulate('refused')
      const { status, headers, body } = await collect()
      expect([status, body.error, 'payment' in body]).toEqual([402, 'Payment settlement failed', false])
      expect(decodeHeader(headers.get('payment-response'))).toMatchObject({ success: false, transaction: '' })
      expect(statusOf(await alice.poll(body.poll_url, payment))).toBe('settled')
      expect(chain.transfers).toHaveLength(1)
    },
  ),
  law('a settlement of unknown outcome is 202, and ends in one transfer', async (subject) => {
    for (const weather of ['landed', 'dropped'] as const) {
      const { alice, buy, idle, ports, chain, payment, gateway, keyed } = await set(subject)
      chain.simulate(weather)
      const bought = await buy()
      await idle()
      const collecting = await keyed(bought.body.id)
      const isPaidByPoll = (await ports.storage.getCall(bought.body.id))?.paymentStatus === 'verified'
      const { status, headers } = isPaidByPoll ? await alice.poll(collecting, payment) : bought
      expect([status, headers.get('payment-required')]).toEqual([202, null])
      await gateway.maintain()
      expect((await alice.poll(collecting, payment)).status).toBe(200)
      expect(chain.transfers).toHaveLength(1)
    }
  }),
  law('work that dies with its process is failed, not charged, and its authorization is free', async (subject) => {
    const { passed, open } = door()
    const { requestCount, ...makers } = makersThat(() => passed)
    const { buy, collect, clock, restart, chain } = await set(subject, makers)
    void buy()
    await clock.settle()
    if (requestCount() === 0) return
    const gateway = restart()
    await gateway.takeOver()
    // The other process has the authorization by the time that the work of the dead one goes on.
    const collected = collect({ gateway })
    await clock.settle()
    open()
    expect(statusOf(await collected)).toBe('settled')
    expect([chain.transfers.length, (await buy()).body.code]).toEqual([1, 'PAYMENT_REPLAY'])
  }),
  law('an error reads in the dialect of the endpoint, as JSON that is not cached (contract 3.1)', async (subject) => {
    const { requestCount: _, ...makers } = makersThat(() => Promise.reject(new Error('secret of the vendor')))
    const { gateway, endpoint, buy, alice, payment } = await set(subject, makers)
    const bad = await read(await gateway.fetch(post(endpoint, '{"broken')))
    const answers = [bad, await buy(), await alice.poll('/api/v1/calls/none', payment)].filter(
      ({ status }) => status >= 400 && status !== 402,
    )
    for (const { status, headers, body } of answers) {
      expect([status, headers.get('content-type'), headers.get('cache-control')]).toEqual([
        status,
        'application/json',
        'no-store',
      ])
      expect([status, endpoint.errorFormat, typeof body.error]).toEqual([status, 'plain', 'string'])
      expect(JSON.stringify(body)).not.toContain('secret')
    }
  }),
]
