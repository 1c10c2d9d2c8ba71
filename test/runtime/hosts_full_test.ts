/**
 * The programs of the guide "Embedding", in a folder with the installed package, on each runtime and host: somebody
 * buys with the client of the protocol, the process is killed, started again, and the result collected.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { ExactEvmScheme } from '@x402/evm'
import { wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { privateKeyToAccount } from 'viem/accounts'
import { type Devnet, startDevnet } from '../../server/devnet/mod.ts'
import { type PostgresServer, postgresServer } from '../adapters/storage/postgres/postgres_server.ts'
import { type Installed, installPackage } from './package.ts'
import { blocks, guideText } from './readme.ts'
import { compileBetterSqlite } from './better_sqlite3.ts'
import { PROGRAMS_DIR } from '../programs/mod.ts'
import { bun, deno, node, node22, type Runtime } from './runtimes.ts'

const ROOT = join(import.meta.dirname, '../..')
const TSC = join(ROOT, 'node_modules/typescript/bin/tsc')

let installed: Installed
let devnet: Devnet
let database: PostgresServer
let pay: typeof fetch

beforeAll(async () => {
  ;[installed, devnet, database] = await Promise.all([installPackage(), startDevnet(), postgresServer()])
  await compileBetterSqlite()
  const fromPrograms = ['express', 'fastify', 'better-sqlite3'].map((name) => [name, PROGRAMS_DIR] as const)
  for (const [name, home] of [...fromPrograms, ['hono', ROOT] as const]) await link(name, home)
  await writePrograms()
  const account = privateKeyToAccount(devnet.buyer.privateKey)
  const paying = wrapFetchWithPaymentFromConfig(fetch, {
    schemes: [{ network: 'eip155:*', client: new ExactEvmScheme(account) }],
  })
  pay = paying as typeof fetch
}, 600_000)

afterAll(async () => {
  await Promise.all([installed?.remove(), devnet?.stop(), database?.stop()])
})

/** Of the programs of the full tests, as `npm install` would put it beside the package. */
async function link(name: string, home: string): Promise<void> {
  const real = dirname(createRequire(join(home, 'package.json')).resolve(`${name}/package.json`))
  const path = join(installed.dir, 'node_modules', name)
  await rm(path, { recursive: true, force: true })
  await mkdir(dirname(path), { recursive: true })
  await symlink(real, path, 'dir')
}

/** Everything is a job here, because a job has a poll URL. */
const asJobs = (program: string) =>
  program.replace("  label: 'base-sepolia',\n", "  label: 'base-sepolia',\n  inlineMs: 0,\n")

async function writePrograms(): Promise<void> {
  const guide = await guideText('embedding')
  const block = (heading: string, language = 'ts') => blocks(guide, `## ${heading}`, language)[0] ?? ''
  const programs = {
    'gateway.ts': asJobs(block('A gateway that remembers')),
    'node.ts': block('Node'),
    'express.js': block('Express', 'js'),
    'fastify.ts': block('Fastify'),
    'bun.ts': block('Bun'),
    'deno.ts': block('Deno'),
    'hono.ts': block('Hono'),
    'route.ts': block('Next and alike'),
    // Calls a route handler as a framework does: with the request, and its parameters.
    'next.ts': `import { GET, POST } from './route.ts'
      const params = Promise.resolve({ path: [] })
      Bun.serve({ port: 3000, fetch: (request) => (request.method === 'GET' ? GET : POST)(request, { params }) })
      console.log('ready')`,
  }
  for (const [name, text] of Object.entries(programs)) await writeFile(join(installed.dir, name), text)
  const compilerOptions = {
    target: 'ES2023',
    module: 'NodeNext',
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    allowImportingTsExtensions: true,
    rewriteRelativeImportExtensions: true,
    skipLibCheck: false,
    types: ['node'],
  }
  const files = ['gateway.ts', 'node.ts', 'route.ts']
  await writeFile(join(installed.dir, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }))
  await installed.run([process.execPath, TSC, '-p', '.'])
}

function freePort(): number {
  const server = Bun.serve({ port: 0, fetch: () => new Response() })
  const { port } = server
  server.stop(true)
  return port ?? 0
}

type Host = { readonly url: string; kill(): Promise<void>; end(): Promise<number> }

