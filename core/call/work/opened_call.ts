/** A call that has been opened and is ready for its work. */
import type { Sold } from '../../endpoint/mod.ts'
import type { RequestContext } from '../../endpoint/request_context.ts'
import type { Authorization, Call } from '../../ports/mod.ts'

export type OpenedCall<Endpoint extends Sold = Sold> = {
  readonly endpoint: Endpoint
  readonly input: unknown
  readonly call: Call
  readonly authorization: Authorization
  readonly requestContext: RequestContext
  /** The operator's margin in its quote, in percent. */
  readonly margin?: string | undefined
  /**
   * The wallet has never paid and may have no other such call open, or new wallets have much unpaid together: its
   * stream is settled before any content is sent (contract 1.47, 1.95).
   */
  readonly settlesEarly?: boolean
  /** The payer can get the deposit back while no open call needs it. */
  readonly isRefundable?: boolean
  /** State of the buyer's deposit, told where the work fails. */
  readonly secured?: Readonly<Record<string, unknown>>
}
