/** The x402 protocol by itself: headers in and out, offers, amounts and prices, without an endpoint or a chain. */
export {
  ascii,
  decodeObject,
  decodePayment,
  type Decoded,
  encodeHeader,
  EXPOSED_HEADERS,
  Offer,
  Payment,
  PAYMENT_HEADERS,
  type Receipt,
  receiptHeaders,
  refusalHeaders,
  VERSION,
  wrongField,
} from './protocol.ts'
export {
  containsKey,
  KEY_PATTERN,
  KEY_PREFIX,
  type KeyMode,
  keySalt,
  keyText,
  privateKeyOf,
  readKey,
  SEED_BYTES,
  withoutKeys,
} from './api_key.ts'
export { type Challenge, challenge, MAX_HEADERS, type Resource } from './challenge.ts'
export { fits, isCumulative, isSamePaymentMethod, notOnOffer, offerOf, type OfferTerms, type Terms } from './offer.ts'
export { type Jwk, type OfferSigner, readSigned, type SignedContent } from './offer_receipt.ts'
export { identifierIn, type PaymentIdentifier } from './payment_identifier.ts'
export {
  asNumber,
  flatPrice,
  FLOOR,
  isBelow,
  markupOf,
  mediaPrice,
  mediaRate,
  perToken,
  piecePrice,
  STANDARD_FEE_USD,
  STANDARD_MEDIA_PERCENT,
} from './pricing.ts'
export { type SignInInfo, signInText } from './sign_in.ts'
export * from './money.ts'
