/** A purchase from its price to its result. The order of steps is that of the protocol; the page only watches. */
import { refusal } from '../lib/refusal.ts'
import { type Demand, type Offer, paymentHeader, readDemand, readReceipt, type Receipt } from '../lib/x402.ts'
import { NotSigned, type Wallet } from '../wallets/wallet.ts'
import { overCap, spend, unspend } from './allowance.ts'
import { readEvents } from './events.ts'
import { requireRoom, storeCall, type StoredCall } from './stored_calls.ts'
import { type Order, send } from './order.ts'

/** A purchased result. `text` grows while it is streamed. */
export type Result =
  | {
      readonly kind: 'text'
      readonly text: string
      readonly tokens?: { readonly prompt_tokens: number; readonly completion_tokens: number }
    }
  | { readonly kind: 'json'; readonly value: unknown }
  | { readonly kind: 'file'; readonly url: string; readonly type: string }

export type Bought = {
  readonly result: Result
  readonly receipt?: Receipt
  /** Why the result is not whole. */
  readonly problem?: string
  /** The connection was lost: the same payment brings the whole of it. */
  readonly isCut?: true
}

/** `free`: there was nothing to pay, and the result is there. */
type Priced = { readonly kind: 'quote'; readonly demand: Demand } | ({ readonly kind: 'free' } & Bought)

export type Watching = {
  /** Reports the current step, for a status line. */
  step(text: string): void
  /** A part of the result. */
  partly(result: Result): void
}

/** Asks for the price. Rejects with the gateway's words where the order is not accepted. */
export async function priceOf(order: Order, watching: Watching): Promise<Priced> {
  const reply = await reached(send(order))
  if (reply.status === 402) return { kind: 'quote', demand: await readDemand(reply) }
  if (!reply.ok) throw await refusal(reply)
  return { kind: 'free', ...(await readResult(reply, watching)) }
}

/** Who signs which offer. */
export type Payer = { readonly offer: Offer; readonly wallet: Wallet; readonly address: string }

/** Signs an offer and buys. The signed payment is kept before it is sent. */
export async function buy(order: Order, payer: Payer, watching: Watching): Promise<Bought> {
  const id = newId()
  const payment = await sign(payer, id, watching)
  const { amount, network } = payer.offer
  const call: StoredCall = { id, at: Date.now(), order, amount, network, status: 'signed', ...payment }
  storeCall(call)
  return await resume(call, watching)
}

/** Signs again for a call whose signature ran out before its work was done. The first can no longer be charged. */
export async function collect(call: StoredCall, payer: Payer, watching: Watching): Promise<Bought> {
  const { problem: _, ...rest } = call
  const signed: StoredCall = { ...rest, ...(await sign(payer, newId(), watching)) }
  storeCall(signed)
  return await resume(signed, watching)
}

/** Counts an amount as spent before it is signed, so that two purchases at once stay within the limit. */
async function sign({ offer, wallet, address }: Payer, id: string, watching: Watching) {
  const reason = overCap(offer.amount)
  if (reason) throw new NotSigned(reason)
  requireRoom()
  spend(offer.amount)
  watching.step('Waiting for the signature')
  try {
    return { payment: paymentHeader(offer, await wallet.sign(offer, address), id), signedAt: Date.now() }
  } catch (error) {
    unspend(offer.amount)
    throw error
  }
}

/** Nobody can guess it. Pages without TLS have no `randomUUID`. */
function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** The result is there, or will be, and takes a new signature. */
export class SignAgain extends Error {
  readonly call: StoredCall
  readonly demand: Demand
  constructor(call: StoredCall, demand: Demand) {
    super('The signature ran out before the result was there, so nothing was charged. Sign again to collect it.')
    this.call = call
    this.demand = demand
  }
}

/** Goes on with a call whose answer is not known: sends the same payment again, or polls its job. */
export async function resume(call: StoredCall, watching: Watching): Promise<Bought> {
  const { order, payment } = call
  if (payment === undefined) throw new Error('Nothing is left to be done for this call.')
  const headers = { 'payment-signature': payment }
  const next = ({ pollUrl }: StoredCall) =>
    send(pollUrl === undefined ? order : { title: order.title, ...getOf(pollUrl) }, headers)
  watching.step('Signed; waiting for the result')
  let latest = call
  let reply = await reached(next(latest), latest)
  for (;;) {
    if (reply.status === 402) latest = await afterDemand(reply, latest, watching)
    else if (reply.status === 202) {
      const job = (await reply.json()) as { poll_url: string; status?: string; progress?: number }
      latest = { ...latest, status: 'waiting', pollUrl: job.poll_url }
      watching.step(job.progress === undefined ? `The job is ${job.status}` : `The job is at ${job.progress}%`)
    } else if (![429, 503, 504].includes(reply.status)) break
    else if (latest.pollUrl === undefined) throw await failed(reply, latest, 'signed')
    storeCall(latest)
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    reply = await reached(next(latest), latest)
  }
  if (!reply.ok) throw await failed(reply, latest, (await isEnd(reply)) ? 'failed' : latest.status)
  const bought = await readResult(reply, watching)
  if (bought.isCut) {
    storeCall({ ...latest, status: 'signed', problem: 'the connection was lost' })
    return bought
  }
  const { payment: _, problem: __, ...rest } = latest
  const failure = failureOf(bought.result)
  if (failure !== undefined) {
    storeCall({ ...rest, status: 'failed', problem: failure })
    throw new Error(`It could not be made: ${failure}. Nothing was charged.`)
  }
  storeCall({ ...rest, status: 'done', ...(bought.receipt && { receipt: bought.receipt }) })
  return bought
}

