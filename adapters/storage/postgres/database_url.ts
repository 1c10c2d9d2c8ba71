/** The URL of a Postgres database, with what it says to Farebox and not to the server. */

export type DatabaseUrl = {
  /** For the driver. */
  readonly url: string
  /** A pooler in transaction mode stands before the database: no session outlives a transaction. */
  readonly isPooled: boolean
  /** A database that only speaks the protocol of Postgres is used all the same. */
  readonly allowsUntested: boolean
}

/** Values of each parameter that is not the server's. */
const PARAMETERS = { pooler: ['transaction', 'session'], allow_untested_database: ['yes', 'no'] } as const

/** Throws, without repeating the URL, for another value of a parameter of ours. */
export function databaseUrl(given: string): DatabaseUrl {
  const parsed = URL.parse(given)
  // The driver has words for it.
  if (!parsed) return { url: given, isPooled: false, allowsUntested: false }
  const taken: Partial<Record<string, string>> = {}
  for (const [name, allowed] of Object.entries(PARAMETERS)) {
    const value = parsed.searchParams.get(name) ?? undefined
    if (value !== undefined && !(allowed as readonly string[]).includes(value))
      throw new Error(`${name} in the URL of the database is ${JSON.stringify(value)}; allowed: ${allowed.join(', ')}`)
    taken[name] = value
    parsed.searchParams.delete(name)
  }
  const hasOurs = Object.values(taken).some((value) => value !== undefined)
  return {
    url: hasOurs ? parsed.href : given,
    isPooled: taken.pooler === 'transaction',
    allowsUntested: taken.allow_untested_database === 'yes',
  }
}
