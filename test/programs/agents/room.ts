/** A devnet that `start` starts, with what stands between it and a client: `farebox proxy` or an API key. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generatePrivateKey } from 'viem/accounts'
import { KEY_PATTERN } from '../../../core/x402/api_key.ts'
import { parseConfig } from '../../../server/config/mod.ts'
import { type Running, start } from '../../../server/main.ts'
import { type Payer, payerAt } from '../../server/clients/payer.ts'
import { runCommand } from '../../server/cli/command_kit.ts'

const MAIN = join(import.meta.dirname, '../../../server/main.ts')
const quiet = { info: () => {}, warn: () => {}, alert: () => {}, access: () => {}, flush: () => {} }

/** Where a client buys. `base` has no `/v1`. */
export type Target = { readonly base: string; readonly token: string; readonly requests: readonly Seen[] }
/** A request of a client, as a relay before the target saw it. */
export type Seen = {
  readonly method: string
  readonly path: string
  readonly status: number
  readonly isStream: boolean
}

export type Room = {
  readonly url: string
  readonly payer: Payer
  /** A new folder, which is deleted with the room. */
  folder(): string
  /** Through a proxy that pays from the funded wallet, or from one that has nothing. */
  proxied(wallet?: 'funded' | 'empty'): Promise<Target>
  /** With a key, or with one whose deposit was sent back. */
  keyed(key?: 'funded' | 'empty'): Promise<Target>
  /** How many calls the ledger has as settled. */
  charges(): Promise<number>
  close(): Promise<void>
}

export async function openRoom(): Promise<Room> {
  const scratch = mkdtempSync(join(tmpdir(), 'farebox-agents-'))
  const read = parseConfig('', { PORT: '0', DATABASE_URL: 'memory:', OBJECT_STORE: 'memory:' })
  if (!read.ok) throw new Error(read.mistakes.join('\n'))
  const running = await start(read.config, quiet)
  const payer = await payerAt(running.url)
  const undo: (() => unknown)[] = [() => rmSync(scratch, { recursive: true, force: true }), () => running.stop()]
  const folder = () => mkdtempSync(join(scratch, 'home-'))
  const relayed = (to: string, token: string): Target => {
    const { requests, url, stop } = relay(to)
    undo.push(stop)
    return { base: url, token, requests }
  }
  return {
    url: running.url,
    payer,
    folder,
    charges: () => settled(running),
    async proxied(wallet = 'funded') {
      const home = folder()
      const own = wallet === 'empty' ? { FAREBOX_BUYER_KEY: generatePrivateKey() } : {}
      const { url, stop } = await openProxy({ to: running.url, home, payee: payer.devnet.pay_to, env: own })
      undo.push(stop)
      const lines = await runCommand(['proxy', 'env', 'openai', '--port', new URL(url).port], { env: { HOME: home } })
      return relayed(url, /OPENAI_API_KEY='(.*)'/.exec(lines.out)?.[1] ?? '')
    },
    async keyed(key = 'funded') {
      const env = { HOME: folder(), FAREBOX_URL: running.url }
      const made = await runCommand(['key', 'new'], { env })
      const token = KEY_PATTERN.exec(made.out)?.[0] ?? ''
      if (key === 'empty') await runCommand(['key', 'close'], { env: { ...env, FAREBOX_KEY: token } })
      return relayed(`${running.url}/api`, token)
    },
    async close() {
      for (const step of undo.toReversed()) await step()
    },
  }
}

async function settled({ wired }: Running): Promise<number> {
  const calls = await wired.storage.listCalls({ since: 0, until: Date.now() + 1, limit: 10_000 })
  return calls.filter(({ paymentStatus }) => paymentStatus === 'settled').length
}

type ProxyAt = {
  readonly to: string
  readonly home: string
  readonly payee: string
  readonly env: Readonly<Record<string, string>>
}

/** `farebox proxy`, a process of its own. */
async function openProxy({ to, home, payee, env }: ProxyAt) {
  mkdirSync(home, { recursive: true })
  const args = ['proxy', '--to', to, '--port', '0', '--test', '--payees', payee]
  const child = Bun.spawn([process.execPath, MAIN, ...args], {
    env: { PATH: process.env.PATH ?? '', HOME: home, ...env },
    stdin: null,
    stdout: 'ignore',
    stderr: 'pipe',
  })
  const reader = child.stderr.getReader()
  let printed = ''
  for (;;) {
    const url = /(http:\/\/127\.0\.0\.1:\d+) buys/.exec(printed)?.[1]
    if (url !== undefined) {
      void drain(reader)
      return { url, stop: () => child.kill() }
    }
    const { done, value } = await reader.read()
    if (done) throw new Error(`the proxy ended: ${printed}`)
    printed += new TextDecoder().decode(value)
  }
}

async function drain(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
  while (!(await reader.read()).done);
}

/** Passes requests on and notes them. */
function relay(to: string) {
  const requests: Seen[] = []
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      const { pathname, search } = new URL(request.url)
      const headers = new Headers(request.headers)
      headers.delete('host')
      headers.set('accept-encoding', 'identity')
      const body = request.method === 'GET' || request.method === 'HEAD' ? null : await request.arrayBuffer()
      const reply = await fetch(to + pathname + search, {
        method: request.method,
        headers,
        body,
        signal: request.signal,
      })
      const isStream = (reply.headers.get('content-type') ?? '').includes('event-stream')
      requests.push({ method: request.method, path: pathname, status: reply.status, isStream })
      return reply
    },
  })
  return { requests, url: `http://127.0.0.1:${server.port}`, stop: () => server.stop(true) }
}
