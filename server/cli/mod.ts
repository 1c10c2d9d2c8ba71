/** The command `farebox`: finds the subcommand, prints help, and turns what it throws into an exit code. */
import manifest from '../../package.json' with { type: 'json' }
import { nearestName } from '../config/settings.ts'
import { type Command, CommandError, type Io, UsageError } from './command.ts'
import { withEnvironmentFile } from './lib/environment_file.ts'

/** The commands in the order of the help. A module is loaded when its command runs. */
const commands: Readonly<Record<string, () => Promise<{ readonly command: Command }>>> = {
  start: () => import('./start.ts'),
  devnet: () => import('./devnet.ts'),
  init: () => import('./init.ts'),
  check: () => import('./check.ts'),
  key: () => import('./key.ts'),
  keys: () => import('./keys.ts'),
  buy: () => import('./buy.ts'),
  mcp: () => import('./mcp.ts'),
  proxy: () => import('./proxy.ts'),
  wallet: () => import('./wallet.ts'),
  backup: () => import('./backup.ts'),
  restore: () => import('./restore.ts'),
  payments: () => import('./payments.ts'),
  payment: () => import('./payment.ts'),
  reconcile: () => import('./reconcile.ts'),
  verify: () => import('./verify.ts'),
  publish: () => import('./publish.ts'),
}

/** Runs `farebox ARGS`. Resolves with the exit code, or with undefined while the process goes on. */
export async function runFarebox(args: readonly string[], io: Io): Promise<number | undefined> {
  const [first = 'start', ...rest] = args
  if (first === '--version' || first === '-v') return printed(io, manifest.version)
  if (first === '--help' || first === '-h') return printed(io, await overview())
  if (first === 'help')
    return rest[0] === undefined ? printed(io, await overview()) : await runFarebox([rest[0], '--help'], io)
  // `farebox --port 4021` is `farebox start --port 4021`.
  if (first.startsWith('-')) return await runFarebox(['start', ...args], io)
  const load = Object.hasOwn(commands, first) ? commands[first] : undefined
  if (!load) {
    const meant = nearestName(first, Object.keys(commands))
    io.err(`farebox: there is no command ${first}${meant === undefined ? '' : `; did you mean ${meant}?`}`)
    io.err('Run farebox --help for a list of commands.')
    return 2
  }
  const { command } = await load()
  if (wantsHelp(rest)) return printed(io, command.help)
  try {
    const given = withEnvironmentFile(rest, io)
    return await command.run(given.args, given.io)
  } catch (error) {
    if (error instanceof UsageError) {
      io.err(`farebox ${command.name}: ${error.message}`)
      io.err(`Run farebox ${command.name} --help for its options and examples.`)
      return 2
    }
    if (!(error instanceof CommandError)) throw error
    io.err(error.message)
    return 1
  }
}

function wantsHelp(args: readonly string[]): boolean {
  const end = args.indexOf('--')
  return args.slice(0, end < 0 ? args.length : end).some((arg) => arg === '--help' || arg === '-h')
}

function printed(io: Io, text: string): number {
  io.out(text)
  return 0
}

async function overview(): Promise<string> {
  const all = await Promise.all(Object.values(commands).map(async (load) => (await load()).command))
  const width = Math.max(...all.map(({ name }) => name.length))
  return `Farebox ${manifest.version}: a gateway that sells AI by the call, paid in USDC

Usage: farebox [command] [options]

Commands:
${all.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`).join('\n')}

Options:
  --help, -h     show help; farebox COMMAND --help shows that of a command
  --version, -v  show the version
  --env-file F   for every command: read variables from lines NAME=value of a file (FAREBOX_ENV_FILE); those of the
                 environment come first

Without a command, farebox starts the gateway. Exit codes: 0 done, 1 failed (check, keys, reconcile and verify: or
found something), 2 wrong usage.

Examples:
  farebox                    start a devnet, or what farebox.toml configures
  farebox buy chat "Hello"   buy an answer from it
  farebox init               write a farebox.toml to sell for real
  farebox check              find its mistakes before buyers do`
}
