import { Pool, type PoolClient, type QueryResult } from 'pg'
import { DatabaseError, sanitized } from '../database_error.ts'
import type { DatabaseUrl } from './database_url.ts'
import { ENGINE, refuseUntested } from './engine.ts'
import { LOOKUP_TABLES } from './lookups.ts'
import { migrate, migrations, readingProblem } from './migrations.ts'
import type { Migration } from '../migration.ts'
import { tables } from '../sql/schema.ts'
import type { Statement, Values } from '../sql/statement.ts'
import type { Sent } from './steps.ts'
import { dropSuperseded, sessionName } from './superseded.ts'

export type Limits = {
  /** Maximum connections of this process. Default 10. */
  readonly connections?: number
  /**
   * How long a statement may take, waits for locks included, and how long a verb waits for a connection, in
   * milliseconds. Default 5,000.
   */
  readonly timeoutMs?: number
  /** How long a verb retries while the database is unreachable, in milliseconds. Default 1,500. */
  readonly waitMs?: number
  /**
   * Whether replicas of the first release may use this database too: the names that they lock are locked as well.
   * Default true.
   */
  readonly besideOlder?: boolean
  /** The migrations that this process knows. By default those of this version. */
  readonly schema?: readonly Migration[]
}

/** One connection, of one step. Statements are sent at once, after those sent before, without waiting for answers. */
export type Session = {
  /** How many migrations this process knows. */
  readonly known: number
  /** Begins a transaction. */
  readonly begin: string
  /** Throws, before anything is sent, for a value that cannot be encoded. */
  ask<Row>(statement: Statement<Row>, values: Values): Promise<Row[]>
  send(statement: Sent): Promise<unknown[][]>
  /** Returns the command that was executed last. */
  run(text: string): Promise<string>
}

const TIMEOUT_MS = 5_000
/** The first pause between retries, in milliseconds. Each pause is twice as long as the one before. */
const PAUSE_MS = 50

/** After so many writes of this process the tables are checked, and again each time the writes have doubled. */
const FIRST_CHECK = 250

/**
 * Connections to one Postgres, migrated before first use. What surely wrote nothing (no connection, one lost before
 * COMMIT was sent, a transaction that the server rolled back) is retried. Everything else rejects with a DatabaseError.
 */
export function connections({ url, isPooled, allowsUntested }: DatabaseUrl, limits: Limits) {
  const { waitMs = 1_500, timeoutMs = TIMEOUT_MS, schema = migrations } = limits
  const inTurn = turns(3 * timeoutMs)
  const state: Connected = {
    pool: poolOf(url, limits, { isPooled, name: sessionName(schema.length) }),
    schema,
    running: new Set(),
    isPooled,
    allowsUntested,
    begin: `BEGIN ISOLATION LEVEL READ COMMITTED${isPooled ? `; ${settings(timeoutMs, true)}` : ''}`,
    writes: 0,
    nextCheck: FIRST_CHECK,
    isClosed: false,
  }
  return {
    /** Connects and migrates, so that a start fails where every verb would fail. */
    ready: () => tracked(state, () => withRetries(waitMs, () => ready(state))),
    read: <Answer>(query: (session: Session) => Promise<Answer>) =>
      tracked(state, () => withRetries(waitMs, () => inSession(state, query))),
    /** Steps with the same turn run one after another in this process, so that they use one connection, not all. */
    write: <Answer>(turn: string, step: (session: Session) => Promise<Answer>) =>
      tracked(state, () => {
        countWrite(state)
        return inTurn(turn, () => withRetries(waitMs, () => inSession(state, step)))
      }),
    /** Rejects when the schema takes a newer Farebox than this one. */
    checkSchema: () =>
      tracked(state, async () => {
        await ready(state)
        const { rows } = await use(state, (client) => runText(client, MIN_READER))
        refuseNewer(state, Number((rows[0] as { reader: string } | undefined)?.reader ?? 0))
      }),
    /** Why nothing is read or written any more; undefined while all is well. */
    refusal: () => state.refusal,
    /** Resolves when everything asked before has been answered and the connections are closed. */
    async close(): Promise<void> {
      if (state.isClosed) return
      state.isClosed = true
      await Promise.all(state.running)
      await state.pool.end()
    },
  }
}

type Connected = {
  readonly pool: Pool
  readonly schema: readonly Migration[]
  readonly running: Set<Promise<void>>
  /** A pooler gives each transaction any session. */
  readonly isPooled: boolean
  readonly allowsUntested: boolean
  readonly begin: string
  writes: number
  nextCheck: number
  migrated?: Promise<void> | undefined
  isClosed: boolean
  /** Why nothing is read or written any more: a newer version has changed the schema since the start. */
  refusal?: string
}

