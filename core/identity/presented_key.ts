/** The API key of a request: which headers may bring it, and what is refused before anything is looked up. */
import { ApiError } from '../http/errors.ts'
import type { ChainKeys, OpenedKey } from '../ports/mod.ts'
import { containsKey, KEY_PREFIX, type KeyMode, readKey } from '../x402/api_key.ts'

/** Headers in which clients send an API key; `Authorization` as a bearer token. */
export const KEY_HEADERS = ['authorization', 'x-api-key', 'api-key', 'x-goog-api-key'] as const

/** A key as it was presented; a child key has no mode. Whoever has the seed wipes it. */
type PresentedKey = { readonly mode: KeyMode | undefined; readonly seed: Uint8Array }

/** Where a key is looked for: the headers of a request. */
type KeyHeaders = { readonly headers: { get(name: string): string | null } }

/** Whether a request brings a text that begins like a key, in any of the headers. */
export const bringsKey = ({ headers }: KeyHeaders): boolean => keyTexts(headers).length > 0

/**
 * The headers of a request that bring a key, for a request on its behalf. Other credentials are left out.
 *
 * @example
 * const caller = new Headers({ authorization: 'Bearer sk-fbx-key', cookie: 'session' })
 * const passedOn = keyHeaders(caller) // { authorization: 'Bearer sk-fbx-key' }
 */
export const keyHeaders = (headers: Headers): Record<string, string> =>
  Object.fromEntries([...headers].filter(([name, value]) => keyTexts(new Headers([[name, value]])).length > 0))

/**
 * The key of a request; undefined without one. A text that does not begin like a key is ignored: public clients send
 * any placeholder. Throws ApiError for two keys, for a mistyped one, and for one that was sent in the open.
 */
export function presentedKey({ headers }: KeyHeaders, origin: string): PresentedKey | undefined {
  const [text, other] = new Set(keyTexts(headers))
  if (text === undefined) return undefined
  if (other !== undefined)
    throw new ApiError('INVALID_PARAMETER', {
      message: `The request brings two different API keys. Send one, in one of the headers ${KEY_HEADERS.join(', ')}.`,
    })
  if (!isPrivate(origin))
    throw new ApiError('INVALID_PARAMETER', {
      message:
        'An API key was sent over plain HTTP, where others can read it. Use https, and replace this key: send the rest back and make a new one.',
    })
  const key = readKey(text)
  if (key.kind === 'none' || key.kind === 'mistyped')
    throw invalidKey('The API key is mistyped: its checksum does not match.')
  return { mode: key.kind === 'key' ? key.mode : undefined, seed: key.seed }
}

/**
 * Refuses a key in the query, which proxies and histories record. Throws ApiError.
 *
 * @example
 * refuseKeyInQuery(new URLSearchParams('model=farebox/echo')) // throws for key=sk-fbx-…
 */
export function refuseKeyInQuery(query: URLSearchParams): void {
  if (!query.getAll('key').some((value) => value.startsWith(KEY_PREFIX))) return
  throw new ApiError('INVALID_PARAMETER', {
    message:
      'An API key in the query is refused, because proxies and histories record it. Send it in the header x-goog-api-key or Authorization: Bearer, and replace this key.',
    param: 'key',
  })
}

/** Refuses a body that contains a key: what a prompt says goes to a vendor, and into the history of a chat. */
export function refuseKeyInBody(body: string | Uint8Array): void {
  const text = typeof body === 'string' ? body : new TextDecoder('latin1').decode(body)
  if (!containsKey(text) && !(text.includes(ESCAPED) && containsKey(unescaped(text)))) return
  throw new ApiError('INVALID_PARAMETER', {
    message:
      'The body contains an API key, so it was sent to nobody. Leave it out, and replace this key: send the rest back and make a new one. Nothing was charged.',
    headers: { 'cache-control': 'private, no-store' },
  })
}

/** How JSON may write any character. */
const ESCAPED = '\\u00'
const unescaped = (json: string): string =>
  json.replace(/\\u00([0-9a-f]{2})/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))

/** The 401 for a key that pays nothing here. Retrying does not help. */
export const invalidKey = (message: string): ApiError =>
  new ApiError('INVALID_API_KEY', {
    message: `${message} Nothing was charged.`,
    headers: { 'x-should-retry': 'false', 'cache-control': 'private, no-store' },
  })

/** The same text for a key that was never funded and for one that nobody has made. */
export const unknownKey = (): ApiError =>
  invalidKey('The API key is not known here: it has no channel at this gateway. Check the key and the base URL.')

/** Opens a key of a mode that these chains take, and wipes its seed. */
export async function openPresented(apiKeys: ChainKeys, { mode, seed }: PresentedKey): Promise<OpenedKey> {
  try {
    const isChild = mode === undefined
    if (isChild || apiKeys.modes.includes(mode)) return await apiKeys.open(seed, { isChild })
    throw invalidKey(`The API key is of the ${mode} mode, which this gateway does not take.`)
  } finally {
    seed.fill(0)
  }
}

function keyTexts(headers: KeyHeaders['headers']): readonly string[] {
  let found = NONE
  for (const name of KEY_HEADERS) {
    const value = headers.get(name)
    if (value === null) continue
    const text = (name === 'authorization' ? (/^bearer +(.*)$/i.exec(value)?.[1] ?? '') : value).trim()
    if (text.startsWith(KEY_PREFIX)) found = [...found, text]
  }
  return found
}
const NONE: readonly string[] = []

const LOOPBACK = /^http:\/\/(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?(?:\/|$)/

const isPrivate = (origin: string): boolean => origin.startsWith('https://') || LOOPBACK.test(origin)
