/** Runs a command of `farebox` in this process and collects what it writes. */
import type { Io } from '../../../server/cli/command.ts'
import { runFarebox } from '../../../server/cli/mod.ts'

type CommandResult = { readonly code: number | undefined; readonly out: string; readonly err: string }

export async function runCommand(args: readonly string[], io: Partial<Io> = {}): Promise<CommandResult> {
  let [out, err] = ['', '']
  const code = await runFarebox(args, {
    env: {},
    out: (line) => void (out += `${line}\n`),
    err: (line) => void (err += `${line}\n`),
    hasColor: false,
    serve: async () => {},
    ...io,
  })
  return { code, out, err }
}
