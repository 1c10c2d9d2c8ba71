/** Adds fresh challenges of MPP to the 402s of a gateway: each is for one payment, so none is kept. */
import type { Clock } from '../lib/clock.ts'
import { oncePer } from '../lib/once_per.ts'
import { type Issuer, writeChallenge } from '../mpp/challenge.ts'
import type { Log } from '../ports/log.ts'
import type { Reply } from './reply.ts'

/** Who makes the challenges; a promise until its secret has been read. */
type Issuing = () => Issuer | Promise<Issuer>

export type ChargedReplies = (reply: Reply) => Reply | Promise<Reply>

const WWW_AUTHENTICATE = 'www-authenticate'
/** The same headers with a place for the challenges, which decides what CORS exposes. */
const sharedBy = oncePer((headers: Reply['headers']) =>
  headers[WWW_AUTHENTICATE] === undefined ? Object.freeze({ ...headers, [WWW_AUTHENTICATE]: '' }) : headers,
)

/**
 * `Payment` stands before `X402`. Where no challenge can be made the header is left out, because clients of MPP cannot
 * read it without one, and can pay by x402.
 */
export function chargedReplies(issuing: Issuing, { clock, log }: { clock: Clock; log: Log }): ChargedReplies {
  return (reply) => {
    if (!reply.toCharge) return reply
    if (reply.toCharge.offers.length === 0) return without(reply)
    const issuer = issuing()
    return issuer instanceof Promise
      ? issuer.then((made) => charged(reply, made), unread(reply))
      : charged(reply, issuer)
  }

  function charged(reply: Reply, issuer: Issuer): Reply {
    const { offers, for: charge } = reply.toCharge as NonNullable<Reply['toCharge']>
    const at = { ...charge, now: clock.now() }
    let value = ''
    for (const offer of offers) {
      const challenge = issuer.challenge(offer, at)
      if (challenge) value += `${value === '' ? '' : ', '}${writeChallenge(challenge)}`
    }
    const others = reply.headers[WWW_AUTHENTICATE]
    if (others !== undefined) value += `${value === '' ? '' : ', '}${others}`
    const headers = { ...reply.headers, [WWW_AUTHENTICATE]: value }
    if (!Object.isFrozen(reply.headers)) return { ...reply, headers }
    return { ...reply, headers, variant: { of: headers, shared: sharedBy(reply.headers), name: WWW_AUTHENTICATE } }
  }

  function unread(reply: Reply) {
    return (error: Error): Reply => {
      log.warn('the secret of MPP challenges could not be read', { error: error.message })
      return without(reply)
    }
  }
}

function without(reply: Reply): Reply {
  const { [WWW_AUTHENTICATE]: _, ...headers } = reply.headers
  return { ...reply, headers }
}
