/** Starts and ends one local EVM node (anvil), keeps its chain in a file, and never leaves the node behind, whatever happens to this process. */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, open, rename } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'

export const CHAIN_ID = 84532

/** What a node that ended leaves: `isExpected` tells stop() from a death of its own, `said` is the tail of its stderr. */
export type Exit = { readonly isExpected: boolean; readonly code: number | null; readonly stderr: string }

/** A running node. `exited` settles once and never rejects. `pid` is the node itself, not the shell that guards it. */
export type Anvil = {
  readonly url: string
  readonly pid: number
  readonly exited: Promise<Exit>
  /** Writes the chain to its file now, atomically; does nothing without a file or when no block is new. */
  save(): Promise<void>
  /** Ends the node, its chain saved; safe to call twice. */
  stop(): Promise<void>
}

export type AnvilOptions = {
  /** File that keeps the chain: read when it exists, written on every end but a SIGKILL of the node itself. Absent: nothing is kept. */
  readonly statePath?: string | undefined
  /** Seconds between saves while blocks are being made: what a power loss may cost. Default 10. */
  readonly saveEvery?: number
  /** Seconds between blocks that nobody asked for; transactions never wait for them. Default 300, see FLAGS. */
  readonly blockTime?: number
  /** Loopback port; 0, the default, takes a free one. */
  readonly port?: number
  /** Path of the native program; default: the one that npm installed for this platform. */
  readonly binary?: string
  readonly log?: ((line: string) => void) | undefined
}

const PLATFORMS: Readonly<Record<string, string>> = {
  'linux-x64': '@foundry-rs/anvil-linux-amd64',
  'linux-arm64': '@foundry-rs/anvil-linux-arm64',
  'darwin-x64': '@foundry-rs/anvil-darwin-amd64',
  'darwin-arm64': '@foundry-rs/anvil-darwin-arm64',
}

const START_MS = 15_000
const RELEASE_MS = 10_000
const RPC_MS = 30_000
/** Blocks whose receipts and logs are remembered: about 12 KB of memory each, 6 KB once forgotten. */
const KEPT_BLOCKS = 20_000

/**
 * Stands between this process and the node, in its own session so that Ctrl-C in a terminal reaches only the gateway. Its stdin is held
 * by us: the kernel closes it however we die, and a watcher then ends the node (SIGTERM, so that it dumps its chain; SIGKILL after 10 s).
 * The dump goes to a second file and replaces the first only when it is whole. `$state.pid` is the lock: it goes last.
 */
const GUARD = `
state=$1; shift
if [ -n "$state" ]; then rm -f "$state.next"; echo "$$ $PPID" > "$state.pid"; fi
exec 3<&0
"$@" </dev/null 3<&- & node=$!
echo "pid $node"
(
  while read -r _; do :; done <&3
  kill -TERM $node
  tries=0
  while kill -0 $node && [ $tries -lt 100 ]; do tries=$((tries + 1)); sleep 0.1; done
  kill -KILL $node
) >/dev/null 2>&1 & watcher=$!
exec 3<&-
trap '' HUP INT TERM
wait $node; code=$?
kill -KILL $watcher
if [ -n "$state" ]; then
  if [ $code -eq 0 ] && [ "$(tail -c 1 "$state.next")" = "}" ]; then mv -f "$state.next" "$state"; fi
  rm -f "$state.next" "$state.pid"
fi
exit $code
`

/**
 * Starts a node on a free loopback port, and resolves when it answers. Throws, with what the node said, when it does not start: the
 * program is missing, the state file cannot be read, another process holds the file.
 */
