/** A process that runs a command: its input, its output, and its end. */
import { createInterface } from 'node:readline/promises'
import type { Io } from './cli/command.ts'
import { runFarebox } from './cli/mod.ts'

/** Runs a command and ends the process with its exit code, unless the command goes on. */
export async function runProcess(args: readonly string[], serve: Io['serve']): Promise<void> {
  const code = await runFarebox(args, processIo(serve))
  if (code === undefined) return
  // A socket that is kept alive would keep the process. What was written to a pipe may still be on its way.
  for (const stream of [process.stdout, process.stderr])
    await new Promise<void>((resolve) => stream.write('', () => resolve()))
  process.exit(code)
}

function processIo(serve: Io['serve']): Io {
  const isTerminal = process.stdin.isTTY === true && process.stderr.isTTY === true
  return {
    env: process.env,
    out: (line) => void process.stdout.write(`${line}\n`),
    err: (line) => void process.stderr.write(`${line}\n`),
    ...(isTerminal && { ask }),
    hasColor: process.stderr.isTTY === true && !process.env.NO_COLOR && process.env.TERM !== 'dumb',
    serve,
  }
}

async function ask(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  try {
    return (await lines.question(question)).trim()
  } finally {
    lines.close()
  }
}
