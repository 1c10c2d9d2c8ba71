/** The Machine Payments Protocol by itself: challenges, credentials and receipts of `evm/charge`. */
export { acceptanceOf, type Acceptance } from './accept_payment.ts'
export {
  type Challenge,
  CHARGE,
  type ChargeFor,
  chargeRequest,
  chargeSize,
  endOf,
  isChargeable,
  type Issuer,
  issuer,
  nonceOf,
  OTHER_HEADER,
  readChallenges,
  writeChallenge,
} from './challenge.ts'
export { canonicalJson, decodeUrl, encodeUrl } from './codec.ts'
export {
  type Credential,
  credentialProblem,
  credentialsIn,
  decodeCredential,
  type DecodedCredential,
} from './credential.ts'
export { type Problem, problemMembers } from './problem.ts'
export { chargeReceipt } from './receipt.ts'
