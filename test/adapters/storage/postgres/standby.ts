/** A primary and a standby, with an address that an operator moves from one to the other. */
import { createServer, connect, type Socket } from 'node:net'
import { Client } from 'pg'
import { embedded, freePort, type Own } from './postgres_server.ts'

export type Pair = {
  /** Of whatever has the address. */
  readonly url: string
  /** From now on nothing more arrives at the standby. */
  cutReplication(): void
  /** Kills the primary as a power failure would. */
  kill(): Promise<void>
  /** The operator's part: promotes the standby and moves the address. */
  promote(): Promise<void>
  /** Runs SQL at whatever has the address. */
  run(sql: string): Promise<Record<string, unknown>[]>
  stop(): Promise<void>
}

export async function primaryAndStandby({ isSynchronous }: { isSynchronous: boolean }): Promise<Pair> {
  const primary = await embedded(['wal_level=replica', 'hot_standby=on', 'max_wal_senders=4'])
  const replication = await address(primary.port)
  await primary.rest()
  const standby = await embeddedAfter(primary, replication.port)
  await ask(primary.url, `ALTER SYSTEM SET synchronous_standby_names = '${isSynchronous ? 'standby' : ''}'`)
  await ask(primary.url, 'SELECT pg_reload_conf()')
  const following = `SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'`
  for (const wanted = isSynchronous ? 'sync' : 'async'; ;) {
    const [found] = await ask(primary.url, following)
    if (found?.sync_state === wanted) break
  }
  const clients = await address(primary.port)
  const url = `postgres://farebox@127.0.0.1:${clients.port}/postgres`
  return {
    url,
    cutReplication: replication.cut,
    kill: () => primary.kill(),
    async promote() {
      replication.cut()
      await ask(standby.url, 'SELECT pg_promote(true, 60)')
      clients.moveTo(standby.port)
    },
    run: (sql) => ask(url, sql),
    async stop() {
      await clients.close()
      await replication.close()
      await standby.stop()
      await primary.stop()
    },
  }
}

async function embeddedAfter(primary: Own, port: number): Promise<Own> {
  const following = embedded(['hot_standby=on'], { data: primary.data, port })
  const standby = await following
  await primary.start()
  return standby
}

async function ask(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows
  } finally {
    await client.end()
  }
}

/** A port that leads to another one until it is cut or moved. */
async function address(target: number) {
  let to: number | undefined = target
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    if (to === undefined) return client.destroy()
    const upstream = connect(to, '127.0.0.1')
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        client.destroy()
        upstream.destroy()
      })
    }
    client.pipe(upstream).pipe(client)
  })
  const port = await freePort()
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  const drop = () => {
    for (const socket of sockets) socket.destroy()
  }
  return {
    port,
    cut() {
      to = undefined
      drop()
    },
    moveTo(other: number) {
      to = other
      drop()
    },
    close: () => {
      drop()
      return new Promise((resolve) => server.close(resolve))
    },
  }
}
