import type { Streamed } from '../../core/endpoint/mod.ts'
import { usdc } from '../../core/mod.ts'
import type { Broken } from './law.ts'
import { acting, below, saying, withHeader } from './gateway_defects.ts'
import { addressBlind } from './public_payment.ts'
import { type StreamedDefect, type StreamedFixture, streamedFixture, type Order } from './live_endpoints.ts'

/** Changes the JSON body of the answers with this status. */
function rewriting(status: number, change: (body: Record<string, any>) => unknown): StreamedDefect {
  return saying(async (response) => {
    if (response.status !== status) return response
    const text = await response.clone().text()
    return text.startsWith('{') ? new Response(JSON.stringify(change(JSON.parse(text))), response) : response
  })
}

/** Streams that are passed on piece by piece, and not as they came. */
function relaying({
  change = (text) => text,
  cancels = true,
}: {
  change?: (text: string) => string
  cancels?: boolean
}): StreamedDefect {
  return saying((response) => {
    if (!response.headers.get('content-type')?.startsWith('text/event-stream') || !response.body) return response
    const reader = response.body.getReader()
    const body = new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          const { done, value } = await reader.read()
          if (done) return controller.close()
          controller.enqueue(new TextEncoder().encode(change(new TextDecoder().decode(value))))
        },
        cancel: () => (cancels ? reader.cancel() : undefined),
      },
      { highWaterMark: 0 },
    )
    return new Response(body, response)
  })
}

/** Refuses what is bad with a price, as if it were for sale. */
const quotingAnything = acting((gateway) => ({
  async fetch(request, caller) {
    const response = await gateway.fetch(request, caller)
    return response.status === 400 ? await gateway.fetch(new Request(request.url), caller) : response
  },
}))

/** Shows a vendor what is asked for before it is known whether it will be paid. */
const asking = below(({ chain, vendors }) => ({
  chain: {
    ...chain,
    async verify(payment, offer, at) {
      const { value } = payment.payload.authorization as { value: string }
      const row = { id: 'any' } as never
      if (value !== offer.amount)
        await vendors.chat(row)?.ask({ format: 'chat', model: 'any', body: {}, stream: false, headers: {} }, at)
      return await chain.verify(payment, offer, at)
    },
  },
}))

/** Has no patience with those who come twice at a time. */
function loaded(): StreamedDefect {
  let inside = 0
  return acting((gateway) => ({
    async fetch(request, caller) {
      inside++
      const isLoaded = inside > 1
      const response = await gateway.fetch(request, caller)
      inside--
      return isLoaded && response.status === 402 ? new Response('{"error":"busy"}', { status: 409 }) : response
    },
  }))
}

