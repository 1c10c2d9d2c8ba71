import { createHash } from 'node:crypto'
import { Pool, type PoolClient, type QueryResult } from 'pg'
import { DatabaseError, washed } from '../database_error.ts'
import { migrate } from './migrations.ts'
import type { Statement, Values } from './statements.ts'

export type Limits = {
  /** Connections of this process at most. Default 10. */
  readonly connections?: number
  /** Longest that a statement may take, with its waits for locks, and that a verb may wait for a connection. Default 5,000. */
  readonly timeoutMs?: number
  /** How long a verb tries to find a database that is away. Default 1,500. */
  readonly waitMs?: number
}

/**
 * Sends a statement at once, behind those that were sent before it in the same turn; none waits for another's answer. Throws, before
 * anything is sent, for a value that cannot be written.
 */
export type Send = <Row>(statement: Statement<Row>, values: Values) => Promise<Row[]>

/** One atomic step in two round trips: what `look` sends travels with the begin, what `act` sends with the commit. */
export type Step<Seen, Answer> = {
  /** Steps of one name take turns in this process: racers for one thing hold one connection, not all. */
  readonly turn: string
  /** Names that no other step may hold meanwhile, on any replica. Always in the same order of kinds: authorization, payer. */
  readonly locks?: readonly string[]
  look(send: Send): Promise<Seen>
  /** Must have sent all that it sends when it returns: the commit follows. Whatever it throws, nothing is written. */
  act(seen: Seen, send: Send): Promise<Answer>
}

/** The first pause between two tries; each is twice as long as the one before. */
const PAUSE_MS = 50

/**
 * Connections to one Postgres, migrated before the first is used. What has surely left no trace (no connection, one lost before the
 * commit was sent, a transaction undone for another's sake) is tried again, patiently. All else throws DatabaseError.
 */
export function connections(url: string, { connections: max = 10, timeoutMs = 5_000, waitMs = 1_500 }: Limits) {
  const pool = new Pool({
    connectionString: url,
    max,
    pipeline: true,
    keepAlive: true,
    application_name: 'farebox',
    connectionTimeoutMillis: timeoutMs,
    // The last resort, against a server that has gone without a word.
    query_timeout: 2 * timeoutMs,
    onConnect: async (client) => void (await client.query(habits(timeoutMs))),
  })
  // Without these an idle connection that breaks would end the process; one in use fails its statements, too.
  pool.on('error', () => {})
  pool.on('connect', (client) => void client.on('error', () => {}))
  const running = new Set<Promise<void>>()
  const inTurn = turns(3 * timeoutMs)
  let migrated: Promise<void> | undefined
  let isClosed = false

  function ready(): Promise<void> {
    migrated ??= use((client) => migrate(client)).catch((error: unknown) => {
      migrated = undefined
      throw error
    })
    return migrated
  }

  async function connect(): Promise<PoolClient> {
    try {
      return await pool.connect()
    } catch (error) {
      return fail(error)
    }
  }

  /** Lends a connection. One on which anything has failed is given up, and with it what it had begun. */
  async function use<Answer>(work: (client: PoolClient) => Promise<Answer>): Promise<Answer> {
    const client = await connect()
    try {
      const answer = await work(client)
      client.release()
      return answer
    } catch (error) {
      client.release(true)
      throw error
    }
  }

  async function read<Answer>(look: (send: Send) => Promise<Answer>): Promise<Answer> {
    await ready()
    return await use((client) => look(sender(client)))
  }

  async function write<Seen, Answer>({ locks = [], look, act }: Step<Seen, Answer>): Promise<Answer> {
    await ready()
    return await use(async (client) => {
      const send = sender(client)
      const [, seen] = await together([plainly(client, beginning(locks)), look(send)])
      const acting = act(seen, send)
      const [answer, { command }] = await together([acting, plainly(client, 'COMMIT')]).catch(doubt)
      if (command !== 'COMMIT') throw new DatabaseError('failed', '', 'the database did not commit')
      return answer
    })
  }

  function tracked<Answer>(work: () => Promise<Answer>): Promise<Answer> {
    if (isClosed) return Promise.reject(new Error('the storage is closed'))
    const answer = work()
    const over = answer.then(
      () => void running.delete(over),
      () => void running.delete(over),
    )
    running.add(over)
    return answer
  }

  return {
    /** Connects and migrates, so that a start fails of what each verb would fail of. */
    ready: () => tracked(() => patiently(waitMs, ready)),
    read: <Answer>(look: (send: Send) => Promise<Answer>) => tracked(() => patiently(waitMs, () => read(look))),
    write: <Seen, Answer>(step: Step<Seen, Answer>) =>
      tracked(() => inTurn(step.turn, () => patiently(waitMs, () => write(step)))),
    /** Ends when all that was asked before has been answered. */
    async close(): Promise<void> {
      if (isClosed) return
      isClosed = true
      await Promise.all(running)
      await pool.end()
    },
  }
}

