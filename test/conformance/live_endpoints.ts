import { expect } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import { memoryChain } from '../../adapters/chains/evm/memory.ts'
import { chunk, type ChatScript, scriptedChat, type ScriptedChat, streamAnswer, wholeAnswer } from '../fakes/chat.ts'
import type { Streamed } from '../../core/endpoint/mod.ts'
import { type Catalog, catalog, type Endpoint, endpoints, type Gateway, type Payment } from '../../core/mod.ts'
import {
  type Answer,
  type Buyer,
  decodeHeader,
  encodePayment,
  type Kit,
  kit,
  type KitOptions,
  ORIGIN,
  x402Scheme,
} from '../kit.ts'
import { law, type Law, type Subject } from './law.ts'
import { expectNothingRead, expectOwnerReads, strangerHears } from './public_payment.ts'
import { type Away, awayOf } from './endpoint_fixture.ts'
import { offerLaws } from './sale_laws.ts'

/** A buyer's order of a live endpoint; a stream is another order than a whole answer. */
export type Order = {
  readonly path: string
  readonly body: Readonly<Record<string, unknown>>
  readonly isStream: boolean
}

/** A live endpoint under test, in a gateway with all the others. `script` is what its vendor does. */
export type StreamedFixture = {
  readonly endpoint: Streamed
  readonly order: Order
  readonly away: Away
  open(options?: KitOptions & { script?: ChatScript }): Kit & { readonly chat: ScriptedChat }
}

export type StreamedDefect = {
  readonly endpoint?: (good: Streamed) => Streamed
  readonly wrap?: NonNullable<KitOptions['wrap']>
  readonly dress?: NonNullable<KitOptions['dress']>
  readonly setup?: () => KitOptions
}

/** The wallets of the buyers: what is sold to the listed only is sold to them. */
const ALLOWLIST = ['alice', 'bob'].map((name) => memoryChain().wallet(name))

/** Whole and streamed, as far as the endpoint has both. */
export function ordersOf(endpoint: Streamed, rows: Catalog = catalog()): readonly Order[] {
  const vendors = {
    images: () => undefined,
    chat: () => scriptedChat(),
    media: () => Promise.reject(new Error('no media')),
  }
  const offering = { catalog: rows, vendors }
  const body = endpoint.sample(offering)
  const surfaced = offering.catalog.chat.all.find(
    ({ billing, surfaces }) =>
      billing.mode !== 'free' && (endpoint.errorFormat === 'chat' || surfaces?.includes('generate_content')),
  )
  const path = endpoint.path.replace('{model...}', typeof body.model === 'string' ? body.model : (surfaced?.id ?? ''))
  if (endpoint.errorFormat === 'generate_content') return [{ path, body, isStream: endpoint.name.endsWith('.stream') }]
  return [false, true].map((isStream) => ({ path, body: isStream ? { ...body, stream: true } : body, isStream }))
}

export async function streamedFixture(
  good: Streamed,
  order: Order,
  { endpoint: spoil = (same) => same, setup, ...defect }: StreamedDefect = {},
): Promise<Subject<StreamedFixture>> {
  const endpoint = spoil(good)
  const router: readonly Endpoint[] = endpoints.map((each) => (each.name === good.name ? endpoint : each))
  const open: StreamedFixture['open'] = ({ script, ...options } = {}) => {
    const chat = scriptedChat(script)
    return {
      ...kit({
        endpoints: router,
        chatVendor: chat,
        allowlists: { generate_content: ALLOWLIST },
        ...defect,
        ...setup?.(),
        ...options,
      }),
      chat,
    }
  }
  return { open: async () => ({ endpoint, order, away: awayOf(setup?.()), open }), close: async () => {} }
}

type Bought = { readonly status: number; readonly headers: Headers; readonly text: string; readonly body: any }
type Scene = ReturnType<StreamedFixture['open']> & {
  readonly endpoint: Streamed
  readonly order: Order
  readonly away: Away
  readonly alice: Buyer
  readonly challenge: Answer
  readonly payment: Payment
  send(at?: {
    payment?: Payment
    header?: string
    gateway?: Gateway
    body?: unknown
    gone?: AbortSignal
  }): Promise<Response>
  buy(at?: Parameters<Scene['send']>[0]): Promise<Bought>
}

