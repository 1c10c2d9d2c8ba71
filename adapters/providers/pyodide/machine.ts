/**
 * A process that runs untrusted Python: Pyodide inside Deno, which enforces the permissions (decision 84). It may read
 * Pyodide's folder, and has no network, environment, other files or subprocesses. The gateway ends it when it exceeds
 * its time, memory or output, or works while no command runs.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { existsSync, realpathSync } from 'node:fs'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { availableParallelism, setPriority } from 'node:os'
import { delimiter, dirname, isAbsolute, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import type { Clock, Ran } from '../../../core/mod.ts'
import type { InterpreterReply, InterpreterRequest } from './interpreter.ts'

/** Paths of the programs: absolute, without a comma. */
export type Programs = { readonly deno: string; readonly pyodide: string }
type MachineOptions = {
  readonly programs: Programs
  /** An empty folder. */ readonly cwd: string
  /** Of Python, in MB. */ readonly memory: number
  /** Maximum lifetime, which also limits its time on each processor. */
  readonly seconds?: number
  readonly clock: Clock
  /** A replacement for Python, and the limit of unsolicited work, for tests. */
  readonly script?: string
  readonly idleSeconds?: number
}

export type Machine = {
  readonly pid: number
  isAlive(): boolean
  /**
   * Runs one command at a time. Rejects only when `signal` aborts; undefined when the machine had already ended. When
   * the command ends the machine, the return code is 124 or 137.
   */
  run(command: readonly string[], at: { seconds: number; signal: AbortSignal }): Promise<Ran | undefined>
  end(): void
  /** Resolves when the process has exited. */
  readonly gone: Promise<void>
}

/** Why a machine ended, and the return code of its last command. */
type Ending = { readonly why: string; readonly returncode: number }
const KILLED = 137
const LATE = 124
/** Return codes of a shell that cannot start a program. */
const UNSTARTED: ReadonlySet<number> = new Set([126, 127])

const START_MS = 60_000
/**
 * How long an interrupted command may take to stop before its machine is ended: less than the five seconds of the
 * contract, and enough on a busy host.
 */
const GRACE_MS = 4_000
const CHECK_EVERY_MS = 100
/** Deno itself, its heap and Pyodide's code, in MB: 165 at rest. */
const OWN_MEMORY = 320
const HEAP_MEMORY = 128
/**
 * Limits in bytes: of stdout and of stderr before they are truncated, and of everything that a process may send for one
 * command, where each chunk counts extra.
 */
export const MAX_OUTPUT = 1 << 20
const MAX_SENT = 4 * MAX_OUTPUT
const PIECE = 1_024
/** Threads in addition to those at the start, because some are created on demand. */
const MAX_THREADS = 12
const NICE = 10
/**
 * Processor seconds that may be spent between commands, in addition to a hundredth of the elapsed time. A tick is 10
 * ms.
 */
const IDLE_SECONDS = 3
const DAY = 86_400
const TICKS = 100
const PAGE_KB = 1_024
const WASM_PAGES_PER_MB = 16

/**
 * Disables Deno's caches, one of which pages can write to without permission: they would be in the user's home
 * directory and shared. Also disables WebGPU, which needs no permission.
 */
const ENVIRONMENT = { DENO_DIR: '/dev/null/none', DENO_WEBGPU_BACKEND: 'none' }
const FLAGS = ['--quiet', '--no-prompt', '--no-remote', '--no-npm', '--no-config', '--no-lock', '--no-code-cache']
/**
 * A second layer, by the operating system: no file output, no core dumps, a limit on processor time in case the gateway
 * dies, and this process is killed before the gateway when memory runs out. Limits that a system does not support are
 * skipped.
 */
const LIMITED =
  '{ echo 1000 > /proc/self/oom_score_adj; ulimit -c 0; ulimit -n 256; ulimit -t "$0"; ulimit -f 0; } 2> /dev/null; exec "$@"'
const INTERPRETER = fileURLToPath(new URL('./interpreter.ts', import.meta.url))

