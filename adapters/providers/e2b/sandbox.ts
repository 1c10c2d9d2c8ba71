/**
 * Sandboxes at E2B. Sources: e2b@2.51.0 `dist/index.d.ts` (`SandboxOpts`, `CommandStartOpts`, `SandboxInfo`); decision
 * 80. Its library speaks Connect-RPC to the machine itself, and is loaded when the first sandbox is asked for. Cores
 * and memory are those of the template.
 */
import { optional } from '../../../core/lib/mod.ts'
import type { Clock, Log, SandboxVendor } from '../../../core/mod.ts'
import { asker, bounded, type ErrorMeaning, nameOf } from '../lib/sandbox_provider.ts'

export type E2bConfig = {
  readonly key: string
  /** The default template, or one of the operator's with Python 3.11. */
  readonly template?: string | undefined
  /** Base URL of the API; by default E2B's own. `sandboxUrl` is the address of sandboxes, for tests. */
  readonly baseUrl?: string | undefined
  readonly sandboxUrl?: string
  readonly clock: Clock
  readonly log: Log
}

const TEMPLATE = 'code-interpreter-v1'
const CREATE_MS = 115_000
const ASK_MS = 14_000
/** Added to the time limit of a command. */
const EXTRA_MS = 4_000
const WORKDIR = '/home/user'

export function e2bSandbox({ key, template = TEMPLATE, baseUrl, sandboxUrl, clock, log }: E2bConfig): SandboxVendor {
  const ask = asker({ name: 'E2B', clock, log }, meaningOf)
  const library = () => optional('e2b', 'a sandbox at E2B', () => import('e2b'))
  const connection = (requestTimeoutMs: number, signal?: AbortSignal) => ({
    apiKey: key,
    requestTimeoutMs,
    retries: 0,
    ...(signal && { signal }),
    ...(baseUrl && { apiUrl: baseUrl }),
    ...(sandboxUrl && { sandboxUrl }),
  })

  return {
    name: 'e2b',
    hasGpus: false,
    runtime: `The E2B template ${template}; cores and memory are those of the template.`,

    async create({ seconds }, at) {
      const creating = async (signal: AbortSignal) => {
        const { Sandbox } = await library()
        // Not aborted half way: the id of a created sandbox must be known, so that it can be terminated.
        const { sandboxId } = await Sandbox.create(template, {
          ...connection(CREATE_MS),
          timeoutMs: seconds * 1000,
          metadata: { by: 'farebox' },
        })
        // The caller no longer waits. Terminate the sandbox, which would belong to nobody.
        if (signal.aborted || at.signal.aborted) await Sandbox.kill(sandboxId, connection(ASK_MS))
        return { handle: sandboxId }
      }
      const made = await ask('create', CREATE_MS, at, creating)
      if (made) return made
      throw new Error('E2B does not know the requested resource')
    },

    async exec(handle, { command, seconds }, at) {
      const ms = seconds * 1000 + EXTRA_MS
      return await ask('exec', ms, at, async (signal) => {
        const { Sandbox, CommandExitError } = await library()
        // This does not extend the life of a running sandbox: one second is less than it has left.
        const sandbox = await Sandbox.connect(handle, { ...connection(ms, signal), timeoutMs: 1_000 })
        const [out, err] = [bounded('stdout'), bounded('stderr')]
        const starting = sandbox.commands.run(`exec timeout -k 1 ${seconds} ${command.map(quote).join(' ')}`, {
          background: true,
          cwd: WORKDIR,
          timeoutMs: ms,
          requestTimeoutMs: ms,
          onStdout: (text) => collect(out, text),
          onStderr: (text) => collect(err, text),
        })
        const running = await starting
        async function collect(side: ReturnType<typeof bounded>, text: string): Promise<void> {
          side.add(text)
          if (side.isFull()) await starting.then((each) => each.kill()).catch(() => {})
        }
        const { exitCode } = await running.wait().catch((error: unknown) => {
          if (error instanceof CommandExitError) return error
          throw error
        })
        return { stdout: out.text(), stderr: err.text(), returncode: exitCode }
      })
    },

    async status(handle, at) {
      const info = await ask(
        'status',
        ASK_MS,
        at,
        async (signal) => await (await library()).Sandbox.getInfo(handle, connection(ASK_MS, signal)),
      )
      return info?.state === 'running' ? { kind: 'running' } : { kind: 'ended', returncode: null }
    },

    async terminate(handle, at) {
      await ask(
        'terminate',
        ASK_MS,
        at,
        async (signal) => await (await library()).Sandbox.kill(handle, connection(ASK_MS, signal)),
      )
    },
  }
}

/** One shell word, whatever it contains: the shell at E2B parses a line. */
export const quote = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`

const MEANINGS: Readonly<Record<string, ErrorMeaning>> = {
  SandboxNotFoundError: 'gone',
  NotFoundError: 'gone',
  TimeoutError: 'late',
  RateLimitError: 'rate_limited',
  ServiceBusyError: 'rate_limited',
  AuthenticationError: 'operator',
  InvalidArgumentError: 'operator',
  TemplateError: 'operator',
}

function meaningOf(error: unknown): ErrorMeaning {
  const { name } = error as Error
  return MEANINGS[name] ?? MEANINGS[nameOf(error)] ?? 'failed'
}
