/** Who rents machines. */
export const GPUS = ['T4', 'L4', 'A10G', 'A100', 'H100'] as const
export type Gpu = (typeof GPUS)[number]

/** A machine to be rented: how long it lives, its cores and its memory in MB. */
export type SandboxOrder = {
  readonly seconds: number
  readonly cpu: number
  readonly memory: number
  readonly gpu?: Gpu
}

/** What a command came to: 124 where its time was over, 127 where there is no such command. */
export type Ran = { readonly stdout: string; readonly stderr: string; readonly returncode: number }

export type SandboxState = { readonly kind: 'running' } | { readonly kind: 'ended'; readonly returncode: number | null }

/**
 * Rents machines that run other people's Python, apart from everything else. Throws an `ApiError` for what the caller
 * should hear of.
 */
export interface SandboxVendor {
  /** Stands in the records of its sandboxes: another vendor cannot find them. */
  readonly name: string
  readonly hasGpus: boolean
  /** What it runs, where that is not what was ordered. */
  readonly runtime?: string
  /**
   * Resolves when it runs. What is ready after `signal` has aborted is ended. `handle` is as unguessable as a key, and
   * finds it from any process.
   */
  create(order: SandboxOrder, at: { signal: AbortSignal }): Promise<{ readonly handle: string }>
  /** Undefined where the sandbox has ended before. The command is ended after `seconds`. */
  exec(
    handle: string,
    command: { readonly command: readonly string[]; readonly seconds: number },
    at: { signal: AbortSignal },
  ): Promise<Ran | undefined>
  status(handle: string, at: { signal: AbortSignal }): Promise<SandboxState>
  /** Resolves as well where it has ended before. */
  terminate(handle: string, at: { signal: AbortSignal }): Promise<void>
}
