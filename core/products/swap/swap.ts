/** A free passthrough of a swap aggregator that adds the gateway's fee to every price and quote (contract 11.2). */
import { type TObject, Type } from '@sinclair/typebox'
import { within } from '../../lib/timers.ts'
import { type Free, type FreeContext, free, type Offering } from '../../endpoint/mod.ts'
import { json, type Reply } from '../../http/reply.ts'
import { ApiError } from '../../http/errors.ts'
import type { Json } from '../../lib/json.ts'
import type { SwapAnswer, SwapCall } from '../../ports/vendors/swap.ts'

/** Contract 11.4: 20 basis points; no longer than 30 s. */
const FEE_BPS = '20'
const MAX_MS = 30_000

const ROOT = '/api/v1/dexagg'
const ALIAS = '/api/v1/zerox'
/** Headers of every successful response (contract 11.9). */
const AFFILIATE = { 'x-affiliate': 'farebox', 'cache-control': 'no-store' }
const ERROR = { 'cache-control': 'no-store' }

type Route = {
  readonly name: string
  readonly method: 'GET' | 'POST'
  /** Path below the root and at the vendor; never taken from the caller. */
  readonly path: string
  readonly summary: string
  /** Schema of the query; further parameters are forwarded too. */
  readonly input?: TObject
  readonly takesFee?: true
}

const chain = Type.Object({ chainId: Type.String({ description: 'For example 8453.' }) })
const trade = Type.Object({
  chainId: Type.String({ description: 'For example 8453.' }),
  sellToken: Type.String({
    description: 'Address of the token to sell; the fee is taken in it, so it is said once, spelt just so.',
  }),
  buyToken: Type.String({ description: 'Address of the token to buy.' }),
  sellAmount: Type.String({ description: 'In the smallest unit of the sell token.' }),
  taker: Type.Optional(Type.String({ description: 'The wallet that trades; a firm quote needs it.' })),
})
/** One USDC for wrapped ether, on Base. */
const SAMPLE = {
  chainId: '8453',
  sellToken: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913',
  buyToken: '0x4200000000000000000000000000000000000006',
  sellAmount: '1000000',
  taker: '0x0000000000000000000000000000000000010000',
}
const submission = Type.Object({
  trade: Type.Object({ eip712: Type.Object({}), signature: Type.Object({}) }),
  approval: Type.Optional(Type.Object({ eip712: Type.Object({}), signature: Type.Object({}) })),
  chainId: Type.Integer(),
})
const FEE_NOTE =
  'Whatever else the aggregator takes is passed on. The affiliate fee of 0.2% of sellAmount is set by this gateway.'

const ROUTES: readonly Route[] = [
  {
    name: 'swap.price',
    method: 'GET',
    path: '/price',
    summary: 'Indicative price of a swap',
    input: trade,
    takesFee: true,
  },
  {
    name: 'swap.quote',
    method: 'GET',
    path: '/quote',
    summary: 'Firm quote of a swap, with the transaction and the data to sign',
    input: trade,
    takesFee: true,
  },
  {
    name: 'swap.gasless_price',
    method: 'GET',
    path: '/gasless/price',
    summary: 'Indicative price of a gasless swap',
    input: trade,
    takesFee: true,
  },
  {
    name: 'swap.gasless_quote',
    method: 'GET',
    path: '/gasless/quote',
    summary: 'Firm quote of a gasless swap, with the data to sign',
    input: trade,
    takesFee: true,
  },
  {
    name: 'swap.gasless_submit',
    method: 'POST',
    path: '/gasless/submit',
    summary: 'Submit a signed gasless swap; a relayer pays its gas',
    input: submission,
  },
  {
    name: 'swap.gasless_approval_tokens',
    method: 'GET',
    path: '/gasless/approval-tokens',
    summary: 'Tokens that can be approved without gas',
    input: chain,
  },
  { name: 'swap.gasless_chains', method: 'GET', path: '/gasless/chains', summary: 'Chains with gasless swaps' },
  { name: 'swap.chains', method: 'GET', path: '/swap/chains', summary: 'Chains with swaps' },
]

const STATUS_PATH = '/gasless/status/'
/** Only for the operator; 404 for others, so they are not documented. */
const ANALYTICS = ['trade-analytics/swap', 'trade-analytics/gasless']

