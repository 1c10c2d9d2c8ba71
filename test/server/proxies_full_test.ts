/** The shipped configurations of nginx and Caddy, in front of a listener that says which host reached it. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from 'node:tls'

const PATH = `${process.env.PATH}:/usr/sbin`
const nginx = Bun.which('nginx', { PATH })
const caddy = Bun.which('caddy', { PATH })
const openssl = Bun.which('openssl')
const NAME = 'ai.example.com'

const dir = mkdtempSync(join(tmpdir(), 'farebox-proxies-'))
const forwarded: (string | null)[] = []
const listener = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch({ headers }) {
    forwarded.push(headers.get('host'))
    return new Response('forwarded')
  },
})

beforeAll(async () => {
  if (!openssl) return
  const files = ['-keyout', join(dir, 'privkey.pem'), '-out', join(dir, 'fullchain.pem')]
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  await Bun.spawn([openssl, 'req', '-x509', ...key, ...files, '-days', '2', '-subj', `/CN=${NAME}`], {
    stdio: ['ignore', 'ignore', 'ignore'],
  }).exited
})
afterAll(async () => {
  await listener.stop(true)
  rmSync(dir, { recursive: true, force: true })
})

const shipped = (file: string): string => readFileSync(join(import.meta.dirname, '../../server/deploy', file), 'utf8')

function freePort(): number {
  const server = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  server.stop(true)
  return server.port
}

/** The status of a request for `host` over a handshake for `servername`; `closed` where there is no answer. */
function ask(port: number, { servername, host }: { servername: string; host: string }): Promise<number | string> {
  return new Promise((resolve) => {
    let answer = ''
    const end = () => resolve(Number(/^HTTP\/1.1 (\d+)/.exec(answer)?.[1]) || 'closed')
    const socket = connect({ host: '127.0.0.1', port, servername, rejectUnauthorized: false }, () =>
      socket.write(`GET /devnet HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`),
    )
    socket.on('data', (bytes) => void (answer += bytes.toString()))
    socket.on('error', end)
    socket.on('close', end)
  })
}

/** Treatment by a proxy of its own host, of another host in its own handshake, and of another handshake. */
async function answers(port: number) {
  const own = await ask(port, { servername: NAME, host: NAME })
  const before = forwarded.length
  const foreign = []
  for (const host of ['localhost', '127.0.0.1:4020', 'other.example.com'])
    foreign.push(await ask(port, { servername: NAME, host }))
  const stranger = await ask(port, { servername: 'other.example.com', host: NAME })
  return { own, foreign, stranger, forwardedForeign: forwarded.length - before }
}

const skipped = (program: string | null, name: string) => (program && openssl ? '' : ` (skipped: no ${name} here)`)

test.skipIf(!nginx || !openssl)(
  `nginx forwards its own host, and drops every other${skipped(nginx, 'nginx')}`,
  async () => {
    const port = freePort()
    mkdirSync(join(dir, 'logs'), { recursive: true })
    const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      (name) => `${name}_temp_path ${dir}/${name};`,
    )
    const http = shipped('nginx.conf')
      .replaceAll('/etc/letsencrypt/live/ai.example.com', dir)
      .replaceAll('listen 443 ', `listen 127.0.0.1:${port} `)
      .replace('server 127.0.0.1:4020', `server 127.0.0.1:${listener.port}`)
    const file = join(dir, 'nginx.conf')
    const user = process.getuid?.() === 0 ? 'user root;' : ''
    const logs = `pid ${dir}/nginx.pid; error_log ${dir}/logs/error.log;`
    writeFileSync(file, `${user} ${logs} events {} http { access_log off; ${paths.join(' ')}\n${http}\n}`)
    const run = async (...args: readonly string[]) => {
      const child = Bun.spawn([nginx ?? '', '-p', dir, '-c', file, ...args], { stdio: ['ignore', 'ignore', 'pipe'] })
      if ((await child.exited) !== 0) throw new Error(await child.stderr.text())
    }
    await run() // returns when nginx listens, as a daemon
    try {
      expect(await answers(port)).toEqual({
        own: 200,
        foreign: ['closed', 'closed', 'closed'],
        stranger: 'closed',
        forwardedForeign: 0,
      })
    } finally {
      await run('-s', 'quit')
    }
  },
  30_000,
)

test.skipIf(!caddy || !openssl)(
  `Caddy forwards its own host, and answers 421 to every other${skipped(caddy, 'Caddy')}`,
  async () => {
    const port = freePort()
    const text = shipped('Caddyfile')
      .replace('{\n', `{\n\tadmin off\n\tauto_https disable_redirects\n\thttps_port ${port}\n`)
      .replace(`${NAME} {\n`, `${NAME} {\n\ttls ${dir}/fullchain.pem ${dir}/privkey.pem\n`)
      .replace('reverse_proxy farebox:4020', `reverse_proxy 127.0.0.1:${listener.port}`)
    writeFileSync(join(dir, 'Caddyfile'), text)
    const child = Bun.spawn([caddy ?? '', 'run', '--config', join(dir, 'Caddyfile'), '--adapter', 'caddyfile'], {
      env: { PATH, HOME: dir },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    try {
      await printed(child.stderr, 'serving initial configuration')
      expect(await answers(port)).toEqual({
        own: 200,
        foreign: [421, 421, 421],
        stranger: 'closed',
        forwardedForeign: 0,
      })
    } finally {
      child.kill()
      await child.exited
    }
  },
  30_000,
)

async function printed(stream: ReadableStream<Uint8Array>, text: string): Promise<void> {
  const decoder = new TextDecoder()
  let output = ''
  for await (const chunk of stream) if ((output += decoder.decode(chunk, { stream: true })).includes(text)) return
  throw new Error(output)
}
