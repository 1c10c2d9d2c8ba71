/** Real processes that stop: what a load balancer sees, and what is behind a real nginx that restarts them in turn. */
import { describe, expect, test } from 'bun:test'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type GatewayProcess, gatewayProcesses } from './gateway_process.ts'

const processes = gatewayProcesses()
const MEMORY = { DATABASE_URL: 'memory:', OBJECT_STORE: 'memory:' }
const nginx = Bun.which('nginx', { PATH: `${process.env.PATH}:/usr/sbin` })

async function freePorts(count: number): Promise<readonly number[]> {
  const servers = Array.from({ length: count }, () => createServer())
  const listening = (server: (typeof servers)[number]) =>
    new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  await Promise.all(servers.map(listening))
  const ports = servers.map((server) => (server.address() as AddressInfo).port)
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
  return ports
}

describe('a process that was told to stop', () => {
  test('is not ready at once, serves on new connections, asks clients to leave, and exits at a second signal', async () => {
    const gateway = processes.start(processes.dir(), { ...MEMORY, DRAIN_GRACE_SECONDS: '600' })
    const url = await gateway.url
    expect((await fetch(`${url}/readyz`)).status).toBe(200)
    expect((await fetch(`${url}/api/health`)).headers.get('connection')).not.toBe('close')
    gateway.kill('SIGTERM')
    await gateway.printed('draining')
    const [ready, alive, health] = await Promise.all(
      ['/readyz', '/livez', '/api/health'].map((path) => fetch(url + path)),
    )
    expect([ready?.status, ready?.headers.get('retry-after')]).toEqual([503, expect.stringMatching(/^\d+$/)])
    expect([alive?.status, health?.status, health?.headers.get('connection')]).toEqual([200, 200, 'close'])
    gateway.kill('SIGTERM')
    expect((await gateway.exited).code).toBe(1)
  }, 60_000)

  test('drains at SIGHUP as at SIGTERM, and exits with 0', async () => {
    const gateway = processes.start(processes.dir(), MEMORY)
    await gateway.url
    gateway.kill('SIGHUP')
    const { code, out, err } = await gateway.exited
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toContain('SIGHUP')
  }, 60_000)
})

// ── behind a proxy ──────────────────────────────────────────────────────────────────────────────────────────────────

/** It listens on a Unix socket: a free port might be taken before it starts. */
type Proxy = {
  readonly socket: string
  serve(ports: readonly number[]): Promise<void>
  stop(): Promise<void>
  errors(): string
}
/**
 * As in server/deploy/nginx.conf, with plain HTTP. Nginx has no active health checks, so whoever restarts a replica
 * takes it out of the upstream while it is a lame duck: as an ingress controller does for a pod that is not ready.
 */
async function nginxBefore(ports: readonly number[], dir: string): Promise<Proxy> {
  const socket = join(dir, 'nginx.sock')
  mkdirSync(join(dir, 'logs'), { recursive: true })
  const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${dir}/${name};`)
  writeFileSync(
    join(dir, 'nginx.conf'),
    `user root; pid ${dir}/nginx.pid; error_log ${dir}/logs/error.log;
events {}
http {
  access_log off; ${paths.join(' ')}
  upstream farebox {
    include ${dir}/replicas.conf;
    keepalive 32;
  }
  server {
    listen unix:${socket};
    location / {
      proxy_pass http://farebox;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $host;
      proxy_read_timeout 600s;
    }
  }
}
`,
  )
  const run = async (...args: readonly string[]) => {
    const child = Bun.spawn([nginx ?? 'nginx', '-p', dir, '-c', join(dir, 'nginx.conf'), ...args], {
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    if ((await child.exited) !== 0) throw new Error(await child.stderr.text())
  }
  const write = (served: readonly number[]) =>
    writeFileSync(join(dir, 'replicas.conf'), served.map((port) => `server 127.0.0.1:${port} max_fails=0;\n`).join(''))
  write(ports)
  await run() // returns when nginx listens, as a daemon
  const serve = async (served: readonly number[]) => (write(served), await run('-s', 'reload'))
  return {
    socket,
    serve,
    stop: () => run('-s', 'quit'),
    errors: () => readFileSync(join(dir, 'logs/error.log'), 'utf8'),
  }
}

const JSON_TYPE = { 'content-type': 'application/json' }
/** Everything that a client does without paying: documents, quotes, and streams of a free model. */
const REQUESTS: readonly { readonly path: string; readonly body?: unknown; readonly status: number }[] = [
  { path: '/api/v1/models', status: 200 },
  { path: '/api/v1/images/generations', body: { model: 'vendor-a/image-1', prompt: 'a fox' }, status: 402 },
  { path: '/openapi.json', status: 200 },
  { path: '/api/v1/search', body: { query: 'foxes' }, status: 402 },
]

async function request(unix: string, { path, body, status }: (typeof REQUESTS)[number]): Promise<string | undefined> {
  try {
    const post = body === undefined ? {} : { method: 'POST', headers: JSON_TYPE, body: JSON.stringify(body) }
    const response = await fetch(`http://farebox.test${path}`, { ...post, unix, keepalive: false })
    await response.bytes()
    return response.status === status ? undefined : `${path}: ${response.status}`
  } catch (error) {
    return `${path}: ${(error as Error).message}`
  }
}

test.skipIf(nginx === null)(
  `20 rolling restarts of two replicas behind nginx, under load: no request fails${nginx === null ? ' (skipped: no nginx here)' : ''}`,
  async () => {
    const ports = await freePorts(2)
    const start = (index: number) =>
      processes.start(processes.dir(), { ...MEMORY, PORT: String(ports[index]), DRAIN_GRACE_SECONDS: '2' })
    const replicas: GatewayProcess[] = [start(0), start(1)]
    await Promise.all(replicas.map(({ url }) => url))
    const { socket, serve, stop, errors } = await nginxBefore(ports, processes.dir())
    const failures: string[] = []
    let requests = 0
    let isOver = false
    const clients = Array.from({ length: 6 }, async (_, client) => {
      for (let n = client; !isOver; n++) {
        const failure = await request(socket, REQUESTS[n % REQUESTS.length] as (typeof REQUESTS)[number])
        requests++
        if (failure) failures.push(failure)
      }
    })
    for (let restart = 0; restart < 20; restart++) {
      const index = restart % 2
      const [port, other] = [ports[index], ports[1 - index]] as [number, number]
      replicas[index]?.kill('SIGTERM')
      await replicas[index]?.printed('draining')
      expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(503)
      await serve([other])
      expect((await replicas[index]?.exited)?.code).toBe(0)
      replicas[index] = start(index)
      await replicas[index]?.url
      expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(200)
      await serve(ports)
    }
    isOver = true
    await Promise.all(clients)
    await stop()
    if (failures.length > 0) console.error(errors().slice(0, 6_000))
    console.log(`${requests} requests during 20 restarts, ${failures.length} failed`)
    expect([failures.length, failures.slice(0, 5)]).toEqual([0, []])
    expect(requests).toBeGreaterThan(1_000)
  },
  600_000,
)
