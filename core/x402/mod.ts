/** The x402 protocol by itself: headers in and out, offers, amounts and prices, without an endpoint or a chain. */
export {
  ascii,
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
} from './protocol.ts'
export { type Challenge, challenge, MAX_HEADERS, type Resource } from './challenge.ts'
export { fits, isSamePaymentMethod, notOnOffer, offerOf, type OfferTerms, type Terms } from './offer.ts'
export { type Jwk, type OfferSigner, readSigned, type SignedContent } from './offer_receipt.ts'
export { identifierIn, type PaymentIdentifier } from './payment_identifier.ts'
export { asNumber, flatPrice, FLOOR, isBelow, mediaPrice, mediaRate, perToken, piecePrice } from './pricing.ts'
export * from './money.ts'
