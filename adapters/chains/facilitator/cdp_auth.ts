/** Bearer tokens of Coinbase's CDP (docs.cdp.coinbase.com, authentication): one JWT per request. */
import { createPrivateKey, type KeyObject } from 'node:crypto'
import { SignJWT } from 'jose'

/** `keySecret`: a PEM EC key (ES256), newlines possibly escaped, or 64 bytes of an Ed25519 key in base64 (EdDSA). */
export type CdpKey = { readonly keyId: string; readonly keySecret: string }

/** Signs a token for one method and address. Rejects, without quoting the key, when the key is invalid. */
export type Bearer = (method: string, url: URL, now: number) => Promise<string>

const LIFE_SECONDS = 120

/**
 * Each token names one address, so it fits no other endpoint, and tokens are not cached. `random` returns strong bytes.
 */
export function cdpBearer({ keyId, keySecret }: CdpKey, random: (bytes: number) => Uint8Array): Bearer {
  let known: KeyObject | undefined

  return async (method, url, now) => {
    const key = (known ??= importSecret(keySecret))
    const seconds = Math.floor(now / 1000)
    const alg = key.asymmetricKeyType === 'ec' ? 'ES256' : 'EdDSA'
    return await new SignJWT({ uris: [`${method} ${url.host}${url.pathname}`] })
      .setProtectedHeader({ alg, kid: keyId, typ: 'JWT', nonce: Buffer.from(random(16)).toString('hex') })
      .setSubject(keyId)
      .setIssuer('cdp')
      .setIssuedAt(seconds)
      .setNotBefore(seconds)
      .setExpirationTime(seconds + LIFE_SECONDS)
      .sign(key)
  }
}

/** Throws, without quoting the secret, if it is not one of the two kinds of keys. */
function importSecret(secret: string): KeyObject {
  const key = keyIn(secret)
  if (key?.asymmetricKeyDetails?.namedCurve === 'prime256v1' || key?.asymmetricKeyType === 'ed25519') return key
  throw new RangeError('the key is neither a PEM EC key on P-256 nor 64 bytes of an Ed25519 key in base64')
}

function keyIn(secret: string): KeyObject | undefined {
  try {
    const pem = secret.replaceAll('\\n', '\n')
    if (/-----BEGIN (?:EC )?PRIVATE KEY-----/.test(pem)) {
      const key = createPrivateKey(pem)
      return key.asymmetricKeyType === 'ec' ? key : undefined
    }
    const bytes = Buffer.from(secret, 'base64')
    if (bytes.length !== 64) return undefined
    const [d, x] = [bytes.subarray(0, 32).toString('base64url'), bytes.subarray(32).toString('base64url')]
    return createPrivateKey({ format: 'jwk', key: { kty: 'OKP', crv: 'Ed25519', d, x } })
  } catch {
    return undefined
  }
}
