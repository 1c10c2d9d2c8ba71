/**
 * Sandboxes at Modal. Sources: modal@0.11.1 `dist/index.d.ts` (`SandboxCreateParams`, `SandboxExecParams`, `Sandbox`);
 * decision 80. Modal's library is the only way to its gRPC API; it is loaded for the first sandbox.
 */
import { optional } from '../../../core/lib/mod.ts'
import type { Clock, Log, SandboxVendor } from '../../../core/mod.ts'
import { asker, bounded, type ErrorMeaning, MAX_OUTPUT, nameOf } from '../lib/sandbox_provider.ts'

/** The part of the library that is used. */
export type ModalLike = {
  readonly apps: { fromName(name: string, how: { createIfMissing: boolean }): Promise<unknown> }
  readonly images: { fromRegistry(tag: string): unknown }
  readonly sandboxes: {
    create(app: never, image: never, how: ModalOrder): Promise<Pick<ModalSandboxLike, 'sandboxId' | 'terminate'>>
    fromId(id: string): Promise<ModalSandboxLike>
  }
}
type ModalOrder = {
  readonly cpu: number
  readonly cpuLimit: number
  readonly memoryMiB: number
  readonly memoryLimitMiB: number
  readonly gpu?: string
  readonly timeoutMs: number
}
type Process = {
  readonly stdout: ReadableStream<Uint8Array>
  readonly stderr: ReadableStream<Uint8Array>
  wait(): Promise<number>
}
export type ModalSandboxLike = {
  readonly sandboxId: string
  exec(command: string[], how: { readonly mode: 'binary'; readonly timeoutMs: number }): Promise<Process>
  poll(): Promise<number | null>
  terminate(): Promise<unknown>
}

export type ModalConfig = {
  readonly tokenId: string
  readonly tokenSecret: string
  /** The app that lists its sandboxes at Modal. */
  readonly app?: string | undefined
  readonly clock: Clock
  readonly log: Log
  /** The library, for tests. */
  readonly connect?: (keys: { tokenId: string; tokenSecret: string }) => Promise<ModalLike>
}

const IMAGE = 'python:3.11'
const CREATE_MS = 115_000
const ASK_MS = 14_000
/** Added to the time limit of a command. */
const EXTRA_MS = 4_000
/** As timeout(1) returns. */
const LATE = 124

export function modalSandbox({
  tokenId,
  tokenSecret,
  app = 'farebox',
  clock,
  log,
  connect = connectModal,
}: ModalConfig): SandboxVendor {
  const ask = asker({ name: 'Modal', clock, log }, meaningOf)
  let connected: Promise<ModalLike> | undefined
  const client = (): Promise<ModalLike> => {
    connected ??= connect({ tokenId, tokenSecret }).catch((error: unknown) => {
      connected = undefined
      throw error
    })
    return connected
  }

  return {
    name: 'modal',
    hasGpus: true,

    async create({ seconds, cpu, memory, gpu }, at) {
      const creating = async (signal: AbortSignal) => {
        const modal = await client()
        const home = (await modal.apps.fromName(app, { createIfMissing: true })) as never
        const how = {
          cpu,
          cpuLimit: cpu,
          memoryMiB: memory,
          memoryLimitMiB: memory,
          timeoutMs: seconds * 1000,
          ...(gpu && { gpu }),
        }
        const sandbox = await modal.sandboxes.create(home, modal.images.fromRegistry(IMAGE) as never, how)
        // The caller no longer waits. Terminate the sandbox, which would belong to nobody.
        if (signal.aborted || at.signal.aborted) await sandbox.terminate()
        return { handle: sandbox.sandboxId }
      }
      const made = await ask('create', CREATE_MS, at, creating)
      if (made) return made
      throw new Error('Modal does not know the requested resource')
    },

    async exec(handle, { command, seconds }, at) {
      return await ask('exec', seconds * 1000 + EXTRA_MS, at, async () => {
        const sandbox = await found(handle)
        if ((await sandbox.poll()) !== null) return undefined
        const running = await sandbox.exec([...command], { mode: 'binary', timeoutMs: seconds * 1000 })
        const ended = running.wait().catch((error: unknown) => (isLate(error) ? LATE : Promise.reject(error as Error)))
        const [stdout, stderr, returncode] = await Promise.all([
          textOf(running.stdout, 'stdout'),
          textOf(running.stderr, 'stderr'),
          ended,
        ])
        return { stdout, stderr, returncode }
      })
    },

    async status(handle, at) {
      const state = await ask('status', ASK_MS, at, async () => ({ returncode: await (await found(handle)).poll() }))
      return state && state.returncode === null
        ? { kind: 'running' }
        : { kind: 'ended', returncode: state?.returncode ?? null }
    },

    async terminate(handle, at) {
      await ask('terminate', ASK_MS, at, async () => await (await found(handle)).terminate())
    },
  }

  async function found(handle: string): Promise<ModalSandboxLike> {
    return await (await client()).sandboxes.fromId(handle)
  }
}

async function connectModal(keys: { tokenId: string; tokenSecret: string }): Promise<ModalLike> {
  const { ModalClient } = await optional('modal', 'a sandbox at Modal', () => import('modal'))
  return new ModalClient({ ...keys, timeoutMs: CREATE_MS, maxRetries: 1 }) as unknown as ModalLike
}

async function textOf(stream: ReadableStream<Uint8Array>, name: string): Promise<string> {
  const text = bounded(name)
  const decoder = new TextDecoder()
  let read = 0
  try {
    for await (const bytes of stream) {
      read += bytes.length
      text.add(decoder.decode(bytes, { stream: true }))
      if (text.isFull() || read > 4 * MAX_OUTPUT) break
    }
  } catch (error) {
    if (!isLate(error)) throw error
  }
  text.add(decoder.decode())
  return text.text()
}

const isLate = (error: unknown): boolean =>
  ['TimeoutError', 'FunctionTimeoutError', 'SandboxTimeoutError'].includes(nameOf(error))

/** By error class, and by gRPC status where the library exposes it. */
const MEANINGS: Readonly<Record<string, ErrorMeaning>> = {
  NotFoundError: 'gone',
  SandboxTimeoutError: 'gone',
  TimeoutError: 'late',
  ResourceExhaustedError: 'rate_limited',
  InvalidError: 'operator',
  AuthError: 'operator',
}
const STATUSES: Readonly<Record<number, ErrorMeaning>> = {
  4: 'late',
  5: 'gone',
  7: 'operator',
  8: 'rate_limited',
  16: 'operator',
}

function meaningOf(error: unknown): ErrorMeaning {
  return MEANINGS[nameOf(error)] ?? STATUSES[Number((error as { code?: unknown } | null)?.code)] ?? 'failed'
}