/** A streamed order, sold by gateways that are each wrong in one way. */
export function brokenLiveEndpoints(sold: Streamed, order: Order): readonly Broken<StreamedFixture>[] {
  const broken = (law: string, but: string, defect: StreamedDefect): Broken<StreamedFixture> => ({
    law,
    but,
    make: () => streamedFixture(sold, order, defect),
  })
  return [
    broken(
      'the quote is one: in three equal headers, in the body, and in its price (contract 1.3, 1.6, 1.12)',
      'shows another price than it asks',
      rewriting(402, (body) => ({ ...body, price: { ...body.price, amount: '0.020000' } })),
    ),
    broken('a quote lies between the least and the most that discovery says', 'advertises what it does not sell', {
      endpoint: (good) => ({ ...good, priceRange: () => ({ min: usdc(1n), max: usdc(2n) }) }),
    }),
    broken(
      'a probe without a body is answered with the quote of the sample',
      'has no answer to HEAD',
      saying((response, { method }) => (method === 'HEAD' ? new Response(null, { status: 404 }) : response)),
    ),
    broken(
      'bad input is 400 before the quote, with a payment as without, in the words of its surface',
      'quotes whatever it is sent',
      quotingAnything,
    ),
    broken('nothing is asked of a vendor before the payment is verified (contract 1.29)', 'asks first', asking),
    broken(
      'a chain that cannot be asked is told as the row says, 503 with Retry-After or 402 with a challenge, and the same payment buys later',
      'does not say when to come again',
      withHeader(({ status }) => status === 503, 'retry-after', null),
    ),
    broken(
      'exactly the quote moves, after the answer is stored, and the receipt says so (contract 1.1, 1.32)',
      'names another transaction',
      below(({ chain }) => ({
        chain: {
          ...chain,
          async settle(...args) {
            const settled = await chain.settle(...args)
            return settled.kind === 'settled'
              ? { ...settled, receipt: { ...settled.receipt, transaction: '0x00' } }
              : settled
          },
        },
      })),
    ),
    broken(
      'an answer has the shape that the menu promises, or ends with the last event of its wire',
      'calls its answers text',
      withHeader(({ status }, { method }) => status === 200 && method === 'POST', 'content-type', 'text/plain'),
    ),
    broken(
      'a used authorization is refused for another request, under both header names',
      'takes it for another request',
      saying(async (response, request) =>
        (await request.text()).includes('"another"') ? new Response('{}') : response,
      ),
    ),
    broken(
      'the same request, sent again, gets the stored answer for ten minutes',
      'gives nothing twice',
      saying((response, { method }) =>
        method === 'POST' && response.headers.get('x-payment-status') === 'already_settled'
          ? new Response('{"error":"PAYMENT_REPLAY"}', { status: 402 })
          : response,
      ),
    ),
    broken(
      'what a settlement publishes reads nothing; the poll URL of our own reply reads, and so does a fresh signature, which is not spent (contract 1.40, 1.41, 1.42, 2.4, 2.5)',
      'tells whoever repeats an order what came of it',
      acting(addressBlind),
    ),
    broken(
      'the same request many times at once makes one answer and one transfer',
      'loses its temper in a crowd',
      loaded(),
    ),
    broken(
      'a failure of the vendor charges nothing, says nothing of the vendor, and the same signed request buys afterwards',
      'repeats what the vendor said',
      rewriting(503, (body) => ({ ...body, debug: 'secret of the vendor' })),
    ),
    broken(
      'a stream that breaks off is not charged: it ends with an error of its surface (contract 3.18, 6.51)',
      'repeats what the vendor said in a stream',
      relaying({ change: (text) => text.replace('The model ended its answer early.', 'secret of the vendor') }),
    ),
    broken(
      'a settlement of unknown outcome is served, and ends in one transfer (contract 6.49)',
      'never looks at it again',
      acting(() => ({ maintain: async () => {} })),
    ),
    broken(
      'a whole answer whose settlement is refused is withheld, with what finds it, and a stream says so at its end',
      'does not know what was refused',
      relaying({ change: (text) => text.replace(/(error-class"?:? ?"?)refused/, '$1unknown') }),
    ),
    broken(
      'after a refused settlement the wallet gets no more until it has paid',
      'forgets its debtors',
      below(({ storage }) => ({
        storage: {
          ...storage,
          putRecord: async (record, now) => record.kind === 'unpaid_call' || (await storage.putRecord(record, now)),
        },
      })),
    ),
    broken(
      'a caller who leaves before there is content costs nothing, and his upstream ends at once',
      'does not tell its upstream',
      relaying({ cancels: false }),
    ),
    broken(
      'a stream that ends before its first word is a status, uncharged, and the same signed request buys afterwards',
      'begins before there is a word',
      saying(startedTooEarly),
    ),
  ]
}

/** The reply of a gateway that has said 200 before it knew. */
async function startedTooEarly(response: Response): Promise<Response> {
  if (response.status !== 503) return response
  const text = await response.text()
  if (!text.includes('The model did not answer: it ')) return new Response(text, response)
  return new Response(`data: ${text}\n\n`, { headers: { 'content-type': 'text/event-stream' } })
}
