/** Refuses forged requests from other sites (CSRF) to the console, whose session is a cookie. */

/**
 * Whether a page of this origin sent it. Beside the same-site cookie, because another page of the same site may be
 * somebody else's. Browsers set both headers, and pages cannot.
 */
export function isSameOrigin(request: Request, origin: string): boolean {
  const site = request.headers.get('sec-fetch-site')
  if (site !== null) return site === 'same-origin'
  return request.headers.get('origin') === origin
}
