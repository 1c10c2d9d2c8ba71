/** MPP at one gateway: its challenges, by a secret that its replicas share and no other gateway has. */
import { realmOf } from '../endpoint/charging.ts'
import type { RequestContext } from '../endpoint/request_context.ts'
import { type ChargedReplies, chargedReplies } from '../http/charged_replies.ts'
import type { Clock } from '../lib/clock.ts'
import { type Issuer, issuer } from '../mpp/challenge.ts'
import { type ChargeProblem, credentialProblem } from '../mpp/credential.ts'
import type { ChargeMethod } from '../mpp/method.ts'
import type { Log } from '../ports/log.ts'
import type { PollUrls } from './poll_urls.ts'

export type Charges = {
  /** The methods that it takes, those of its networks. */
  readonly methods: readonly ChargeMethod[]
  /** Adds fresh challenges to a 402. */
  readonly reply: ChargedReplies
  /** Why the credential of a request pays nothing here; undefined if it may, and for payments of x402. */
  problem(requestContext: Pick<RequestContext, 'payment' | 'origin'>): Promise<ChargeProblem | undefined>
}

type ChargesContext = {
  readonly gateway: string
  readonly methods: readonly ChargeMethod[]
  readonly random: (bytes: number) => Uint8Array
  readonly clock: Clock
  readonly log: Log
}

export function charges(
  secrets: Pick<PollUrls, 'derived'>,
  { gateway, methods, random, clock, log }: ChargesContext,
): Charges {
  let made: Issuer | undefined
  let making: Promise<Issuer> | undefined

  return {
    methods,
    reply: chargedReplies(issuing, { clock, log }),
    async problem({ payment, origin }) {
      if (!payment?.ok || !('credential' in payment)) return undefined
      const at = { realm: realmOf(origin), now: clock.now() }
      return credentialProblem(payment, { ...at, issuer: await issuing() })
    },
  }

  /** The secrets are read once, and again after a failure. */
  function issuing(): Issuer | Promise<Issuer> {
    if (made) return made
    making ??= secrets.derived(`mpp challenge ${gateway}`).then((derived) => (made = issuer(derived, random)))
    making.catch(() => (making = undefined))
    return making
  }
}
