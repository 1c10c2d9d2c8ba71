/** The API key of a request, opened for as long as the request needs it. */
import { paymentHeader, type RequestContext } from '../endpoint/request_context.ts'
import { bringsKey, openPresented, presentedKey, refuseKeyInQuery } from './presented_key.ts'
import type { Chain, OpenedKey } from '../ports/mod.ts'

/**
 * Undefined without a key, where keys are off, and where a payment in the same request pays instead. Throws ApiError
 * for a key that must not be used. Whoever gets the key ends it.
 */
export function openKey(
  { apiKeys }: Pick<Chain, 'apiKeys'>,
  requestContext: Pick<RequestContext, 'request' | 'query' | 'origin'>,
): Promise<OpenedKey> | undefined {
  if (!apiKeys) return undefined
  const { request, origin } = requestContext
  // Most requests have no query, and reading one of them costs more than the rest of this.
  if (request.url.includes('?')) refuseKeyInQuery(requestContext.query)
  if (!bringsKey(request) || paymentHeader(request) !== null) return undefined
  const presented = presentedKey(request, origin)
  return presented && openPresented(apiKeys, presented)
}
