/**
 * A proxy on this machine for programs that have a base URL and an API key and no wallet. It passes requests on to one
 * seller, pays what the seller asks within caps, and passes the answer back as it arrives.
 */
import { randomBytes } from 'node:crypto'
import { fieldsOf } from '../../core/lib/mod.ts'
import { encodeHeader, usdc } from '../../core/x402/mod.ts'
import { type Caps, inUsdc, type IsUnspent, reserve } from '../buyer/budget.ts'
import type { Journal, Reservation, Signature } from '../buyer/journal.ts'
import { type Offer, signatureOf } from '../buyer/signed_payment.ts'
import { refusalOf } from './admission.ts'
import { type Demand, limitedText, validSecondsOf } from './demand.ts'
import { signVoucher, turns } from './channels.ts'
import { errorReply, formatOf, reasonIn, Refused } from './errors.ts'
import { replyHeaders } from './forward.ts'
import { credentialFor } from './mpp.ts'
import { type Order, readOrder, send } from './order.ts'
import { type Payees, printable } from './payees.ts'
import { receiptOf, type StreamReceipt, watched } from './receipts.ts'
import { type Demanded, readDemands, type Terms, termsByCall, termsOf, type TermsOptions } from './terms.ts'
import { keyOf, type Sent, type Unanswered, unanswered } from './unanswered.ts'

/** A wallet that signs for one network. */
export type Signer = {
  /** Returns the signed payload for an offer, and what goes with it into the extensions of its payment. */
  sign(offer: Offer, extensions: Demand['extensions']): Promise<SignedPayload>
  /** The wallet's USDC, in base units; undefined, or absent, where no node is known. */
  balance?(): Promise<bigint | undefined>
  readonly isUnspent?: IsUnspent | undefined
  /** Signs challenges of MPP; absent where the network has none. */
  readonly account?: Parameters<typeof credentialFor>[1] | undefined
}

type SignedPayload = {
  readonly payload: Readonly<Record<string, unknown>>
  readonly extensions?: Readonly<Record<string, unknown>> | undefined
}
type Attempt = {
  readonly key: string
  readonly sent: Sent
  readonly isReplay: boolean
  /** Lets the next call of the channel run. */
  readonly end: () => void
}
type Written = { readonly header: string; readonly payment: string; readonly signature: Signature | undefined }

/** One paid call, for the line that is printed. `paid` is the signed price, in USDC. */
export type PaidCall = {
  readonly method: string
  readonly path: string
  readonly model: string | undefined
  readonly status: number
  readonly paid: string
  readonly today: string
  /** Left in the channel that paid, in USDC. */
  readonly left?: string
  /** Balance of the wallet after a payment without a channel, in USDC, where a node is known. */
  readonly balance?: string
  readonly receipt: string | undefined
  /** The payment was that of an earlier request, whose answer was not delivered. */
  readonly isReplay: boolean
}

export type ProxyOptions = TermsOptions & {
  /** Base URL of the seller: `/v1/...` is appended to it. */
  readonly to: string
  readonly port: () => number
  readonly token: string
  readonly caps: Caps & { readonly perSession: bigint | undefined }
  readonly journal: Journal
  readonly payees: Payees
  /** The models that may be bought; undefined for any. */
  readonly models: readonly string[] | undefined
  /** Throws with a message for a person where this network cannot be paid. */
  signer(offer: Offer): Promise<Signer>
  /**
   * Resolves when a call has waited for its turn in the channel long enough, and is paid by itself. Absent: it waits
   * until the calls before it have ended.
   */
  turnTimeout?(): Promise<void>
  /** Waits before the next poll of a job. */
  wait(ms: number): Promise<void>
  report(call: PaidCall): void
}

const PAYMENT = 'payment-signature'
const POLL_MS = 2_000
/** Statuses of a poll after which the job goes on. */
const RUNNING = [202, 429, 503, 504]
/** Jobs that take longer are given up; a gateway does not charge for them. */
const JOB_MS = 65 * 60_000

/** The state of a running proxy. */
type State = {
  readonly options: ProxyOptions
  readonly open: Unanswered
  readonly turnOf: ReturnType<typeof turns>
  /** Counted since the start, in base units. */
  session: bigint
  /** Deposits that no voucher has promised to the seller yet, in base units. */
  idle: bigint
}

