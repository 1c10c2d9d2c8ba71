/** A scripted sandbox vendor for tests; nothing runs. */
import type { Ran, SandboxOrder, SandboxVendor } from '../../core/mod.ts'

type ScriptedSandbox = SandboxVendor & {
  /** The orders by handle, and whether their sandboxes still run. */
  readonly made: ReadonlyMap<string, { readonly order: SandboxOrder; isAlive: boolean }>
  /** Adds an existing sandbox. */
  add(handle: string): void
}

export type SandboxScript = {
  readonly name?: string
  readonly hasGpus?: boolean
  answer?(command: readonly string[]): Ran
}

const echoed = (command: readonly string[]): Ran => ({ stdout: `${command.join(' ')}\n`, stderr: '', returncode: 0 })

export function scriptedSandbox({
  name = 'scripted',
  hasGpus = true,
  answer = echoed,
}: SandboxScript = {}): ScriptedSandbox {
  const made = new Map<string, { readonly order: SandboxOrder; isAlive: boolean }>()
  const isAlive = (handle: string): boolean => made.get(handle)?.isAlive === true
  return {
    name,
    hasGpus,
    made,
    add: (handle) => void made.set(handle, { order: { seconds: 300, cpu: 1, memory: 512 }, isAlive: true }),
    async create(order) {
      const handle = `scripted-${made.size + 1}`
      made.set(handle, { order, isAlive: true })
      return { handle }
    },
    exec: async (handle, { command }) => (isAlive(handle) ? answer(command) : undefined),
    status: async (handle) => (isAlive(handle) ? { kind: 'running' } : { kind: 'ended', returncode: 137 }),
    async terminate(handle) {
      const sandbox = made.get(handle)
      if (sandbox) sandbox.isAlive = false
    },
  }
}
