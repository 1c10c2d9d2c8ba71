/** The runtime's pool of outgoing requests, and how it is shared between vendors and everything else. */
import type { Environment } from './config/settings.ts'

/** Read by Bun once, when a process begins. */
const POOL_SETTING = 'BUN_CONFIG_MAX_HTTP_REQUESTS'
/** Size of the pool unless the environment sets another. */
const POOL = 4_096
/** Bun's default size. */
const BUN_POOL = 256
/** Kept free for nodes of chains, facilitators, media and webhooks; at most a quarter of the pool. */
const RESERVE = 256

/**
 * Begins this process anew with a pool of `POOL`, unless the environment has one: same process, same arguments. Goes on
 * with Bun's own pool where the system cannot replace a process.
 */
export function enlargePool(env: Environment): void {
  if (env[POOL_SETTING] !== undefined || process.platform === 'win32') return
  const [, main = '', ...args] = process.argv
  const program = isCompiled(main) ? args : [...process.execArgv, main, ...args]
  try {
    process.execve?.(process.execPath, [process.execPath, ...program], { ...env, [POOL_SETTING]: `${POOL}` })
  } catch {
    // The limits of `slotLimits` fit the pool that there is.
  }
}

/** The path of a program inside an executable. */
const isCompiled = (main: string): boolean => main.startsWith('/$bunfs/')

/** No vendor has more than half of what all vendors have. */
export function slotLimits(env: Environment, atOneVendor: number): { readonly each: number; readonly all: number } {
  const pool = Number(env[POOL_SETTING]) || BUN_POOL
  const all = Math.max(1, pool - Math.min(RESERVE, Math.ceil(pool / 4)))
  return { all, each: Math.min(atOneVendor, Math.max(1, Math.floor(all / 2))) }
}
