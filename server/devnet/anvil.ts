/**
 * Runs a local EVM node (anvil), persists its chain in a file, and ends the node even when this process is killed
 * (decision 94).
 */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, open, rename } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'

export const CHAIN_ID = 84532

/** How a node ended. `isExpected`: stop() ended it. `stderr`: the last 4,000 characters. */
export type Exit = { readonly isExpected: boolean; readonly code: number | null; readonly stderr: string }

/** A running node. `exited` resolves once and never rejects. `pid` is the node's, not that of the shell around it. */
export type Anvil = {
  readonly url: string
  readonly pid: number
  readonly exited: Promise<Exit>
  /** Writes the chain to its file atomically. Does nothing without a file or without new blocks. */
  save(): Promise<void>
  /** Saves the chain and ends the node. Idempotent. */
  stop(): Promise<void>
}

type AnvilOptions = {
  /** State file: read if it exists, written when the node ends, except by SIGKILL. Without it nothing is saved. */
  readonly statePath?: string | undefined
  /** Seconds between saves while blocks are made, which a power loss may cost. Default 10. */
  readonly saveEvery?: number
  /** Seconds between empty blocks; transactions never wait for them. Default 300, see flags(). */
  readonly blockTime?: number
  /** Loopback port. Default 0: a free one. */
  readonly port?: number
  /** Path of the anvil binary. Default: the one that npm installed for this platform. */
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
/** Blocks with receipts and logs in memory: about 12 KB each; older ones take 6 KB. */
const RETAINED_BLOCKS = 20_000

/**
 * The shell between this process and the node, in its own session so that Ctrl-C in a terminal reaches only the
 * gateway. This process holds its stdin, which the kernel closes however the process dies. A watcher then ends the
 * node: SIGTERM, so that it dumps its chain, and SIGKILL after 10 s. The dump is written to a second file and replaces
 * the first only if it is complete. `$state.pid` is the lock and is removed last.
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
 * Starts a node on a free loopback port and resolves when it answers. Throws, with the node's stderr, when it does not
 * start: the binary is missing, the state file is unreadable, or another process uses the file.
 */
export async function startAnvil(options: AnvilOptions = {}): Promise<Anvil> {
  const { statePath, log = () => {}, saveEvery = 10 } = options
  const binary = options.binary ?? anvilBinary()
  if (!existsSync(binary))
    throw new Error(`the local chain cannot start: ${binary} does not exist; reinstall @foundry-rs/anvil`)
  if (statePath) {
    await mkdir(dirname(statePath), { recursive: true, mode: 0o700 })
    await waitForRelease(statePath)
  }

  const child = spawn('/bin/sh', ['-c', GUARD, 'farebox-devnet', statePath ?? '', binary, ...flags(options)], {
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
    // passes on no vendor keys
    env: { PATH: process.env['PATH'] ?? '/usr/bin:/bin', HOME: process.env['HOME'] ?? '/tmp' },
  })
  let isExpected = false
  let stderr = ''
  child.stdin.on('error', () => {}) // the shell may have exited before its stdin is closed
  child.stderr.on('data', (bytes: Buffer) => (stderr = (stderr + bytes.toString()).slice(-4000)))
  const exited = new Promise<Exit>((resolve) => {
    child.on('error', (error) => resolve({ isExpected, code: null, stderr: error.message }))
    child.on('close', (code) => resolve({ isExpected, code, stderr: stderr.trim() }))
    child.on('exit', () => child.stdin.end()) // if only the shell was killed, this makes its watcher end the node
  })

  const { url, pid } = await startup(child.stdout, exited).catch((error: unknown) => {
    child.stdin.end()
    throw error
  })
  child.stdout.resume() // a full pipe would block the node

  let savedHeight = ''
  let saving: Promise<void> | undefined
  const save = async () => {
    if (!statePath || isExpected) return
    const height = await rpc<string>(url, 'eth_blockNumber', [])
    if (height === savedHeight) return
    const dump = await rpc<string>(url, 'anvil_dumpState', [])
    await replaceFile(statePath, await promisify(gunzip)(Buffer.from(dump.slice(2), 'hex')))
    savedHeight = height
  }
  const saveOnce = () => (saving ??= save().finally(() => (saving = undefined)))

  let timer: ReturnType<typeof setTimeout> | undefined
  const saveLater = (ms: number) => {
    timer = setTimeout(async () => {
      const startedAt = performance.now()
      await saveOnce().catch((error: unknown) => isExpected || log(`saving the local chain failed: ${String(error)}`))
      // A long chain takes longer to save, so it is saved less often.
      if (!isExpected) saveLater(Math.max(saveEvery * 1000, 50 * (performance.now() - startedAt)))
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
    // EIP-2935 writes one slot per block, and anvil hashes the whole state at each block: after 2,500 blocks this would
    // reduce 4,000 blocks/s to 500.
    await rpc(url, 'anvil_setCode', ['0x0000F90827F1C53a10cb7A02335B175320002935', '0x'])
    await rpc(url, 'evm_mine', []) // otherwise 'latest' has the time at which the chain was stopped
  } catch (error) {
    await stop()
    throw error
  }
  if (statePath) saveLater(saveEvery * 1000)
  void exited.then(() => clearTimeout(timer))
  return { url, pid, exited, save: saveOnce, stop }
}

/** Path of the anvil binary for this platform. Throws, with the name of its npm package, if that is not installed. */
export function anvilBinary(from: string = import.meta.url, platform = `${process.platform}-${process.arch}`): string {
  const name = PLATFORMS[platform]
  if (!name)
    throw new Error(
      `the local chain does not run on ${platform}, only on ${Object.keys(PLATFORMS).join(', ')}; configure a gateway instead`,
    )
  const require = createRequire(from)
  for (const resolve of [require.resolve, besideAnvil]) {
    try {
      return resolve(`${name}/package.json`).replace(/package\.json$/, 'bin/anvil')
    } catch {
      // Not found here: try the next place.
    }
  }
  throw new Error(
    `the local chain needs the package ${name}, which is not installed; ` +
      'install @foundry-rs/anvil with npm or bun in this folder, without omitting optional dependencies, ' +
      'or configure a gateway: farebox init',
  )

  // With strict layouts (pnpm, isolated installs) only @foundry-rs/anvil can resolve its platform package.
  function besideAnvil(path: string): string {
    return createRequire(require.resolve('@foundry-rs/anvil/package.json')).resolve(path)
  }
}

/** Makes a JSON-RPC call. Throws with the node's error message. */
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
 * The pids of the running shell that uses a state file and of the process that started it. Pids are reused, so the
 * shell's command line must name the file.
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

/** After a gateway is killed, its node still dumps the chain: a quick restart waits for that to finish. */
async function waitForRelease(statePath: string): Promise<void> {
  const deadline = performance.now() + RELEASE_MS
  for (let holder = holderOf(statePath); holder; holder = holderOf(statePath)) {
    if (isAlive(holder.owner) || performance.now() > deadline)
      throw new Error(
        `the local chain ${statePath} is in use by process ${holder.owner}; stop that process, or use another directory`,
      )
    await pause(20)
  }
}

/**
 * Mining: a block at once for each transaction, in order of arrival. Also an empty block every `blockTime`, because
 * eth_call at 'latest' uses the last block's time and clients sign `validAfter = now - 600`. History: only the newest
 * state; older ones would halve the speed and need a cache under $HOME.
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
  const history = ['--prune-history', '--transaction-block-keeper', String(RETAINED_BLOCKS)]
  return [...network, ...mining, ...history, ...state]
}

/** Reads URL and pid from the first lines that the shell and the node print. */
async function startup(stdout: NodeJS.ReadableStream, exited: Promise<Exit>): Promise<{ url: string; pid: number }> {
  let text = ''
  let timer: ReturnType<typeof setTimeout> | undefined
  const listening = new Promise<{ url: string; pid: number }>((resolve, reject) => {
    stdout.on('data', (bytes: Buffer) => {
      if (text.length > 100_000) return
      text += bytes.toString()
      const address = /^Listening on (\S+)$/m.exec(text)?.[1]
      const pid = /^pid (\d+)$/m.exec(text)?.[1]
      if (address && pid) resolve({ url: `http://${address}`, pid: Number(pid) })
    })
    void exited.then(({ code, stderr }) =>
      reject(new Error(`the local chain did not start (exit ${code}): ${stderr || 'no output on stderr'}`)),
    )
    timer = setTimeout(() => reject(new Error(`the local chain did not answer within ${START_MS / 1000} s`)), START_MS)
  })
  return listening.finally(() => clearTimeout(timer))
}

/** Replaces a file atomically, also in case of a power loss. */
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