/** Starts a program of the guide on a port of its own, and waits until it says that it is ready. */
async function start(program: string, { command }: Runtime, storage: string): Promise<Host> {
  const port = freePort()
  const [name = '', extension = ''] = program.split('.')
  const text = await readFile(join(installed.dir, program), 'utf8')
  const moved = `${name}_${port}.${extension}`
  await writeFile(join(installed.dir, moved), text.replaceAll('3000', String(port)))
  const { rpcUrl, asset, payTo, relayerKey } = devnet
  const child = Bun.spawn([...command, moved], {
    cwd: installed.dir,
    env: { ...process.env, RPC_URL: rpcUrl, USDC: asset, PAY_TO: payTo, RELAYER_KEY: relayerKey, STORAGE: storage },
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const errors = new Response(child.stderr).text()
  let output = ''
  for await (const chunk of child.stdout) {
    output += new TextDecoder().decode(chunk)
    if (output.includes('ready')) break
  }
  if (!output.includes('ready')) throw new Error(`${program} did not start:\n${output}${await errors}`)
  const ended = (signal: 'SIGKILL' | 'SIGTERM') => {
    child.kill(signal)
    return child.exited
  }
  return {
    url: `http://127.0.0.1:${port}`,
    kill: async () => void (await ended('SIGKILL')),
    end: () => ended('SIGTERM'),
  }
}

type Result = { readonly data: [{ readonly url: string }]; readonly payment: { status: string; tx_hash: string } }

const order = {
  method: 'POST',
  body: '{"model":"vendor-a/image-1","prompt":"a red fox in the snow"}',
  headers: { 'content-type': 'application/json' },
}

/** Polls as clients do; each answer is an event. */
async function collect(url: string): Promise<Result> {
  for (;;) {
    const reply = await pay(url)
    const body = await reply.text()
    if (reply.status === 200) return JSON.parse(body) as Result
    if (reply.status !== 202) throw new Error(`the poll was answered ${reply.status}: ${body}`)
  }
}

async function buyKillCollect(program: string, runtime: Runtime, storage: string): Promise<Host> {
  const first = await start(program, runtime, storage)
  const ordered = await pay(`${first.url}/ai/api/v1/images/generations`, order)
  const { poll_url } = (await ordered.json()) as { poll_url: string }
  expect(ordered.status).toBe(202)
  expect(poll_url).toStartWith('/ai/api/v1/images/generations/')
  const bought = await collect(first.url + poll_url)
  expect(bought.payment.status).toBe('settled')
  await first.kill()

  const second = await start(program, runtime, storage)
  const again = await collect(second.url + poll_url)
  expect(again.payment).toMatchObject({ status: 'already_settled', tx_hash: bought.payment.tx_hash })
  const [{ url }] = again.data
  expect(url).toStartWith(`${second.url}/ai/api/media/`)
  const media = await fetch(url)
  expect([media.status, media.headers.get('content-type')]).toEqual([200, 'image/png'])
  const challenge = await fetch(`${second.url}/ai/api/v1/images/generations`, order)
  const { resource } = JSON.parse(atob(challenge.headers.get('payment-required') ?? '')) as {
    resource: { url: string }
  }
  expect([challenge.status, resource.url]).toEqual([402, `${second.url}/ai/api/v1/images/generations`])
  return second
}

const sqlite = (name: string) => `sqlite:${join(installed.dir, `${name}.db`)}`
const compiled: Runtime = node

for (const [title, program, runtime] of [
  ['node:http on Node 20, compiled by a strict tsc, with better-sqlite3', 'node.js', compiled],
  ['node:http on Node 22, TypeScript as it is, with node:sqlite', 'node.ts', node22],
  ['Deno.serve with node:sqlite', 'deno.ts', deno],
  ['Bun.serve with bun:sqlite', 'bun.ts', bun],
  ['a route handler as of Next', 'next.ts', bun],
] as const) {
  test(`${title}: buy, kill, restart, collect; SIGTERM ends it well`, async () => {
    const host = await buyKillCollect(program, runtime, sqlite(program))
    expect(await host.end()).toBe(0)
  }, 120_000)
}

test('node:http on Node 22 with Postgres: buy, kill, restart, collect', async () => {
  const host = await buyKillCollect('node.ts', node22, await database.fresh())
  expect(await host.end()).toBe(0)
}, 120_000)

test('Express behind express.json(): buy, kill, restart, collect; the routes of the host stay its own', async () => {
  const host = await buyKillCollect('express.js', compiled, sqlite('express'))
  expect(await (await fetch(`${host.url}/hello`)).text()).toBe('hello')
  const missing = await fetch(`${host.url}/api/v1/images/generations`)
  expect([missing.status, await missing.text()]).toEqual([404, expect.stringContaining('Cannot GET')])
  expect(await host.end()).toBe(0)
}, 120_000)

test('Fastify with its body parser: buy, kill, restart, collect; the routes of the host stay its own', async () => {
  const host = await buyKillCollect('fastify.ts', node22, sqlite('fastify'))
  const echoed = await fetch(`${host.url}/hello`, { ...order, body: '{"a":1}' })
  expect(await echoed.json()).toEqual({ a: 1 })
  const missing = await fetch(`${host.url}/nowhere`)
  expect([missing.status, await missing.json()]).toEqual([404, expect.objectContaining({ error: 'Not Found' })])
  expect(await host.end()).toBe(0)
}, 120_000)

test('Hono: buy, kill, restart, collect; the routes of the host stay its own', async () => {
  const host = await buyKillCollect('hono.ts', bun, sqlite('hono'))
  expect(await (await fetch(`${host.url}/hello`)).text()).toBe('hello')
  expect((await fetch(`${host.url}/nowhere`)).status).toBe(404)
  expect(await host.end()).toBe(0)
}, 120_000)