function poolOf(
  url: string,
  { connections: max = 10, timeoutMs = TIMEOUT_MS }: Limits,
  { isPooled, name }: { readonly isPooled: boolean; readonly name: string },
): Pool {
  const pool = new Pool({
    connectionString: url,
    max,
    pipeline: true,
    keepAlive: true,
    application_name: name,
    connectionTimeoutMillis: timeoutMs,
    // The last resort against a server that no longer answers.
    query_timeout: 2 * timeoutMs,
    ...(!isPooled && {
      onConnect: async (client) => void (await client.query(settings(timeoutMs, false))),
    }),
  })
  // Without these an idle connection that breaks would end the process. One in use fails its statements as well.
  pool.on('error', () => {})
  pool.on('connect', (client) => void client.on('error', () => {}))
  return pool
}

function ready(state: Connected): Promise<void> {
  if (state.refusal !== undefined) return Promise.reject(new DatabaseError('failed', '', state.refusal))
  state.migrated ??= use(state, (client) => prepared(state, client)).catch((error: unknown) => {
    state.migrated = undefined
    throw error
  })
  return state.migrated
}

async function prepared({ schema, isPooled, allowsUntested }: Connected, client: PoolClient): Promise<void> {
  if (!allowsUntested) {
    const { rows } = await client.query<{ version: string; is_citus: boolean }>(ENGINE).catch(fail)
    for (const { version, is_citus: isCitus } of rows) refuseUntested(version, isCitus)
  }
  await migrate(client, schema, { isPooled })
  await dropSuperseded(client, schema.length).catch(() => client.query('ROLLBACK'))
}

async function connect(pool: Pool): Promise<PoolClient> {
  try {
    return await pool.connect()
  } catch (error) {
    return fail(error)
  }
}

/** Runs `work` with a connection. After an error the connection is closed, which rolls back its transaction. */
async function use<Answer>({ pool }: Connected, work: (client: PoolClient) => Promise<Answer>): Promise<Answer> {
  const client = await connect(pool)
  try {
    const answer = await work(client)
    client.release()
    return answer
  } catch (error) {
    client.release(true)
    throw error
  }
}

async function inSession<Answer>(state: Connected, step: (session: Session) => Promise<Answer>): Promise<Answer> {
  await ready(state)
  return await use(state, (client) => step(sessionOf(client, state)).catch(orNewer(state, client)))
}

/** Throws when the schema takes a newer Farebox than this one. Noticed within the transaction that would write. */
function refuseNewer(state: Connected, minReader: number): void {
  const problem = readingProblem(minReader, state.schema)
  if (problem === undefined) return
  state.refusal = problem
  throw new DatabaseError('failed', '', problem)
}

/** An error that a newer schema may explain. The connection is closed afterwards, so it may be used once more. */
function orNewer(state: Connected, client: PoolClient): (error: unknown) => Promise<never> {
  return async (error) => {
    const isOfSchema = error instanceof DatabaseError && /^42|^FB001$/.test(error.code)
    if (!isOfSchema) throw error
    await client.query('ROLLBACK').catch(() => undefined)
    const found = await client.query<{ reader: string }>(MIN_READER).catch(() => undefined)
    refuseNewer(state, Number(found?.rows[0]?.reader ?? 0))
    throw error
  }
}

/**
 * Analyzes the tables that have outgrown what the planner knows of them, so that all sessions plan again. Planned over
 * empty tables, the statements that open a call read every settled call there is: until the first autoanalyze, and for
 * ever where autovacuum is off. Nothing is wrong without it, only slower, so its errors are not told.
 */
async function analyze(state: Connected): Promise<void> {
  const analyzed = use(state, async (client) => {
    const { rows } = await runText(client, OUTGROWN)
    const names = (rows as { name: string }[]).map(({ name }) => name)
    if (names.length > 0) await runText(client, `ANALYZE ${names.join(', ')}`)
    await dropSuperseded(client, state.schema.length)
  })
  await analyzed.catch(() => {})
}

function countWrite(state: Connected): void {
  if (++state.writes < state.nextCheck) return
  state.nextCheck *= 2
  void tracked(state, () => analyze(state))
}

function tracked<Answer>({ isClosed, running }: Connected, work: () => Promise<Answer>): Promise<Answer> {
  if (isClosed) return Promise.reject(new Error('the storage is closed'))
  const answer = work()
  const over = answer.then(
    () => void running.delete(over),
    () => void running.delete(over),
  )
  running.add(over)
  return answer
}

