/**
 * An error of the database, without SQL, values or the URL, any of which may be secret. lost: there is no connection.
 * undone: the server rolled the transaction back because of another. failed: anything else.
 */
export class DatabaseError extends Error {
  override readonly name = 'DatabaseError'
  readonly kind: 'lost' | 'undone' | 'failed'
  /** SQLSTATE, the error code of the system, or an empty string. */
  readonly code: string

  constructor(kind: DatabaseError['kind'], code: string, message: string) {
    super(message)
    this.kind = kind
    this.code = code
  }
}

/** Errors that an operator can fix, by SQLSTATE. */
const WORDS: Readonly<Record<string, string>> = {
  '25006': 'the database is read-only',
  '26000': 'a pooler has lost a statement: add pooler=transaction to the URL of the database',
  '28000': 'the database does not let this user in',
  '28P01': 'the database does not accept the password',
  '3D000': 'the server has no database of that name',
  '3F000': 'the database has no schema of that name',
  '42501': 'the database denies this user a permission',
  '42P01': 'the database lacks a table',
  '42P05': 'a pooler has mixed up statements: add pooler=transaction to the URL of the database',
  '53100': 'the disk of the database is full',
  '53300': 'the database has no connection left',
  '55P03': 'the database waited too long for a lock',
  '57014': 'the database took too long',
  '57P03': 'the database is starting up or shutting down',
}

/**
 * Connection exceptions, shutdowns, no connection left, and a primary that became a standby. A retry may find another
 * server.
 */
const LOST = /^(?:08...|57P0[1-5]|53300|25006)$/
/** Serialization failure and deadlock: nothing was written. */
const UNDONE = /^(?:40001|40P01)$/
/** Two steps that found no row have inserted one: the second finds it when it is decided again. */
const DUPLICATES = /^(?:authorizations|records|leases|rate_windows)_pkey$/

/** An error of the driver as a DatabaseError. */
export function sanitized(error: unknown): DatabaseError {
  if (error instanceof DatabaseError) return error
  const {
    code: raw,
    severity,
    constraint,
    message,
  } = error as { code?: unknown; severity?: unknown; constraint?: unknown; message?: unknown }
  const code = typeof raw === 'string' && /^[A-Z0-9_]{3,60}$/.test(raw) ? raw : ''
  const isAnswer = typeof severity === 'string'
  if (!isAnswer) {
    const reason = code || plain(message)
    // A timeout is not retried, and a bad URL or certificate does not mend itself.
    return new DatabaseError(
      /timeout|^ERR_/i.test(reason) ? 'failed' : 'lost',
      code,
      `the database cannot be reached (${reason})`,
    )
  }
  const rule = typeof constraint === 'string' ? ` by ${constraint}` : ''
  const isDuplicate = code === '23505' && typeof constraint === 'string' && DUPLICATES.test(constraint)
  return new DatabaseError(
    isDuplicate ? 'undone' : kindOf(code),
    code,
    `${WORDS[code] ?? 'the database refused'} (${code}${rule})`,
  )
}

function kindOf(code: string): DatabaseError['kind'] {
  if (LOST.test(code)) return 'lost'
  return UNDONE.test(code) ? 'undone' : 'failed'
}

/** A message of plain letters, as the driver has for a broken connection. Anything else might contain a secret. */
function plain(message: unknown): string {
  return typeof message === 'string' && /^[A-Za-z ,.-]{1,100}$/.test(message) ? message : 'no reason given'
}
