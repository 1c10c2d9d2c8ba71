/** Every way to be paid. Another family of chains is a folder with a manifest, and a line here. */
import { batchedManifest } from './evm/batched/manifest.ts'
import { evmManifest } from './evm/manifest.ts'
import type { ChainManifest } from './lib/manifest.ts'
import type { PaymentMethod } from './settings.ts'
import { solanaManifest } from './solana/manifest.ts'

/** A way to be paid that has settings and no manifest does not compile. */
const MANIFESTS: { readonly [Method in PaymentMethod as Method['kind']]: ChainManifest<Method> } = {
  evm: evmManifest,
  solana: solanaManifest,
  batched: batchedManifest,
}

/** The manifest of a payment method. */
export const chainManifest = ({ kind }: Pick<PaymentMethod, 'kind'>) => MANIFESTS[kind] as ChainManifest<PaymentMethod>