export async function startAnvil(options: AnvilOptions = {}): Promise<Anvil> {
  const { statePath, log = () => {}, saveEvery = 10 } = options
  const binary = options.binary ?? anvilBinary()
  if (!existsSync(binary))
    throw new Error(`the local chain's program is missing: ${binary} does not exist; reinstall @foundry-rs/anvil`)
  if (statePath) {
    await mkdir(dirname(statePath), { recursive: true, mode: 0o700 })
    await waitForRelease(statePath)
  }

  const child = spawn('/bin/sh', ['-c', GUARD, 'farebox-devnet', statePath ?? '', binary, ...flags(options)], {
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
    env: { PATH: process.env['PATH'] ?? '/usr/bin:/bin', HOME: process.env['HOME'] ?? '/tmp' }, // no vendor key leaks into it
  })
  let isExpected = false
  let stderr = ''
  child.stdin.on('error', () => {}) // the shell may be gone before we let go of its stdin
  child.stderr.on('data', (bytes: Buffer) => (stderr = (stderr + bytes.toString()).slice(-4000)))
  const exited = new Promise<Exit>((resolve) => {
    child.on('error', (error) => resolve({ isExpected, code: null, stderr: error.message }))
    child.on('close', (code) => resolve({ isExpected, code, stderr: stderr.trim() }))
    child.on('exit', () => child.stdin.end()) // if only the shell was killed, its watcher now ends the node
  })

  const { url, pid } = await greeting(child.stdout, exited).catch((error: unknown) => {
    child.stdin.end()
    throw error
  })
  child.stdout.resume() // a full pipe would block the node

  let saved = ''
  let saving: Promise<void> | undefined
  const save = async () => {
    if (!statePath || isExpected) return
    const height = await rpc<string>(url, 'eth_blockNumber', [])
    if (height === saved) return
    const dump = await rpc<string>(url, 'anvil_dumpState', [])
    await replaceFile(statePath, await promisify(gunzip)(Buffer.from(dump.slice(2), 'hex')))
    saved = height
  }
  const saveOnce = () => (saving ??= save().finally(() => (saving = undefined)))

  let timer: ReturnType<typeof setTimeout> | undefined
  const saveLater = (ms: number) => {
    timer = setTimeout(async () => {
      const began = performance.now()
      await saveOnce().catch((error: unknown) => isExpected || log(`the local chain was not saved: ${String(error)}`))
      if (!isExpected) saveLater(Math.max(saveEvery * 1000, 50 * (performance.now() - began))) // a long chain is saved less often
    }, ms)
    timer.unref()
  }

  const stop = async () => {
    isExpected = true
    clearTimeout(timer)
    await saving?.catch(() => {})
    child.stdin.end()
    await exited
  }

  try {
    await rpc(url, 'anvil_setLoggingEnabled', [false])
    // EIP-2935 writes one slot per block, and anvil hashes the whole state for each block: 500 blocks/s after 2,500 of them instead of 4,000.
    await rpc(url, 'anvil_setCode', ['0x0000F90827F1C53a10cb7A02335B175320002935', '0x'])
    await rpc(url, 'evm_mine', []) // after a pause, 'latest' would tell the time at which the chain was stopped
  } catch (error) {
    await stop()
    throw error
  }
  if (statePath) saveLater(saveEvery * 1000)
  void exited.then(() => clearTimeout(timer))
  return { url, pid, exited, save: saveOnce, stop }
}

/** Path of the native program in the package that npm chose for this platform; throws with that package's name when it is not there. */
export function anvilBinary(from: string = import.meta.url, platform = `${process.platform}-${process.arch}`): string {
  const name = PLATFORMS[platform]
  if (!name)
    throw new Error(
      `the local chain does not run on ${platform} (it does on ${Object.keys(PLATFORMS).join(', ')}); configure a gateway instead`,
    )
  const here = createRequire(from)
  for (const resolve of [here.resolve, besideAnvil]) {
    try {
      return resolve(`${name}/package.json`).replace(/package\.json$/, 'bin/anvil')
    } catch {
      // not on this path: the next one, else the message below
    }
  }
  throw new Error(
    `the local chain needs the package ${name}, which is not installed; run: bun add @foundry-rs/anvil (optional dependencies must not be omitted)`,
  )

  // Strict layouts (pnpm, isolated installs) show the platform package only to the package that depends on it.
  function besideAnvil(path: string): string {
    return createRequire(here.resolve('@foundry-rs/anvil/package.json')).resolve(path)
  }
}

