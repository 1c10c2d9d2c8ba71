/** Workload with an API key: a deposit once, then requests that carry the key. */
import { setTimeout as pause } from 'node:timers/promises'
import { toHex } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { keyText, privateKeyOf } from '../../core/x402/mod.ts'
import { keyDeposit } from '../../server/buyer/key_deposit.ts'
import type { Offer } from '../../server/buyer/signed_payment.ts'
import type { Replica } from '../fault/replicas.ts'
import { taking } from '../fault/talker.ts'
import { decodeHeader, encodePayment } from '../server/clients/payer.ts'

/** `text` is what to say of it when it is not good. */
export type Reply = { readonly status: number; readonly isGood: boolean; readonly text: string }

const CHAT = '/api/v1/chat/completions'
/** In micro-USDC: what a buyer has, but for a tenth. */
const DEPOSIT = 900_000_000n
const ANSWER_MS = 40_000
const DEPOSIT_TRIES = 20

const orderOf = (ms: number, isStream: boolean) =>
  JSON.stringify({
    model: 'vendor-h/chat-4',
    messages: [{ role: 'user', content: taking(ms, 'a question by key') }],
    max_tokens: 400,
    stream: isStream,
  })

const post = (url: string, body: string, headers = {}) =>
  fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
    signal: AbortSignal.timeout(ANSWER_MS),
  })

/** A new key whose channel the wallet has funded. Only a replica that holds a relayer's key takes deposits. */
export async function fundedKey(replicas: readonly Replica[], wallet: PrivateKeyAccount): Promise<string> {
  const seed = crypto.getRandomValues(new Uint8Array(32))
  const origin = replicas[0]!.origin
  const challenge = await post(origin + CHAT, orderOf(0, false))
  await challenge.arrayBuffer()
  const { accepts } = decodeHeader(challenge.headers.get('payment-required')) as { accepts: readonly Offer[] }
  const offer = accepts.find(({ scheme }) => scheme === 'batch-settlement')
  if (!offer) throw new Error('no channels are sold')
  const key = privateKeyToAccount(toHex(privateKeyOf(seed)))
  const nonce = toHex(crypto.getRandomValues(new Uint8Array(32)))
  const payment = encodePayment(await keyDeposit(offer, { wallet, key, amount: DEPOSIT, now: Date.now(), nonce }))
  const refusals: string[] = []
  for (let turn = 0; turn < DEPOSIT_TRIES; turn++) {
    const { origin: at } = replicas[turn % replicas.length]!
    const deposited = await post(`${at}/api/v1/keys/deposit`, JSON.stringify({ payment }))
    if (deposited.status === 200) return keyText(seed, 'test')
    refusals.push(`${deposited.status} ${await deposited.text()}`)
    await pause(turn * 100)
  }
  throw new Error(`a key was not funded: ${refusals.at(-1)}`)
}

type KeyChat = { readonly key: string; readonly ms: number; readonly isStream: boolean }

/** One chat. A result that was made and not charged, because its gateway was away meanwhile, is collected. */
export async function chatByKey({ origin }: Replica, { key, ms, isStream }: KeyChat): Promise<Reply> {
  const headers = { authorization: `Bearer ${key}` }
  const reply = await replyOf(await post(origin + CHAT, orderOf(ms, isStream), headers))
  const poll = reply.status === 402 ? (JSON.parse(reply.text).poll_url as string | undefined) : undefined
  if (poll === undefined) return reply
  return await replyOf(await fetch(origin + poll, { headers, signal: AbortSignal.timeout(ANSWER_MS) }))
}

async function replyOf(response: Response): Promise<Reply> {
  const text = await response.text()
  return { status: response.status, isGood: response.status === 200 && text.includes('end-of-work-'), text }
}