/** Answers the requests of programs. */
export function proxy(options: ProxyOptions): (request: Request) => Promise<Response> {
  const { to, token, port, now } = options
  const state: State = { options, open: unanswered(now), turnOf: turns(), session: 0n, idle: 0n }
  return async (request) => {
    const { pathname } = new URL(request.url)
    const format = formatOf(pathname)
    try {
      const refusal = refusalOf(request, { port: port(), token })
      if (refusal) throw new Refused(refusal.status, refusal.message)
      return await passOn(state, await readOrder(request, to))
    } catch (error) {
      if (error instanceof Refused) return errorReply(format, error)
      if (request.signal.aborted) return errorReply(format, { status: 499, message: 'The program has gone.' })
      // Later lines of a node's error have its address, and with it a key.
      const [reason = ''] = (error as Error).message.split('\n')
      return errorReply(format, { status: 502, message: `farebox proxy: ${printable(reason)}` })
    }
  }
}

async function passOn(state: State, order: Order): Promise<Response> {
  const isRead = order.method === 'GET' || order.method === 'HEAD'
  const isListed = state.options.models?.includes(order.model ?? '') ?? true
  const unlisted = () =>
    new Refused(403, `farebox proxy: --models does not have ${printable(order.model ?? 'this request')}.`)
  if (!isListed && !isRead) throw unlisted()
  const key = keyOf(order.method, order)
  const earlier = state.open.take(key)
  if (earlier)
    return await inTurn(earlier.channel ? await state.turnOf() : () => {}, (end) =>
      paidReply(state, order, { key, sent: earlier, isReplay: true, end }),
    )
  const first = await send(order)
  if (first.status !== 402) return passedBack(first)
  if (!isListed) throw unlisted()
  const demanded = await readDemands(first, state.options)
  const terms = await termsOf(demanded, state.options)
  await agree(state, order, terms.offer)
  const turn = 'channel' in terms ? await state.turnOf(state.options.turnTimeout?.()) : () => {}
  if (!turn) return await withoutTurn(state, order, { key, terms, demanded })
  return await inTurn(turn, async (end) => {
    const sent = await sign(state, terms)
    return await paidReply(state, order, { key, sent, isReplay: false, end })
  })
}

type Waiting = { readonly key: string; readonly terms: Terms; readonly demanded: Demanded }

/** A call whose turn did not come, such as behind a stream that nobody reads: it is paid by itself where it can be. */
async function withoutTurn(state: State, order: Order, { key, terms, demanded }: Waiting): Promise<Response> {
  const own = await termsByCall(demanded, state.options).catch(() => undefined)
  if (own) await agree(state, order, own.offer)
  return await inTurn(own ? () => {} : await state.turnOf(), async (end) => {
    const sent = await sign(state, own ?? terms)
    return await paidReply(state, order, { key, sent, isReplay: false, end })
  })
}

/** Runs a call whose turn it is. `end` lets the next one of the channel run. */
async function inTurn(turn: () => void, run: (end: () => void) => Promise<Response>): Promise<Response> {
  const end = once(turn)
  try {
    return await run(end)
  } catch (error) {
    end()
    throw error
  }
}

/** Throws where nobody has agreed to pay the payee of an offer. */
async function agree(state: State, { url }: Order, { network, payTo }: Offer): Promise<void> {
  if (await state.options.payees.isAllowed({ seller: new URL(url).origin, network, payTo })) return
  throw new Refused(
    402,
    `farebox proxy: ${payTo} is not an agreed payee. Add --payees ${payTo}, or agree on a terminal. Nothing was paid.`,
  )
}

/**
 * Signs one payment within the caps. What is signed counts as spent from here on. `raised`: sum of the vouchers that
 * the request has sent, in base units.
 */
