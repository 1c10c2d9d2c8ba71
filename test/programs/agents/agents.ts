/** Unmodified coding agents: how each is set up by a base URL and a key, and what is asked of it. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { LOOPBACK } from '../mod.ts'
import { TOOL_LINES } from '../../../server/buyer/tool_lines.ts'

const MODEL = 'farebox/echo'
/** A client that has not ended by then is stopped. */
const LIMIT_MS = 120_000

export type Setup = { readonly base: string; readonly token: string; readonly home: string; readonly cwd: string }
type Command = { readonly argv: readonly string[]; readonly env?: Readonly<Record<string, string>> }
/** A program that buys. */
export type Client = {
  readonly name: string
  /** One of its tools, which the echo model calls when it is named. */
  readonly tool: string
  /** Paid requests of each run that are neither the question nor the tool's output, such as one for a title. */
  readonly besides: number
  run(setup: Setup, prompt: string): Promise<Ran>
}
type Agent = Client & {
  /** The room that has its program. */
  readonly room: 'agents' | 'native'
}
type Lines = Omit<Agent, 'run'> & { command(setup: Setup, prompt: string): Command }
export type Ran = { readonly code: number | null; readonly text: string; readonly ms: number }

const here = (...path: readonly string[]) => join(import.meta.dirname, ...path)

/** Writes a file below the home folder. */
function file(home: string, path: string, text: string): string {
  const full = join(home, path)
  mkdirSync(dirname(full), { recursive: true })
  writeFileSync(full, text)
  return full
}

const tomlOf = (lines: string): string => lines.slice(lines.indexOf('\nmodel ') + 1)

const ALL: readonly Lines[] = [
  {
    name: 'Gemini CLI',
    room: 'agents',
    tool: 'list_directory',
    besides: 0,
    command({ base, token, home }, prompt) {
      file(
        home,
        '.gemini/settings.json',
        JSON.stringify({
          security: { auth: { selectedType: 'gemini-api-key' } },
          general: { disableAutoUpdate: true },
          privacy: { usageStatisticsEnabled: false },
          telemetry: { enabled: false },
        }),
      )
      return {
        argv: ['node', here('node_modules/@google/gemini-cli/bundle/gemini.js'), '-m', MODEL, '-p', prompt],
        env: { GEMINI_API_KEY: token, GOOGLE_GEMINI_BASE_URL: base, GEMINI_CLI_TRUST_WORKSPACE: 'true' },
      }
    },
  },
  {
    name: 'Qwen Code',
    room: 'agents',
    tool: 'list_directory',
    besides: 0,
    // Its memory would be made by two paid requests after some answers.
    command({ base, token, home }, prompt) {
      file(home, '.qwen/settings.json', JSON.stringify({ memory: { enableManagedAutoMemory: false } }))
      return {
        argv: ['node', here('node_modules/@qwen-code/qwen-code/cli.js'), '--auth-type', 'openai', '-p', prompt],
        env: {
          OPENAI_API_KEY: token,
          OPENAI_BASE_URL: `${base}/v1`,
          OPENAI_MODEL: MODEL,
          QWEN_TELEMETRY_ENABLED: '0',
        },
      }
    },
  },
  {
    name: 'Continue',
    room: 'agents',
    tool: 'List',
    besides: 0,
    command({ base, token, home }, prompt) {
      const model = {
        name: 'echo',
        provider: 'openai',
        model: MODEL,
        apiBase: `${base}/v1`,
        apiKey: token,
        roles: ['chat'],
      }
      const config = file(
        home,
        'config.yaml',
        JSON.stringify({ name: 'farebox', version: '1.0.0', schema: 'v1', models: [model] }),
      )
      return {
        argv: ['node', here('node_modules/@continuedev/cli/dist/cn.js'), '--config', config, '-p', prompt],
        env: { CONTINUE_TELEMETRY_ENABLED: '0' },
      }
    },
  },
  {
    name: 'Claude Code',
    room: 'native',
    tool: 'Bash',
    besides: 0,
    command: ({ base, token }, prompt) => ({
      argv: [here('native/node_modules/.bin/claude'), '-p', prompt],
      env: {
        ...exportsIn(TOOL_LINES.claude?.({ base, variable: 'KEY', token, model: MODEL }) ?? ''),
        DISABLE_AUTOUPDATER: '1',
        DISABLE_TELEMETRY: '1',
        DISABLE_ERROR_REPORTING: '1',
        IS_SANDBOX: '1',
      },
    }),
  },
  {
    name: 'Codex',
    room: 'native',
    tool: 'exec_command',
    besides: 0,
    command({ base, token, home }, prompt) {
      const lines = TOOL_LINES.codex?.({ base, variable: 'FAREBOX_KEY', token, model: MODEL }) ?? ''
      const more = 'check_for_update_on_startup = false\n'
      file(home, '.codex/config.toml', `${more}${tomlOf(lines)}\n[analytics]\nenabled = false\n`)
      return {
        argv: ['node', here('native/node_modules/@openai/codex/bin/codex.js'), 'exec', '--skip-git-repo-check', prompt],
        env: exportsIn(lines),
      }
    },
  },
  {
    name: 'opencode',
    room: 'native',
    tool: 'glob',
    // The title of the session.
    besides: 1,
    command({ base, token, cwd }, prompt) {
      const lines = TOOL_LINES.opencode?.({ base, variable: 'FAREBOX_KEY', token, model: MODEL }) ?? ''
      const json = JSON.parse(lines.slice(lines.indexOf('{')))
      file(cwd, 'opencode.json', JSON.stringify({ ...json, autoupdate: false, share: 'disabled' }))
      return {
        argv: [here('native/node_modules/.bin/opencode'), 'run', prompt],
        env: {
          ...exportsIn(lines),
          OPENCODE_DISABLE_AUTOUPDATE: '1',
          OPENCODE_DISABLE_MODELS_FETCH: '1',
          OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
        },
      }
    },
  },
]

export const AGENTS: readonly Agent[] = ALL.map(({ command, ...agent }) => ({
  ...agent,
  run: (setup, prompt) => runAgent(agent.name, setup, command(setup, prompt)),
}))

/** The variables that lines for a shell export. */
const exportsIn = (lines: string): Record<string, string> =>
  Object.fromEntries([...lines.matchAll(/^export (\w+)='(.*)'$/gm)].map(([, name = '', value = '']) => [name, value]))

/** Runs an agent with an empty home and an empty folder to work in. */
async function runAgent(name: string, setup: Setup, { argv, env }: Command): Promise<Ran> {
  if (!argv.slice(0, 2).some((path) => path.startsWith(import.meta.dirname) && existsSync(path)))
    throw new Error(`${name} is not installed: run bun test/programs/agents/run.ts, or see test/programs/README.md`)
  const started = performance.now()
  const child = Bun.spawn([...argv], {
    cwd: setup.cwd,
    env: { PATH: process.env.PATH ?? '', HOME: setup.home, TERM: 'dumb', NO_COLOR: '1', ...LOOPBACK, ...env },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
    timeout: LIMIT_MS,
    killSignal: 'SIGKILL',
  })
  const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
  return { code, text: `${out}\n${err}`, ms: performance.now() - started }
}
