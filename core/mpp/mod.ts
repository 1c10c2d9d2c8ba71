/** The Machine Payments Protocol by itself: challenges, credentials and receipts of the intent `charge`. */
export { acceptanceOf, type Acceptance } from './accept_payment.ts'
export {
  type ChargeFor,
  chargeSize,
  endOf,
  type Issuer,
  issuer,
  OTHER_HEADER,
  readChallenges,
  writeChallenge,
} from './challenge.ts'
export { canonicalJson, decodeUrl, encodeUrl } from './codec.ts'
export {
  credentialProblem,
  credentialsIn,
  decodeCredential,
  type DecodedCredential,
  type DecodeOptions,
} from './credential.ts'
export {
  type Challenge,
  type Charged,
  type ChargeMethod,
  type Credential,
  INTENT,
  methodNamed,
  methodOf,
} from './method.ts'
export { type Problem, problemMembers } from './problem.ts'
export { chargeReceipt } from './receipt.ts'
