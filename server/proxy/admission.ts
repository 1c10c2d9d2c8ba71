/**
 * Who may spend through the proxy: a program of this person, which has the token. A page of a browser, a name that was
 * pointed at this machine (DNS rebinding) and other users of the machine have none.
 */
import { isSameSecret } from '../../core/lib/mod.ts'

/** Why a request is refused, with the status that its program does not retry. */
type Refusal = { readonly status: 401 | 403; readonly message: string }

/** Header fields in which programs send what they take for an API key. */
export const KEY_HEADERS = ['authorization', 'x-api-key', 'api-key', 'x-goog-api-key']

/** Undefined if the request may spend. `port` is the one that the proxy listens on. */
export function refusalOf(
  { headers }: Pick<Request, 'headers'>,
  { port, token }: { readonly port: number; readonly token: string },
): Refusal | undefined {
  const host = headers.get('host') ?? ''
  if (!['127.0.0.1', 'localhost', '[::1]'].some((name) => host.toLowerCase() === `${name}:${port}`))
    return { status: 403, message: `farebox proxy answers to 127.0.0.1:${port} and localhost:${port} only.` }
  // Browsers send one of these with each request that a page makes; programs do not.
  if (headers.has('origin') || isFromPage(headers.get('sec-fetch-site')))
    return { status: 403, message: 'farebox proxy does not spend for a page of a browser.' }
  const given = KEY_HEADERS.map((name) => headers.get(name)).filter((value) => value !== null)
  if (given.length > 0 && given.every((value) => isSameSecret(value.replace(/^Bearer +/i, ''), token))) return undefined
  return {
    status: 401,
    message: 'The API key is not the token of farebox proxy. Run farebox proxy env for the lines to set.',
  }
}

const isFromPage = (site: string | null): boolean => site !== null && site !== 'none'
