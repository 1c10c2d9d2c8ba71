/** Base64 on every runtime: native where available, otherwise through `atob` and `btoa`. */

/** Decodes standard base64. Throws on anything else. */
export function fromBase64(text: string): Uint8Array {
  const native = Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array }
  if (native.fromBase64) return native.fromBase64(text)
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0))
}

/** Standard base64 with padding. */
export function toBase64(bytes: Uint8Array): string {
  const native = bytes as Uint8Array & { toBase64?: () => string }
  if (native.toBase64) return native.toBase64()
  let binary = ''
  for (let at = 0; at < bytes.length; at += CHUNK) binary += String.fromCharCode(...bytes.subarray(at, at + CHUNK))
  return btoa(binary)
}

/** Base64url without padding. */
export function toBase64Url(bytes: Uint8Array): string {
  const native = bytes as Uint8Array & { toBase64?: (options: typeof URL_SAFE) => string }
  if (native.toBase64) return native.toBase64(URL_SAFE)
  return toBase64(bytes).replace(/=+$/, '').replaceAll('+', '-').replaceAll('/', '_')
}
const URL_SAFE = { alphabet: 'base64url', omitPadding: true } as const

/** The number of arguments that every engine accepts in one call. */
const CHUNK = 0x8000

const DATA_URI = /^data:([a-z0-9.+-]+\/[a-z0-9.+-]+)((?:;[a-z0-9=.+-]+)*?)(;base64)?,/i

/** Decodes `data:<type>[;base64],…`. Undefined if the text is not a data URI or its base64 is malformed. */
export function decodeDataUri(uri: string): { type: string; bytes: Uint8Array } | undefined {
  const match = DATA_URI.exec(uri.slice(0, 200))
  if (!match?.[1]) return undefined
  const type = match[1].toLowerCase()
  const rest = uri.slice(match[0].length)
  try {
    if (!match[3]) return { type, bytes: new TextEncoder().encode(decodeURIComponent(rest)) }
    return { type, bytes: fromBase64(rest) }
  } catch {
    return undefined
  }
}
