/** Keys that sign offers and receipts, on every runtime with the Web Cryptography API. */
import { type Jwk, type OfferSigner, readSigned } from '../core/mod.ts'

type Algorithm = {
  readonly kty: string
  readonly crv: string
  readonly parts: readonly string[]
  readonly imports: { readonly name: string; readonly namedCurve?: string }
  readonly signs: { readonly name: string; readonly hash?: string }
}
const ALGORITHMS: Readonly<Record<OfferSigner['algorithm'], Algorithm>> = {
  EdDSA: { kty: 'OKP', crv: 'Ed25519', parts: ['x'], imports: { name: 'Ed25519' }, signs: { name: 'Ed25519' } },
  ES256: {
    kty: 'EC',
    crv: 'P-256',
    parts: ['x', 'y'],
    imports: { name: 'ECDSA', namedCurve: 'P-256' },
    signs: { name: 'ECDSA', hash: 'SHA-256' },
  },
}

/**
 * The signer of a private key: Ed25519 or P-256, as a JWK. Throws RangeError for any other; the message never has the
 * key.
 *
 * @example
 * const x = '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo'
 * const d = 'nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A'
 * const signer = offerSigner({ kty: 'OKP', crv: 'Ed25519', x, d })
 */
export function offerSigner(key: Jwk): OfferSigner {
  const algorithm = algorithmOf(key)
  if (!algorithm || !isPart(key.d)) throw new RangeError('the key must be a private Ed25519 or P-256 key, as a JWK')
  const { kty, crv, parts, imports, signs } = ALGORITHMS[algorithm]
  const coordinates = Object.fromEntries(parts.map((part) => [part, key[part] as string]))
  const publicKey = { kty, crv, alg: algorithm, ...coordinates }
  let imported: ReturnType<typeof importKey> | undefined
  return {
    algorithm,
    publicKey,
    async sign(bytes) {
      imported ??= importKey({ kty, crv, ...coordinates, d: key.d as string }, imports, 'sign')
      return new Uint8Array(await crypto.subtle.sign(signs, await imported, bytes as Uint8Array<ArrayBuffer>))
    },
  }
}

/**
 * Whether this public key signed it. Never throws.
 *
 * @example
 * const isOurs = await isSignedBy('eyJhbGciOiJFZERTQSJ9.e30.AA', { kty: 'OKP', crv: 'Ed25519', x: 'AAAA' })
 */
export async function isSignedBy(jws: string, key: Jwk): Promise<boolean> {
  const algorithm = algorithmOf(key)
  if (!algorithm || readSigned(jws)?.algorithm !== algorithm) return false
  const { kty, crv, parts, imports, signs } = ALGORITHMS[algorithm]
  const [head = '', payload = '', signature = ''] = jws.split('.')
  const bytes = decoded(signature)
  if (!bytes) return false
  try {
    const coordinates = Object.fromEntries(parts.map((part) => [part, key[part] as string]))
    const imported = await importKey({ kty, crv, ...coordinates }, imports, 'verify')
    return await crypto.subtle.verify(signs, imported, bytes, text(`${head}.${payload}`))
  } catch {
    return false
  }
}

function algorithmOf(key: Jwk): OfferSigner['algorithm'] | undefined {
  for (const name of ['EdDSA', 'ES256'] as const) {
    const { kty, crv, parts } = ALGORITHMS[name]
    if (key.kty === kty && key.crv === crv && parts.every((part) => isPart(key[part]))) return name
  }
  return undefined
}

/** 32 bytes in base64url. */
const isPart = (value: unknown): boolean => typeof value === 'string' && /^[A-Za-z0-9_-]{43}$/.test(value)

const importKey = (key: Jwk, imports: Algorithm['imports'], use: 'sign' | 'verify') =>
  crypto.subtle.importKey('jwk', key, imports as { name: string; namedCurve: string }, false, [use])

const text = (value: string) => new TextEncoder().encode(value)

function decoded(base64url: string): Uint8Array<ArrayBuffer> | undefined {
  if (!/^[A-Za-z0-9_-]*$/.test(base64url)) return undefined
  const standard = base64url.replaceAll('-', '+').replaceAll('_', '/')
  try {
    return Uint8Array.from(atob(standard), (char) => char.charCodeAt(0))
  } catch {
    return undefined
  }
}
