/** The cheapest model of a gateway for an order that names none. */
import { BuyError, fetchGateway } from './gateway.ts'

type ImageModel = {
  readonly id: string
  readonly pricing: { readonly sizes: readonly { readonly size: string; readonly price: number }[] }
}
type VideoModel = {
  readonly id: string
  readonly resolutions?: readonly string[]
  readonly min_duration_seconds?: number
  readonly max_duration_seconds?: number
  readonly default_duration_seconds?: number
  readonly pricePerSecond?: number
  readonly pricePerSecondByResolution?: Readonly<Record<string, number>>
}

/** The model that draws the cheapest image, of this size if there is one. */
export async function cheapestImageModel(origin: string, size: string | undefined): Promise<string> {
  const models = await listOf<ImageModel>(`${origin}/api/v1/images/models`)
  return cheapest('image', models, ({ pricing: { sizes } }) =>
    Math.min(...sizes.flatMap((each) => (size === undefined || each.size === size ? [each.price] : []))),
  )
}

/** The model that makes the cheapest clip of this length and resolution. */
export async function cheapestVideoModel(
  origin: string,
  { seconds, resolution }: { readonly seconds: number | undefined; readonly resolution: string | undefined },
): Promise<string> {
  const models = await listOf<VideoModel>(`${origin}/api/v1/video/models`)
  return cheapest('video', models, (model) => {
    const length = seconds ?? model.default_duration_seconds ?? 1
    const isLength = length >= (model.min_duration_seconds ?? 0) && length <= (model.max_duration_seconds ?? length)
    const isResolution = resolution === undefined || model.resolutions?.includes(resolution)
    const rate = (resolution && model.pricePerSecondByResolution?.[resolution]) || model.pricePerSecond
    return rate === undefined || !isLength || !isResolution ? Number.POSITIVE_INFINITY : rate * length
  })
}

/** A model that nothing suits is left to the gateway to refuse, with what is allowed. */
function cheapest<Model extends { readonly id: string }>(
  product: string,
  models: readonly Model[],
  priceOf: (model: Model) => number,
): string {
  const [first] = models.map((model) => ({ ...model, price: priceOf(model) })).toSorted((a, b) => a.price - b.price)
  if (!first) throw new BuyError(`This gateway has no ${product} models.`)
  return first.id
}

async function listOf<Model>(url: string): Promise<readonly Model[]> {
  const response = await fetchGateway(url)
  const { data } = (await response.json().catch(() => ({}))) as { data?: readonly Model[] }
  if (!Array.isArray(data))
    throw new BuyError(`The server at ${new URL(url).origin} is not a gateway: it has no model list. Check --url.`)
  return data as readonly Model[]
}
