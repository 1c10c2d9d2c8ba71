/**
 * Signs requests to the control plane of BytePlus or Volcano Engine. Source: byteplus-sdk/byteplus-openapi-demos
 * `signature/python/sign.py`; it is AWS signature version 4 without its prefix, over four headers.
 */
import { hmac } from '@noble/hashes/hmac'
import { sha256 } from '@noble/hashes/sha256'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils'

export type ArkKeys = {
  readonly accessKey: string
  readonly secretKey: string
  readonly region: string
  readonly service: string
}

const ALGORITHM = 'HMAC-SHA256'
const SIGNED = 'content-type;host;x-content-sha256;x-date'
const TYPE = 'application/json'

/**
 * The headers of a POST of `body` to `url`; `body` must be sent unchanged. `now` in milliseconds: the vendor refuses a
 * clock that is off by more than 15 minutes.
 */
export function signedHeaders(
  { url, body }: { url: string; body: string },
  keys: ArkKeys,
  now: number,
): Readonly<Record<string, string>> {
  const { host, pathname, searchParams } = new URL(url)
  const date = new Date(now).toISOString().replace(/[-:]|\.\d+/g, '')
  const day = date.slice(0, 8)
  const hash = bytesToHex(sha256(utf8ToBytes(body)))
  const canonical = [
    'POST',
    pathname,
    queryOf(searchParams),
    `content-type:${TYPE}`,
    `host:${host}`,
    `x-content-sha256:${hash}`,
    `x-date:${date}`,
    '',
    SIGNED,
    hash,
  ].join('\n')
  const scope = [day, keys.region, keys.service, 'request'].join('/')
  const toSign = [ALGORITHM, date, scope, bytesToHex(sha256(utf8ToBytes(canonical)))].join('\n')
  const key = [day, keys.region, keys.service, 'request'].reduce(mac, utf8ToBytes(keys.secretKey))
  return {
    'content-type': TYPE,
    'x-content-sha256': hash,
    'x-date': date,
    authorization: `${ALGORITHM} Credential=${keys.accessKey}/${scope}, SignedHeaders=${SIGNED}, Signature=${bytesToHex(mac(key, toSign))}`,
  }
}

const mac = (key: Uint8Array, text: string): Uint8Array => hmac(sha256, key, utf8ToBytes(text))

/** Sorted by name, each part encoded as in RFC 3986. */
function queryOf(query: URLSearchParams): string {
  const parts = [...query].map(([name, value]) => `${encoded(name)}=${encoded(value)}`)
  return parts.toSorted().join('&')
}

const encoded = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)