async function sign(state: State, terms: Terms, raised = 0n): Promise<Sent> {
  const { offer } = terms
  const validSeconds = validSecondsOf(offer)
  if ('channel' in terms) {
    const { caps, journal } = state.options
    const { perSession } = caps
    const left = perSession === undefined ? undefined : perSession - state.session
    const { payment, reserved, deposit } = await signVoucher(terms.channel, {
      ...terms,
      caps: { ...caps, session: left },
      journal,
      idle: state.idle,
      raised,
    })
    state.session += reserved.amount
    const rest = state.idle + deposit - reserved.amount
    state.idle = rest > 0n ? rest : 0n
    const until = state.options.now() + validSeconds * 1000
    const price = raised + reserved.amount
    const { channel } = terms
    return { header: PAYMENT, payment, price, until, channel, again: () => sign(state, terms, price) }
  }
  const signer = await state.options.signer(offer)
  const price = usdc(BigInt(offer.amount))
  const reserved = await reserveFor(state, price, { validSeconds, isUnspent: signer.isUnspent })
  let isSigned = false
  try {
    const { header, payment, signature } = await written(state, signer, terms)
    if (signature) state.options.journal.signed(reserved, signature)
    isSigned = true
    const until = state.options.now() + validSeconds * 1000
    return { header, payment, price, until, ...(signer.balance && { balance: signer.balance }) }
  } finally {
    if (!isSigned) release(state, reserved)
  }
}

/** The header of a payment, checked against the offer that was within the caps. */
async function written(state: State, signer: Signer, terms: Terms): Promise<Written> {
  const { offer } = terms
  if ('challenge' in terms) {
    if (!signer.account) throw new Refused(402, 'farebox proxy: this wallet cannot pay by MPP. Nothing was paid.')
    const { header } = terms.challenge
    return { header, ...(await credentialFor(terms.challenge, signer.account)) }
  }
  const { resource, extensions } = terms.demand
  const signed = await signer.sign(offer, extensions)
  const payment = encodeHeader({
    x402Version: 2,
    ...(resource !== undefined && { resource }),
    accepted: offer,
    payload: signed.payload,
    extensions: { ...withIdentifier(extensions), ...signed.extensions },
  })
  const signature = signatureOf(payment, { offer, now: state.options.now(), takesUpto: true })
  if (typeof signature === 'string') throw new Refused(402, `farebox proxy: ${signature} Nothing was paid.`)
  return { header: PAYMENT, payment, signature }
}

async function reserveFor(
  state: State,
  price: ReturnType<typeof usdc>,
  { validSeconds, isUnspent }: { readonly validSeconds: number; readonly isUnspent: IsUnspent | undefined },
): Promise<Reservation> {
  const { caps, journal } = state.options
  const { perSession } = caps
  if (perSession !== undefined && state.session + price > perSession)
    throw new Refused(
      402,
      `farebox proxy: the price is ${inUsdc(price)} USDC, and ${inUsdc(usdc(perSession - state.session))} USDC are left of ` +
        'this session. Raise it with --max-per-session. Nothing was paid.',
    )
  // Counted before the first await: parallel calls share what is left.
  state.session += price
  const reserved = await reserve({ caps, journal }, { price, validSeconds, isUnspent })
  if (typeof reserved !== 'string') return reserved
  state.session -= price
  throw new Refused(402, `farebox proxy: ${reserved} Nothing was paid.`)
}

function release(state: State, reserved: Reservation): void {
  state.session -= reserved.amount
  state.options.journal.release(reserved)
}

/**
 * Sends a payment, and keeps it for an identical request until the answer is delivered. A refusal is never answered
 * with another payment.
 */