/**
 * Whether an error ends the call, which is then not charged. What stands between page and gateway may answer in its
 * place, with anything; the call may have been paid all the same.
 */
async function isEnd(reply: Response): Promise<boolean> {
  if (reply.status >= 500) return false
  if (reply.headers.has('payment-response')) return true
  const body: unknown = await reply
    .clone()
    .json()
    .catch(() => undefined)
  return typeof body === 'object' && body !== null && 'error' in body
}

/** The call after a 402 to its payment, if it is to be asked for again. Otherwise rejects, and the call says why. */
async function afterDemand(reply: Response, call: StoredCall, watching: Watching): Promise<StoredCall> {
  const demand = await readDemand(reply.clone())
  const pollUrl = demand.pollUrl ?? call.pollUrl
  const { code } = demand
  if (code === 'PAYMENT_REPLAY') {
    if (demand.pollUrl === undefined || call.pollUrl !== undefined) throw withAdvice(await failed(reply, call, 'spent'))
    return { ...call, status: 'waiting', pollUrl: demand.pollUrl }
  }
  if (code === 'PAYMENT_VERIFICATION_UNAVAILABLE') throw await failed(reply, call, call.status)
  if (pollUrl === undefined) throw await failed(reply, call, 'failed')
  const waiting: StoredCall = { ...call, status: 'waiting', pollUrl }
  if (hasEnded(call) && demand.accepts.length > 0) {
    storeCall(waiting)
    throw new SignAgain(waiting, demand)
  }
  if (code !== 'PAYMENT_BLOCKHASH_STALE') throw await failed(reply, waiting, 'waiting')
  watching.step('The signature ran out; it can be replaced when no block takes it any more')
  return waiting
}

const withAdvice = ({ message }: Error): Error =>
  new Error(`${message} What this payment has bought is listed under "Wallet".`)

/** A Solana transaction lives for 150 blocks after its blockhash, which takes 60 to 90 seconds. */
const SOLANA_LIFE_MS = 150_000

/** Whether no chain takes the payment any more, by the clock of the page. Until then a second one is never signed. */
function hasEnded({ payment = '', network, at, signedAt = at }: StoredCall): boolean {
  if (network.startsWith('solana:')) return Date.now() > signedAt + SOLANA_LIFE_MS
  const { payload } = JSON.parse(atob(payment)) as { payload: { authorization: { validBefore: string } } }
  return Date.now() > Number(payload.authorization.validBefore) * 1000
}

/** Why a job has no result; undefined for a result. */
function failureOf(result: Result): string | undefined {
  if (result.kind !== 'json') return undefined
  const { status, error } = (result.value ?? {}) as { status?: unknown; error?: unknown }
  if (status !== 'failed') return undefined
  return typeof error === 'string' ? error : ((error as { message?: string } | undefined)?.message ?? 'no reason given')
}

const POLL_MS = 2_000
const getOf = (url: string) => ({ method: 'GET' as const, path: relative(url) })

/** Links of this gateway are followed where the page is, so that no other origin is asked. */
function relative(url: string): string {
  const { pathname, search } = new URL(url, location.href)
  return pathname + search
}

async function reached(sent: Promise<Response>, call?: StoredCall): Promise<Response> {
  try {
    return await sent
  } catch {
    throw new Error(
      call
        ? 'The gateway did not answer. Your signed payment is kept under "Your calls": continue there, and it is never paid twice.'
        : 'The gateway did not answer. Nothing was signed.',
    )
  }
}

/** Notes how a call stands, and returns the reason. A payment that may still bring a result is kept. */
async function failed(reply: Response, call: StoredCall, status: StoredCall['status']): Promise<Error> {
  const error = await refusal(reply)
  const { payment, ...rest } = call
  const isOpen = status === 'signed' || status === 'waiting'
  storeCall({ ...rest, ...(isOpen && payment && { payment }), status, problem: error.message })
  return error
}

/** Reads what was bought, as it arrives. */
export async function readResult(reply: Response, watching: Watching): Promise<Bought> {
  const type = reply.headers.get('content-type') ?? ''
  const receipt = readReceipt(reply.headers.get('payment-response'))
  watching.step('Receiving')
  if (type.startsWith('text/event-stream') && reply.body) {
    const { comments, problem, isCut, ...streamed } = await readEvents(reply.body, ({ text }) =>
      watching.partly({ kind: 'text', text }),
    )
    const late = receipt ?? readReceipt(comments['payment-response'])
    return {
      result: { kind: 'text', ...streamed },
      ...(late && { receipt: late }),
      ...(problem && { problem }),
      ...(isCut && { isCut }),
    }
  }
  if (/^(image|audio|video)\//.test(type))
    return { result: { kind: 'file', url: URL.createObjectURL(await reply.blob()), type }, ...(receipt && { receipt }) }
  const value: unknown = await reply.json()
  const answer = (value as { choices?: readonly { message?: { content?: unknown } }[] }).choices?.[0]?.message?.content
  const result: Result = typeof answer === 'string' ? { kind: 'text', text: answer } : { kind: 'json', value }
  return { result, ...(receipt && { receipt }) }
}
