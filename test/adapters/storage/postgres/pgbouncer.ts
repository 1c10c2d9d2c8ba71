/** The real PgBouncer in transaction mode, before a Postgres of ours. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { freePort } from './postgres_server.ts'

/** Where Debian and Homebrew have it, or the first on the PATH. */
export const PGBOUNCER = ['/usr/sbin/pgbouncer', '/opt/homebrew/bin/pgbouncer', Bun.which('pgbouncer') ?? ''].find(
  (path) => path !== '' && existsSync(path),
)

export type Pooler = {
  readonly version: string
  /** A database that nobody else uses, through the pooler and without it. */
  fresh(): Promise<{ readonly pooled: string; readonly direct: string }>
  stop(): Promise<void>
}

/** At most `sessions` of each database, whatever the clients ask for. */
export async function pooler(binary: string, { base, sessions }: { base: string; sessions: number }): Promise<Pooler> {
  const { hostname, port, username } = new URL(base)
  const folder = await mkdtemp(join(tmpdir(), 'farebox-pgbouncer-'))
  const own = await freePort()
  const ini = `
[databases]
* = host=${hostname} port=${port} user=${username}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${own}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${sessions}
max_client_conn = 500
`
  const file = join(folder, 'pgbouncer.ini')
  await writeFile(file, ini)
  // It refuses to run as root; `nobody` is on every system.
  const isRoot = process.getuid?.() === 0
  const idOf = (which: string) => Number(execFileSync('id', [which, 'nobody']))
  const as = isRoot ? { uid: idOf('-u'), gid: idOf('-g') } : {}
  if (isRoot) for (const path of [folder, file]) await chown(path, idOf('-u'), idOf('-g'))
  const child = spawn(binary, [file], { ...as, stdio: ['ignore', 'ignore', 'pipe'] })
  await listening(child)
  let made = 0
  return {
    version: String(execFileSync(binary, ['--version'])).split('\n')[0] ?? '',
    async fresh() {
      const name = `pooled_${made++}`
      const client = new Client({ connectionString: base })
      await client.connect()
      await client.query(`CREATE DATABASE ${name}`)
      await client.end()
      const [direct, pooled] = [new URL(base), new URL(base)]
      direct.pathname = `/${name}`
      pooled.pathname = `/${name}`
      pooled.port = String(own)
      return { direct: direct.href, pooled: pooled.href }
    },
    async stop() {
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGTERM')
      await ended
      await rm(folder, { recursive: true })
    },
  }
}

function listening(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let output = ''
    child.on('exit', () => reject(new Error(`PgBouncer did not start: ${output}`)))
    child.stderr?.on('data', (chunk) => {
      output += String(chunk)
      if (output.includes('process up')) resolve()
    })
  })
}
