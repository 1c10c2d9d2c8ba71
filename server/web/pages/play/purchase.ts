/** A purchase from its price to its result. The order of steps is that of the protocol; the page only watches. */
import { type Demand, type Offer, paymentHeader, readDemand, readReceipt, type Receipt } from '../lib/x402.ts'
import { NotSigned, type Wallet } from '../wallets/wallet.ts'
import { overCap, spend } from './allowance.ts'
import { readEvents } from './events.ts'
import { storeCall, type StoredCall } from './stored_calls.ts'
import { type Order, send } from './order.ts'

/** What was bought. `text` grows while it is streamed. */
export type Result =
  | {
      readonly kind: 'text'
      readonly text: string
      readonly tokens?: { readonly prompt_tokens: number; readonly completion_tokens: number }
    }
  | { readonly kind: 'json'; readonly value: unknown }
  | { readonly kind: 'file'; readonly url: string; readonly type: string }

export type Bought = { readonly result: Result; readonly receipt?: Receipt; readonly problem?: string }

/** `free`: there was nothing to pay, and the result is there. */
export type Priced = { readonly kind: 'quote'; readonly demand: Demand } | ({ readonly kind: 'free' } & Bought)

export type Watching = {
  /** What happens now, for a status line. */
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

/** Signs an offer and buys. The signed payment is kept before it is sent. */
export async function buy(
  order: Order,
  { offer, wallet, address }: { readonly offer: Offer; readonly wallet: Wallet; readonly address: string },
  watching: Watching,
): Promise<Bought> {
  const reason = overCap(offer.amount)
  if (reason) throw new NotSigned(reason)
  watching.step('Waiting for the signature')
  const payment = paymentHeader(offer, await wallet.sign(offer, address))
  const call: StoredCall = {
    id: crypto.randomUUID(),
    at: Date.now(),
    order,
    amount: offer.amount,
    network: offer.network,
    status: 'signed',
    payment,
  }
  storeCall(call)
  spend(offer.amount)
  return await resume(call, watching)
}

/** Goes on with a call whose answer is not known: sends the same payment again, or polls its job. */
export async function resume(call: StoredCall, watching: Watching): Promise<Bought> {
  const { order, payment, pollUrl } = call
  if (payment === undefined) throw new Error('Nothing is left to be done for this call.')
  const headers = { 'payment-signature': payment }
  watching.step('Paid for; waiting for the result')
  let reply = await reached(
    pollUrl === undefined ? send(order, headers) : send({ ...order, ...getOf(pollUrl) }, headers),
    call,
  )
  let latest = call
  for (;;) {
    if (reply.status === 402) {
      const demand = await readDemand(reply.clone())
      if (demand.code !== 'PAYMENT_REPLAY' || demand.pollUrl === undefined) throw await failed(reply, latest)
      latest = { ...latest, status: 'waiting', pollUrl: demand.pollUrl }
    } else if (reply.status === 202) {
      const job = (await reply.json()) as { poll_url: string; status?: string; progress?: number }
      latest = { ...latest, status: 'waiting', pollUrl: job.poll_url }
      watching.step(job.progress === undefined ? `The job is ${job.status}` : `The job is at ${job.progress}%`)
    } else if (![429, 503, 504].includes(reply.status)) break
    else if (latest.pollUrl === undefined) throw await failed(reply, latest, 'signed')
    storeCall(latest)
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    reply = await reached(send({ title: order.title, ...getOf(latest.pollUrl ?? '') }, headers), latest)
  }
  if (!reply.ok) throw await failed(reply, latest, reply.status >= 500 ? 'signed' : 'failed')
  const bought = await readResult(reply, watching)
  const { payment: _, ...rest } = latest
  storeCall({ ...rest, status: 'done', ...(bought.receipt && { receipt: bought.receipt }) })
  return bought
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

/** Notes how a call ended, and returns the reason. A payment that may still bring a result is kept. */
async function failed(reply: Response, call: StoredCall, status: 'signed' | 'failed' = 'failed'): Promise<Error> {
  const error = await refusal(reply)
  const { payment, ...rest } = call
  storeCall({ ...rest, ...(status === 'signed' && payment && { payment }), status, problem: error.message })
  return error
}

async function refusal(reply: Response): Promise<Error> {
  const text = await reply.text()
  try {
    const { details, message, error } = JSON.parse(text) as { details?: unknown; message?: unknown; error?: unknown }
    const inner = typeof error === 'object' && error !== null ? (error as { message?: unknown }).message : error
    const words = [details, message, inner].find((each): each is string => typeof each === 'string')
    return new Error(words ?? `The gateway answered ${reply.status}.`)
  } catch {
    return new Error(`The gateway answered ${reply.status}.`)
  }
}

async function readResult(reply: Response, watching: Watching): Promise<Bought> {
  const type = reply.headers.get('content-type') ?? ''
  const receipt = readReceipt(reply.headers.get('payment-response'))
  watching.step('Receiving')
  if (type.startsWith('text/event-stream') && reply.body) {
    const { comments, problem, ...streamed } = await readEvents(reply.body, ({ text }) =>
      watching.partly({ kind: 'text', text }),
    )
    const late = receipt ?? readReceipt(comments['payment-response'])
    return { result: { kind: 'text', ...streamed }, ...(late && { receipt: late }), ...(problem && { problem }) }
  }
  if (/^(image|audio|video)\//.test(type))
    return { result: { kind: 'file', url: URL.createObjectURL(await reply.blob()), type }, ...(receipt && { receipt }) }
  const value: unknown = await reply.json()
  const answer = (value as { choices?: readonly { message?: { content?: unknown } }[] }).choices?.[0]?.message?.content
  const result: Result = typeof answer === 'string' ? { kind: 'text', text: answer } : { kind: 'json', value }
  return { result, ...(receipt && { receipt }) }
}
