/** `bun server/main.ts` as a child process: its address, what it printed, and its end. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { MAIN } from '../../scope.ts'

export type FareboxProcess = {
  /** The address that it greets with; rejects with what it printed when it ends before. */
  readonly origin: Promise<string>
  readonly exited: Promise<number | null>
  readonly pid: number
  printed(): string
  kill(signal: NodeJS.Signals): void
  /** Ends it at once. */
  stop(): Promise<void>
}

/** It inherits nothing but the path. Whoever ends this process ends it too. */
export function farebox(
  args: readonly string[],
  { dir, env }: { readonly dir: string; readonly env: Readonly<Record<string, string>> },
): FareboxProcess {
  const child: ChildProcess = spawn(process.execPath, [MAIN, ...args], {
    cwd: dir,
    env: { PATH: process.env.PATH ?? '', HOME: dir, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const end = () => child.kill('SIGKILL')
  process.once('exit', end)
  let text = ''
  const greeting = Promise.withResolvers<string>()
  greeting.promise.catch(() => {})
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (chunk) => {
      text = (text + String(chunk)).slice(-200_000)
      const url =
        /^ {2}look around: +(\S+)\/ /m.exec(text)?.[1] ?? /^Farebox \S+ at (http:\/\/\S+?):? /m.exec(text)?.[1]
      if (url) greeting.resolve(url)
    })
  const exited = once(child, 'exit').then(([code]) => {
    process.off('exit', end)
    greeting.reject(new Error(`farebox ended with ${code}: ${text.slice(-2_000)}`))
    return code as number | null
  })
  return {
    origin: greeting.promise,
    exited,
    pid: child.pid ?? 0,
    printed: () => text,
    kill: (signal) => void child.kill(signal),
    async stop() {
      end()
      await exited
    },
  }
}