/**
 * Settings of a session or, behind a pooler, of a transaction: sent as a statement because poolers reject startup
 * parameters. A suspended process must not keep its locks for ever. Every statement has an index, and a plan made while
 * the tables were empty must not outlive that; none is worth compiling.
 */
function settings(timeoutMs: number, isLocal: boolean): string {
  const values = {
    statement_timeout: timeoutMs,
    idle_in_transaction_session_timeout: timeoutMs,
    enable_seqscan: 'off',
    jit: 'off',
  }
  const set = Object.entries(values).map(([name, value]) => `set_config('${name}', '${value}', ${isLocal})`)
  return `SELECT ${set.join(', ')}`
}

function sessionOf(client: PoolClient, { schema, isPooled, begin }: Connected): Session {
  const query = (name: string, text: string, values: readonly unknown[]) =>
    // A pooler may send the next statement to another session, which does not know its name.
    client.query<unknown[]>({ ...(!isPooled && { name }), text, values: [...values], rowMode: 'array' })
  return {
    known: schema.length,
    begin,
    ask: ({ name, text, encode, decode }, values) =>
      handled(query(name, text, encode(values)).then(({ rows }) => rows.map(decode), fail)),
    send: ({ name, text, values }) => handled(query(name, text, values).then(({ rows }) => rows, fail)),
    run: (text) => handled(runText(client, text).then(({ command }) => command)),
  }
}

function runText(client: PoolClient, text: string): Promise<QueryResult> {
  return handled(client.query(text).catch(fail))
}

/** Marks a promise as handled: where several run and one fails, nobody awaits the others. */
export function handled<Answer>(answer: Promise<Answer>): Promise<Answer> {
  answer.catch(() => {})
  return answer
}

/** Tables never analyzed, or twice as large as when they were. Sizes are asked, as the counts of rows come late. */
const OUTGROWN = `SELECT oid::regclass::text AS name FROM pg_class
  WHERE oid = ANY (ARRAY[${[...tables.map(({ name }) => name), ...LOOKUP_TABLES].map((name) => `to_regclass('${name}')`)}]::oid[])
    AND (reltuples < 1 OR pg_relation_size(oid) > 2 * relpages * current_setting('block_size')::bigint)`

/** How many migrations a process must know to use the database. */
const MIN_READER = 'SELECT max(min_reader) AS reader FROM migrations'

/** All answers, or the first error in order, once all promises have ended. */
export async function together<Answers extends readonly unknown[]>(promises: {
  [At in keyof Answers]: Promise<Answers[At]>
}): Promise<Answers> {
  await Promise.allSettled(promises)
  return (await Promise.all(promises)) as unknown as Answers
}

/**
 * Rethrows an error of a commit. A connection lost during COMMIT does not show whether it was executed, so it is not
 * retried.
 */
export function commitInDoubt(error: unknown): never {
  if (!(error instanceof DatabaseError) || error.kind !== 'lost') throw error
  throw new DatabaseError(
    'failed',
    error.code,
    `the connection broke before the database answered; the transaction may have been committed (${error.code})`,
  )
}

function fail(error: unknown): never {
  throw sanitized(error)
}

async function withRetries<Answer>(waitMs: number, attempt: () => Promise<Answer>): Promise<Answer> {
  for (let [left, pause] = [waitMs, PAUSE_MS]; ; left -= pause, pause *= 2) {
    try {
      return await attempt()
    } catch (error) {
      const isWorthATry = error instanceof DatabaseError && error.kind !== 'failed' && left > 0
      if (!isWorthATry) throw error
    }
    const wait = Math.min(pause, left)
    await new Promise((turn) => setTimeout(turn, wait))
  }
}

/**
 * Runs steps with the same name one after another, others concurrently. Rejects a step that waits longer than
 * `limitMs`.
 */
function turns(limitMs: number) {
  const last = new Map<string, Promise<unknown>>()
  return <Answer>(name: string, step: () => Promise<Answer>): Promise<Answer> => {
    const before = last.get(name)
    const mine = before ? inTime(before, limitMs).then(step) : step()
    const over = Promise.allSettled([before, mine]).then(() => {
      if (last.get(name) === over) last.delete(name)
    })
    last.set(name, over)
    return mine
  }
}

async function inTime(turn: Promise<unknown>, limitMs: number): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () =>
        reject(
          new DatabaseError(
            'failed',
            '',
            'the database is too slow: earlier steps on the same call or payer have not ended',
          ),
        ),
      limitMs,
    )
  })
  await Promise.race([turn, late]).finally(() => clearTimeout(timer))
}
