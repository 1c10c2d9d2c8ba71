/** DeFi data: protocols, chains, yields and coin prices, forwarded unchanged from DefiLlama (contract 15.5). */
import { type TObject, type TSchema, Type } from '@sinclair/typebox'
import { paid } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { quoted } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'
import { checkedPath, PASSTHROUGH_RETENTION, encodedQuery } from '../lib/passthrough_path.ts'
import { flatPrice, shortAmount } from '../../x402/pricing.ts'
import type { PassthroughRequest } from '../../ports/vendors/data.ts'

/** US dollars per call, before the fee. */
const PRICE_USD = '0.005'
const COIN_PRICES_USD = '0.001'
const MAX_COINS = 100

const ROOT = '/api/v1/defidata'
const ALIAS = '/api/v1/defillama'

type EndpointFields = {
  readonly name: string
  readonly path: string
  readonly summary: string
  readonly description: string
  readonly usd?: string
  readonly input?: TObject
  readonly output: TSchema
  readonly example?: Readonly<Record<string, string>>
}

/** An endpoint that forwards its own path; `named` validates and fills in the path parameters. */
function passthrough(
  { path, usd = PRICE_USD, input = Type.Object({}), example = {}, ...words }: EndpointFields,
  named: (given: Readonly<Record<string, string>>) => string = () => path,
) {
  const requestOf = (given: Readonly<Record<string, unknown>>): PassthroughRequest => {
    const rest = Object.entries(given).filter(([name]) => !(name in input.properties))
    return {
      path: checkedPath('path', named(given as Record<string, string>)),
      query: encodedQuery(Object.fromEntries(rest)),
    }
  }
  return paid({
    ...words,
    method: 'GET',
    path: `${ROOT}/${path}`,
    aliases: [`${ALIAS}/${path}`],
    tag: 'data',
    from: 'query',
    unknownFields: 'kept',
    input,
    example,
    delivery: 'inline',
    verbatim: true,
    failure: 'Upstream provider error',
    retention: PASSTHROUGH_RETENTION,
    errors: ['PASSED_ON', 'UPSTREAM_FAILED'],
    check(given) {
      requestOf(given)
      return given
    },
    price(_input, { prices }) {
      const amount = flatPrice(usd, prices)
      return { amount, maxTimeoutSeconds: 300, publicPrice: { amount: shortAmount(amount) } }
    },
    isAvailable: (_input, { vendors }) => vendors.defi !== undefined,
    async run({ input: given, vendors, signal }) {
      if (!vendors.defi) throw new ApiError('NOT_CONFIGURED')
      return { result: await vendors.defi.ask(requestOf(given as Record<string, unknown>), { signal }) }
    },
    show: () => ({}),
  })
}

/** Further members of the service are forwarded too. */
const open = { additionalProperties: true } as const
const number = Type.Union([Type.Number(), Type.Null()])

const protocols = passthrough({
  name: 'defidata.protocols',
  path: 'protocols',
  summary: 'All DeFi protocols',
  description: 'Every protocol with its category, chains and value locked, as one list: several megabytes.',
  output: Type.Array(
    Type.Object(
      {
        name: Type.String(),
        slug: Type.Optional(Type.String()),
        category: Type.Optional(Type.Union([Type.String(), Type.Null()])),
        chains: Type.Optional(Type.Array(Type.String())),
        tvl: Type.Optional(number),
      },
      open,
    ),
  ),
})

const protocol = passthrough(
  {
    name: 'defidata.protocol',
    path: 'protocol/{slug}',
    summary: 'One DeFi protocol',
    description: 'A protocol and the history of its value locked, by its slug. An unknown slug is 400 and not charged.',
    input: Type.Object({ slug: Type.String({ description: 'As in the list of protocols, for example aave.' }) }),
    output: Type.Object({ name: Type.String() }, open),
    example: { slug: 'aave' },
  },
  ({ slug = '' }) => `protocol/${slugOf(slug)}`,
)

const chains = passthrough({
  name: 'defidata.chains',
  path: 'chains',
  summary: 'Chains by value locked',
  description: 'Every chain with the value that is locked on it.',
  output: Type.Array(Type.Object({ name: Type.String(), tvl: Type.Optional(number) }, open)),
})

const yields = passthrough({
  name: 'defidata.yields',
  path: 'yields',
  summary: 'Pools and what they yield',
  description: 'Every pool with its chain, project, symbol, value locked and yield: several megabytes.',
  output: Type.Object({ data: Type.Array(Type.Object({ pool: Type.String() }, open)) }, open),
})

const prices = passthrough(
  {
    name: 'defidata.prices',
    path: 'prices/{coins}',
    summary: 'Prices of coins',
    description: `Current prices of up to ${MAX_COINS} coins, each written chain:address or coingecko:id, with commas between. An unknown coin is absent from the answer, which is charged.`,
    usd: COIN_PRICES_USD,
    input: Type.Object({
      coins: Type.String({
        description: 'For example coingecko:bitcoin,base:0x4200000000000000000000000000000000000006.',
      }),
    }),
    output: Type.Object({ coins: Type.Record(Type.String(), Type.Object({ price: Type.Number() }, open)) }, open),
    example: { coins: 'coingecko:bitcoin' },
  },
  ({ coins = '' }) => `prices/${coinsOf(coins)}`,
)

export const defidata = [protocols, protocol, chains, yields, prices]

function slugOf(slug: string): string {
  if (/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(slug)) return slug
  throw refused('slug', `must be up to 128 letters, digits and . _ -, as in ${ROOT}/protocols; got ${quoted(slug)}`)
}

function coinsOf(coins: string): string {
  const each = coins.split(',')
  const wrong = each.find((coin) => !/^[A-Za-z0-9_-]{1,64}:[A-Za-z0-9._~:-]{1,128}$/.test(coin))
  if (wrong !== undefined)
    throw refused('coins', `must be chain:address or coingecko:id, with commas between; got ${quoted(wrong)}`)
  if (each.length > MAX_COINS) throw refused('coins', `may name at most ${MAX_COINS} coins, names ${each.length}`)
  return coins
}