/** A process and the command that it works on. */
type Process = Required<Pick<MachineOptions, 'memory' | 'idleSeconds' | 'clock'>> & {
  readonly child: ChildProcess
  /** Aborted when the process has ended or is being ended. */
  readonly over: AbortController
  ending: Ending
  /** Takes the reply with the id `count`; undefined between commands. */
  answer: ((ran: InterpreterReply | undefined) => void) | undefined
  count: number
  gone: Promise<void>
}

/** Resolves when Python is ready. Rejects when it does not start or `signal` aborts, with nothing left running. */
export async function startMachine(options: MachineOptions, { signal }: { signal: AbortSignal }): Promise<Machine> {
  signal.throwIfAborted()
  const { memory, clock, idleSeconds = IDLE_SECONDS } = options
  const state: Process = {
    memory,
    clock,
    idleSeconds,
    child: spawnPython(options),
    over: new AbortController(),
    ending: { why: 'it exited unexpectedly', returncode: KILLED },
    answer: undefined,
    count: 0,
    gone: Promise.resolve(),
  }
  state.gone = goneOf(state)
  hear(state.child, {
    answered: (ran) => state.answer?.(ran),
    isExpected: (id) => state.answer !== undefined && id === state.count,
    end: (why) => end(state, why),
  })
  const isReady = await becomesReady(state, signal)
  const { pid } = state.child
  if (!isReady || pid === undefined) {
    await state.gone
    throw new Error(`Python did not start: ${state.ending.why}`)
  }
  await lower(pid)
  void watch(state, pid)
  let turn: Promise<unknown> = Promise.resolve()
  return {
    pid,
    isAlive: () => isAlive(state),
    end: () => end(state, 'it was terminated'),
    gone: state.gone,
    run(command, at) {
      const running = turn.then(() => runNow(state, command, at))
      turn = running.catch(() => {})
      return running
    },
  }
}

function spawnPython({ programs, cwd, memory, seconds = DAY, script = INTERPRETER }: MachineOptions): ChildProcess {
  const { deno, pyodide } = programs
  const limits = `--v8-flags=--max-old-space-size=${HEAP_MEMORY},--wasm-max-mem-pages=${memory * WASM_PAGES_PER_MB}`
  const args = [
    'run',
    ...FLAGS,
    `--allow-read=${pyodide}`,
    limits,
    script,
    pyodide,
    pathToFileURL(join(pyodide, 'pyodide.mjs')).href,
    String(MAX_OUTPUT),
  ]
  const processorSeconds = Math.ceil((seconds + START_MS / 1000) * availableParallelism())
  return spawn('/bin/sh', ['-c', LIMITED, String(processorSeconds), deno, ...args], {
    cwd,
    env: ENVIRONMENT,
    detached: true,
    stdio: ['pipe', 'pipe', 'ignore'],
  })
}

/** Resolves when the process has exited; until then notes why. */
function goneOf(state: Process): Promise<void> {
  return new Promise((resolve) => {
    const finish = (): void => {
      state.over.abort()
      state.answer?.(undefined)
      resolve()
    }
    state.child.once('close', (code) => {
      if (code !== null && UNSTARTED.has(code) && isAlive(state))
        state.ending = {
          ...state.ending,
          why: 'it cannot be started: the program is missing or does not run on this system',
        }
      finish()
    })
    state.child.once('error', (error) => {
      const code = (error as NodeJS.ErrnoException).code ?? 'unknown'
      state.ending = { ...state.ending, why: `it cannot be started (${code})` }
      finish()
    })
  })
}

const isAlive = ({ over }: Process): boolean => !over.signal.aborted

function end(state: Process, why: string, returncode = KILLED): void {
  if (isAlive(state)) state.ending = { why, returncode }
  state.over.abort()
  state.child.kill('SIGKILL')
}

async function becomesReady(state: Process, signal: AbortSignal): Promise<boolean> {
  const started = new AbortController()
  const late = () => end(state, signal.aborted ? 'the caller no longer waits' : 'it did not start in time')
  signal.addEventListener('abort', late, { once: true })
  void state.clock.wait(START_MS, started.signal).then(() => started.signal.aborted || late())
  const isReady = (await next(state, 0)) !== undefined
  started.abort()
  signal.removeEventListener('abort', late)
  return isReady
}