async function set(
  subject: Subject<StreamedFixture>,
  options: Parameters<StreamedFixture['open']>[0] = {},
): Promise<Scene> {
  const { endpoint, order, away, open } = await subject.open()
  const subjects = open(options)
  const alice = subjects.buyer()
  const challenge = await alice.ask(order.body, order)
  expect(challenge.status).toBe(402)
  const payment = alice.sign(challenge)
  const send: Scene['send'] = async ({
    payment: paid = payment,
    header = 'payment-signature',
    gateway = subjects.gateway,
    body = order.body,
    gone,
  } = {}) => {
    const request = new Request(ORIGIN + order.path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', [header]: encodePayment(paid) },
      body: JSON.stringify(body),
    })
    return await gateway.fetch(request, { ip: '192.0.2.1', ...(gone && { gone }) })
  }
  async function buy(at: Parameters<Scene['send']>[0] = {}): Promise<Bought> {
    const { status, headers, text } = await summaryOf(await send(at))
    return { status, headers, text, body: text.startsWith('{') ? JSON.parse(text) : undefined }
  }
  return { ...subjects, endpoint, order, away, alice, challenge, payment, send, buy }
}

async function summaryOf(response: Response) {
  return { status: response.status, headers: response.headers, text: await response.text() }
}

/** An answer of the vendor's in either form, unless told. */
const hello: ChatScript = async ({ stream }) =>
  stream
    ? streamAnswer([chunk({ content: 'Hello' }), chunk({}, { finish: 'stop' }), 'data: [DONE]\n\n'])
    : wholeAnswer()
const isReplay = ({ status, text }: Bought): boolean => status === 402 && /PAYMENT_REPLAY|already used/.test(text)

/** A reply's report of its payment: in its headers, or in the comments before the last event. */
function receiptIn(
  { headers, text }: Bought,
  { isStream }: Order,
): { response: string | null; receipt: string | null; settled: string | null } {
  // A comment of the stream, or a member of the last event where the format allows no comments.
  const headerOf = (name: string) =>
    isStream
      ? (new RegExp(`^: ${name} (\\S+)$|"${name}":"([^"]+)"`, 'm').exec(text)?.slice(1).find(Boolean) ?? null)
      : headers.get(name)
  return {
    response: headerOf('payment-response'),
    receipt: headerOf('x-payment-receipt'),
    settled: headerOf('x-payment-settled'),
  }
}

/** How the last event of a stream begins. */
const LAST = {
  chat: 'data: [DONE]',
  messages: 'event: message_stop',
  responses: 'event: response.completed',
} as Readonly<Partial<Record<Streamed['errorFormat'], string>>>

/** Whether an error reads as the clients of this surface expect it. */
const isSpoken = (errorFormat: Streamed['errorFormat'], body: any): boolean =>
  errorFormats[errorFormat]?.(body) ?? typeof body.error === 'string'
const errorFormats: Readonly<Partial<Record<Streamed['errorFormat'], (body: any) => boolean>>> = {
  chat: ({ error, message }) =>
    (typeof error === 'string' || typeof error.type === 'string') && typeof message === 'string',
  messages: ({ type, error }) =>
    type === 'error' && typeof error.type === 'string' && typeof error.message === 'string',
  responses: ({ error }) =>
    typeof error.type === 'string' && typeof error.message === 'string' && 'param' in error && 'code' in error,
  generate_content: ({ error }) =>
    typeof error.code === 'number' && typeof error.status === 'string' && typeof error.message === 'string',
}

// ── the laws ────────────────────────────────────────────────────────────────────────────────────────────────────────

async function sell(...at: Parameters<typeof set>) {
  const scene = await set(...at)
  return { ...scene, collect: scene.buy }
}

