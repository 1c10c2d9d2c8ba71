/** The Machine Payments Protocol, as the outside needs it: challenges and credentials of the intent `charge`. */
export { endOf, readChallenges } from './challenge.ts'
export { canonicalJson, decodeUrl, encodeUrl } from './codec.ts'
export { type Challenge, type ChargeMethod, type Credential, INTENT } from './method.ts'
