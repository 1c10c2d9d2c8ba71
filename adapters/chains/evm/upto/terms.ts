/** The terms of the scheme `upto`, which name the account that sends. */
import type { Terms } from '../../../../core/x402/mod.ts'
import type { UptoConfig } from './scheme.ts'

export function terms({ network, asset, payTo, domain, facilitator }: UptoConfig): Terms {
  const extra = {
    name: domain.name,
    version: domain.version,
    facilitatorAddress: facilitator,
    assetTransferMethod: 'permit2',
  }
  return { scheme: 'upto', network, asset, payTo, extra }
}
