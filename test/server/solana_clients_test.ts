/** Public x402 clients for Solana, unmodified, buying from a gateway over the local chain. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { decodePaymentResponseHeader, wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { ExactSvmScheme } from '@x402/svm/exact/client'
import { solanaChain, type SolanaChain } from '../../adapters/chains/solana.ts'
import { solanaFacilitator, type SolanaFacilitatorChain } from '../../adapters/chains/solana_facilitator.ts'
import { chatPieces, chunk, scriptedChat } from '../../adapters/vendors/scripted_chat.ts'
import { solanaNode, type SolanaNode } from '../../server/devnet/solana_node.ts'
import { MINT } from '../../server/devnet/solana_tokens.ts'
import { referenceSolanaDesk, type SolanaDesk } from '../adapters/solana_facilitator_kit.ts'
import { base64, draftOf, type Key, NETWORK, newKey, paymentOf, wireOf } from '../adapters/solana_kit.ts'
import { encodePayment, FOX, GENERATIONS, type Kit, kit, ORIGIN, read, slowVendor, testClock } from '../kit.ts'

const COMPLETIONS = '/api/v1/chat/completions'
const HELLO = { model: 'vendor-a/chat-5.2', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 20 }

let [node, seller, feePayer, desk] = [] as unknown as [SolanaNode, Key, Key, SolanaDesk]
const clock = testClock()
beforeAll(async () => {
  node = await solanaNode({ clock })
  ;[seller, feePayer] = [await newKey(), await newKey()]
  node.airdropSol(feePayer.address)
  await node.openAccount(seller.address)
  desk = await referenceSolanaDesk(node)
})
afterAll(() => Promise.all([desk.close(), node.stop()]))

const base = () => ({ network: NETWORK, rpcUrl: node.url, mint: MINT, payTo: seller.address })
const own = () => solanaChain({ ...base(), feePayerKeys: [feePayer.secret], pollMs: 1 })
const remote = () => solanaFacilitator({ ...base(), facilitators: [{ url: desk.url }], random: (bytes) => crypto.getRandomValues(new Uint8Array(bytes)), lookMs: 1 })

for (const [name, make] of Object.entries({ 'a fee payer of its own': own, 'a facilitator': remote })) {
  describe(`a gateway on Solana with ${name}`, () => {
    let chain: SolanaChain | SolanaFacilitatorChain
    let shop: Kit
    let buyer: Key
    beforeAll(async () => {
      chain = make()
      expect(await chain.check({ now: node.now() })).toMatchObject({ kind: 'ready' })
      shop = kit({ ports: { clock }, chatVendor: scriptedChat(), label: 'solana-devnet', wrap: (ports) => ({ ...ports, chain }) })
    })
    beforeEach(async () => {
      await chain.refresh({ now: clock.now() })
      buyer = await newKey()
      await node.fund(buyer.address, 1_000_000n)
    })
    afterAll(() => chain.close())

    const ask = (path: string, body: unknown, headers: Record<string, string> = {}) =>
      shop.shop.fetch(new Request(`${ORIGIN}${path}`, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) }), { ip: '192.0.2.1' })

    /** `fetch` as @x402/fetch makes it; what is asked goes to the gateway. */
    async function buy(path: string, body: unknown): Promise<Response> {
      const through = (async (input: RequestInfo | URL, init?: RequestInit) => await shop.shop.fetch(new Request(input, init), { ip: '192.0.2.1' })) as typeof fetch
      const client = new ExactSvmScheme(buyer, { rpcUrl: node.url })
      const pay = wrapFetchWithPaymentFromConfig(through, { schemes: [{ network: 'solana:*', client }] })
      return await pay(`${ORIGIN}${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
    }

    /** The seller has the quote, once, in the transaction that the receipt names. */
    function expectPaid(said: string | undefined, quote: bigint): void {
      const receipt = decodePaymentResponseHeader(said ?? '')
      expect(receipt).toMatchObject({ success: true, network: NETWORK, payer: buyer.address })
      expect(node.transfersIn(receipt.transaction)).toEqual([{ from: buyer.address, to: seller.address, value: quote }])
    }

    const quoteOf = async (path: string, body: unknown) => BigInt((await read(await ask(path, body))).body.accepts[0].amount)
    const spent = async () => 1_000_000n - (await node.balanceOf(buyer.address))

    test('sells an image, and its hint saves the buyer a question for the blockhash', async () => {
      const quote = await quoteOf(GENERATIONS, FOX)
      const before = node.reads('getLatestBlockhash')
      const response = await buy(GENERATIONS, FOX)
      const { status, headers, body } = await read(response)
      expect([status, body.payment?.status, body.payment?.network]).toEqual([200, 'settled', 'solana-devnet'])
      expectPaid(headers.get('payment-response') ?? undefined, quote)
      expect(await spent()).toBe(quote)
      expect(node.reads('getLatestBlockhash')).toBe(before)
    })

    test('sells an answer, whole and streamed', async () => {
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

    test('sells nothing twice for one payment, and nothing for a blockhash that has run out', async () => {
      const { body: challenge } = await read(await ask(GENERATIONS, FOX))
      const [offer] = challenge.accepts
      const signed = async () => encodePayment(paymentOf(offer, base64(await wireOf(await draftOf(node, buyer, offer)))))
      const payment = await signed()
      const first = await read(await ask(GENERATIONS, FOX, { 'payment-signature': payment }))
      const again = await read(await ask(GENERATIONS, { ...FOX, prompt: 'another fox' }, { 'payment-signature': payment }))
      expect([first.status, again.status, again.body.code]).toEqual([200, 402, 'PAYMENT_REPLAY'])
      const late = await signed()
      await clock.advance(61_000)
      await chain.refresh({ now: clock.now() })
      const stale = await read(await ask(GENERATIONS, FOX, { 'payment-signature': late }))
      expect([stale.status, stale.body.code]).toEqual([402, 'PAYMENT_BLOCKHASH_STALE'])
      expect(stale.body.accepts[0].extra).not.toEqual(offer.extra)
      expect(await spent()).toBe(BigInt(offer.amount))
    })

    test('five hundred calls at once of a wallet with the price of one start exactly one', async () => {
      const { vendor, ready } = slowVendor()
      shop = kit({ ports: { clock }, vendor, label: 'solana-devnet', wrap: (ports) => ({ ...ports, chain }) })
      const [offer] = (await read(await ask(GENERATIONS, FOX))).body.accepts
      const poor = await newKey()
      await node.fund(poor.address, BigInt(offer.amount))
      const drafts = await Promise.all(Array.from({ length: 500 }, () => draftOf(node, poor, offer)))
      const payments = await Promise.all(drafts.map(async (draft) => encodePayment(paymentOf(offer, base64(await wireOf(draft))))))
      const refused: number[] = []
      const answers = payments.map(async (payment) => {
        const { status, headers } = await ask(GENERATIONS, FOX, { 'payment-signature': payment })
        if (status !== 200) refused.push(status)
        if (refused.length === 499) ready()
        return { status, receipt: headers.get('payment-response') }
      })
      const won = (await Promise.all(answers)).filter(({ status }) => status === 200)
      expect([won.length, refused.length, vendor.jobs.length]).toEqual([1, 499, 1])
      const { transaction } = decodePaymentResponseHeader(won[0]?.receipt ?? '')
      expect(node.transfersIn(transaction)).toEqual([{ from: poor.address, to: seller.address, value: BigInt(offer.amount) }])
      expect(await node.balanceOf(poor.address)).toBe(0n)
    }, 30_000)

    test('a stream that outlives the blockhash of its payment is settled before that dies, and read to its end', async () => {
      const pieces = chatPieces(chunk({ role: 'assistant', content: 'Hel' }))
      shop = kit({ ports: { clock }, chatVendor: scriptedChat(async () => pieces.answer), label: 'solana-devnet', wrap: (ports) => ({ ...ports, chain }) })
      const quote = await quoteOf(COMPLETIONS, HELLO)
      const response = await buy(COMPLETIONS, { ...HELLO, stream: true })
      const text = response.text()
      expect(await spent()).toBe(0n)
      await shop.live(32_000)
      const isKept = async () => (await shop.ports.storage.spendByModel(buyer.address, 0)).length > 0
      for (let looks = 0; !(await isKept()) && looks < 5_000; looks++) await clock.settle()
      expect([await isKept(), await spent()]).toEqual([true, quote])
      await shop.live(50_000)
      pieces.push(chunk({ content: 'lo' }), chunk({}, { finish: 'stop' }), 'data: [DONE]\n\n')
      pieces.end()
      const read = await text
      expect([response.status, read.includes('"lo"'), read.includes('[DONE]')]).toEqual([200, true, true])
      expectPaid(/^: payment-response (\S+)$/im.exec(read)?.[1], quote)
      expect(await spent()).toBe(quote)
    })

    test('tells a balance', async () => {
      expect(await chain.balance(buyer.address, { signal: AbortSignal.timeout(1_000) })).toBe(1_000_000n as never)
    })
  })
}
