/**
 * Bearer tokens of Coinbase's CDP (docs.cdp.coinbase.com, authentication): one JWT per request, signed with WebCrypto.
 */

/** `keySecret`: a PEM EC key (ES256), newlines possibly escaped, or 64 bytes of an Ed25519 key in base64 (EdDSA). */
export type CdpKey = { readonly keyId: string; readonly keySecret: string }

/** Signs a token for one method and address. Rejects, without quoting the key, when the key is invalid. */
export type Bearer = (method: string, url: URL, now: number) => Promise<string>

type Key = { readonly alg: 'ES256' | 'EdDSA'; readonly key: CryptoKey }

const LIFE_SECONDS = 120

/**
 * SEC1 inside PKCS#8: version 0, id-ecPublicKey with prime256v1 (RFC 5915, RFC 5480), the only form that WebCrypto
 * reads.
 */
const EC_HEAD = [
  0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
  0xce, 0x3d, 0x03, 0x01, 0x07,
]

/**
 * Each token names one address, so it fits no other endpoint, and tokens are not cached. `random` returns strong bytes.
 */
export function cdpBearer({ keyId, keySecret }: CdpKey, random: (bytes: number) => Uint8Array): Bearer {
  let imported: Promise<Key> | undefined

  return async (method, url, now) => {
    imported ??= importSecret(keySecret).catch(() => {
      throw new RangeError('the key is neither a PEM EC key on P-256 nor 64 bytes of an Ed25519 key in base64')
    })
    const { alg, key } = await imported
    const seconds = Math.floor(now / 1000)
    const header = { alg, kid: keyId, typ: 'JWT', nonce: hex(random(16)) }
    const times = { iat: seconds, nbf: seconds, exp: seconds + LIFE_SECONDS }
    const claims = { sub: keyId, iss: 'cdp', uris: [`${method} ${url.host}${url.pathname}`], ...times }
    const signed = `${base64url(utf8(JSON.stringify(header)))}.${base64url(utf8(JSON.stringify(claims)))}`
    const signature = await crypto.subtle.sign(
      alg === 'ES256' ? { name: 'ECDSA', hash: 'SHA-256' } : 'Ed25519',
      key,
      utf8(signed),
    )
    return `${signed}.${base64url(new Uint8Array(signature))}`
  }
}

async function importSecret(secret: string): Promise<Key> {
  const pem = /-----BEGIN (EC )?PRIVATE KEY-----([^-]+)-----END/.exec(secret.replaceAll('\\n', '\n'))
  if (pem) {
    const der = fromBase64(pem[2] ?? '')
    const key = await crypto.subtle.importKey(
      'pkcs8',
      pem[1] ? asPkcs8(der) : der,
      { name: 'ECDSA', namedCurve: 'P-256' },
      false,
      ['sign'],
    )
    return { alg: 'ES256', key }
  }
  const bytes = fromBase64(secret)
  if (bytes.length !== 64) throw new RangeError('not 64 bytes')
  const jwk = { kty: 'OKP', crv: 'Ed25519', d: base64url(bytes.subarray(0, 32)), x: base64url(bytes.subarray(32)) }
  return { alg: 'EdDSA', key: await crypto.subtle.importKey('jwk', jwk, 'Ed25519', false, ['sign']) }
}

function asPkcs8(sec1: Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(der(0x30, [...EC_HEAD, ...der(0x04, [...sec1])]))
}

/** One DER value, its length in the short form or in one or two bytes. */
function der(tag: number, content: readonly number[]): readonly number[] {
  const { length } = content
  if (length < 0x80) return [tag, length, ...content]
  if (length < 0x100) return [tag, 0x81, length, ...content]
  return [tag, 0x82, length >> 8, length & 0xff, ...content]
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text.replace(/\s/g, '')), (char) => char.charCodeAt(0))
}

function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replace(/=+$/, '')
}

function utf8(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text)
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}
