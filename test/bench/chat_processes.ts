/** The processes of the chat benches: gateways and their upstream, and the load generator. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import type { Facts, Given, Ready } from './chat_gateways.ts'
import type { Command, Measured } from './chat_load.ts'

/** `scratch` is where they may write; `profile` a directory for CPU profiles; whoever is started is in `children`. */
export type ChatProcesses = {
  readonly scratch: string
  readonly profile: string | undefined
  readonly children: Bun.Subprocess[]
}

type Worker = {
  readonly port: number
  readonly child: Bun.Subprocess
  facts(): Promise<Facts>
  stop(): Promise<void>
}

type Load = {
  run(command: Omit<Command, 'file'>, requests: readonly string[]): Promise<Measured>
  stop(): void
}

export function chatProcesses({ scratch, profile, children }: ChatProcesses) {
  async function worker(name: string, given: Partial<Given>): Promise<Worker> {
    const dir = mkdtempSync(join(scratch, `chat-${name}-`))
    const flags = profile ? ['--cpu-prof', '--cpu-prof-md', '--cpu-prof-dir', join(profile, `chat-${name}`)] : []
    const { promise, resolve, reject } = Promise.withResolvers<Ready>()
    let report: (facts: Facts) => void = () => {}
    const child = Bun.spawn(
      [process.execPath, ...flags, join(import.meta.dir, 'chat_gateways.ts'), name, JSON.stringify({ ...given, dir })],
      {
        // Bun's fetch has 256 calls in flight unless this is set when the process starts; all others wait.
        env: { ...process.env, BUN_CONFIG_MAX_HTTP_REQUESTS: '4096' },
        stdin: 'ignore',
        stdout: Bun.file(join(dir, 'log')),
        stderr: 'inherit',
        ipc: (message: Ready | Facts) => ('port' in message ? resolve(message) : report(message)),
      },
    )
    children.push(child)
    void child.exited.then((code) => reject(new Error(`${name} ended with ${code} before it was ready`)))
    const { port } = await promise
    return {
      port,
      child,
      facts() {
        const facts = new Promise<Facts>((tell) => (report = tell))
        child.send('facts')
        return facts
      },
      async stop() {
        child.disconnect()
        await child.exited
      },
    }
  }

  function generator(): Load {
    const child = Bun.spawn([process.execPath, join(import.meta.dir, 'chat_load.ts')], {
      stdin: 'pipe',
      stdout: 'pipe',
      stderr: 'inherit',
    })
    children.push(child)
    const lines = createInterface({ input: Readable.fromWeb(child.stdout as never) })[Symbol.asyncIterator]()
    const file = join(scratch, 'chat-requests.json')
    return {
      async run(command, requests) {
        writeFileSync(file, JSON.stringify(requests))
        child.stdin.write(`${JSON.stringify({ ...command, file } satisfies Command)}\n`)
        await child.stdin.flush()
        const line = await lines.next()
        rmSync(file)
        if (line.done) throw new Error('the load generator ended')
        return JSON.parse(line.value)
      },
      stop: () => child.stdin.end(),
    }
  }

  return { worker, generator }
}
