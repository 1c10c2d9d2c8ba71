/**
 * Sandboxes at E2B. Sources: e2b@2.51.0 `dist/index.d.ts` (`SandboxOpts`, `CommandStartOpts`, `SandboxInfo`); decision
 * 80. Its library speaks Connect-RPC to the machine itself, and is loaded when the first sandbox is asked for. Cores
 * and memory are those of the template.
 */
import { optional } from '../../../core/lib/optional.ts'
import type { Clock, Log, SandboxVendor } from '../../../core/mod.ts'
import { asker, bounded, type ErrorMeaning, nameOf } from '../lib/sandbox_provider.ts'

export type E2bConfig = {
  readonly key: string
  /** Its own, or one of the operator's that has Python 3.11. */
  readonly template?: string | undefined
  /** The root of its API; E2B's own unless told. `sandboxUrl` is where machines are, in tests. */
  readonly baseUrl?: string | undefined
  readonly sandboxUrl?: string
  readonly clock: Clock
  readonly log: Log
}

const TEMPLATE = 'code-interpreter-v1'
const CREATE_MS = 115_000
const ASK_MS = 14_000
/** On top of a command's own time. */
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
        // Not given up half way: what is made is to be known, so that it can be ended.
        const { sandboxId } = await Sandbox.create(template, {
          ...connection(CREATE_MS),
          timeoutMs: seconds * 1000,
          metadata: { by: 'farebox' },
        })
        // Nobody waits for it any more: it would run, and belong to nobody.
        if (signal.aborted || at.signal.aborted) await Sandbox.kill(sandboxId, connection(ASK_MS))
        return { handle: sandboxId }
      }
      const made = await ask('create', CREATE_MS, at, creating)
      if (made) return made
      throw new Error('E2B does not know what it was asked for')
    },

    async exec(handle, { command, seconds }, at) {
      const ms = seconds * 1000 + EXTRA_MS
      return await ask('exec', ms, at, async (signal) => {
        const { Sandbox, CommandExitError } = await library()
        // A sandbox that runs gets no longer life by this: a second is less than it has.
        const sandbox = await Sandbox.connect(handle, { ...connection(ms, signal), timeoutMs: 1_000 })
        const [out, err] = [bounded('stdout'), bounded('stderr')]
        const starting = sandbox.commands.run(`exec timeout -k 1 ${seconds} ${command.map(quote).join(' ')}`, {
          background: true,
          cwd: WORKDIR,
          timeoutMs: ms,
          requestTimeoutMs: ms,
          onStdout: (text) => heard(out, text),
          onStderr: (text) => heard(err, text),
        })
        const running = await starting
        async function heard(side: ReturnType<typeof bounded>, text: string): Promise<void> {
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

/** One word, whatever is in it: the shell at E2B reads a line. */
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
