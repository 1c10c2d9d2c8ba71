/** `bun server/main.ts` as a process of a test: its address, what it printed, and what is left when it has ended. */
import { afterAll } from 'bun:test'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MAIN } from '../scope.ts'

export type GatewayProcess = {
  readonly exited: Promise<{ readonly code: number | null; readonly out: string; readonly err: string }>
  /** The address that the greeting names. Rejects with stderr when the process ends without a greeting. */
  readonly url: Promise<string>
  /** Resolves when stdout holds this text. */
  printed(text: string): Promise<void>
  kill(signal: NodeJS.Signals): void
}

export type GatewayProcesses = {
  /** A new directory, removed after the tests of the file. */
  dir(): string
  /**
   * Starts the gateway that is configured in `dir`, or a devnet where none is, or the command in `args`: on a free port
   * and in its own database unless told. It inherits nothing but the path.
   */
  start(dir: string, env?: Readonly<Record<string, string>>, args?: readonly string[]): GatewayProcess
}

/** Processes and directories of one test file, all gone when its tests have ended. */
export function gatewayProcesses(): GatewayProcesses {
  const scratch = mkdtempSync(join(tmpdir(), 'farebox-process-'))
  const started: GatewayProcess[] = []
  /** Bun's cache of transpiled modules; otherwise each directory would get nine megabytes of it. */
  const cache = { BUN_RUNTIME_TRANSPILER_CACHE_PATH: join(scratch, 'transpiled') }

  afterAll(async () => {
    for (const process of started) process.kill('SIGKILL')
    await Promise.all(started.map(({ exited }) => exited))
    rmSync(scratch, { recursive: true, force: true })
  })

  function start(
    dir: string,
    env: Readonly<Record<string, string>> = {},
    args: readonly string[] = [existsSync(join(dir, 'farebox.toml')) ? 'start' : 'devnet'],
  ): GatewayProcess {
    const child = Bun.spawn([process.execPath, MAIN, ...args], {
      cwd: dir,
      env: {
        PATH: process.env.PATH ?? '',
        HOME: dir,
        ...cache,
        PORT: '0',
        DATABASE_URL: `sqlite:${dir}/data/farebox.db`,
        ...env,
      },
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
    })
    const greeting = Promise.withResolvers<string>()
    greeting.promise.catch(() => {})
    const waiting = new Map<string, () => void>()
    let output = ''
    const out = gather(child.stdout, (text) => {
      output = text
      const url = /^Farebox \S+ at (?:\S+, listening on )?(\S+): \d+ endpoints/m.exec(text)?.[1]
      if (url) greeting.resolve(url)
      for (const [awaited, found] of waiting) if (text.includes(awaited)) found()
    })
    const exited = Promise.all([child.exited, out, gather(child.stderr)]).then(([, out, err]) => {
      greeting.reject(new Error(`farebox ended with ${child.exitCode}: ${err}`))
      return { code: child.exitCode, out, err }
    })
    const printed = (text: string) =>
      new Promise<void>((resolve) => (output.includes(text) ? resolve() : waiting.set(text, resolve)))
    const made = { exited, url: greeting.promise, printed, kill: (signal: NodeJS.Signals) => child.kill(signal) }
    started.push(made)
    return made
  }

  return { dir: () => mkdtempSync(join(scratch, 'run-')), start }
}

async function gather(stream: ReadableStream<Uint8Array>, heard: (text: string) => void = () => {}): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of stream) heard((text += decoder.decode(chunk, { stream: true })))
  return text
}

/** The local chains that keep their state in this directory. */
export const nodesIn = (dir: string): readonly string[] =>
  aliveIn(dir).filter((line) => line.includes('--dump-state') && !line.includes('/bin/sh'))

/** Command lines of living processes that name this directory: the local chain and its guard, whoever started them. */
export function aliveIn(dir: string): readonly string[] {
  const lines = existsSync('/proc/self/cmdline')
    ? readdirSync('/proc')
        .filter((name) => /^\d+$/.test(name))
        .map(commandLine)
    : Bun.spawnSync(['ps', '-Ao', 'command=']).stdout.toString().split('\n')
  return lines.filter((line) => line.includes(dir))
}

function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
  } catch {
    return ''
  }
}

/** An image host that answers no order before `release()`. `asked` resolves with its first order. */
export function imageHost(): {
  /** Points the gateway to it: `MODEL` is drawn here. */
  readonly env: Readonly<Record<string, string>>
  readonly requested: Promise<void>
  release(): void
  stop(): Promise<void>
} {
  const [requested, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch() {
      requested.resolve()
      await released.promise
      return Response.json({ data: [{ b64_json: PNG }] })
    },
  })
  return {
    env: { OPENAI_API_KEY: 'key-of-the-test', OPENAI_BASE_URL: `${server.url}v1`, INLINE_WINDOW_SECONDS: '240' },
    requested: requested.promise,
    release: () => released.resolve(),
    stop: () => server.stop(true),
  }
}

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