/** The reply with this id; undefined when the process ends first. */
function next(state: Process, id: number): Promise<InterpreterReply | undefined> {
  state.count = id
  return new Promise((resolve) => {
    state.answer = (ran) => {
      state.answer = undefined
      resolve(ran)
    }
    if (!isAlive(state)) state.answer(undefined)
  })
}

async function runNow(
  state: Process,
  command: readonly string[],
  at: { seconds: number; signal: AbortSignal },
): Promise<Ran | undefined> {
  at.signal.throwIfAborted()
  if (!isAlive(state)) return undefined
  const ms = at.seconds * 1000
  const answering = next(state, state.count + 1)
  state.child.stdin?.write(`${JSON.stringify({ id: state.count, command, ms } satisfies InterpreterRequest)}\n`)
  const done = new AbortController()
  const timer = state.clock.wait(ms + GRACE_MS, done.signal).then(() => {
    if (!done.signal.aborted)
      end(state, `it ran for more than ${at.seconds} seconds and could not be interrupted`, LATE)
  })
  const ran = await answering
  done.abort()
  await timer
  if (ran) return { stdout: ran.stdout, stderr: ran.stderr, returncode: ran.returncode }
  await state.gone
  const { why, returncode } = state.ending
  return { stdout: '', stderr: `The sandbox has ended: ${why}.\n`, returncode }
}

/** Measures the process from outside, because it cannot be trusted to report its own usage. */
async function watch(state: Process, pid: number): Promise<void> {
  const { memory, idleSeconds, clock, over } = state
  let ticks: number | undefined
  let idle = 0
  let most = Infinity
  while (isAlive(state)) {
    const isBusy = state.answer !== undefined
    const seen = await usageOf(pid).catch(() => undefined)
    if (seen && seen.kb > (memory + OWN_MEMORY) * PAGE_KB) end(state, `it used more than its ${memory} MB of memory`)
    if (seen && seen.threads > most) end(state, 'it started too many threads')
    most = Math.min(most, (seen?.threads ?? Infinity) + MAX_THREADS)
    idle = isBusy || !seen ? 0 : Math.max(0, idle + seen.ticks - (ticks ?? seen.ticks) - CHECK_EVERY_MS / 1000)
    if (idle > idleSeconds * TICKS) end(state, 'it used the processor while no command was running')
    ticks = seen?.ticks ?? ticks
    await clock.wait(CHECK_EVERY_MS, over.signal)
  }
}

type Hearing = { answered(ran: InterpreterReply): void; isExpected(id: number): boolean; end(reason: string): void }

/**
 * Reads replies, and ends the process on any other output. A process belongs to one wallet, so false replies harm
 * nobody else. Output is scanned once and never parsed as JSON: neither many small chunks nor deep nesting can block
 * the gateway.
 */
export function hear(child: Pick<ChildProcess, 'stdin' | 'stdout'>, { answered, isExpected, end }: Hearing): void {
  let pieces: Buffer[] = []
  let received = 0
  child.stdin?.on('error', () => {})
  child.stdout?.on('data', (piece: Buffer) => {
    received += piece.length + PIECE
    if (received > MAX_SENT) return end('it sent too much output')
    const last = piece.indexOf('\n')
    pieces.push(piece)
    if (last < 0) return
    const ran = last === piece.length - 1 ? answerIn(Buffer.concat(pieces).toString('latin1')) : undefined
    pieces = []
    received = 0
    if (!ran || !isExpected(ran.id)) return end('it sent an unexpected reply')
    answered(ran)
  })
}

/** Id, return code, and stdout and stderr in base64. */
const ANSWER = /^(\d{1,9}) (-?\d{1,9}) ([\w+/=]*) ([\w+/=]*)\n$/

function answerIn(line: string): InterpreterReply | undefined {
  const [, id, returncode, stdout, stderr] = ANSWER.exec(line) ?? []
  if (stdout === undefined || stderr === undefined) return undefined
  const text = (side: string): string => Buffer.from(side, 'base64').toString()
  return { id: Number(id), stdout: text(stdout), stderr: text(stderr), returncode: Number(returncode) }
}

