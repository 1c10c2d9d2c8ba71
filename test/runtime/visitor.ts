/**
 * A program that embeds the installed package: a challenge, an identify and a call. Plain Node or Bun; stops at the
 * first surprise.
 */
import assert from 'node:assert/strict'
import { type ChatVendor, gateway, type ImageVendor, type Offer, type Payment } from 'farebox'
import { evmChain, localPorts, memoryChain } from 'farebox/adapters'
import { privateKeyToAccount } from 'viem/accounts'

const chain = memoryChain()
const PIXEL =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const draw = async ({ n }: { readonly n: number }) => Array.from({ length: n }, () => ({ url: PIXEL }))
const vendor: ImageVendor = { isFull: () => false, generate: draw, edit: draw }
const chunk = (fields: object) =>
  `data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'greeter', ...fields })}\n\n`
const greeting = [
  chunk({ choices: [{ index: 0, delta: { role: 'assistant', content: 'Good morning.' }, finish_reason: null }] }),
  chunk({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }),
  chunk({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 } }),
  'data: [DONE]\n\n',
]
const greeter: ChatVendor = {
  format: 'chat',
  async ask() {
    const events = greeting.map((event) => new TextEncoder().encode(event))
    return { kind: 'stream', stream: { next: async () => events.shift(), cancel() {} } }
  },
}
const ports = localPorts({
  chain,
  images: () => vendor,
  chat: (row) => (row.vendor === 'embedded' ? greeter : undefined),
})
const farebox = gateway({ ports, label: 'base-sepolia' })
const wallet = chain.wallet('alice')
chain.fund(wallet, 1_000_000n)

const order = JSON.stringify({ model: 'vendor-a/image-1', prompt: 'a red fox in the snow' })
const signal = AbortSignal.timeout(5_000)

function post(headers: Record<string, string> = {}): Promise<Response> {
  const init = { method: 'POST', body: order, headers: { 'content-type': 'application/json', ...headers } }
  return farebox.fetch(new Request('http://localhost/api/v1/images/generations', init))
}

const challenge = await post()
assert.equal(challenge.status, 402)
const { accepts } = (await challenge.json()) as { accepts: Offer[] }
const [offer] = accepts
assert.ok(offer)
assert.deepEqual(JSON.parse(atob(challenge.headers.get('payment-required') ?? '')).accepts, accepts)

const payment = chain.sign(offer, { from: wallet, now: Date.now() })
const identity = await chain.identify(payment, offer, { now: Date.now(), signal })
assert.equal(identity.kind === 'known' && identity.payer, wallet)

const paid = await post({ 'payment-signature': btoa(JSON.stringify(payment)) })
const result = (await paid.json()) as { data: { url: string; backed_up: boolean }[]; payment: { status: string } }
assert.equal(paid.status, 200)
assert.equal(result.payment.status, 'settled')
assert.equal(chain.balanceOf(wallet), 1_000_000n - BigInt(offer.amount))

const [image] = result.data
assert.equal(image?.backed_up, true)
const picture = await farebox.fetch(new Request(image.url))
assert.equal(picture.headers.get('content-type'), 'image/png')

// The tokenizer is loaded with the first quote that counts.
async function chat(headers: Record<string, string> = {}): Promise<Response> {
  const body = JSON.stringify({
    model: 'farebox/echo',
    stream: true,
    max_tokens: 64,
    messages: [{ role: 'user', content: 'Hello' }],
  })
  return await farebox.fetch(
    new Request('http://localhost/api/v1/chat/completions', {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json', ...headers },
    }),
  )
}
const quote = (await (await chat()).json()) as { accepts: [Offer]; price: { amount: string } }
assert.equal(quote.price.amount, '0.002000')
const talk = await chat({
  'payment-signature': btoa(JSON.stringify(chain.sign(quote.accepts[0], { from: wallet, now: Date.now() }))),
})
const answer = await talk.text()
assert.ok(answer.includes('Good morning.'))
assert.match(answer, /: x-payment-receipt \S+/)
assert.ok(answer.endsWith('data: [DONE]\n\n'))

// The real chain's adapter recognizes a plain account by its signature alone: there is no node at that URL.
const account = privateKeyToAccount(`0x${'11'.repeat(32)}`)
const base = evmChain({
  network: offer.network,
  rpcUrl: 'http://127.0.0.1:9',
  asset: offer.asset,
  payTo: offer.payTo,
  domain: { name: 'USDC', version: '2' },
  relayerKey: `0x${'22'.repeat(32)}`,
})
const message = {
  from: account.address,
  to: offer.payTo as `0x${string}`,
  value: BigInt(offer.amount),
  validAfter: 0n,
  validBefore: 4_102_444_800n,
  nonce: `0x${'33'.repeat(32)}` as const,
}
const signature = await account.signTypedData({
  domain: { name: 'USDC', version: '2', chainId: 84_532, verifyingContract: offer.asset as `0x${string}` },
  types: {
    TransferWithAuthorization: [
      'address from',
      'address to',
      'uint256 value',
      'uint256 validAfter',
      'uint256 validBefore',
      'bytes32 nonce',
    ].map(parameter),
  },
  primaryType: 'TransferWithAuthorization',
  message,
})
const authorization = { ...message, value: offer.amount, validAfter: '0', validBefore: '4102444800' }
const signed: Payment = { x402Version: 2, accepted: offer, payload: { signature, authorization } }
const known = await base.identify(signed, offer, { now: Date.now(), signal })
assert.equal(known.kind === 'known' && known.payer, account.address)
base.close()

console.log(
  JSON.stringify({
    runtime: process.versions.bun ? 'bun' : 'node',
    challenge: challenge.status,
    paid: paid.status,
    payment: result.payment.status,
  }),
)

function parameter(text: string): { type: string; name: string } {
  const [type = '', name = ''] = text.split(' ')
  return { type, name }
}
