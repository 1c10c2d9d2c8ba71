/** Prices in words, and what models are compared by. */
import type { Model, PriceRange } from './api.ts'

/** Groups of models in the order of the page: category, name, and unit of sale. */
export const KINDS = [
  { kind: 'chat', title: 'Chat' },
  { kind: 'image', title: 'Images' },
  { kind: 'video', title: 'Video' },
  { kind: 'speech', title: 'Speech' },
  { kind: 'sound-effects', title: 'Sound effects' },
  { kind: 'music', title: 'Music' },
] as const
export type Kind = (typeof KINDS)[number]['kind']

/** The first of our kinds among the model's categories; undefined for one that we do not know yet. */
export const kindOf = ({ categories }: Model): Kind | undefined =>
  KINDS.find(({ kind }) => categories.includes(kind))?.kind

/** Two decimals, and up to six where they say more: `$1.50`, `$0.0525`. */
export function usd(value: number): string {
  const [whole, part = ''] = Number(value.toFixed(6)).toString().split('.')
  return `$${whole}.${part.padEnd(2, '0')}`
}

const UNITS: Readonly<Record<string, string>> = {
  per_image: 'image',
  per_second: 'second',
  per_1k_chars: '1,000 characters',
  per_generation: 'sound',
  per_track: 'track',
  flat: 'request',
}

/** The rate of a model in words, and the number that it is sorted by within its kind. */
export function rateOf({ pricing, billing_mode }: Model): { readonly text: string; readonly sortBy: number } {
  if (billing_mode === 'free') return { text: 'free', sortBy: 0 }
  const { input, output } = pricing
  if (typeof input === 'number' && typeof output === 'number')
    // Prompts are longer than answers: three tokens in for one out is a usual mix.
    return { text: `${usd(input)} in, ${usd(output)} out per million tokens`, sortBy: (3 * input + output) / 4 }
  for (const [field, unit] of Object.entries(UNITS)) {
    const rate = pricing[field]
    if (typeof rate === 'number') return { text: `${usd(rate)} per ${unit}`, sortBy: rate }
  }
  return { text: 'by the request', sortBy: Number.POSITIVE_INFINITY }
}

/** The cheapest that costs something, or else the first that is free; undefined of none. */
export function cheapest(models: readonly Model[]): Model | undefined {
  const paid = models.filter(({ billing_mode }) => billing_mode !== 'free')
  return (paid.length > 0 ? paid : models).toSorted((a, b) => rateOf(a).sortBy - rateOf(b).sortBy)[0]
}

/** The price of a route in words. */
export function priceText(price: PriceRange): string {
  if (price === 'free') return 'free'
  if (price.amount !== undefined) return usd(Number(price.amount))
  const { min = '0', max } = price
  return max === undefined ? `from ${usd(Number(min))}` : `${usd(Number(min))} to ${usd(Number(max))}`
}
