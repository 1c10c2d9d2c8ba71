/** The head of every 402 of the devnet, as a real nginx forwards it with its default buffers (contract 1.5). */
import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { devnetGateway } from './advertised.ts'

const nginx = Bun.which('nginx', { PATH: `${process.env.PATH}:/usr/sbin` })
const dir = mkdtempSync(join(tmpdir(), 'farebox-nginx-'))
const { gateway } = devnetGateway()
let callers = 0
const server = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch: (request) => gateway.fetch(request, { ip: `192.0.2.${callers++ % 250}` }),
})
let proxy: Bun.Subprocess | undefined

afterAll(async () => {
  proxy?.kill()
  await proxy?.exited
  await server.stop(true)
  rmSync(dir, { recursive: true })
})

function freePort(): number {
  const socket = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  socket.stop(true)
  return socket.port
}

async function started(port: number): Promise<void> {
  const file = join(dir, 'nginx.conf')
  const logs = `error_log ${dir}/error.log; pid ${dir}/pid; daemon off; master_process off;`
  const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${dir}/${name};`)
  const location = `location / { proxy_pass http://127.0.0.1:${server.port}; proxy_set_header Host $http_host; }`
  const http = `access_log off; ${paths.join(' ')} server { listen 127.0.0.1:${port}; ${location} }`
  writeFileSync(file, `${logs} events {} http { ${http} }`)
  proxy = Bun.spawn([String(nginx), '-c', file, '-p', dir], { stdio: ['ignore', 'ignore', 'ignore'] })
  for (;;) {
    const isUp = await fetch(`http://127.0.0.1:${port}/livez`).then(
      () => true,
      () => false,
    )
    if (isUp) return
    await new Promise((resolve) => void setImmediate(resolve))
  }
}

test.skipIf(nginx === null)(
  'nginx forwards the 402 of every paid route with its default buffers, with Payment, X402 or neither (skipped where nginx is not installed; contract 1.5)',
  async () => {
    const port = freePort()
    await started(port)
    const origin = `http://127.0.0.1:${port}`
    const { paths } = (await gateway.openapi()) as { paths: Record<string, Record<string, any>> }
    const paid = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).flatMap(([method, node]) => (node['x-payment-info'] ? [{ path, method }] : [])),
    )
    const statuses: string[] = []
    for (const { path, method } of paid)
      for (const headers of [{}, { 'accept-payment': 'evm/charge' }, { 'accept-payment': 'evm/charge;q=0' }]) {
        const given: Record<string, string> = { ...headers, origin: 'https://studio.example' }
        const { status } = await fetch(origin + path, { method: method.toUpperCase(), headers: given })
        statuses.push(`${status} ${status === 402 ? '' : `${method} ${path}`}`.trim())
      }
    expect(statuses.length).toBeGreaterThan(120)
    expect([...new Set(statuses)].filter((each) => each !== '402')).toEqual([])
  },
  60_000,
)
