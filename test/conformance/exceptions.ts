/** Endpoints that act upon the world or sell nothing keep some laws of one shots in another way. */
/**
 * Their example needs a signature of its own, or their payment moves nothing: funding_test.ts and proofs_test.ts hold
 * them to the laws that make sense.
 */
export const OF_THEIR_OWN: ReadonlySet<string> = new Set(['polymarket.fund', 'phone.numbers.release', 'onramp.token'])

const NOBODY = 'it asks nobody but our own storage'
const RINGS = 'whoever may have been rung is not rung again for ten minutes (voice_test.ts)'
const ONE_AT_A_TIME = 'a number is renewed once at a time, and the first renewal waits to be paid for (phone_test.ts)'
const OWNS_AN_UNPAID_CALL =
  'a wallet whose payment was refused buys nothing more of this before it has paid (phone_test.ts)'
/** Laws that a product cannot keep as they are written, each with its reason and where it is held instead. */
export const EXCEPT: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'phone.numbers.list': {
    'nothing is asked of a vendor before the payment is verified (contract 1.29)': NOBODY,
    'the same request many times at once makes one call and one transfer': NOBODY,
    'a vendor that fails, or never answers, charges nothing, and the same signed request buys afterwards (contract 1.28, 2.25)':
      NOBODY,
    'a buyer who hangs up is not charged, and collects by a resend or a poll (contract 2.22)': NOBODY,
    'work that dies with its process is failed, not charged, and its authorization is free': NOBODY,
    'an error reads in the dialect of the endpoint, as JSON that is not cached, and leaks nothing (contract 3.19)':
      NOBODY,
  },
  'phone.numbers.renew': { 'one fresh authorization pays for one of two calls': ONE_AT_A_TIME },
  'phone.numbers.buy': { 'one fresh authorization pays for one of two calls': OWNS_AN_UNPAID_CALL },
  'sandbox.create': {
    'one fresh authorization pays for one of two calls':
      'what has ended is not sold, and it lives no longer than the authorization that was to pay for it',
  },
  'voice.call': {
    'one fresh authorization pays for one of two calls': OWNS_AN_UNPAID_CALL,
    'a vendor that fails, or never answers, charges nothing, and the same signed request buys afterwards (contract 1.28, 2.25)':
      RINGS,
    'work that dies with its process is failed, not charged, and its authorization is free': RINGS,
  },
}
