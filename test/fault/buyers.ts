/**
 * Careful clients: they resend what they have signed until they know better, and write down everything they were told.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { PrivateKeyAccount } from 'viem/accounts'
import { pollKey } from '../../core/identity/poll_urls.ts'
import type { Chance } from '../simulation/chance.ts'
import {
  type Answer,
  decodeHeader,
  encodePayment,
  GENERATIONS,
  type Payment,
  pngSize,
  signOffer,
} from '../server/clients/payer.ts'
import type { Replica } from './replicas.ts'

/** Signs the poll URLs of the replicas, so that a buyer who has lost one can make it. */
export const POLL_SECRET = '5e'.repeat(32)

export type Order = { readonly model: string; readonly prompt: string; readonly size: string }

export type Purchase = {
  readonly buyer: PrivateKeyAccount
  readonly order: Order
  /** How long its authorizations are good for; as long as the offer says, unless told. */
  readonly lifeSeconds: number | undefined
  /** Everything signed for it, in order. */
  readonly signed: Payment[]
  /** Every call that it was told of. */
  readonly reported: Set<string>
  /** The call that delivered, and its picture's address; undefined while nothing has arrived. */
  delivered: { readonly id: string; readonly transaction: string; readonly url: string } | undefined
  /** Answers that no client should get. */
  readonly oddities: string[]
  /** Requests by what came back. */
  readonly answers: Map<string, number>
}

/** Requests under way: the signed nonce, in lower case, and the replica that has it. */
export type Board = Set<{ readonly nonce: string; readonly replica: string; readonly isPost: boolean }>

type BuyerOptions = {
  readonly replicas: readonly Replica[]
  readonly board: Board
  readonly chance: Chance
  readonly pollMs: number
  readonly waitMs: number
}

export const newPurchase = (
  buyer: PrivateKeyAccount,
  { order, lifeSeconds }: Pick<Purchase, 'order' | 'lifeSeconds'>,
): Purchase => ({
  buyer,
  order,
  lifeSeconds,
  signed: [],
  reported: new Set(),
  delivered: undefined,
  oddities: [],
  answers: new Map(),
})

const ATTEMPTS = 400
/** Longer than any inline window: a frozen replica answers nothing. */
const ANSWER_MS = 40_000

/** Buys one picture; ends when it is there, or patience is at an end. Never rejects. */
export async function buy(
  purchase: Purchase,
  { replicas, board, chance, pollMs, waitMs }: BuyerOptions,
): Promise<void> {
  const { buyer, order, lifeSeconds, oddities } = purchase
  const until = performance.now() + waitMs
  let turn = chance.below(replicas.length)
  let payment: Payment | undefined
  let poll: string | undefined

  for (let attempt = 0; attempt < ATTEMPTS && !purchase.delivered && performance.now() < until; attempt++) {
    const at = replicas[turn++ % replicas.length]!
    const answer = poll ? await send(at, poll, 'GET') : await send(at, GENERATIONS, 'POST')
    count(answer ? `${answer.status}${answer.body?.code ? ` ${answer.body.code}` : ''}` : 'lost')
    await react(answer)
  }

  async function react(answer: Answer | undefined): Promise<unknown> {
    const isAway = !answer || [500, 502, 503, 504].includes(answer.status)
    if (isAway) return await pause(pollMs / 2 + chance.below(pollMs))
    const { status, body } = answer
    const id = body?.job_id ?? body?.id
    if (typeof id === 'string') purchase.reported.add(id)
    // Not charged: the same authorization is free again.
    if (status === 200 && body.status === 'failed') return void (poll = undefined)
    if (status === 200) return deliver(answer)
    if (status === 202) {
      poll = body.poll_url ?? poll
      return await pause(pollMs + chance.below(pollMs))
    }
    if (status !== 402) return void oddities.push(`${status} ${JSON.stringify(body)}`)
    if (body.code === 'PAYMENT_REPLAY' && !body.job_id) oddities.push(`a replay without a job: ${JSON.stringify(body)}`)
    const isElsewhere = body.poll_url !== undefined && body.poll_url !== poll
    if (isElsewhere) return void (poll = body.poll_url)
    if (payment && !isOver(payment))
      oddities.push(
        `signed afresh for ${poll ?? 'a request'} after ${JSON.stringify({ error: body.error, code: body.code, details: body.details })}`,
      )
    const { accepts, resource } = decodeHeader(answer.headers.get('payment-required'))
    const validBefore = `${Math.floor(Date.now() / 1000) + (lifeSeconds ?? accepts[0].maxTimeoutSeconds)}`
    payment = await signOffer(buyer, { offer: accepts[0], resource }, { authorization: { validBefore } })
    purchase.signed.push(payment)
  }

  function deliver({ body }: Answer): void {
    const { status, tx_hash: transaction } = body.payment
    const url = body.data?.[0]?.url
    if (status !== 'settled' && status !== 'already_settled') oddities.push(`delivered ${status}`)
    purchase.delivered = { id: body.id, transaction, url }
  }

  async function send({ origin, name }: Replica, path: string, method: 'GET' | 'POST'): Promise<Answer | undefined> {
    const nonce = payment?.payload.authorization.nonce.slice(2).toLowerCase()
    const mark = nonce === undefined ? undefined : { nonce, replica: name, isPost: method === 'POST' }
    if (mark) board.add(mark)
    try {
      return await request(origin + path, {
        method,
        ...(payment && { payment }),
        ...(method === 'POST' && { body: JSON.stringify(order) }),
      })
    } catch {
      return undefined
    } finally {
      if (mark) board.delete(mark)
    }
  }

  function count(what: string): void {
    purchase.answers.set(what, (purchase.answers.get(what) ?? 0) + 1)
  }
}

/** A gateway takes no authorization in its last six seconds. */
const LAST_MS = 7_000
const isOver = ({ payload: { authorization } }: Payment): boolean =>
  Number(authorization.validBefore) * 1000 - LAST_MS < Date.now()

type Request = { readonly method: string; readonly payment?: Payment; readonly body?: string }

async function request(url: string, { method, payment, body }: Request): Promise<Answer> {
  const headers = {
    ...(body !== undefined && { 'content-type': 'application/json' }),
    ...(payment && { 'payment-signature': encodePayment(payment) }),
  }
  const response = await fetch(url, {
    method,
    headers,
    signal: AbortSignal.timeout(ANSWER_MS),
    ...(body !== undefined && { body }),
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, body: text === '' ? undefined : JSON.parse(text) }
}

/**
 * Asks for a delivered result once more, and for its picture. Undefined when both are as they should be, else what is
 * wrong.
 */
export async function fetchAgain(
  { delivered, signed, order }: Purchase,
  { origin }: Replica,
): Promise<string | undefined> {
  const payment = signed.at(-1)
  if (!delivered || !payment) return 'nothing was delivered'
  const { status, body } = await request(
    `${origin}${GENERATIONS}/${delivered.id}?key=${pollKey(Buffer.from(POLL_SECRET, 'hex'), delivered.id)}`,
    { method: 'GET', payment },
  )
  if (status !== 200 || body.payment?.status !== 'already_settled')
    return `collected again, it answers ${status} ${JSON.stringify(body).slice(0, 200)}`
  if (body.payment.tx_hash !== delivered.transaction) return 'collected again, it names another transaction'
  const picture = body.data?.[0]
  if (!picture?.backed_up) return 'its picture is not hosted'
  const size = pngSize(await (await fetch(picture.url, { signal: AbortSignal.timeout(ANSWER_MS) })).bytes())
  return size === order.size ? undefined : `its picture is ${size}, not ${order.size}`
}
