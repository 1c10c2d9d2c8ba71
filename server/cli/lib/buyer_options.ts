/** Options that commands of a local wallet share. */
import type { Usdc } from '../../../core/x402/mod.ts'
import { capOf } from '../../buyer/budget.ts'
import { UsageError } from '../command.ts'

/** Reads an amount in USDC. Throws UsageError for anything else. */
export function microUsdc(option: string, given: string): Usdc {
  if (/^[0-9]{1,6}(\.[0-9]{1,6})?$/.test(given)) return capOf(given)
  throw new UsageError(`${option} must be an amount in USDC such as 0.10, got ${JSON.stringify(given)}`)
}

/** Whether a URL is of this machine. */
export const isLocal = (url: string): boolean =>
  ['127.0.0.1', 'localhost', '[::1]'].includes(new URL(url).hostname.toLowerCase())