/** The aggregator's answer, unchanged. */
const answer = Type.Object({})

const badGateway = (error: string, message: string): Reply => json(502, { error, message, status: 502 }, ERROR)

/** In the aggregator's error format (0x `INPUT_INVALID`). */
function invalidInput(message: string, reason: string): Reply {
  const details = {
    name: 'INPUT_INVALID',
    message: 'The input is invalid',
    data: { details: [{ field: 'sellToken', reason }] },
  }
  return json(400, { error: details.name, message: `${message}.`, status: 400, details }, ERROR)
}

const NO_SELL_TOKEN = {
  name: 'no_sell_token',
  summary: 'Without sellToken, or with several',
  reply: invalidInput('sellToken is required', 'Required'),
}
const BAD_HASH = {
  name: 'invalid_trade_hash',
  summary: 'Not a trade hash',
  reply: json(
    400,
    {
      error: 'Invalid trade hash',
      message: 'A trade hash is the tradeHash that gasless/submit returned.',
      status: 400,
      details: null,
    },
    ERROR,
  ),
}
const REFUSED = {
  name: 'INPUT_INVALID',
  message: 'The input is invalid',
  data: { details: [{ field: 'taker', reason: 'Invalid ethereum address' }] },
}
/** Errors of every route, for the documentation; other 4xx of the aggregator have the same format. */
const REFUSALS = [
  {
    name: 'refused',
    summary: 'The aggregator refused it',
    reply: json(400, { error: REFUSED.name, message: REFUSED.message, status: 400, details: REFUSED }, ERROR),
  },
  {
    name: 'limited',
    summary: 'The aggregator is asked too often',
    reply: json(
      429,
      {
        error: 'Swap request refused',
        message: 'The swap aggregator refused this request.',
        status: 429,
        details: null,
      },
      { ...ERROR, 'retry-after': '1' },
    ),
  },
  {
    name: 'failed',
    summary: 'The aggregator failed',
    reply: json(
      502,
      { error: 'Upstream provider error', message: 'The swap aggregator answered 500.', status: 500 },
      ERROR,
    ),
  },
  {
    name: 'late',
    summary: 'The aggregator was too slow',
    reply: badGateway(
      'Upstream provider did not respond in time',
      'The swap aggregator did not respond in time. What was submitted may still be carried out: look at its status.',
    ),
  },
]

const isOffered = ({ vendors }: Offering): boolean => vendors.swap !== undefined

const passthroughRoutes = ROUTES.map(({ name, method, path, summary, input, takesFee }) =>
  free({
    name,
    method,
    path: ROOT + path,
    aliases: [ALIAS + path],
    summary,
    tag: 'swap',
    isOffered,
    output: answer,
    errors: ['NOT_CONFIGURED'],
    refusals: takesFee ? [...REFUSALS, NO_SELL_TOKEN] : REFUSALS,
    ...(input && { input }),
    ...(takesFee && { description: FEE_NOTE }),
    ...(method === 'GET' && input && { sample: { query: takesFee ? SAMPLE : { chainId: SAMPLE.chainId } } }),
    async answer(request, context) {
      const { feeRecipient } = vendorOf(context)
      const problem = takesFee && sellTokenProblem(request.search)
      if (problem) return problem
      const query = takesFee ? withFee(request.search, feeRecipient) : request.search
      return await forward({ method, path, query, ...(method === 'POST' && { body: await request.bytes() }) }, context)
    },
  }),
)

const status = free({
  name: 'swap.gasless_status',
  path: `${ROOT}${STATUS_PATH}{trade_hash}`,
  aliases: [`${ALIAS}${STATUS_PATH}{trade_hash}`],
  summary: 'Status of a gasless swap: pending, submitted, confirmed',
  description: 'The all-zeros hash is a placeholder, and is not asked for.',
  tag: 'swap',
  isOffered,
  input: chain,
  sample: { path: { trade_hash: `0x${'0'.repeat(64)}` }, query: { chainId: SAMPLE.chainId } },
  output: answer,
  errors: ['NOT_CONFIGURED'],
  refusals: [...REFUSALS, BAD_HASH],
  async answer(request, context) {
    const { trade_hash: hash = '' } = request.params
    if (/^(0x)?0+$/i.test(hash)) return json(200, PLACEHOLDER, AFFILIATE)
    vendorOf(context)
    if (hash.includes('/')) return unknownRoute()
    if (!/^[\w-]{1,128}$/.test(hash)) {
      return BAD_HASH.reply
    }
    return await forward({ method: 'GET', path: STATUS_PATH + hash, query: request.search }, context)
  },
})

