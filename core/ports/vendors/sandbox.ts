/** The vendor interface for sandboxes. */
export const GPUS = ['T4', 'L4', 'A10G', 'A100', 'H100'] as const
export type Gpu = (typeof GPUS)[number]

/** A sandbox to create: its lifetime, cores and memory in MB. */
export type SandboxOrder = {
  readonly seconds: number
  readonly cpu: number
  readonly memory: number
  readonly gpu?: Gpu
}

/** The outcome of a command: 124 after a timeout, 127 when there is no such command. */
export type Ran = { readonly stdout: string; readonly stderr: string; readonly returncode: number }

export type SandboxState = { readonly kind: 'running' } | { readonly kind: 'ended'; readonly returncode: number | null }

/** Runs untrusted Python in isolated machines. Throws an `ApiError` with a text for the caller. */
export interface SandboxVendor {
  /** Stored in the records of its sandboxes, which other vendors cannot find. */
  readonly name: string
  readonly hasGpus: boolean
  /** The runtime, when it is not the one that was ordered. */
  readonly runtime?: string
  /**
   * Resolves when the sandbox runs. One that becomes ready after `signal` has aborted is terminated. `handle` is as
   * unguessable as a key, and finds it from any process.
   */
  create(order: SandboxOrder, at: { signal: AbortSignal }): Promise<{ readonly handle: string }>
  /** Undefined when the sandbox has already ended. The command is killed after `seconds`. */
  exec(
    handle: string,
    command: { readonly command: readonly string[]; readonly seconds: number },
    at: { signal: AbortSignal },
  ): Promise<Ran | undefined>
  status(handle: string, at: { signal: AbortSignal }): Promise<SandboxState>
  /** Also resolves when it has already ended. */
  terminate(handle: string, at: { signal: AbortSignal }): Promise<void>
}
