/** The HTTP API of a gateway, paid by a local wallet within caps. Above them a person is asked, or it is refused. */
import type { ServerContext } from '@modelcontextprotocol/server'
import { usdc } from '../../core/mod.ts'
import { type Caps, inUsdc, reserve } from '../buyer/budget.ts'
import type { Journal, Reservation } from '../buyer/journal.ts'
import { signatureOf } from '../buyer/signed_payment.ts'
import { BuyError, type Offer } from '../cli/buy/gateway.ts'
import type { openWallet } from '../cli/buy/wallet.ts'

/** Answers a 402; see `openWallet`. */
export type Wallet = Awaited<ReturnType<typeof openWallet>>

type PayingOptions = {
  readonly caps: Caps
  readonly journal: Journal
  wallet(offer: Offer): Promise<Wallet>
}

const PAYMENT = 'payment-signature'

/** Sends requests, and pays for those that ask for a payment. A job is polled with the payment that ordered it. */
export function payingApi({ caps, journal, wallet: walletFor }: PayingOptions) {
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
    const { maxTimeoutSeconds: validSeconds = Number.POSITIVE_INFINITY } = offer
    const wallet = await walletFor(offer)
    const budget = { caps, journal, isApproved: (reason: string) => isApproved(reason, context) }
    const reserved = await reserve(budget, { price, validSeconds, isUnspent: wallet.isUnspent })
    if (typeof reserved === 'string') return refused(reserved)
    return await buy(request, { demand: unpaid, offer, wallet, reserved })
  }

  /**
   * A payment that was sent stays noted, whatever the gateway replies: a signature can be spent until it expires. A
   * payment that was signed and not sent is taken back.
   */
  async function buy(
    request: Request,
    { demand, offer, wallet, reserved }: { demand: Response; offer: Offer; wallet: Wallet; reserved: Reservation },
  ): Promise<Response> {
    let isSent = false
    const check = (payment: string) => {
      const signature = signatureOf(payment, { offer, now: Date.now() })
      if (typeof signature === 'string') throw new BuyError(signature)
      if (signature) journal.signed(reserved, signature)
      isSent = true
    }
    try {
      const { reply, payment } = await wallet.pay(request, { demand, maxUsd: inUsdc(reserved.amount), check })
      if (reply.status === 202 && payment !== null) await remember(reply.clone(), payment)
      return reply
    } finally {
      if (!isSent) journal.release(reserved)
    }
  }

  async function remember(reply: Response, payment: string): Promise<void> {
    const { poll_url } = (await reply.json()) as { poll_url?: string }
    if (poll_url !== undefined) ordered.set(new URL(poll_url, reply.url || 'http://gateway').pathname, payment)
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

function refused(reason: string): Response {
  return Response.json({ error: 'Spending cap', message: `${reason} Nothing was paid.` }, { status: 403 })
}
