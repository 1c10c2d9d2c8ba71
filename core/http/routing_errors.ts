/** The errors of a request that no endpoint serves. */
import { ApiError } from './errors.ts'

type Route = { readonly method: string; readonly path: string }

export function wrongMethod(method: string, path: string, allow: string): ApiError {
  return new ApiError('METHOD_NOT_ALLOWED', {
    message: `${method} is not served at ${path}; allowed: ${allow}.`,
    headers: { allow },
  })
}

/** Maximum number of similar routes in a 404 (contract 3.6). */
const MAX_NEARBY = 5

export function unknownPath(path: string, similar: readonly Route[], basePath: string): ApiError {
  const isBare = path === '/v1' || path.startsWith('/v1/')
  const meant = isBare
    ? `The API is served under /api/v1: try ${basePath}/api${path}.`
    : 'There is nothing at this path.'
  const nearby = similar.slice(0, MAX_NEARBY).map((endpoint) => `${endpoint.method} ${basePath}${endpoint.path}`)
  return new ApiError('NOT_FOUND', { message: meant, fields: { nearby } })
}