export const streamedLaws: readonly Law<StreamedFixture>[] = [
  ...offerLaws(sell),
  law(
    'the quote is one: in three equal headers, in the body, and in its price (contract 1.3, 1.6, 1.12)',
    async (subject) => {
      const { headers, body } = (await set(subject)).challenge
      const required = headers.get('payment-required')
      expect([headers.get('x-payment-required'), x402Scheme(headers)]).toEqual([
        required,
        `X402 requirements=${required}`,
      ])
      const { x402Version, accepts } = decodeHeader(required)
      expect([body.x402Version, body.accepts]).toEqual([x402Version, accepts])
      for (const { amount } of accepts) expect(body.price.amount).toBe((Number(amount) / 1e6).toFixed(6))
      expect(atob(required ?? '') + JSON.stringify(body)).toMatch(/^[ -~]+$/)
    },
  ),
  law('a probe without a body is answered with the quote of the sample', async (subject) => {
    const { gateway, order, challenge } = await set(subject)
    for (const method of ['GET', 'HEAD', 'POST']) {
      const response = await gateway.fetch(new Request(ORIGIN + order.path, { method }))
      expect([method, response.status, decodeHeader(response.headers.get('payment-required')).accepts]).toEqual([
        method,
        402,
        challenge.body.accepts,
      ])
    }
  }),
  law('bad input is 400 before the quote, with a payment as without, in the words of its surface', async (subject) => {
    const { gateway, order, endpoint, payment, chain, chat } = await set(subject)
    const wrong = (endpoint.input.required ?? []).map((name) =>
      JSON.stringify({ ...order.body, [name]: { wrong: true } }),
    )
    for (const body of ['{"broken', 'null', '[]', ...wrong]) {
      for (const headers of [{}, { 'payment-signature': encodePayment(payment) }]) {
        const response = await gateway.fetch(
          new Request(ORIGIN + order.path, {
            method: 'POST',
            headers: { 'content-type': 'application/json', ...headers },
            body,
          }),
        )
        expect([
          body,
          response.status,
          response.headers.get('payment-required'),
          isSpoken(endpoint.errorFormat, await response.json()),
        ]).toEqual([body, 400, null, true])
      }
    }
    expect([chat.orders.length, chain.transfers.length]).toEqual([0, 0])
  }),
  law('nothing is asked of a vendor before the payment is verified (contract 1.29)', async (subject) => {
    const before: number[] = []
    const chain = memoryChain({
      before: (question) => void (question === 'verify' && before.push(scene.chat.orders.length)),
    })
    const scene = await set(subject, { chain })
    expect((await scene.buy({ payment: scene.alice.sign(scene.challenge, { value: 1n }) })).status).toBe(402)
    expect([(await scene.buy()).status, before]).toEqual([200, [0, 0]])
  }),
  law(
    'exactly the quote moves, after the answer is stored, and the receipt says so (contract 1.1, 1.32)',
    async (subject) => {
      const stored: unknown[] = []
      const chain = memoryChain({ before: (question) => (question === 'settle' ? inspect() : undefined) })
      const { ports, buy, order, alice, challenge } = await set(subject, { chain })
      async function inspect(): Promise<void> {
        stored.push(
          ...(await ports.storage.unsettled(Number.MAX_SAFE_INTEGER, 9)).map(({ workStatus, result }) => [
            workStatus,
            result !== null,
          ]),
        )
      }
      const before = alice.balance()
      const { response, receipt, settled } = receiptIn(await buy(), order)
      const [{ amount, network, payTo }] = challenge.body.accepts
      expect([stored, chain.transfers.length, before - alice.balance(), chain.transfers[0]?.to as string]).toEqual([
        [['completed', true]],
        1,
        BigInt(amount),
        payTo.toLowerCase(),
      ])
      const transaction = chain.transfers[0]?.transaction ?? ''
      expect([receipt, settled, decodeHeader(response)]).toMatchObject([
        transaction,
        null,
        { success: true, transaction, network, payer: alice.wallet },
      ])
    },
  ),
  law('an answer has the shape that the menu promises, or ends with the last event of its wire', async (subject) => {
    const { endpoint, order, buy } = await set(subject, { script: hello })
    const { status, headers, text, body } = await buy()
    expect([status, headers.get('content-type')?.split(';')[0] ?? '']).toEqual([
      200,
      order.isStream ? 'text/event-stream' : 'application/json',
    ])
    if (!order.isStream)
      return expect([...Value.Errors(endpoint.output, body)].map(({ path, message }) => `${path} ${message}`)).toEqual(
        [],
      )
    const last = LAST[endpoint.errorFormat]
    expect([text.includes('Hello'), /^data:(?! )/m.test(text)]).toEqual([true, false])
    if (last) expect(text.indexOf(last)).toBeGreaterThan(text.indexOf('\n: payment-response '))
  }),
  law('a used authorization is refused for another request, under both header names', async (subject) => {
    const { buy, order, chat, chain } = await set(subject)
    expect((await buy()).status).toBe(200)
    const body = { ...order.body, another: 1 }
    for (const header of ['payment-signature', 'x-payment']) expect(isReplay(await buy({ header, body }))).toBe(true)
    expect([chat.orders.length, chain.transfers.length]).toEqual([1, 1])
  }),
  law(
    'what a settlement publishes reads nothing; the poll URL of our own reply reads, and so does a fresh signature, which is not spent (contract 1.40, 1.41, 1.42, 2.4, 2.5)',
    async (subject) => {
      const { order, gateway, alice, challenge, buy, payment, chain, ports, keyed } = await set(subject)
      expect((await buy()).status).toBe(200)
      const identity = await chain.identify(payment, payment.accepted, { now: 0, signal: new AbortController().signal })
      const id = (identity.kind === 'known' && (await ports.storage.callOf(identity.key, 0))?.id) || ''
      const orders = [order.body, { ...order.body, elsewhere: 1 }].map((body) => ({
        method: 'POST',
        path: order.path,
        body,
      }))
      expectNothingRead(await strangerHears(gateway, { payment, orders, polls: [`/api/v1/calls/${id}`] }))
      await expectOwnerReads(
        { gateway, keyed, fresh: () => alice.sign(challenge), empty: () => chain.drain(alice.wallet) },
        { id, payment },
      )
      expect(chain.transfers).toHaveLength(1)
    },
  ),
  law('the same request, sent again, gets the stored answer for ten minutes', async (subject) => {
    const { buy, chat, chain, clock } = await set(subject)
    const first = await buy()
    const again = await buy()
    const bare = (text: string) => text.replace(/^: .*\n(?:: .*\n)*\n|,"payment":\{[^}]*\}/gm, '')
    expect([
      again.status,
      again.headers.get('x-payment-status'),
      again.headers.has('payment-response'),
      again.text,
    ]).toEqual([200, 'already_settled', true, bare(first.text)])
    await clock.advance(600_001)
    expect(isReplay(await buy())).toBe(true)
    expect([chat.orders.length, chain.transfers.length]).toEqual([1, 1])
  }),
  law('the same request many times at once makes one answer and one transfer', async (subject) => {
    const { buy, chat, chain } = await set(subject)
    const answers = await Promise.all(Array.from({ length: 12 }, () => buy()))
    const got = answers.filter(({ status }) => status === 200)
    expect([got.length > 0, answers.filter(isReplay).length, chat.orders.length, chain.transfers.length]).toEqual([
      true,
      12 - got.length,
      1,
      1,
    ])
  }),
  law(
    'a failure of the vendor charges nothing, says nothing of the vendor, and the same signed request buys afterwards',
    async (subject) => {
      const { buy, chain, endpoint } = await set(subject, {
        script: async (order, at) =>
          at.attempt === 1 ? Promise.reject(new Error('secret of the vendor')) : await hello(order, at),
      })
      const { status, text, body } = await buy()
      expect([status, text.includes('secret'), isSpoken(endpoint.errorFormat, body), chain.transfers.length]).toEqual([
        503,
        false,
        true,
        0,
      ])
      expect([(await buy()).status, chain.transfers.length]).toEqual([200, 1])
    },
  ),
  law(
    'a stream that breaks off is not charged: it ends with an error of its surface (contract 3.18, 6.51)',
    async (subject) => {
      let isFirst = true
      const broken: ChatScript = async (order, at) => {
        if (!isFirst || !order.stream) return await hello(order, at)
        isFirst = false
        return streamAnswer([chunk({ content: 'Hel' }), 'data: {"error":{"message":"secret of the vendor"}}\n\n'])
      }
      const { buy, chain, order, endpoint } = await set(subject, { script: broken })
      const { text } = await buy()
      if (!order.isStream) return
      const data =
        text
          .trimEnd()
          .split('\n')
          .at(-1)
          ?.replace(/^data: /, '') ?? ''
      const headerOf = JSON.parse(data)
      const isOurs =
        endpoint.errorFormat === 'responses'
          ? headerOf.type === 'error' && typeof headerOf.message === 'string'
          : isSpoken(endpoint.errorFormat, headerOf)
      expect([text.includes('Hel'), text.includes('secret'), isOurs, chain.transfers.length]).toEqual([
        true,
        false,
        true,
        0,
      ])
      expect([(await buy()).status, chain.transfers.length]).toEqual([200, 1])
    },
  ),
  law('a settlement of unknown outcome is served, and ends in one transfer (contract 6.49)', async (subject) => {
    for (const weather of ['landed', 'dropped'] as const) {
      const { buy, order, chain, gateway, ports } = await set(subject)
      chain.simulate(weather)
      const bought = await buy()
      expect([bought.status, receiptIn(bought, order).settled]).toEqual([200, 'false'])
      await gateway.maintain()
      expect([chain.transfers.length, await ports.storage.unsettled(Number.MAX_SAFE_INTEGER, 9)]).toEqual([1, []])
    }
  }),
  law(
    'a whole answer whose settlement is refused is withheld, with what finds it, and a stream says so at its end',
    async (subject) => {
      const { buy, chain, order } = await set(subject, { script: hello })
      chain.simulate('refused')
      const bought = await buy()
      const { text, body } = bought
      const { settled, response } = receiptIn(bought, order)
      expect([bought.status, text.includes('Hello'), settled, chain.transfers.length]).toEqual(
        order.isStream ? [200, true, 'false', 0] : [402, false, null, 0],
      )
      if (order.isStream)
        return expect(text).toMatch(
          /^: x-payment-settle-error-class refused$|"x-payment-settle-error-class":"refused"/m,
        )
      expect([
        typeof body.job_id,
        typeof body.poll_url,
        text.includes('Payment settlement failed'),
        decodeHeader(response).success,
      ]).toEqual(['string', 'string', true, false])
    },
  ),
  law('after a refused settlement the wallet gets no more until it has paid', async (subject) => {
    const { buy, alice, challenge, chain, payment, ports } = await set(subject)
    chain.simulate('refused')
    await buy()
    expect(chain.transfers).toHaveLength(0)
    expect((await buy({ payment: alice.sign(challenge) })).status).toBe(402)
    const identity = await chain.identify(payment, payment.accepted, { now: 0, signal: new AbortController().signal })
    const unpaid = identity.kind === 'known' ? await ports.storage.callOf(identity.key, 0) : undefined
    const again = await buy()
    expect([unpaid?.paymentStatus, again.status, chain.transfers.length]).toEqual(['refused', 200, 1])
    expect((await buy({ payment: alice.sign(challenge) })).status).toBe(200)
  }),
  law('a caller who leaves before there is content costs nothing, and his upstream ends at once', async (subject) => {
    for (const hasWords of [false, true]) {
      let isCancelled = false
      const gone = new AbortController()
      const script: ChatScript = async (order, { signal, attempt }) => {
        if (attempt > 1) return await hello(order, { signal, attempt })
        signal.addEventListener('abort', () => void (isCancelled = true))
        if (!order.stream) return await new Promise<never>(() => {})
        const pieces = [chunk({ role: 'assistant', content: '' }), ...(hasWords ? [chunk({ content: 'Hel' })] : [])]
        return streamAnswer(pieces, {
          onCancel: () => void (isCancelled = true),
          gate: (at) => (at >= pieces.length ? new Promise(() => {}) : undefined),
        })
      }
      const { send, buy, order, chain, clock } = await set(subject, { script })
      const sending = send({ gone: gone.signal })
      await clock.settle()
      // The words are there, and he has read none of them.
      if (order.isStream && hasWords) await (await sending).body?.cancel()
      else gone.abort()
      await sending
      await clock.settle()
      expect([hasWords, isCancelled, chain.transfers.length]).toEqual([hasWords, true, 0])
      expect([(await buy()).status, chain.transfers.length]).toEqual([200, 1])
    }
  }),
  law(
    'a stream that ends before its first word is a status, uncharged, and the same signed request buys afterwards',
    async (subject) => {
      for (const pieces of [
        [': ping\n\n'],
        [chunk({ role: 'assistant', content: '' })],
        ['data: [DONE]\n\n'],
        ['<html>busy</html>'],
        ['data: {"error":{"message":"secret of the vendor"}}\n\n'],
      ]) {
        const { buy, order, chain } = await set(subject, {
          script: async (order, at) =>
            at.attempt === 1 && order.stream ? streamAnswer(pieces) : await hello(order, at),
        })
        if (!order.isStream) return
        const { status, headers } = await buy()
        expect([pieces, status, headers.get('content-type')?.includes('event-stream'), chain.transfers.length]).toEqual(
          [pieces, 503, false, 0],
        )
        expect([(await buy()).status, chain.transfers.length]).toEqual([200, 1])
      }
    },
  ),
]