/**
 * Not parameters of the start, which poolers refuse. A process that stands still must not hold its locks for ever. Every statement has
 * its index, and a plan made while the tables were empty must not outlive that; none is worth compiling.
 */
function habits(timeoutMs: number): string {
  const settings = {
    statement_timeout: timeoutMs,
    idle_in_transaction_session_timeout: timeoutMs,
    enable_seqscan: 'off',
    jit: 'off',
  }
  return Object.entries(settings)
    .map(([name, value]) => `SET ${name} = ${value}`)
    .join(';')
}

function sender(client: PoolClient): Send {
  return ({ name, text, encode, decode }, values) =>
    heard(
      client
        .query<unknown[]>({ name, text, values: encode(values), rowMode: 'array' })
        .then(({ rows }) => rows.map(decode), fail),
    )
}

function plainly(client: PoolClient, text: string): Promise<QueryResult> {
  return heard(client.query(text).catch(fail))
}

/** Where several are under way and one fails, nobody may be left to hear of the others. */
function heard<Answer>(answer: Promise<Answer>): Promise<Answer> {
  answer.catch(() => {})
  return answer
}

/** Locks are taken in a statement of their own: one that waited for them would not see what was committed meanwhile. */
function beginning(locks: readonly string[]): string {
  const taken = locks.map((name) => `pg_advisory_xact_lock(${digest(name)})`)
  return `BEGIN ISOLATION LEVEL READ COMMITTED${taken.length > 0 ? `; SELECT ${taken.join(', ')}` : ''}`
}

/** 64 bits of a name's SHA-256, as a signed number. */
function digest(name: string): string {
  return createHash('sha256').update(name).digest().readBigInt64BE().toString()
}

/** All answers, or the first error in order, once there is nothing left to wait for. */
async function together<Answers extends readonly unknown[]>(promises: {
  [At in keyof Answers]: Promise<Answers[At]>
}): Promise<Answers> {
  await Promise.allSettled(promises)
  return (await Promise.all(promises)) as unknown as Answers
}

/** With the commit on its way, a lost connection tells nothing. */
function doubt(error: unknown): never {
  if (!(error instanceof DatabaseError) || error.kind !== 'lost') throw error
  throw new DatabaseError(
    'failed',
    error.code,
    `the connection broke before the database had answered; what was asked may have been done (${error.code})`,
  )
}

function fail(error: unknown): never {
  throw washed(error)
}

async function patiently<Answer>(waitMs: number, attempt: () => Promise<Answer>): Promise<Answer> {
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

/** Runs steps of one name one after another, and those of different names side by side. Nobody waits for his turn for ever. */
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
      () => reject(new DatabaseError('failed', '', 'the database is too slow: others still wait for the same thing')),
      limitMs,
    )
  })
  await Promise.race([turn, late]).finally(() => clearTimeout(timer))
}
