/**
 * Routes of the operator's console: a session for the token, and with it the operator's API below /console/api. The
 * page itself is public and has no data.
 */
import { type Attempts, MAX_ATTEMPTS } from '../../core/http/mod.ts'
import { json, type Reply } from '../../core/mod.ts'
import { OPERATOR, type OperatorApi } from './mod.ts'
import { failed, NO_STORE } from './replies.ts'
import { consoleSessions, SESSION_MS, type SessionRecords } from './session.ts'
import { isSameOrigin } from './same_origin.ts'

export const CONSOLE = '/console'
const SESSION = `${CONSOLE}/session`
const API = `${CONSOLE}/api/`

const MAX_BODY = 2_000

type ConsoleAt = {
  readonly path: string
  readonly search: string
  readonly ip: string
  /** The origin that was called, as the browser sees it. */
  readonly origin: string
}

type ConsoleOptions = {
  readonly token: string
  readonly api: OperatorApi
  readonly clock: { now(): number }
  /** Where sessions that were signed out are noted, for all replicas. */
  readonly records: SessionRecords
  readonly attempts: Attempts
}

/** Answers everything below /console but the page; undefined for what is not there. */
export type ConsoleApi = (request: Request, at: ConsoleAt) => Promise<Reply> | undefined

export function consoleApi({ token, api, clock, records, attempts }: ConsoleOptions): ConsoleApi {
  const sessions = consoleSessions({ token, clock, records })

  return (request, at) => {
    if (at.path === SESSION) return session(request, at).catch(unreachable)
    if (at.path.startsWith(API)) return served(request, at).catch(unreachable)
    return undefined
  }

  async function session(request: Request, at: ConsoleAt): Promise<Reply> {
    const { method } = request
    const isSecure = at.origin.startsWith('https:')
    if (method === 'GET') {
      const expiresAt = await sessions.expiryOf(request)
      if (expiresAt === undefined) return json(200, { signed_in: false }, NO_STORE)
      return json(200, { signed_in: true, expires_at: new Date(expiresAt).toISOString() }, NO_STORE)
    }
    if (method !== 'POST' && method !== 'DELETE')
      return failed(
        405,
        'Method not allowed',
        { message: 'Allowed: GET, POST, DELETE.' },
        { allow: 'GET, POST, DELETE' },
      )
    if (!isSameOrigin(request, at.origin)) return foreign()
    if (method === 'DELETE') return emptied(await sessions.end(request, { isSecure }))
    const wait = attempts.secondsToWait(at.ip)
    if (wait > 0) return tooManyAttempts(wait)
    // Before it is read: whoever has no session yet may send anything.
    if (!(Number(request.headers.get('content-length') ?? NaN) <= MAX_BODY))
      return failed(413, 'Request body too large', {
        message: `Write {"token": "…"} in at most ${MAX_BODY} bytes, with Content-Length.`,
      })
    const given = await tokenOf(request)
    const cookie = given === undefined ? undefined : sessions.open(given, { isSecure })
    if (cookie === undefined) attempts.failed(at.ip)
    if (cookie === undefined)
      return failed(401, 'Wrong token', {
        message:
          'This is not the operator token of this gateway. It is what operator_token, or OPERATOR_TOKEN, is set to.',
      })
    return emptied(cookie)
  }

  async function served(request: Request, { path, search, origin }: ConsoleAt): Promise<Reply> {
    if ((await sessions.expiryOf(request)) === undefined)
      return failed(401, 'Not signed in', {
        message: `Sign in at ${CONSOLE}. A session ends after ${SESSION_MS / 3_600_000} hours, and when the token changes.`,
      })
    if (request.method !== 'GET' && !isSameOrigin(request, origin)) return foreign()
    return await api(request, { path: OPERATOR + path.slice(API.length), search })
  }
}

/** For an address that was wrong too often about the operator's token. */
export function tooManyAttempts(wait: number): Reply {
  const message = `At most ${MAX_ATTEMPTS} wrong tokens per minute. Try again in ${wait} s.`
  return failed(429, 'Too many attempts', { message }, { 'retry-after': String(wait) })
}

/** Whether a session was signed out is not known without the storage. */
function unreachable(error: unknown): Reply {
  const message = `The storage could not be reached: ${(error as Error).message}`
  return failed(503, 'Not ready', { message }, { 'retry-after': '5' })
}

function foreign(): Reply {
  return failed(403, 'Forbidden', { message: 'The console changes nothing for requests of other pages.' })
}

const emptied = (cookie: string): Reply => ({
  status: 204,
  headers: { ...NO_STORE, 'set-cookie': cookie },
  body: null,
})

async function tokenOf(request: Request): Promise<string | undefined> {
  try {
    const { token } = JSON.parse(await request.text()) as { token?: unknown }
    return typeof token === 'string' ? token : undefined
  } catch {
    return undefined
  }
}