const execute = promisify(execFile)

/** Resident memory, and where the system reports them, processor ticks since the start and the number of threads. */
async function usageOf(pid: number): Promise<{ kb: number; ticks: number; threads: number }> {
  if (process.platform !== 'linux')
    return { kb: Number((await execute('ps', ['-o', 'rss=', '-p', String(pid)])).stdout), ticks: 0, threads: 0 }
  const [status, stat] = await Promise.all([
    readFile(`/proc/${pid}/status`, 'utf8'),
    readFile(`/proc/${pid}/stat`, 'utf8'),
  ])
  // The fields after the name, which may contain anything: 14 and 15 of proc(5).
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return {
    kb: Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0),
    ticks: Number(fields[11]) + Number(fields[12]),
    threads: Number(fields[17]),
  }
}

/**
 * Lowers the priority below the gateway's. On Linux niceness is per thread and inherited, and sessions (each process
 * here is one) may have their own.
 */
async function lower(pid: number): Promise<void> {
  const threads = await readdir(`/proc/${pid}/task`).catch(() => [String(pid)])
  await writeFile(`/proc/${pid}/autogroup`, String(NICE)).catch(() => {})
  for (const thread of threads) {
    try {
      setPriority(Number(thread), NICE)
    } catch {
      // not permitted, or already exited: it keeps the normal priority
    }
  }
}

const PLATFORMS: Readonly<Record<string, string>> = {
  'linux-x64': '@deno/linux-x64-glibc',
  'linux-arm64': '@deno/linux-arm64-glibc',
  'darwin-x64': '@deno/darwin-x64',
  'darwin-arm64': '@deno/darwin-arm64',
}

/** A `deno` program on PATH, not the script that npm puts there. */
function denoOnPath(): string {
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => isAbsolute(folder))
  const found = folders.map((folder) => join(folder, 'deno')).find((path) => existsSync(path))
  if (!found || realpathSync(found).endsWith('.cjs')) throw new Error('deno is not on PATH')
  return found
}

/**
 * Deno from the native program of npm's `deno`, else from PATH, and Pyodide's folder. Throws with what is missing. Deno
 * takes 91 MB, so it is not among our dependencies (decision 106).
 */
export function findPrograms(
  from: string = import.meta.url,
  platform = `${process.platform}-${process.arch}`,
): Programs {
  const here = createRequire(from)
  const name = PLATFORMS[platform]
  if (!name)
    throw new Error(
      `the embedded sandbox does not run on ${platform} (it does on ${Object.keys(PLATFORMS).join(', ')})`,
    )
  if (!existsSync(INTERPRETER))
    throw new Error('the embedded sandbox is a separate program, which a compiled binary does not contain')
  const found = (path: string, resolvers: readonly ((path: string) => string)[]): string => {
    for (const resolve of resolvers) {
      try {
        return realpathSync(resolve(path))
      } catch {
        // not on this path: the next one, else the message below
      }
    }
    throw new Error(
      `the embedded sandbox needs the package ${path
        .split('/')
        .slice(0, path.startsWith('@') ? 2 : 1)
        .join('/')}, which is not installed; run: bun add deno@2.9.6 pyodide, or put deno on PATH`,
    )
  }
  // Strict layouts show the platform package only to the package that depends on it.
  const besideDeno = (path: string) => createRequire(here.resolve('deno/package.json')).resolve(path)
  const programOf = (resolve: (path: string) => string) => (path: string) => join(dirname(resolve(path)), 'deno')
  const isOurs = platform === `${process.platform}-${process.arch}`
  const resolvers = [programOf(here.resolve), programOf(besideDeno), ...(isOurs ? [denoOnPath] : [])]
  const deno = found(`${name}/package.json`, resolvers)
  const pyodide = dirname(
    found('pyodide/pyodide.mjs', [here.resolve, () => join(dirname(here.resolve('pyodide')), 'pyodide.mjs')]),
  )
  // Deno reads a comma as the end of a path, and would allow what follows it.
  if (pyodide.includes(','))
    throw new Error(`the embedded sandbox must not be in a folder with a comma in its path: ${pyodide}`)
  return { deno, pyodide }
}
