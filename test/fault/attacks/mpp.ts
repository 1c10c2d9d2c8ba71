/** MPP: credentials that are changed, reused, forged, or of another wallet, over HTTP and at /mcp. */
import type { Hex } from 'viem'
import type { PrivateKeyAccount } from 'viem/accounts'
import { nonceOf } from '../../../adapters/chains/evm/charge.ts'
import { type Challenge, decodeUrl, encodeUrl, endOf, readChallenges } from '../../../core/mpp/mod.ts'
import type { Offer, Payment } from '../../../core/x402/protocol.ts'
import type { Attack, Outcome } from './attack.ts'
import {
  type Answer,
  ATTACKER,
  atSecond,
  balanceOf,
  CUSTOMER,
  isWhole,
  newAccount,
  offerFor,
  type Order,
  ORDERS,
  post,
  publishedExact,
  read,
  spentBy,
  variant,
  walletWith,
  TRANSFER,
} from './caller.ts'
import { LAST_WORDS } from './vendor.ts'
import type { Target } from './target.ts'

const MONEY = 5_000_000n
const KEY = 'order-0000000000000001'

type Credential = {
  readonly challenge: Challenge
  readonly payload: Readonly<Record<string, string>>
  readonly source: string
}

async function challengeFor(target: Target, order: Order): Promise<Challenge> {
  const { headers } = await post(target, order)
  const [challenge] = readChallenges(headers.get('www-authenticate') ?? '')
  if (!challenge) throw new Error(`no challenge for ${order.path}`)
  return challenge as Challenge
}

type Signing = {
  readonly wallet: PrivateKeyAccount
  /** Signs in the place of the wallet. */
  readonly by?: PrivateKeyAccount
  readonly change?: Readonly<Record<string, string>>
}

async function sign(challenge: Challenge, { wallet, by = wallet, change = {} }: Signing): Promise<Credential> {
  const { amount, currency, recipient, methodDetails } = decodeUrl(challenge.request) as any
  const message = {
    from: wallet.address,
    to: recipient as string,
    value: amount as string,
    validAfter: '0',
    validBefore: String(endOf(challenge)),
    nonce: nonceOf(challenge),
    ...change,
  }
  const { validAfter, validBefore, value, ...words } = message
  const signature = await by.signTypedData({
    domain: { name: 'USDC', version: '2', chainId: methodDetails.chainId, verifyingContract: currency as Hex },
    types: { TransferWithAuthorization: TRANSFER },
    primaryType: 'TransferWithAuthorization',
    message: {
      ...words,
      value: BigInt(value),
      validAfter: BigInt(validAfter),
      validBefore: BigInt(validBefore),
    } as any,
  })
  const source = `did:pkh:eip155:${methodDetails.chainId}:${wallet.address}`
  return { challenge, payload: { type: 'authorization', ...message, signature }, source }
}

const headerOf = (credential: unknown): string => `Payment ${encodeUrl(JSON.stringify(credential))}`

/** The same authorization as a payment of x402. */
function paymentOf({ payload }: Credential, accepted: Offer, id?: string): Payment {
  const { type: _, signature, ...authorization } = payload
  const extensions = id === undefined ? {} : { extensions: { 'payment-identifier': { info: { id } } } }
  return { x402Version: 2, accepted, payload: { signature, authorization }, ...extensions } as Payment
}

type Sending = { readonly credential: unknown; readonly headers?: Readonly<Record<string, string>> }

async function send(target: Target, { path, body, host, ip = ATTACKER }: Order, sending: Sending): Promise<Answer> {
  const headers = {
    'content-type': 'application/json',
    'x-forwarded-for': ip,
    ...(host && { host }),
    authorization: headerOf(sending.credential),
    ...sending.headers,
  }
  return await read(await fetch(target.origin + path, { method: 'POST', headers, body: JSON.stringify(body) }))
}

async function poll(target: Target, path: string, credential: unknown): Promise<Answer> {
  const headers = { 'x-forwarded-for': ATTACKER, authorization: headerOf(credential) }
  const { pathname, search } = new URL(path, target.origin)
  return await read(await fetch(target.origin + pathname + search, { headers }))
}

