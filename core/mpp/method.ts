/** How the intent `charge` of MPP is paid on a family of networks. Each family has its own, beside its other facts. */
import type { Offer, Payment } from '../x402/protocol.ts'

/** Parameters of a challenge as they are sent. `request` and `opaque` are base64url of canonical JSON. */
export type Challenge = {
  readonly id: string
  /** Public host of the seller, without a port. */
  readonly realm: string
  readonly method: string
  readonly intent: string
  readonly request: string
  /** RFC 3339; the text is part of the id. */
  readonly expires?: string
  readonly digest?: string
  readonly description?: string
  /** Header field that carries the credential, if not `Authorization`. */
  readonly header?: string | undefined
  readonly opaque?: string | undefined
}

export const INTENT = 'charge'

/** A client's answer to a challenge. `payload` is the method's own. */
export type Credential = {
  readonly challenge: Challenge
  readonly payload: Readonly<Record<string, unknown>>
  readonly source?: string
}

/**
 * The payment of an `exact` offer that a credential is: what it moves, and what the challenge prescribes of it in the
 * `extra` of the offer.
 */
type Charged = Pick<Payment, 'payload'> & Pick<Offer, 'network' | 'extra'>

export type ChargeMethod = {
  /** As challenges name it, in lower case. */
  readonly name: string
  /** Whether an offer can be paid by it. */
  isFor(offer: Pick<Offer, 'scheme' | 'network' | 'extra'>): boolean
  /**
   * The terms of an offer in a challenge. `unique` is random base64url that no other challenge has: equal quotes are
   * paid by different authorizations.
   */
  write(offer: Offer, unique: string): Pick<Challenge, 'request' | 'opaque'>
  /** Reads a credential; a text says what is wrong with its payload. */
  read(credential: Credential): Charged | string
  /**
   * Why the credential does not do what its challenge prescribes, where that shows without the chain. `end` is that of
   * the challenge in seconds.
   */
  problem(credential: Credential, end: number): string | undefined
  /** Whether the key of an authorization, as the chain has it, is that of the credential. */
  isKey(credential: Credential, key: string): boolean
  /** Members of a receipt on this network beside those of every method. */
  receipt(network: string): Readonly<Record<string, unknown>>
}

/** The method that an offer can be paid by. */
export const methodOf = (
  methods: readonly ChargeMethod[],
  offer: Pick<Offer, 'scheme' | 'network' | 'extra'>,
): ChargeMethod | undefined => methods.find((method) => method.isFor(offer))

/** The method of a challenge or a credential. */
export const methodNamed = (methods: readonly ChargeMethod[], name: string): ChargeMethod | undefined =>
  methods.find((method) => method.name === name)
