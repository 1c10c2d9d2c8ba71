/** Every way to be paid. Another family of chains is a folder with a manifest, and a line here. */
import { batchedManifest } from './evm/batched/manifest.ts'
import { evmManifest } from './evm/manifest.ts'
import type { ChainManifest } from './lib/manifest.ts'
import { solanaManifest } from './solana/manifest.ts'

const MANIFESTS = { evm: evmManifest, solana: solanaManifest, batched: batchedManifest } as const

type Kind = keyof typeof MANIFESTS
/** A payment method as its manifest takes it, by its kind. */
export type ChainMethod = {
  [Each in Kind]: { readonly kind: Each } & ((typeof MANIFESTS)[Each] extends ChainManifest<infer Method>
    ? Method
    : never)
}[Kind]

/** The manifest of a payment method. */
export const chainManifest = ({ kind }: Pick<ChainMethod, 'kind'>) => MANIFESTS[kind] as ChainManifest<ChainMethod>