async function paidReply(state: State, order: Order, { key, sent: first, isReplay, end }: Attempt): Promise<Response> {
  let sent = first
  const retain = once(() => {
    state.open.retain(key, sent)
    end()
  })
  try {
    let reply = await collected(state, await send(order, sent), { order, sent })
    if (reply.status === 402 && (await isCorrected(reply, sent)) && sent.again) {
      sent = await sent.again()
      reply = await collected(state, await send(order, sent), { order, sent })
    }
    const done = async ({ receipt, charge }: StreamReceipt = {}) => {
      await sent.channel?.note(charge ?? reply.headers.get('payment-response') ?? undefined, sent.payment)
      end()
      const { method, path, model } = order
      const [paid, today] = [inUsdc(usdc(sent.price)), inUsdc(state.options.journal.today())]
      const { status } = reply
      const rest = await sent.channel?.left().catch(() => undefined)
      const left = rest !== undefined && rest >= 0n ? { left: inUsdc(usdc(rest)) } : {}
      const call = { method, path, model, status, paid, today, isReplay, receipt: receipt ?? receiptOf(reply), ...left }
      const reading = isReplay ? undefined : sent.balance?.()
      if (!reading) return state.options.report(call)
      // The program does not wait for the node.
      const unknown = () => undefined
      void reading
        .catch(unknown)
        .then((balance) =>
          state.options.report(balance === undefined ? call : { ...call, balance: inUsdc(usdc(balance)) }),
        )
    }
    if (!reply.ok) {
      await done()
      retain()
      return reply.status === 402 ? await refusedPayment(state, reply, sent) : passedBack(reply)
    }
    if (!reply.body) {
      await done()
      return passedBack(reply)
    }
    return passedBack(new Response(watched(reply.body, { done, broken: retain }), reply))
  } catch (error) {
    retain()
    throw error
  }
}

/** Whether the refusal of a voucher told the state of its channel, so that the next one can be right. */
async function isCorrected({ headers }: Response, { channel, payment }: Sent): Promise<boolean> {
  return (await channel?.correct({ required: headers.get('payment-required'), payment })) ?? false
}

async function refusedPayment(state: State, reply: Response, { until }: Sent): Promise<Response> {
  const body = await limitedText(reply)
  const seconds = Math.max(0, Math.ceil((until - state.options.now()) / 1000))
  throw new Refused(
    402,
    `${reasonIn(body)} farebox proxy: the seller refused the payment. The same request sends the same payment again ` +
      `for ${seconds} seconds, never a second one.`,
  )
}

/** Polls a job until it has its result, with the payment that ordered it. */
async function collected(
  state: State,
  reply: Response,
  { order, sent }: { readonly order: Order; readonly sent: Sent },
): Promise<Response> {
  const job = await pollUrlOf(reply, order.url)
  if (typeof job !== 'string') return job
  const headers = new Headers(order.headers)
  headers.delete('content-type')
  const poll: Order = { ...order, method: 'GET', url: job, headers, body: new Uint8Array() }
  const deadline = state.options.now() + JOB_MS
  for (;;) {
    if (state.options.now() > deadline)
      throw new Refused(504, 'farebox proxy: the job takes too long. An unfinished job is not charged.')
    await state.options.wait(POLL_MS)
    order.gone.throwIfAborted()
    const polled = await send(poll, sent)
    if (!RUNNING.includes(polled.status)) return polled
    await polled.body?.cancel()
  }
}

const passedBack = ({ body, status, headers }: Response): Response =>
  new Response(body, { status, headers: replyHeaders(headers) })

/** Where the job of a reply is polled, on the same seller; the reply itself if it has none. */
async function pollUrlOf(reply: Response, ordered: string): Promise<string | Response> {
  const isReplayed = reply.status === 402
  if (reply.status !== 202 && !isReplayed) return reply
  const text = await limitedText(reply)
  if (text === undefined && !isReplayed)
    throw new Refused(502, 'farebox proxy: the seller answers with a job that is too long, or comes too slowly.')
  const same = () => new Response(text, reply)
  let poll: unknown
  try {
    const { poll_url: found, code } = fieldsOf(JSON.parse(text ?? ''))
    poll = !isReplayed || code === 'PAYMENT_REPLAY' ? found : undefined
  } catch {
    poll = undefined
  }
  const url = typeof poll === 'string' ? URL.parse(poll, ordered) : null
  return url?.origin === new URL(ordered).origin ? url.href : same()
}

/** The extensions of the demand; the id makes a repeated request one call where the seller knows it. */
function withIdentifier(extensions: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const name = 'payment-identifier'
  if (!Object.hasOwn(extensions, name)) return extensions
  const declared = fieldsOf(extensions[name])
  const info = { ...fieldsOf(declared.info), id: `pay_${randomBytes(16).toString('hex')}` }
  return { ...extensions, [name]: { ...declared, info } }
}

function once(run: () => void): () => void {
  let isRun = false
  return () => {
    if (!isRun) run()
    isRun = true
  }
}
