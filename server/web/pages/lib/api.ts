/** The parts of the public API that the pages read. Shapes are those of core/CONTRACT.md. */

/** A model of `GET /api/v1/models`. `pricing` has one rate or several, in USD, with the margin and without the fee. */
export type Model = {
  readonly id: string
  readonly name: string
  /** Other names that requests may use. */
  readonly aliases?: readonly string[]
  readonly description?: string
  readonly owned_by: string
  readonly categories: readonly string[]
  readonly context_window?: number
  readonly billing_mode: string
  readonly pricing: Readonly<Record<string, unknown>>
}

export type PriceRange =
  | 'free'
  | { readonly mode: string; readonly amount?: string; readonly min?: string; readonly max?: string }

/** A route of `GET /api/pricing`. */
export type Route = {
  readonly name: string
  readonly methods: readonly string[]
  readonly path: string
  readonly tag: string
  readonly summary: string
  readonly price: PriceRange
}

/** `network` is the gateway's label, for example `base-sepolia`. */
export type PriceList = {
  readonly network: string
  readonly api_keys: boolean
  readonly transaction_fee: string
  readonly endpoints: readonly Route[]
}

/** Rejects with a sentence for people. */
export async function getJson<T>(path: string): Promise<T> {
  const reply = await fetch(path, { headers: { accept: 'application/json' } })
  if (!reply.ok) throw new Error(`${path} answered ${reply.status}.`)
  return (await reply.json()) as T
}