/** A chat by the tool of /mcp, which takes the credential in its `_meta`. */
async function callTool(target: Target, { body }: Order, credential: Credential): Promise<Answer> {
  const { stream: _, ...input } = body as Record<string, unknown>
  const _meta = { 'org.paymentauth/credential': credential }
  const params = { name: 'chat_completions', arguments: input, _meta }
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'x-forwarded-for': ATTACKER,
  }
  const call = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params })
  return await read(await fetch(`${target.origin}/mcp`, { method: 'POST', headers, body: call }))
}

const hasAnswer = (answer: Answer): boolean => isWhole(answer) || answer.text.includes(LAST_WORDS)

/** One credential for many orders at once: over HTTP, at /mcp, at another gateway, and as a payment of x402. */
async function oneForMany(target: Target): Promise<Outcome> {
  const wallet = await walletWith(target, MONEY)
  const offer = await offerFor(target, ORDERS.chat, 'exact')
  const own = await sign(await challengeFor(target, ORDERS.chat), { wallet })
  const bought = await callTool(target, ORDERS.chat, own)
  if (!hasAnswer(bought)) throw new Error(`a buyer at /mcp got no answer: ${bought.text.slice(0, 300)}`)
  await settled()
  const credential = await sign(await challengeFor(target, ORDERS.chat), { wallet })
  const [before, started] = [await balanceOf(target, wallet.address), target.vendor.answers()]
  const payment = paymentOf(credential, offer)
  const other = (i: number) => variant(ORDERS.chat, i)
  const asks = [
    ...[1, 2, 3].map((i) => () => send(target, other(i), { credential })),
    ...[4, 5].map((i) => () => send(target, variant(ORDERS.stream, i), { credential })),
    ...[6, 7].map((i) => () => post(target, other(i), payment)),
    ...[8, 9].map((i) => () => callTool(target, other(i), credential)),
    () => send(target, atSecond(other(10)), { credential }),
    () => post(target, atSecond(other(11)), payment),
    () => send(target, ORDERS.image, { credential }),
    () => send(target, ORDERS.video, { credential }),
    () => send(target, other(12), { credential, headers: { 'idempotency-key': KEY } }),
  ]
  const answers = [
    ...(await Promise.all(asks.map((each) => each()))),
    ...(await Promise.all(asks.map((each) => each()))),
  ]
  const served = answers.filter(hasAnswer)
  // The same order may be answered again: its buyer has lost the reply.
  const orders = new Set(answers.flatMap((answer, i) => (hasAnswer(answer) ? [i % asks.length] : []))).size
  await settled()
  const paid = before - (await balanceOf(target, wallet.address))
  const lost = Math.max(0, orders - 1) + (paid === BigInt(offer.amount) ? 0 : 1)
  const work = target.vendor.answers() - started
  const note = `${served.length} replies with an answer to ${orders} orders, ${work} answers of the vendor, ${paid} paid`
  return { tried: answers.length, refused: answers.length - lost, note }
}

const settled = () => new Promise((resolve) => setTimeout(resolve, 2_500))

