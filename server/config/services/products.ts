/** Products and the providers that can serve each, with the settings that choose among them. */
import {
  type Manifest,
  type Offer,
  requiredBy,
  type Service,
  type Values,
} from '../../../adapters/providers/manifest.ts'
import { rowKinds } from '../../../core/mod.ts'
import { providers } from '../providers.ts'
import type { Environment } from '../settings.ts'

/** A provider that can serve a product. */
export type Candidate = { readonly manifest: Manifest; readonly offer: Offer<Values, object>; readonly by: string }

/** A provider that serves a product, with the values of its settings. */
export type Choice = Candidate & { readonly settings: Values }

/**
 * The providers of a product. An empty list switches it off; undefined means not configured, which only devnet fills
 * in.
 */
export type Services = {
  readonly services: Readonly<Partial<Record<Service, readonly Choice[]>>>
}

export type ReadContext = {
  readonly env: Environment
  readonly mistakes: string[]
  readonly isDevnet: boolean
  /** Whether replicas may share the database. */
  readonly isShared: boolean
}

export type ProductSetting = {
  readonly setting: string
  /** The effect of the setting, without the names. */
  readonly summary: string
  readonly also?: string
  /** Several providers are tried one after another. */
  readonly isList?: boolean
  /** It acts on the outside world, so a key alone does not turn it on. */
  readonly isNamedOnly?: boolean
}

/** Whether catalog rows name their provider, instead of one setting for all. */
export const isByRow = (product: string): boolean =>
  product === 'audio' || rowKinds.some(({ kind }) => kind === product)

/**
 * Products in the order of the report, each with the setting that chooses its provider. Without a setting, any
 * configured provider serves it.
 */
const NAMED: Readonly<Partial<Record<Service, ProductSetting | undefined>>> = {
  search: {
    setting: 'search',
    summary: 'The providers of `/api/v1/search`, in the order in which they are tried',
    also: 'An empty list turns search off.',
    isList: true,
  },
  websearch: { setting: 'websearch', summary: 'The provider of `/api/v1/websearch`' },
  market: { setting: 'market', summary: 'The provider of market data' },
  prediction: { setting: 'prediction', summary: 'The provider of `/api/v1/pm`' },
  defi: { setting: 'defidata', summary: 'The provider of `/api/v1/defidata`' },
  voice: {
    setting: 'voice',
    summary: 'The provider that places phone calls',
    also: 'Needs `phone` as well.',
    isNamedOnly: true,
  },
  phone: { setting: 'phone', summary: 'The provider that looks up and rents phone numbers', isNamedOnly: true },
  onramp: { setting: 'onramp', summary: 'The provider that sells USDC to wallets', isNamedOnly: true },
  bridge: {
    setting: 'polymarket_funding',
    summary: 'The provider that accepts Polymarket deposits',
    also: 'Works on gateways that are paid directly on an EVM network.',
    isNamedOnly: true,
  },
  sandbox: { setting: 'sandbox', summary: 'Where sandboxes run' },
  swap: undefined,
  characters: undefined,
  audio: undefined,
  rpc: undefined,
}

/** A product that is named only in manifests is chosen by a setting of its name, or by its rows. */
export const PRODUCTS: Readonly<Partial<Record<Service, ProductSetting | undefined>>> = {
  ...NAMED,
  ...Object.fromEntries(
    providers
      .flatMap(({ serves }) => Object.keys(serves))
      .filter((product) => !(product in NAMED))
      .map((product) => [
        product,
        isByRow(product) ? undefined : { setting: product, summary: `The provider of \`${product}\`` },
      ]),
  ),
}

export const products = Object.keys(PRODUCTS) as readonly Service[]

export function candidatesFor(product: Service): readonly Candidate[] {
  return providers
    .flatMap((manifest): readonly Candidate[] => {
      const offer = manifest.serves[product] as Offer<Values, object> | undefined
      return offer ? [{ manifest, offer, by: offer.as ?? manifest.name }] : []
    })
    .toSorted((one, other) => (other.offer.rank ?? 0) - (one.offer.rank ?? 0) || last(one) - last(other))
}

/** Demos come last. */
const last = ({ offer }: Candidate): number => (offer.isOnDevnet ? 1 : 0)

export const startedBy = ({ manifest, offer }: Candidate): readonly string[] =>
  offer.startedBy ?? requiredBy(manifest, offer)
