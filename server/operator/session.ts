/**
 * Sessions of the console: a signed cookie, with a key that is derived from the operator's token, so a changed token
 * ends them all. Nothing is stored.
 */
import { createHmac, randomBytes } from 'node:crypto'
import { isSameSecret } from '../../core/lib/ids.ts'

export type Sessions = {
  /** The cookie of a new session where the token is right. */
  open(token: string, at: { readonly isSecure: boolean }): string | undefined
  /** A cookie that ends the session in this browser. */
  ended(at: { readonly isSecure: boolean }): string
  /** When the session of this request ends; undefined where it has none. */
  expiryOf(request: Request): number | undefined
}

const NAME = 'farebox_console'
export const SESSION_MS = 12 * 3_600_000

export function consoleSessions({
  token,
  clock,
}: {
  readonly token: string
  readonly clock: { now(): number }
}): Sessions {
  const key = createHmac('sha256', token).update('farebox console session').digest()
  const signed = (text: string) => createHmac('sha256', key).update(text).digest('base64url')

  function cookie(value: string, maxAge: number, isSecure: boolean): string {
    const secure = isSecure ? '; Secure' : ''
    return `${NAME}=${value}; Path=/console; Max-Age=${maxAge}; HttpOnly; SameSite=Strict${secure}`
  }

  return {
    open(given, { isSecure }) {
      if (!isSameSecret(given, token)) return undefined
      const text = `${clock.now() + SESSION_MS}.${randomBytes(16).toString('base64url')}`
      return cookie(`${text}.${signed(text)}`, SESSION_MS / 1000, isSecure)
    },

    ended: ({ isSecure }) => cookie('', 0, isSecure),

    expiryOf(request) {
      for (const pair of (request.headers.get('cookie') ?? '').split(';')) {
        const [, expires = '', nonce, signature] =
          /^farebox_console=(\d{1,15})\.([\w-]{22})\.([\w-]{43})$/.exec(pair.trim()) ?? []
        if (signature === undefined || !isSameSecret(signature, signed(`${expires}.${nonce}`))) continue
        if (Number(expires) > clock.now()) return Number(expires)
      }
      return undefined
    },
  }
}
