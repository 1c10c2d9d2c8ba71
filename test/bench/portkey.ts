/**
 * Portkey's open-source gateway as its package starts it: on Node, for which it is made; and on Bun, where it runs as
 * well.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { PEERS } from './peers/mod.ts'

type Portkey = { readonly port: number; readonly child: Bun.Subprocess; readonly runtime: string }
type Runtime = 'node' | 'bun'

const PROGRAM = join(PEERS, 'node_modules/@portkey-ai/gateway/build/start-server.js')

/** It is not installed with the rest: only this bench needs it. Installed at its first run. */
function program(): string {
  if (existsSync(PROGRAM)) return PROGRAM
  const install = [process.execPath, 'install', '--frozen-lockfile', '--cwd', PEERS]
  const { exitCode, stderr } = Bun.spawnSync(install, { stdout: 'ignore', stderr: 'pipe' })
  if (exitCode !== 0) throw new Error(`the bench of chat could not install Portkey: ${stderr}`)
  return PROGRAM
}

/**
 * On Node it adds its headers to those of fetch's own Response, which are immutable there with the server library that
 * is installed beside it: every stream would be a 500. So a reply of fetch gets headers that can be added to, as its
 * own release had them.
 */
const MUTABLE_HEADERS = `data:text/javascript,${encodeURIComponent(`
  const send = globalThis.fetch
  globalThis.fetch = async (...asked) => {
    const response = await send(...asked)
    return Object.defineProperty(response, 'headers', { value: new Headers(response.headers) })
  }
`)}`

/**
 * Starts it without its console, and resolves when it says that it is ready. Undefined where there is no such runtime.
 */
export async function portkey(runtime: Runtime): Promise<Portkey | undefined> {
  const path = runtime === 'bun' ? process.execPath : Bun.which('node')
  if (!path) return undefined
  const port = freePort()
  const preload = runtime === 'node' ? ['--import', MUTABLE_HEADERS] : []
  const child = Bun.spawn([path, ...preload, program(), `--port=${port}`, '--headless'], {
    // Nothing else of our environment: it reads many settings. Loopback is a host that it calls unasked, and only by
    // this list.
    env: { PATH: process.env.PATH ?? '', NODE_ENV: 'production', TRUSTED_CUSTOM_HOSTS: '127.0.0.1' },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'inherit',
  })
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  createInterface({ input: Readable.fromWeb(child.stdout as never) }).on(
    'line',
    (line) => line.includes('Ready for connections') && resolve(),
  )
  void child.exited.then((code) => reject(new Error(`Portkey ended with ${code} before it was ready`)))
  await promise
  return { port, child, runtime: runtime === 'node' ? `Node ${await versionOf(path)}` : `Bun ${Bun.version}` }
}

/** Headers of each request, so that it calls `baseUrl` as it would call OpenAI. */
export function portkeyHeaders(baseUrl: string): Readonly<Record<string, string>> {
  return { authorization: 'Bearer bench', 'x-portkey-provider': 'openai', 'x-portkey-custom-host': baseUrl }
}

function freePort(): number {
  const probe = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  const { port } = probe
  probe.stop(true)
  return port
}

async function versionOf(node: string): Promise<string> {
  return (await new Response(Bun.spawn([node, '--version']).stdout).text()).trim().replace(/^v/, '')
}
