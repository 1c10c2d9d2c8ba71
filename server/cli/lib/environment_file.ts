/** Variables from a file, for every command: secrets belong neither on a command line nor in farebox.toml. */
import { readFileSync } from 'node:fs'
import { CommandError, type Io, UsageError } from '../command.ts'

const OPTION = '--env-file'

type Given = { readonly args: readonly string[]; readonly io: Io }

/** Takes `--env-file FILE` from the arguments, else FAREBOX_ENV_FILE, and adds the variables of the file. */
export function withEnvironmentFile(args: readonly string[], io: Io): Given {
  const end = args.indexOf('--')
  const at = args.findIndex(
    (arg, index) => (end < 0 || index < end) && (arg === OPTION || arg.startsWith(`${OPTION}=`)),
  )
  if (at < 0) return io.env.FAREBOX_ENV_FILE ? { args, io: withFile(io, io.env.FAREBOX_ENV_FILE) } : { args, io }
  const isSeparate = args[at] === OPTION
  const path = isSeparate ? args[at + 1] : args[at]?.slice(OPTION.length + 1)
  if (!path) throw new UsageError(`${OPTION} needs a file`)
  return { args: args.toSpliced(at, isSeparate ? 2 : 1), io: withFile(io, path) }
}

function withFile(io: Io, path: string): Io {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    throw new CommandError(`${path}: cannot be read (${(error as { code?: string }).code})`)
  }
  const given = Object.fromEntries(Object.entries(io.env).filter(([, value]) => value))
  return { ...io, env: { ...parseVariables(text, path), ...given } }
}

/** Lines `NAME=value`, with or without quotes; empty lines and those that begin with # are skipped. */
function parseVariables(text: string, path: string): Readonly<Record<string, string>> {
  const variables: Record<string, string> = {}
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (/^\s*(#|$)/.test(line)) continue
    const [, name, value = ''] = /^\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*$/.exec(line) ?? []
    // The line may hold a secret, so it is not shown.
    if (name === undefined) throw new CommandError(`${path}:${index + 1}: must be NAME=value, or a comment after #`)
    variables[name] = /^(["'])(.*)\1$/.exec(value)?.[2] ?? value
  }
  return variables
}