const unknownRoutes: Free = free({
  name: 'swap.others',
  path: `${ROOT}/{rest...}`,
  aliases: [`${ALIAS}/{rest...}`, ROOT, ALIAS, `${ROOT}/`, `${ALIAS}/`],
  methods: ['GET', 'POST'],
  summary: 'The routes of the swap passthrough',
  tag: 'swap',
  hidden: true,
  async answer({ method, params: { rest = '' }, search, header }, context) {
    const isOperators = method !== 'POST' && ANALYTICS.includes(rest) && context.isOperator(header('authorization'))
    return isOperators ? await forward({ method: 'GET', path: `/${rest}`, query: search }, context) : unknownRoute()
  },
})

export const swap = [...passthroughRoutes, status, unknownRoutes]

const PLACEHOLDER = {
  status: 'placeholder',
  message:
    'This is the placeholder of all zeros, not a trade. Put the tradeHash that gasless/submit returned in its place; the status is then pending, submitted or confirmed.',
  transactions: [],
}

function unknownRoute(): Reply {
  const routes = [
    ...ROUTES.map(({ method, path }) => `${method} ${ROOT}${path}`),
    `GET ${ROOT}${STATUS_PATH}{trade_hash}`,
  ]
  return json(404, { error: 'Not found', message: 'The swap passthrough has no such route.', routes }, ERROR)
}

// ── forwarding ──────────────────────────────────────────────────────────────────────────────────────────────────────

function vendorOf({ vendors }: FreeContext) {
  if (vendors.swap) return vendors.swap
  throw new ApiError('NOT_CONFIGURED', {
    message: 'swap: the operator has not configured it.',
  })
}

async function forward(call: SwapCall, context: FreeContext): Promise<Reply> {
  const vendor = vendorOf(context)
  let deadline: AbortSignal | undefined
  const asking = within(context.clock, MAX_MS, (signal) => {
    deadline = signal
    return vendor.call(call, { signal })
  })
  try {
    return reply(await asking)
  } catch (error) {
    const code = error instanceof ApiError ? error.code : undefined
    if (deadline?.aborted || code === 'UPSTREAM_TIMEOUT') {
      return badGateway(
        'Upstream provider did not respond in time',
        'The swap aggregator did not respond in time. What was submitted may still be carried out: look at its status.',
      )
    }
    if (error instanceof ApiError && code !== 'MODEL_UNAVAILABLE') throw error
    context.log.warn('the swap aggregator did not answer', { path: call.path, error: (error as Error).message })
    return badGateway('Upstream provider error', 'The swap aggregator could not be reached.')
  }
}

/** Forwards the aggregator's text: parsing and serializing it again would round its numbers. */
function reply({ status, body, text, retryAfter }: SwapAnswer): Reply {
  if (status >= 200 && status < 300)
    return { status, headers: { 'content-type': 'application/json', ...AFFILIATE }, body: text }
  const again = retryAfter === undefined ? ERROR : { ...ERROR, 'retry-after': retryAfter }
  if (status >= 400 && status < 500) {
    const head = {
      error: textMember(body, 'name') ?? 'Swap request refused',
      message: textMember(body, 'message') ?? 'The swap aggregator refused this request.',
      status,
    }
    return {
      status,
      headers: { 'content-type': 'application/json', ...again },
      body: `${JSON.stringify(head).slice(0, -1)},"details":${body === null ? 'null' : text}}`,
    }
  }
  return json(
    502,
    { error: 'Upstream provider error', message: `The swap aggregator answered ${status}.`, status },
    again,
  )
}

function textMember(body: Json, name: string): string | undefined {
  const word =
    typeof body === 'object' && body !== null && !Array.isArray(body)
      ? (body as Readonly<Record<string, Json>>)[name]
      : undefined
  return typeof word === 'string' && word !== '' ? word : undefined
}