/** Everything of a credential that its sender can change, without money. */
async function changed(target: Target): Promise<Outcome> {
  const [thief, victim] = [newAccount(), await walletWith(target, MONEY)]
  const started = target.vendor.answers()
  const spent = await spentBy(target)
  const of = async (change: Readonly<Record<string, string>> = {}, wallet = thief) =>
    await sign(await challengeFor(target, ORDERS.chat), { wallet, by: thief, change })
  const made = await of()
  const withChallenge = (more: Partial<Challenge>) => ({ ...made, challenge: { ...made.challenge, ...more } })
  const cheap = encodeUrl(JSON.stringify({ ...decodeUrl(made.challenge.request), amount: '1' }))
  const elsewhere = await challengeFor(target, { ...ORDERS.chat, host: 'evil.example' })
  const forged = await of({}, victim)
  const credentials: readonly unknown[] = [
    made,
    { ...made, source: made.source.replace(thief.address, victim.address) },
    { ...made, source: undefined },
    { ...(await of({ value: '1' })) },
    await of({ to: thief.address }),
    await of({ nonce: `0x${'7'.repeat(64)}` }),
    await of({ validBefore: String(2 ** 40) }),
    { ...(await of({ value: '1' })), challenge: { ...made.challenge, request: cheap } },
    withChallenge({ expires: '2030-01-01T00:00:00Z' }),
    withChallenge({ header: 'Payment-Authorization' }),
    withChallenge({ opaque: '' }),
    withChallenge({ realm: 'evil.example' }),
    withChallenge({ id: 'A'.repeat(43) }),
    await sign(elsewhere, { wallet: thief }),
    forged,
    { ...forged, payload: { ...forged.payload, signature: `0x${'12'.repeat(65)}` } },
    { ...forged, payload: { ...forged.payload, signature: `0x${'00'.repeat(4_000)}` } },
    null,
    [],
    'text',
    { challenge: made.challenge },
    { ...made, payload: { ...made.payload, type: 'hash', hash: `0x${'1'.repeat(64)}` } },
  ]
  let taken = 0
  for (const [i, credential] of credentials.entries())
    for (const order of [variant(ORDERS.chat, i), variant(ORDERS.stream, i)])
      if (hasAnswer(await send(target, order, { credential }))) taken++
  const work = target.vendor.answers() - started
  const gas = (await spentBy(target)).sent - spent.sent
  const tried = credentials.length * 2
  const note = `${taken} answers, ${work} of the vendor, ${gas} transactions`
  return { tried, refused: tried - Math.min(tried, taken + work + gas), note }
}

/**
 * A customer's purchase by MPP, for a thief who has the published transaction, the idempotency key and the job's id.
 */
async function readBought(target: Target): Promise<Outcome> {
  const victim = await walletWith(target, 50_000_000n)
  const thief = await walletWith(target, 50_000_000n)
  const orders = [ORDERS.chat, ORDERS.image, ORDERS.video] as const
  const urls: string[] = []
  const sold: Credential[] = []
  for (const [i, order] of orders.entries()) {
    const credential = await sign(await challengeFor(target, order), { wallet: victim })
    const headers = { 'idempotency-key': `${KEY}-${i}` }
    const answer = await send(target, { ...order, ip: CUSTOMER }, { credential, headers })
    if (answer.status >= 300) throw new Error(`a customer was refused: ${answer.status} ${answer.text.slice(0, 300)}`)
    sold.push(credential)
  }
  await settled()
  const { payments } = await target.operator('GET', `/payments?payer=${victim.address}`)
  for (const id of new Set<string>(JSON.stringify(payments).match(/job_[0-9a-f]{32}/g) ?? []))
    urls.push(...['images/generations', 'videos/generations', 'calls'].map((each) => `/api/v1/${each}/${id}`))
  let [tried, read] = [0, 0]
  const count = (answer: Answer) => {
    tried++
    if (hasAnswer(answer) || answer.text.includes('"completed"')) read++
  }
  for (const [i, order] of orders.entries()) {
    const offer = await offerFor(target, order, 'exact')
    const mined = await publishedExact(target, offer)
    for (const payment of mined) {
      count(await post(target, order, payment))
      const info = { 'payment-identifier': { info: { id: `${KEY}-${i}` } } }
      count(await post(target, order, { ...payment, extensions: info } as Payment))
    }
    const fresh = await sign(await challengeFor(target, order), { wallet: victim, by: thief })
    const stolen = { ...fresh, payload: { ...fresh.payload, signature: sold[i]?.payload.signature } }
    for (const credential of [fresh, stolen, { ...(sold[i] as Credential), challenge: fresh.challenge }])
      count(await send(target, order, { credential, headers: { 'idempotency-key': `${KEY}-${i}` } }))
  }
  for (const url of urls) {
    const own = await sign(await challengeFor(target, ORDERS.video), { wallet: thief })
    count(await poll(target, url, own))
    for (const credential of sold) count(await poll(target, url, { ...credential, challenge: own.challenge }))
  }
  return { tried, refused: tried - read, note: `${read} of ${sold.length} results read, by ${urls.length} URLs` }
}

export const attacks: readonly Attack[] = [
  { family: 'mpp', name: 'one credential for many orders at once', run: oneForMany },
  { family: 'mpp', name: 'credentials that are changed, without money', run: changed },
  { family: 'mpp', name: 'reading what was bought by a credential', run: readBought },
]
