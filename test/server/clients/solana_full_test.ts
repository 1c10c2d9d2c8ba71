/** Public x402 clients for Solana, unmodified, buying from a gateway over the local chain. */
import { describe, expect, test } from 'bun:test'
import { decodePaymentResponseHeader, wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { ExactSvmScheme } from '@x402/svm/exact/client'
import { solanaChain } from '../../../adapters/chains/solana/mod.ts'
import { solanaFacilitator } from '../../../adapters/chains/solana/facilitator.ts'
import { PIXEL, scriptedVendor } from '../../fakes/images.ts'
import { chatPieces, chunk, scriptedChat } from '../../fakes/chat.ts'
import type { Outcome } from '../../../core/mod.ts'
import { RpcError } from '../../../server/devnet/solana/errors.ts'
import { solanaNode } from '../../../server/devnet/solana/node.ts'
import { MINT } from '../../../server/devnet/solana/tokens.ts'
import { referenceSolanaDesk } from '../../adapters/chains/solana/facilitator_kit.ts'
import { base64, draftOf, NETWORK, newKey, paymentOf, chatFormatOf } from '../../adapters/chains/solana/solana_kit.ts'
import { expectNothingRead, expectOwnerReads, strangerHears } from '../../conformance/public_payment.ts'
import { door, encodePayment, FOX, GENERATIONS, kit, type KitOptions, ORIGIN, read, testClock } from '../../kit.ts'

const COMPLETIONS = '/api/v1/chat/completions'
const HELLO = { model: 'vendor-a/chat-5.2', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 20 }

/** Deadlines in real time that no machine is too slow for. */
const [HOURS_MS, TEST_MS] = [3_600_000, 300_000]

type PaymentMethod = 'a fee payer of its own' | 'a facilitator'

/** A gateway on a chain of its own, with a clock of its own, and a buyer with one USDC. */
async function open(paymentMethod: PaymentMethod, options: KitOptions = {}) {
  const clock = testClock()
  const node = await solanaNode({ clock })
  const [seller, feePayer, buyer] = [await newKey(), await newKey(), await newKey()]
  node.airdropSol(feePayer.address)
  await node.openAccount(seller.address)
  await node.fund(buyer.address, 1_000_000n)
  const desk = paymentMethod === 'a facilitator' ? await referenceSolanaDesk(node) : undefined
  const base = { network: NETWORK, rpcUrl: node.url, mint: MINT, payTo: seller.address, timeoutMs: HOURS_MS }
  const random = (bytes: number) => crypto.getRandomValues(new Uint8Array(bytes))
  const patient = { verifyMs: HOURS_MS, settleMs: HOURS_MS, confirmMs: HOURS_MS, pollMs: 1 }
  const chain = desk
    ? solanaFacilitator({ ...base, ...patient, facilitators: [{ url: desk.url }], random })
    : solanaChain({ ...base, feePayerKeys: [feePayer.secret], pollMs: 1 })
  expect(await chain.check({ now: node.now() })).toMatchObject({ kind: 'ready' })
  const { wrap = (same) => same, ...rest } = options
  const gateway = kit({
    ports: { clock },
    chatVendor: scriptedChat(),
    label: 'solana-devnet',
    wrap: (ports) => wrap({ ...ports, chain }),
    ...rest,
  })

  const ask = (path: string, body: unknown, headers: Record<string, string> = {}) =>
    gateway.gateway.fetch(
      new Request(`${ORIGIN}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
      }),
      { ip: '192.0.2.1' },
    )

  return {
    ...gateway,
    clock,
    node,
    chain,
    seller,
    buyer,
    ask,

    /** `fetch` as @x402/fetch makes it; what is asked goes to the gateway. */
    async buy(path: string, body: unknown): Promise<Response> {
      const through = (async (input: RequestInfo | URL, init?: RequestInit) =>
        await gateway.gateway.fetch(new Request(input, init), { ip: '192.0.2.1' })) as typeof fetch
      const client = new ExactSvmScheme(buyer, { rpcUrl: node.url })
      const pay = wrapFetchWithPaymentFromConfig(through, { schemes: [{ network: 'solana:*', client }] })
      return await pay(`${ORIGIN}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
    },

    /** The seller has the quote, once, in the transaction that the receipt names. */
    expectPaid(text: string | undefined, quote: bigint): void {
      const receipt = decodePaymentResponseHeader(text ?? '')
      expect(receipt).toMatchObject({ success: true, network: NETWORK, payer: buyer.address })
      expect(node.transfersIn(receipt.transaction)).toEqual([{ from: buyer.address, to: seller.address, value: quote }])
    },

    quoteOf: async (path: string, body: unknown) => BigInt((await read(await ask(path, body))).body.accepts[0].amount),
    spent: async () => 1_000_000n - (await node.balanceOf(buyer.address)),

    async close(): Promise<void> {
      chain.close()
      await Promise.all([desk?.close(), node.stop()])
    },
  }
}

type World = Awaited<ReturnType<typeof open>>

/**
 * A door that opens when every call but one has been answered, or when a second job has begun: whoever waits for more
 * would wait for ever.
 */
function onlyOne(calls: number) {
  const gate = door()
  let answered = 0
  const vendor = scriptedVendor(async ({ n }, { attempt }) => {
    if (attempt > 1) gate.open()
    await gate.passed
    return Array.from({ length: n }, () => ({ url: PIXEL }))
  })
  return { vendor, open: gate.open, answered: () => void (++answered === calls - 1 && gate.open()) }
}

/** So many calls at once of a wallet with the price of one. */
async function load(
  { ask, node, vendor }: World,
  { calls, answered }: { calls: number; answered(): void },
  before: () => void = () => {},
) {
  const [offer] = (await read(await ask(GENERATIONS, FOX))).body.accepts
  const poor = await newKey()
  await node.fund(poor.address, BigInt(offer.amount))
  const drafts = await Promise.all(Array.from({ length: calls }, () => draftOf(node, poor, offer)))
  const payments = await Promise.all(
    drafts.map(async (draft) => encodePayment(paymentOf(offer, base64(await chatFormatOf(draft))))),
  )
  before()
  const answers = payments.map(async (payment) => {
    const response = await ask(GENERATIONS, FOX, { 'payment-signature': payment })
    answered()
    return await read(response)
  })
  const all = await Promise.all(answers)
  const won = all.filter(({ status }) => status === 200)
  return { poor, offer, won, refused: all.filter(({ status }) => status !== 200), jobs: vendor.jobs.length }
}

for (const paymentMethod of ['a fee payer of its own', 'a facilitator'] as const) {
  describe(`a gateway on Solana with ${paymentMethod}`, () => {
    /** A test in a world of its own, which ends with it. */
    function inWorld(name: string, check: (world: World) => Promise<void>): void {
      test(
        name,
        async () => {
          const world = await open(paymentMethod)
          try {
            await check(world)
          } finally {
            await world.close()
          }
        },
        TEST_MS,
      )
    }

    inWorld(
      'sells an image, and its hint saves the buyer a question for the blockhash',
      async ({ node, buy, quoteOf, expectPaid, spent }) => {
        const quote = await quoteOf(GENERATIONS, FOX)
        const before = node.reads('getLatestBlockhash')
        const response = await buy(GENERATIONS, FOX)
        const { status, headers, body } = await read(response)
        expect([status, body.payment?.status, body.payment?.network]).toEqual([200, 'settled', 'solana-devnet'])
        expectPaid(headers.get('payment-response') ?? undefined, quote)
        expect(await spent()).toBe(quote)
        expect(node.reads('getLatestBlockhash')).toBe(before)
      },
    )

    inWorld('sells an answer, whole and streamed', async ({ buy, quoteOf, expectPaid, spent }) => {
      const quote = await quoteOf(COMPLETIONS, HELLO)
      const whole = await read(await buy(COMPLETIONS, HELLO))
      expect([whole.status, whole.body.choices[0].message.content]).toEqual([200, 'Hello'])
      expectPaid(whole.headers.get('payment-response') ?? undefined, quote)
      const streamed = await buy(COMPLETIONS, { ...HELLO, stream: true })
      const text = await streamed.text()
      expect([streamed.status, text.includes('[DONE]')]).toEqual([200, true])
      expectPaid(/^: payment-response (\S+)$/im.exec(text)?.[1], quote)
      expect(await spent()).toBe(2n * quote)
    })

    inWorld(
      'sells nothing twice for one payment, and nothing for a blockhash that has run out',
      async ({ node, buyer, chain, clock, ask, spent }) => {
        const { body: challenge } = await read(await ask(GENERATIONS, FOX))
        const [offer] = challenge.accepts
        const signed = async () =>
          encodePayment(paymentOf(offer, base64(await chatFormatOf(await draftOf(node, buyer, offer)))))
        const payment = await signed()
        const first = await read(await ask(GENERATIONS, FOX, { 'payment-signature': payment }))
        const again = await read(
          await ask(GENERATIONS, { ...FOX, prompt: 'another fox' }, { 'payment-signature': payment }),
        )
        expect([first.status, again.status, again.body.code]).toEqual([200, 402, 'PAYMENT_REPLAY'])
        const late = await signed()
        await clock.advance(61_000)
        await chain.refresh({ now: clock.now() })
        const stale = await read(await ask(GENERATIONS, FOX, { 'payment-signature': late }))
        expect([stale.status, stale.body.code]).toEqual([402, 'PAYMENT_BLOCKHASH_STALE'])
        expect(stale.body.accepts[0].extra).not.toEqual(offer.extra)
        expect(await spent()).toBe(BigInt(offer.amount))
      },
    )

    inWorld(
      'sells a second time at once to a wallet that holds the price of two: its balance shows the first',
      async ({ node, buyer, buy, quoteOf }) => {
        const quote = await quoteOf(GENERATIONS, FOX)
        await node.fund(buyer.address, 2n * quote)
        const statuses = [
          (await buy(GENERATIONS, FOX)).status,
          (await buy(GENERATIONS, FOX)).status,
          (await buy(GENERATIONS, FOX)).status,
        ]
        expect([statuses, await node.balanceOf(buyer.address)]).toEqual([[200, 200, 402], 0n])
      },
    )

    test(
      'five hundred calls at once of a wallet with the price of one start exactly one',
      async () => {
        const { vendor, answered, open: letGo } = onlyOne(500)
        const world = await open(paymentMethod, { vendor })
        try {
          const { poor, offer, won, refused, jobs } = await load(world, { calls: 500, answered })
          expect([won.length, refused.length, jobs]).toEqual([1, 499, 1])
          const { transaction } = decodePaymentResponseHeader(won[0]?.headers.get('payment-response') ?? '')
          expect(world.node.transfersIn(transaction)).toEqual([
            { from: poor.address, to: world.seller.address, value: BigInt(offer.amount) },
          ])
          expect(await world.node.balanceOf(poor.address)).toBe(0n)
        } finally {
          letGo()
          await world.close()
        }
      },
      TEST_MS,
    )

    test(
      'one of 100 calls at once starts at most where the node does not tell balances',
      async () => {
        const { vendor, answered, open: letGo } = onlyOne(100)
        const world = await open(paymentMethod, { vendor })
        try {
          const { node } = world
          const silence = () =>
            node.fakeReply('getMultipleAccounts', () => {
              throw new RpcError(429, 'Too many requests for a specific RPC call')
            })
          const { won, refused, jobs } = await load(world, { calls: 100, answered }, silence)
          const codes = [...new Set(refused.map(({ body }) => body.code ?? body.error.code))]
          // Its own rehearsal needs the balance; a facilitator says valid without it.
          expect([won.length, refused.length, jobs, codes]).toEqual(
            paymentMethod === 'a facilitator'
              ? [1, 99, 1, ['PAYMENT_UNFUNDED']]
              : [0, 100, 0, ['PAYMENT_VERIFICATION_UNAVAILABLE']],
          )
        } finally {
          letGo()
          await world.close()
        }
      },
      TEST_MS,
    )

    test(
      'a stream that outlives the blockhash of its payment is settled before that dies, and read to its end',
      async () => {
        const pieces = chatPieces(chunk({ role: 'assistant', content: 'Hel' }))
        let ended: (outcome: Outcome['kind']) => void = () => {}
        const settlement = new Promise<Outcome['kind']>((resolve) => (ended = resolve))
        const world = await open(paymentMethod, {
          chatVendor: scriptedChat(async () => pieces.answer),
          wrap: (ports) => ({
            ...ports,
            storage: {
              ...ports.storage,
              async finishSettlement(id, token, outcome, at) {
                const isWritten = await ports.storage.finishSettlement(id, token, outcome, at)
                ended(outcome.kind)
                return isWritten
              },
            },
          }),
        })
        try {
          const { buy, spent, streamed, quoteOf, expectPaid } = world
          const quote = await quoteOf(COMPLETIONS, HELLO)
          const response = await buy(COMPLETIONS, { ...HELLO, stream: true })
          const text = response.text()
          expect(await spent()).toBe(0n)
          await streamed(32_000)
          expect([await settlement, await spent()]).toEqual(['paid', quote])
          await streamed(50_000)
          pieces.push(chunk({ content: 'lo' }), chunk({}, { finish: 'stop' }), 'data: [DONE]\n\n')
          pieces.end()
          const read = await text
          expect([response.status, read.includes('"lo"'), read.includes('[DONE]')]).toEqual([200, true, true])
          expectPaid(/^: payment-response (\S+)$/im.exec(read)?.[1], quote)
          expect(await spent()).toBe(quote)
        } finally {
          pieces.end()
          await world.close()
        }
      },
      TEST_MS,
    )

    inWorld('tells a balance', async ({ buyer, chain }) => {
      expect(await chain.balance(buyer.address, { signal: AbortSignal.timeout(TEST_MS) })).toBe(1_000_000n as never)
    })
  })
}

test(
  'whoever reads a settlement on the wire rebuilds the payment, and reads nothing with it; the buyer reads on',
  async () => {
    const world = await open('a fee payer of its own')
    try {
      const { gateway, node, buyer, buy, ask, keyed } = world
      const bought = await buy(COMPLETIONS, HELLO)
      expect(bought.status).toBe(200)
      const { transaction: signature } = decodePaymentResponseHeader(bought.headers.get('payment-response') ?? '')
      const request = {
        jsonrpc: '2.0',
        id: 1,
        method: 'getTransaction',
        params: [signature, { encoding: 'base64', maxSupportedTransactionVersion: 0, commitment: 'confirmed' }],
      }
      const found = (await (
        await fetch(node.url, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(request),
        })
      ).json()) as { result: { transaction: [string, string] } }
      const [offer] = (await read(await ask(COMPLETIONS, HELLO))).body.accepts
      const payment = paymentOf(offer, found.result.transaction[0])
      const orders = [HELLO, { ...HELLO, max_tokens: 21 }].map((body) => ({ method: 'POST', path: COMPLETIONS, body }))
      const heard = await strangerHears(gateway, { payment, orders })
      expectNothingRead(heard)
      const resent = await ask(COMPLETIONS, orders[1]?.body, { 'payment-signature': encodePayment(payment) })
      const { job_id: id } = (await resent.json()) as { job_id: string }
      const fresh = paymentOf(offer, base64(await chatFormatOf(await draftOf(node, buyer, offer))))
      await expectOwnerReads({ gateway, keyed, fresh: () => fresh, empty: () => {} }, { id, payment })
    } finally {
      await world.close()
    }
  },
  TEST_MS,
)
