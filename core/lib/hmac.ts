/** HMAC-SHA-256 on every runtime: by Node's module where there is one, which takes a tenth of the portable time. */
import { hmac } from '@noble/hashes/hmac'
import { sha256 } from '@noble/hashes/sha256'
import { utf8ToBytes } from '@noble/hashes/utils'

type Mac = (text: string) => Uint8Array
type Hashing = { update(text: string): { digest(): Uint8Array } }
type Crypto = { createHmac?(hash: string, key: Uint8Array): Hashing }
type Runtime = { readonly process?: { getBuiltinModule?(name: string): Crypto | undefined } }

/** Returns the function that authenticates a text, in UTF-8, with this key. */
export function hmacSha256(key: Uint8Array): Mac {
  const native = (globalThis as Runtime).process?.getBuiltinModule?.('node:crypto')
  const { createHmac } = native ?? {}
  return createHmac ? (text) => createHmac('sha256', key).update(text).digest() : portableHmac(key)
}

export function portableHmac(key: Uint8Array): Mac {
  const keyed = hmac.create(sha256, key)
  return (text) => keyed.clone().update(utf8ToBytes(text)).digest()
}
