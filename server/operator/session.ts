/**
 * Sessions of the console: a signed cookie, with a key that is derived from the operator's token, so a changed token
 * ends them all. Stored is only which ones were signed out, until they would have ended.
 */
import { createHmac, randomBytes } from 'node:crypto'
import { Type } from '@sinclair/typebox'
import { isSameSecret } from '../../core/lib/mod.ts'
import { recordKind } from '../../core/mod.ts'
import type { RecordStorage } from '../../core/ports/mod.ts'

export type SessionRecords = Pick<RecordStorage, 'putRecord' | 'getRecord'>

type Sessions = {
  /** The cookie of a new session where the token is right. */
  open(token: string, at: { readonly isSecure: boolean }): string | undefined
  /** Ends the session of this request, copies of its cookie included, and returns a cookie that removes it. */
  end(request: Request, at: { readonly isSecure: boolean }): Promise<string>
  /** When the session of this request ends; undefined where it has none. */
  expiryOf(request: Request): Promise<number | undefined>
}

const NAME = 'farebox_console'
export const SESSION_MS = 12 * 3_600_000

const SIGNED_OUT = recordKind({ kind: 'console_sign_out', version: 1, schema: Type.Object({}) })

export function consoleSessions({
  token,
  clock,
  records,
}: {
  readonly token: string
  readonly clock: { now(): number }
  readonly records: SessionRecords
}): Sessions {
  const key = createHmac('sha256', token).update('farebox console session').digest()
  const signed = (text: string) => createHmac('sha256', key).update(text).digest('base64url')

  function cookie(value: string, maxAge: number, isSecure: boolean): string {
    const secure = isSecure ? '; Secure' : ''
    return `${NAME}=${value}; Path=/console; Max-Age=${maxAge}; HttpOnly; SameSite=Strict${secure}`
  }

  /** The sessions of a request that this token has signed and that have not ended by time. */
  function sessionsOf(request: Request): readonly { readonly id: string; readonly expiresAt: number }[] {
    return (request.headers.get('cookie') ?? '').split(';').flatMap((pair) => {
      const [, expires = '', id = '', signature] =
        /^farebox_console=(\d{1,15})\.([\w-]{22})\.([\w-]{43})$/.exec(pair.trim()) ?? []
      if (signature === undefined || !isSameSecret(signature, signed(`${expires}.${id}`))) return []
      return Number(expires) > clock.now() ? [{ id, expiresAt: Number(expires) }] : []
    })
  }

  return {
    open(given, { isSecure }) {
      if (!isSameSecret(given, token)) return undefined
      const text = `${clock.now() + SESSION_MS}.${randomBytes(16).toString('base64url')}`
      return cookie(`${text}.${signed(text)}`, SESSION_MS / 1000, isSecure)
    },

    async end(request, { isSecure }) {
      for (const { id, expiresAt } of sessionsOf(request))
        await SIGNED_OUT.put(records, { id, owner: 'operator', data: {}, expiresAt }, clock.now())
      return cookie('', 0, isSecure)
    },

    async expiryOf(request) {
      for (const { id, expiresAt } of sessionsOf(request))
        if (!(await SIGNED_OUT.get(records, id, clock.now()))) return expiresAt
      return undefined
    },
  }
}
