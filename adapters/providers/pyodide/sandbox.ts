/** The embedded sandbox: real Python, one process per sandbox. A restart of the gateway ends all of them. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { bytesToHex } from '@noble/hashes/utils'
import { type Clock, ApiError, type Log, type SandboxVendor } from '../../../core/mod.ts'
import { findPrograms, type Machine, type Programs, startMachine } from './machine.ts'

export type EmbeddedSandboxOptions = {
  /** Maximum number of sandboxes in this process, and memory of each in MB. */
  readonly most?: number
  readonly memory?: number
  readonly programs?: Programs
  readonly clock: Clock
  readonly log: Log
  readonly random: (bytes: number) => Uint8Array
}

export type EmbeddedSandbox = SandboxVendor & { close(): Promise<void> }

export const MAX_SANDBOXES = 4
export const SANDBOX_MEMORY = 512
const RUNTIME =
  'CPython 3.14 as WebAssembly (Pyodide 314) with its standard library: one processor, no network, no other program than python, echo, ls, cat and pwd.'

/** Throws with the missing program when one is not installed. */
export function embeddedSandbox({
  most = MAX_SANDBOXES,
  memory = SANDBOX_MEMORY,
  programs = findPrograms(),
  clock,
  log,
  random,
}: EmbeddedSandboxOptions): EmbeddedSandbox {
  const machines = new Map<string, Machine>()
  const closing = new AbortController()
  let starting = 0
  let cwd: string | undefined

  return {
    name: 'embedded',
    hasGpus: false,
    runtime: RUNTIME,

    async create(order, { signal }) {
      if (closing.signal.aborted) throw new Error('the embedded sandbox is closed')
      if (machines.size + starting >= most) {
        throw new ApiError('BUSY', {
          message: `All ${most} sandboxes of this gateway are in use. Nothing was charged; try again when one has ended.`,
          headers: { 'retry-after': '30' },
        })
      }
      starting += 1
      try {
        cwd ??= mkdtempSync(join(tmpdir(), 'farebox-sandbox-'))
        const machine = await startMachine(
          { programs, cwd, memory: Math.min(order.memory, memory), seconds: order.seconds, clock },
          { signal: AbortSignal.any([signal, closing.signal]) },
        )
        const handle = bytesToHex(random(16))
        machines.set(handle, machine)
        const over = new AbortController()
        void clock.wait(order.seconds * 1000, over.signal).then(() => machine.end())
        void machine.gone.then(() => {
          over.abort()
          machines.delete(handle)
        })
        return { handle }
      } catch (error) {
        if (!signal.aborted) log.warn('a sandbox did not start', { error: (error as Error).message })
        throw error
      } finally {
        starting -= 1
      }
    },

    async exec(handle, { command, seconds }, { signal }) {
      signal.throwIfAborted()
      return await machines.get(handle)?.run(command, { seconds, signal })
    },

    async status(handle, { signal }) {
      signal.throwIfAborted()
      return machines.get(handle)?.isAlive() ? { kind: 'running' } : { kind: 'ended', returncode: null }
    },

    async terminate(handle, { signal }) {
      signal.throwIfAborted()
      const machine = machines.get(handle)
      machine?.end()
      await machine?.gone
    },

    async close() {
      closing.abort()
      const all = [...machines.values()]
      for (const machine of all) machine.end()
      await Promise.all(all.map(({ gone }) => gone))
      if (cwd) rmSync(cwd, { recursive: true, force: true })
    },
  }
}
