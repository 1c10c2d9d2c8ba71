/** Gateway processes that can be frozen, killed and started again where they were; none outlives this process. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'

const MAIN = join(import.meta.dirname, '../../server/main.ts')
/** Shifts the clock of the process that preloads it. */
const SHIFTED_CLOCK = join(import.meta.dirname, 'shifted_clock.ts')

/** Kills what it was told of, and takes the files away, when its input ends: that happens however we end. */
const GUARD = `
pids=' '
while read -r sign pid; do
  case $sign in
    +) pids="$pids$pid " ;;
    -) pids=$(printf %s "$pids" | sed "s/ $pid / /") ;;
  esac
done
kill -KILL $pids 2> /dev/null
sleep 0.2
rm -rf "$1"
`

export type Guard = { add(pid: number): void; remove(pid: number): void; end(): Promise<void> }

/** Watches over processes, and over the directory that is theirs. */
export function guard(dir: string): Guard {
  const child = spawn('/bin/sh', ['-c', GUARD, 'farebox-fault', dir], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  child.stdin.on('error', () => {})
  return {
    add: (pid) => void child.stdin.write(`+ ${pid}\n`),
    remove: (pid) => void child.stdin.write(`- ${pid}\n`),
    async end() {
      const ended = once(child, 'exit')
      child.stdin.end()
      await ended
    },
  }
}

export type Replica = {
  readonly name: string
  readonly origin: string
  /** Names this life of the replica in the database, through the setting `fault.life`. */
  life(): string
  pid(): number
  isUp(): boolean
  freeze(): void
  thaw(): void
  /** Resolves when the process is gone. */
  kill(): Promise<void>
  /** Resolves when it greets. Throws, with what it said, when it ends without. Its clock is right unless told. */
  start(clock?: { readonly aheadMs: number }): Promise<void>
  /** SIGTERM, and SIGKILL should it not end; resolves with the exit code. */
  stop(): Promise<number | null>
  /** Runs a command of Farebox with its settings, beside it. Resolves with what it printed. */
  command(...args: readonly string[]): Promise<string>
  /** Its log lines of level error: alerts, for a person to see. */
  readonly alerts: readonly string[]
  /** Of all its lives. */
  readonly pids: readonly number[]
}

type ReplicaOptions = {
  readonly name: string
  readonly dir: string
  readonly databaseUrl: string
  readonly env: Readonly<Record<string, string>>
  readonly guard: Guard
  /** A file that each of its processes loads first. */
  readonly preload?: string
}

const START_MS = 60_000
const STOP_MS = 8_000

export async function replica({ name, dir, databaseUrl, env, guard, preload }: ReplicaOptions): Promise<Replica> {
  const port = await freePort()
  const alerts: string[] = []
  const pids: number[] = []
  let lives = 0
  let child: ChildProcess | undefined
  let isUp = false
  const life = () => `${name}${lives}`
  const settings = () => ({
    PATH: process.env.PATH ?? '',
    HOME: dir,
    PORT: `${port}`,
    DATABASE_URL: inLife(databaseUrl, life()),
    ...env,
  })

  async function start({ aheadMs }: { readonly aheadMs: number } = { aheadMs: 0 }): Promise<void> {
    lives++
    const preloads = [...(preload ? [preload] : []), ...(aheadMs === 0 ? [] : [SHIFTED_CLOCK])]
    const own = spawn(process.execPath, [...preloads.flatMap((file) => ['--preload', file]), MAIN], {
      cwd: dir,
      env: { ...settings(), ...(aheadMs !== 0 && { FAULT_CLOCK_AHEAD_MS: `${aheadMs}` }) },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    child = own
    const pid = own.pid ?? 0
    guard.add(pid)
    pids.push(pid)
    own.once('exit', () => {
      guard.remove(pid)
      if (child === own) isUp = false
    })
    await greeting(own, alerts)
    isUp = true
  }

  async function kill(): Promise<void> {
    isUp = false
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }

  async function stop(): Promise<number | null> {
    if (!child || child.exitCode !== null || child.signalCode !== null) return child?.exitCode ?? null
    const own = child
    const ended = once(own, 'exit')
    own.kill('SIGCONT')
    own.kill('SIGTERM')
    const timer = setTimeout(() => own.kill('SIGKILL'), STOP_MS)
    await ended
    clearTimeout(timer)
    return own.exitCode
  }

  async function command(...args: readonly string[]): Promise<string> {
    const own = Bun.spawn([process.execPath, MAIN, ...args], {
      cwd: dir,
      env: { ...settings(), NO_COLOR: '1' },
      stdout: 'pipe',
      stderr: 'pipe',
    })
    const printed = await Promise.all([new Response(own.stdout).text(), new Response(own.stderr).text()])
    return printed.join('')
  }

  return {
    name,
    origin: `http://127.0.0.1:${port}`,
    life,
    pid: () => child?.pid ?? 0,
    isUp: () => isUp,
    freeze: () => void child?.kill('SIGSTOP'),
    thaw: () => void child?.kill('SIGCONT'),
    kill,
    start,
    stop,
    command,
    alerts,
    pids,
  }
}

/** Postgres is told whose session it is. SQLite has nobody to tell. */
function inLife(databaseUrl: string, life: string): string {
  if (databaseUrl.startsWith('sqlite:')) return databaseUrl
  const url = new URL(databaseUrl)
  url.searchParams.set('options', `${url.searchParams.get('options') ?? ''} -c fault.life=${life}`)
  return url.href
}

function greeting(child: ChildProcess, alerts: string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    let output = ''
    let rest = ''
    const timer = setTimeout(() => reject(new Error(`a replica did not start in time: ${output}`)), START_MS)
    child.stderr?.on('data', (chunk) => (output = (output + String(chunk)).slice(-4_000)))
    child.stdout?.on('data', (chunk) => {
      const lines = (rest + String(chunk)).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        if (line.startsWith('Farebox ')) resolve()
        if (line.includes('"alert":true')) alerts.push(line.slice(0, 500))
      }
    })
    child.once('exit', (code, signal) => reject(new Error(`a replica ended with ${code ?? signal}: ${output}`)))
    child.once('exit', () => clearTimeout(timer))
    void once(child, 'spawn').catch(reject)
  })
}

/**
 * `gateways` are rows of TOML; `films` is the origin of whoever films, on this machine; `talks` of whoever converses
 * and answers JSON-RPC.
 */
type Gateway = {
  readonly gateways: string
  readonly media: string
  readonly films?: string
  readonly talks?: string
  readonly leaseSeconds?: number
}

/** Pictures by the embedded vendor, at the gateways that are given. */
export function writeConfig(dir: string, { gateways, media, films, talks, leaseSeconds }: Gateway): void {
  mkdirSync(media, { recursive: true })
  const text = `
object_store = "file:${media}"
log_level = "error"
drain_seconds = 3
${films ? `trusted_hosts = ["${new URL(films).host}"]` : ''}
${leaseSeconds ? `lease_seconds = ${leaseSeconds}` : ''}
# All buyers come from one address, and some of them never pay. What new wallets owe together has attacks of its own.
new_wallets_usdc = "1000"
new_wallets_usdc_per_address = "1000"

[vendors.vendor-d]
protocol = "demo"

[vendors.vendor-e]
protocol = "demo"
${talks ? talking(talks) : ''}
${gateways}`
  writeFileSync(join(dir, 'farebox.toml'), text)
}

const talking = (origin: string) => `
[vendors.vendor-h]
chat = "openai-chat"
base_url = "${origin}/v1"

[rpc]
ethereum-mainnet = "${origin}/rpc"
`

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}
