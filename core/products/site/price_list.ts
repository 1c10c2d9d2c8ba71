/** The price list: endpoints and models with their prices, and how many there are. */
import { Type } from '@sinclair/typebox'
import { cachedWhileTrue, free, type FreeContext, STANDARD_PRICES } from '../../endpoint/mod.ts'
import { json } from '../../http/reply.ts'
import { print, roundUp } from '../../x402/money.ts'
import { listModels } from './models.ts'

const HOUR_MS = 3_600_000
const CACHED = { 'cache-control': 'public, max-age=60' }

/** The fields of a listed model that are used here. */
type Listed = {
  readonly id: string
  readonly owned_by: string
  readonly categories: readonly string[]
  readonly billing_mode: string
  readonly pricing: Readonly<Record<string, unknown>>
}

/** Reads the model list itself, so that both agree. */
function listed(context: FreeContext): readonly Listed[] {
  return (JSON.parse(listModels(context).body as string) as { data: readonly Listed[] }).data
}

const amount = Type.String({ description: 'US dollars, six decimals, margin and fee included.' })
const price = Type.Union([
  Type.Literal('free'),
  Type.Object({ mode: Type.Literal('fixed'), currency: Type.Literal('USD'), amount }),
  Type.Object({ mode: Type.Literal('dynamic'), currency: Type.Literal('USD'), min: amount, max: amount }),
])

const prices = free({
  name: 'pricing',
  path: '/api/pricing',
  summary: 'Prices of all endpoints and models',
  description:
    'Endpoints with the price of their 402, models with their rates. The exact price of a request is in its 402; these are the rates that it is computed from.',
  tag: 'discovery',
  limit: { requests: 100, windowMs: HOUR_MS },
  output: Type.Object({
    object: Type.Literal('pricing'),
    currency: Type.Literal('USD'),
    asset: Type.Literal('USDC'),
    network: Type.String(),
    api_keys: Type.Boolean({ description: 'Whether API keys that pay from a deposit are taken here.' }),
    transaction_fee: Type.String({
      description: 'US dollars per paid call, before the margin of a product; included in every amount below.',
    }),
    endpoints: Type.Array(
      Type.Object({
        name: Type.String(),
        methods: Type.Array(Type.String()),
        path: Type.String(),
        tag: Type.String(),
        summary: Type.String(),
        price,
      }),
    ),
    models: Type.Array(
      Type.Object({
        id: Type.String(),
        owned_by: Type.String(),
        categories: Type.Array(Type.String()),
        billing_mode: Type.String(),
        pricing: Type.Object({}),
      }),
    ),
  }),
  answer(_request, context) {
    const { gateway, prices: { fee } = STANDARD_PRICES } = context
    const rates = listed(context).map(({ id, owned_by, categories, billing_mode, pricing }) => ({
      id,
      owned_by,
      categories,
      billing_mode,
      pricing,
    }))
    const body = {
      object: 'pricing',
      currency: 'USD',
      asset: 'USDC',
      network: gateway.label,
      api_keys: context.chain.apiKeys !== undefined,
      transaction_fee: print(roundUp(fee)),
      endpoints: gateway.pricing(),
      models: rates,
    }
    return json(200, body, cachedWhileTrue(context))
  },
})

const count = (description: string) => Type.Integer({ description })

const numbers = free({
  name: 'brand.numbers',
  path: '/brand/numbers.json',
  summary: 'Counts of models and endpoints',
  description: 'Counts of models and endpoints, for publications about this gateway.',
  tag: 'discovery',
  output: Type.Object({
    version: Type.Literal(1),
    models: Type.Object({
      chatVisible: count('Chat models on the list.'),
      totalVisible: count('All models on the list.'),
      free: count('Free chat models.'),
      freeWithheld: count('Free models that are configured, but hidden.'),
      image: count('Image models.'),
      video: count('Video models.'),
      music: count('Music models.'),
      speech: count('Speech models.'),
      soundfx: count('Models of sound effects.'),
      withFallback: count('Listed chat models that are served by another one.'),
      withFallbackAllEntries: count('The same, including hidden ones.'),
    }),
    endpoints: Type.Object({ paid: count('Paid endpoints.'), free: count('Free endpoints.') }),
    networks: count('Networks on which this gateway is paid.'),
  }),
  answer(_request, context) {
    const { catalog, vendors, gateway } = context
    const all = listed(context)
    const of = (...categories: readonly string[]) =>
      all.filter((model) => model.categories.some((each) => categories.includes(each))).length
    const chat = catalog.chat.all.filter((row) => vendors.chat(row) !== undefined)
    const visible = chat.filter(({ hidden }) => !hidden)
    const withFallback = (rows: typeof chat) => rows.filter(({ fallbacks = [] }) => fallbacks.length > 0).length
    const offered = gateway.pricing()
    const models = {
      chatVisible: visible.length,
      totalVisible: all.length,
      free: visible.filter(({ billing }) => billing.mode === 'free').length,
      freeWithheld: chat.filter(({ hidden, billing }) => hidden && billing.mode === 'free').length,
      image: of('image'),
      video: of('video'),
      music: of('music'),
      speech: of('tts', 'speech'),
      soundfx: of('soundfx', 'sound-effects'),
      withFallback: withFallback(visible),
      withFallbackAllEntries: withFallback(chat),
    }
    const paid = offered.filter(({ price }) => price !== 'free').length
    const networks = new Set(gateway.terms().map(({ network }) => network)).size
    return json(200, { version: 1, models, endpoints: { paid, free: offered.length - paid }, networks }, CACHED)
  },
})

export const pricing = [prices, numbers]