/** One JSON-RPC call; throws with the node's own message. */
export async function rpc<T = unknown>(url: string, method: string, params: readonly unknown[]): Promise<T> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    signal: AbortSignal.timeout(RPC_MS),
  })
  const answer = (await response.json()) as { result?: T; error?: { message?: string } }
  if (answer.error) throw new Error(`${method}: ${answer.error.message ?? 'failed'}`)
  return answer.result as T
}

/**
 * The live shell that holds a state file and the process that started it, else undefined. Trap: pids are reused, so the shell's command
 * line must name the file.
 */
export function holderOf(statePath: string): { pid: number; owner: number } | undefined {
  try {
    const [pid = 0, owner = 0] = readFileSync(`${statePath}.pid`, 'utf8').split(' ').map(Number)
    return isAlive(pid) && commandLine(pid).includes(statePath) ? { pid, owner } : undefined
  } catch {
    return undefined
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

function commandLine(pid: number): string {
  if (existsSync('/proc/self/cmdline')) return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  return spawnSync('ps', ['-o', 'command=', '-p', String(pid)], { encoding: 'utf8' }).stdout
}

/** A killed gateway's node dumps its chain for a moment longer: a quick restart waits for it instead of reading half of it. */
async function waitForRelease(statePath: string): Promise<void> {
  const until = performance.now() + RELEASE_MS
  for (let holder = holderOf(statePath); holder; holder = holderOf(statePath)) {
    if (isAlive(holder.owner) || performance.now() > until)
      throw new Error(
        `the local chain ${statePath} is in use by process ${holder.owner}; stop it, or give this one another directory`,
      )
    await pause(20)
  }
}

/**
 * Mining: a block at once for what is sent, first come first served; an idle block now and then, because eth_call at 'latest' reads the last
 * block's clock, and clients sign `validAfter = now - 600`. History: only the newest state; older ones cost half the speed and a cache under $HOME.
 */
function flags({ statePath, port = 0, blockTime = 300 }: AnvilOptions): string[] {
  const state = statePath
    ? ['--dump-state', `${statePath}.next`, ...(existsSync(statePath) ? ['--load-state', statePath] : [])]
    : []
  const network = [
    '--host',
    '127.0.0.1',
    '--port',
    String(port),
    '--chain-id',
    String(CHAIN_ID),
    '--accounts',
    '0',
    '--no-cors',
  ]
  const mining = ['--mixed-mining', '--block-time', String(blockTime), '--order', 'fifo']
  const history = ['--prune-history', '--transaction-block-keeper', String(KEPT_BLOCKS)]
  return [...network, ...mining, ...history, ...state]
}

/** The port and pid, from the first lines that the shell and the node print. */
async function greeting(stdout: NodeJS.ReadableStream, exited: Promise<Exit>): Promise<{ url: string; pid: number }> {
  let text = ''
  let timer: ReturnType<typeof setTimeout> | undefined
  const listening = new Promise<{ url: string; pid: number }>((resolve, reject) => {
    stdout.on('data', (bytes: Buffer) => {
      if (text.length > 100_000) return
      text += bytes.toString()
      const at = /^Listening on (\S+)$/m.exec(text)?.[1]
      const pid = /^pid (\d+)$/m.exec(text)?.[1]
      if (at && pid) resolve({ url: `http://${at}`, pid: Number(pid) })
    })
    void exited.then(({ code, stderr }) =>
      reject(new Error(`the local chain did not start (exit ${code}): ${stderr || 'no output on stderr'}`)),
    )
    timer = setTimeout(() => reject(new Error(`the local chain did not answer within ${START_MS / 1000} s`)), START_MS)
  })
  return listening.finally(() => clearTimeout(timer))
}

/** All of it or nothing, also through a power loss. */
export async function replaceFile(path: string, content: string | Uint8Array, mode = 0o600): Promise<void> {
  const file = await open(`${path}.tmp`, 'w', mode)
  try {
    await file.writeFile(content)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(`${path}.tmp`, path)
}
