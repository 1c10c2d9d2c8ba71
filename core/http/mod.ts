/** For the server: the addresses and attempts of callers, and the default limits of the settings. */
export { type Attempts, attemptLimit, MAX_ATTEMPTS } from './attempts.ts'
export { isBrowser } from './browser_402.ts'
export { addressKey } from './caller_address.ts'
export { FREE_TIER } from './rate_limit.ts'
export { MAX_BODY, MAX_UPLOAD } from './body_bytes.ts'
export { type RequestUrl, requestUrl } from './request_url.ts'
export { UNPAID_CHARACTERS } from './unpaid_work.ts'
