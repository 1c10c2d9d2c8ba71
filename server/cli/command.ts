/** A command of `farebox`: its type, its context, and the parser of its options. */
import { parseArgs, type ParseArgsConfig } from 'node:util'
import { type Environment, nearestName } from '../config/settings.ts'

/** Process of a command, as it may use it. Data goes to `out`, messages for people go to `err`. */
export type Io = {
  readonly env: Environment
  /** Writes a line to standard output. */
  out(line: string): void
  /** Writes a line to standard error. */
  err(line: string): void
  /** Asks a person and resolves with the answer, trimmed. Absent where nobody can answer. */
  readonly ask?: (question: string) => Promise<string>
  /** Whether `err` may be coloured: it is a terminal, and NO_COLOR is not set. */
  readonly hasColor: boolean
  /**
   * Starts the gateway with this environment, on local chains alone if asked, with all that it keeps in `data` if
   * given. Resolves when it listens.
   */
  serve(env: Environment, options?: { readonly isDevnet: boolean; readonly data?: string | undefined }): Promise<void>
}

/** A command is `server/cli/NAME.ts`, which exports `command`, and a line in `server/cli/mod.ts`. */
export type Command = {
  readonly name: string
  /** One line for `farebox --help`. */
  readonly summary: string
  /** Usage, options and examples, for `farebox NAME --help`. */
  readonly help: string
  /**
   * Resolves with the exit code: 0 done, 1 failed, 2 wrong usage; or with undefined while the process goes on. Throws
   * CommandError for a failure that a person can fix, and UsageError for a wrong option.
   */
  run(args: readonly string[], io: Io): Promise<number | undefined>
}

/** A failure whose message is printed as it is, without a stack. The exit code is 1. */
export class CommandError extends Error {}

/** A command line that cannot be understood. The exit code is 2. */
export class UsageError extends Error {}

type Options = NonNullable<ParseArgsConfig['options']>
type Parsed<O extends Options> = ReturnType<
  typeof parseArgs<{ args: string[]; options: O; strict: true; allowPositionals: true }>
>

/**
 * Reads options. Throws UsageError, which names the nearest option for a misspelt one.
 *
 * @param most how many arguments without a dash are allowed
 */
export function readOptions<const O extends Options>(
  args: readonly string[],
  options: O,
  most = Number.POSITIVE_INFINITY,
): Parsed<O> {
  let parsed: Parsed<O>
  try {
    parsed = parseArgs({ args: [...args], options, strict: true, allowPositionals: true })
  } catch (error) {
    const { message, code } = error as Error & { code?: string }
    const [, given = ''] = /'(-{1,2}[^' ,]+)/.exec(message) ?? []
    if (code !== 'ERR_PARSE_ARGS_UNKNOWN_OPTION') throw new UsageError(message.split('. ', 1)[0])
    const meant = nearestName(given.replace(/^-+/, ''), Object.keys(options))
    throw new UsageError(`there is no option ${given}${meant === undefined ? '' : `; did you mean --${meant}?`}`)
  }
  const extra = parsed.positionals[most]
  if (extra !== undefined) throw new UsageError(`unexpected argument ${JSON.stringify(extra)}`)
  return parsed
}

/** The environment with options that override it: flags come before the environment, and that before the file. */
export function overridden(env: Environment, values: Readonly<Record<string, string | undefined>>): Environment {
  return { ...env, ...Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) }
}