// ── the fee ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The three fee parameters, with any non-letters (indexes, dashes, blanks) between their letters. */
const FEE = new RegExp(
  `^[^a-z]*(?:${['swapfeerecipient', 'swapfeebps', 'swapfeetoken'].map((name) => [...name].join('[^a-z]*')).join('|')})(?![a-z])`,
)

/**
 * The problem with the sell token of a query, if any. The fee is taken in it, so the gateway must read what the
 * aggregator reads, however it splits and decodes the query. A repeated or differently spelled parameter, or one beside
 * a semicolon, is ambiguous.
 */
export function sellTokenProblem(search: string): Reply | undefined {
  const pieces = piecesOf(search.replace(/^\?/, ''))
  const positions = pieces.flatMap(({ name }, index) => (isSellToken(name) ? [index] : []))
  const [at = -1] = positions
  const sellToken = pieces[at]
  if (!sellToken || (positions.length === 1 && sellToken.value === '')) return NO_SELL_TOKEN.reply
  const hasSemicolon = sellToken.before === ';' || pieces[at + 1]?.before === ';'
  if (positions.length === 1 && sellToken.name === 'sellToken' && !hasSemicolon) return undefined
  return invalidInput('sellToken must be said once, spelt just so, and between ampersands', 'Ambiguous')
}

const isSellToken = (name: string): boolean =>
  normalized(name)
    .split(/[&;=?]/)
    .some((part) => part.replace(/[^a-z]/g, '') === 'selltoken')

/**
 * The raw query with the gateway's fee at its end, and without fee parameters of the caller in any spelling. Everything
 * else stays byte for byte and in order. Call it only for a query that `sellTokenProblem` accepts. Works on text, since
 * parsing and serializing would change other parameters.
 */
export function withFee(search: string, feeRecipient: string): string {
  const remaining = withoutFees(piecesOf(search.replace(/^\?/, '')))
  const sellToken = remaining.find(({ name }) => name === 'sellToken')
  const query = remaining.map(({ before, text }, index) => (index === 0 ? text : before + text)).join('')
  const token = sellToken?.value ? [`swapFeeToken=${sellToken.value}`] : []
  return `?${[...(query === '' ? [] : [query]), `swapFeeRecipient=${encodeURIComponent(feeRecipient)}`, `swapFeeBps=${FEE_BPS}`, ...token].join('&')}`
}

/** One parameter and the separator before it. Some servers also split at semicolons. */
type Piece = { readonly before: string; readonly text: string; readonly name: string; readonly value: string }

function piecesOf(query: string): readonly Piece[] {
  const parts = query.split(/([&;])/)
  return parts.flatMap((text, index) => {
    if (index % 2 === 1) return []
    const end = text.includes('=') ? text.indexOf('=') : text.length
    return [{ before: parts[index - 1] ?? '', text, name: text.slice(0, end), value: text.slice(end + 1) }]
  })
}

/** The parameters that are not fees. Separators are kept so that no parameter merges with the one before. */
function withoutFees(pieces: readonly Piece[]): readonly Piece[] {
  const remaining: Piece[] = []
  let dropped = ''
  for (const piece of pieces) {
    if (isFee(piece.name)) dropped = piece.before === '&' || dropped === '&' ? '&' : piece.before
    else {
      remaining.push({ ...piece, before: dropped === '&' ? '&' : piece.before })
      dropped = ''
    }
  }
  return remaining
}

const isFee = (name: string): boolean =>
  normalized(name)
    .split(/[&;=?]/)
    .some((part) => FEE.test(part))

/** Normalizes case and width, so that look-alikes are equal. */
const normalized = (name: string): string => decoded(name).normalize('NFKC').toLowerCase()

const MAX_DECODES = 5

/** Percent-decodes repeatedly, as a chain of servers might. Invalid UTF-8 is replaced. */
function decoded(name: string): string {
  let text = name
  for (let depth = 0; depth < MAX_DECODES && text.includes('%'); depth++) text = decodedOnce(text)
  return text
}

function decodedOnce(text: string): string {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (run) =>
    new TextDecoder().decode(Uint8Array.from(run.slice(1).split('%'), (hex) => Number.parseInt(hex, 16))),
  )
}
