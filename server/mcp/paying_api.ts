/** The HTTP API of a gateway, paid by a local wallet within caps. Above them a person is asked, or it is refused. */
import type { ServerContext } from '@modelcontextprotocol/server'
import { dollars, roundUp, type Usdc, usdc } from '../../core/mod.ts'
import type { Offer } from '../cli/buy/wallet.ts'
import type { Reservation, Spending } from '../wiring/spending.ts'

export type Caps = {
  /** The highest price of one call; undefined for none. */
  readonly perCall: Usdc | undefined
  readonly perDay: Usdc | undefined
}

/** Sends a request and answers its 402 with a payment of at most `maxUsd`; `payment` is the header that was signed. */
export type Wallet = (request: Request, maxUsd: string) => Promise<{ reply: Response; payment: string | null }>

export type PayingOptions = {
  readonly caps: Caps
  readonly spending: Spending
  wallet(offer: Offer): Promise<Wallet>
}

const PAYMENT = 'payment-signature'

/** Sends requests, and pays for those that ask for a payment. A job is polled with the payment that ordered it. */
export function payingApi({ caps, spending, wallet }: PayingOptions) {
  const ordered = new Map<string, string>()

  return async function send(request: Request, context: ServerContext): Promise<Response> {
    const known = ordered.get(new URL(request.url).pathname)
    if (known !== undefined) {
      const poll = new Request(request, { headers: { ...Object.fromEntries(request.headers), [PAYMENT]: known } })
      const polled = await fetch(poll)
      if (polled.status !== 402) return polled
    }
    const unpaid = await fetch(request.clone())
    if (unpaid.status !== 402) return unpaid
    const [offer] = ((await unpaid.clone().json()) as { accepts?: readonly Offer[] }).accepts ?? []
    if (!offer) return unpaid
    const price = usdc(BigInt(offer.amount))
    const pay = await wallet(offer)
    const reserved = await reserve(price, context)
    return typeof reserved === 'string' ? refused(reserved) : await buy(request, { pay, price, reserved })
  }

  /** A reply that is lost, or that a proxy made, may have been paid for: its price stays noted. */
  async function buy(
    request: Request,
    { pay, price, reserved }: { pay: Wallet; price: Usdc; reserved: Reservation },
  ): Promise<Response> {
    const { reply, payment } = await pay(request, inUsdc(price))
    if (!reply.ok && isFromGateway(reply) && !wasSettled(reply)) spending.release(reserved)
    if (reply.status === 202 && payment !== null) await remember(reply.clone(), payment)
    return reply
  }

  async function remember(reply: Response, payment: string): Promise<void> {
    const { poll_url } = (await reply.json()) as { poll_url?: string }
    if (poll_url !== undefined) ordered.set(new URL(poll_url, reply.url || 'http://gateway').pathname, payment)
  }

  /** Notes the price as spent. Resolves with the reason when it is above a cap and nobody has approved it. */
  async function reserve(price: Usdc, context: ServerContext): Promise<Reservation | string> {
    if (caps.perCall !== undefined && price > caps.perCall) {
      const reason = `The price is ${inUsdc(price)} USDC, above the cap of ${inUsdc(caps.perCall)} USDC per call.`
      if (!(await isApproved(reason, context))) return `${reason} Raise it with --max-per-call.`
    }
    const reserved = spending.reserve(price, caps.perDay)
    if ('day' in reserved) return reserved
    const reason = `The price is ${inUsdc(price)} USDC, and ${inUsdc(reserved.left)} USDC are left of today's cap.`
    if (!(await isApproved(reason, context))) return `${reason} Raise it with --max-per-day.`
    return spending.reserve(price, undefined) as Reservation
  }
}

/** Asks the person behind the client, where the client can. */
async function isApproved(reason: string, context: ServerContext): Promise<boolean> {
  try {
    const { action, content } = await context.mcpReq.elicitInput({
      mode: 'form',
      message: `${reason} Pay all the same?`,
      requestedSchema: {
        type: 'object',
        properties: { approve: { type: 'boolean', title: 'Pay', default: false } },
        required: ['approve'],
      },
    })
    return action === 'accept' && content?.approve === true
  } catch {
    return false
  }
}

/** Whether the gateway itself made this reply: it names each request, and answers in JSON. */
const isFromGateway = (reply: Response): boolean =>
  reply.headers.has('x-request-id') && (reply.headers.get('content-type') ?? '').includes('json')

/** Whether the receipt of a reply, which is no result, says that money moved. One that cannot be read may say so. */
function wasSettled(reply: Response): boolean {
  const receipt = reply.headers.get('payment-response')
  if (receipt === null) return false
  try {
    return (JSON.parse(atob(receipt)) as { success?: unknown }).success !== false
  } catch {
    return true
  }
}

function refused(reason: string): Response {
  return Response.json({ error: 'Spending cap', message: `${reason} Nothing was paid.` }, { status: 403 })
}

const inUsdc = (amount: Usdc): string => (Number(amount) / 1e6).toFixed(6).replace(/\.?0+$/, '')

/** US dollars as text, such as `0.10`, exactly. */
export const capOf = (text: string): Usdc => roundUp(dollars(text))
