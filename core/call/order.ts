/** An order on its way to a call: what it is when it arrives, and what each step adds to it. */
import type { Price, Sold } from '../endpoint/mod.ts'
import type { RequestContext } from '../endpoint/request_context.ts'
import type { Hold } from '../http/body_bytes.ts'
import type { UnpaidCount } from '../http/unpaid_work.ts'
import type { Tag } from '../payment/calls/identified_calls.ts'
import type { Verdict } from '../ports/mod.ts'
import type { Offer, Payment } from '../x402/protocol.ts'

/** A request to an endpoint that is sold. `hold` counts the memory of its body until it is answered. */
export type Incoming = {
  readonly endpoint: Sold
  readonly requestContext: RequestContext
  readonly hold: Hold
}

/** Step 1: its body has been read and parsed, and not yet validated. `isProbe`: it brings no payment. */
export type Received = Incoming & {
  readonly body: string | Uint8Array
  readonly given: unknown
  readonly isProbe: boolean
  readonly counting: UnpaidCount
  /** Its input, if the same request was quoted a moment ago; nothing is parsed then. */
  readonly quoted?: { readonly input: unknown } | undefined
}

/** Step 2: it has been validated and priced, the operator's margin included. */
export type Priced = Received & { readonly input: unknown; readonly price: Price }

/** Step 3: it brings a payment, which must be for one of these offers. `quotedAt` is for the operator's timeline. */
export type Offered = Priced & { readonly offers: readonly Offer[]; readonly quotedAt: number }

/** Step 4: who signed its payment. The fingerprint is that of the request. */
export type Signed = Offered & {
  readonly payment: Payment
  readonly payer: string
  readonly otherAddress: string | undefined
  /** Identifies the authorization. */
  readonly key: string
  readonly expiresAt: number
  readonly offer: Offer
  /** Exposure is summed per asset. */
  readonly asset: string
  readonly fingerprint: string
  readonly tag: Tag | undefined
  /** The same for another key that has signed the payload: it may have ordered before. */
  readonly signerTag: Tag | undefined
}

/** Step 6: its payment would be settled. */
export type Verified = Signed & { readonly verdict: Extract<Verdict, { kind: 'valid' }>; readonly verifiedAt: number }
