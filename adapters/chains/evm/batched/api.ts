/** Circle Gateway over HTTP (decision 69): requests and replies. Reasons are free text; a few are known. */
import { type Static, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { dollars } from '../../../../core/x402/mod.ts'
import { type ApiConfig, facilitatorApi, type ApiResult } from '../../facilitator/api.ts'
import { lower } from '../../lib/hex.ts'

export const BATCHED = { name: 'GatewayWalletBatched', version: '1' } as const

/** Remaining lifetime that an authorization needs at settlement if the API reports none: seven days, in seconds. */
export const MIN_VALIDITY_SECONDS = 604_800

/** A network with batched payments. */
export type BatchedNetwork = {
  readonly network: string
  /** The chain's USDC. */
  readonly asset: string
  /** The Gateway's wallet contract, which holds the deposits. Payments are signed over its domain. */
  readonly wallet: string
  readonly minValiditySeconds: number
}

/** Transfer statuses that count as paid; a failed transfer is refunded to its payer. */
export const PAID_STATUSES: readonly string[] = ['received', 'batched', 'confirmed', 'completed']

/** `reason` of `refused` and `used` is the API's error code. */
export type BatchedSettleReply =
  | { readonly kind: 'accepted'; readonly transfer: string }
  | { readonly kind: 'refused' | 'used'; readonly reason: string }

const Address = Type.String({ pattern: '^0x[0-9a-fA-F]{40}$' })
const TransferId = Type.String({ pattern: '^[0-9A-Za-z-]{8,64}$' })
const Kind = Type.Object({
  x402Version: Type.Literal(2),
  scheme: Type.Literal('exact'),
  network: Type.String({ pattern: '^eip155:[1-9][0-9]{0,14}$' }),
  extra: Type.Object({
    name: Type.Optional(Type.Literal(BATCHED.name)),
    version: Type.Optional(Type.Literal(BATCHED.version)),
    verifyingContract: Address,
    assets: Type.Array(
      Type.Object({ symbol: Type.String(), address: Type.String(), decimals: Type.Optional(Type.Unknown()) }),
    ),
    minValiditySeconds: Type.Optional(Type.Unknown()),
  }),
})
const Supported = Type.Object({ kinds: Type.Array(Type.Unknown()) })
/** The members that decide something. `amount` is in base units. */
const Transfer = Type.Object({
  id: TransferId,
  status: Type.String(),
  sendingNetwork: Type.String(),
  fromAddress: Address,
  toAddress: Address,
  amount: Type.String({ pattern: '^(0|[1-9][0-9]{0,77})$' }),
  nonce: Type.String({ pattern: '^0x[0-9a-fA-F]+$' }),
  createdAt: Type.String(),
})
export type Transfer = Static<typeof Transfer>
const Transfers = Type.Object({ transfers: Type.Array(Transfer) })
/** Deposits are decimals with up to six places. */
const Balances = Type.Object({
  balances: Type.Array(
    Type.Object({
      domain: Type.Integer(),
      depositor: Type.String(),
      balance: Type.String({ pattern: '^[0-9]{1,15}(\\.[0-9]{1,18})?$' }),
    }),
  ),
})
const Settled = Type.Object({
  success: Type.Boolean(),
  transaction: Type.Optional(Type.Unknown()),
  errorReason: Type.Optional(Type.Unknown()),
})

const [kind, supported, transfers, balances, settled] = [
  TypeCompiler.Compile(Kind),
  TypeCompiler.Compile(Supported),
  TypeCompiler.Compile(Transfers),
  TypeCompiler.Compile(Balances),
  TypeCompiler.Compile(Settled),
]
const transferId = TypeCompiler.Compile(TransferId)

/** Errors after which the API has accepted nothing. Any other, such as `unexpected_error`, decides nothing. */
const REFUSALS: readonly unknown[] = [
  'unsupported_scheme',
  'unsupported_network',
  'unsupported_asset',
  'unsupported_domain',
  'invalid_payload',
  'address_mismatch',
  'amount_mismatch',
  'invalid_signature',
  'authorization_not_yet_valid',
  'authorization_expired',
  'authorization_validity_too_short',
  'self_transfer',
  'insufficient_balance',
  'wallet_not_found',
]

/** Page size of long lists. */
export const PAGE = 50

type RequestOptions = { readonly now: number; readonly timeoutMs: number; readonly signal?: AbortSignal }
type Filter = {
  readonly [field in 'from' | 'to' | 'nonce' | 'network' | 'status' | 'startDate' | 'endDate']?: string
}

export type BatchedApi = {
  /** Networks with 6-decimal USDC, in the API's order. */
  supported(at: RequestOptions): Promise<ApiResult<readonly BatchedNetwork[]>>
  /** A wallet's spendable deposit on one network, in base units; 0 if the API knows none. */
  deposit(of: { readonly depositor: string; readonly domain: number }, at: RequestOptions): Promise<ApiResult<bigint>>
  /** One page of transfers that match the filter. `clock` is the API's own time, if reported. */
  transfers(
    filter: Filter,
    at: RequestOptions,
  ): Promise<ApiResult<{ readonly list: readonly Transfer[]; readonly clock: number | undefined }>>
  settle(request: object, at: RequestOptions): Promise<ApiResult<BatchedSettleReply>>
  close(): void
}

/**
 * A client of the API. Follows no redirects, and no message contains the URL. Throws RangeError, without quoting it,
 * when it is malformed.
 */
export function batchedApi(url: string, config: Omit<ApiConfig, 'random'>): BatchedApi {
  const { request, close } = facilitatorApi({ url, redirects: false }, { ...config, random: randomUnused })
  return {
    close,
    supported: (at) =>
      request('v1/x402/supported', { ...at, read: (body, isOk) => (isOk ? parseSupported(body) : undefined) }),
    deposit: (of, at) =>
      request('v1/balances', {
        ...at,
        body: { token: 'USDC', sources: [of] },
        read: (body, isOk) => (isOk ? parseDeposit(body, of) : undefined),
      }),
    transfers: (filter, at) =>
      request('v1/x402/transfers', {
        ...at,
        query: filter.nonce === undefined ? { ...filter, pageSize: String(PAGE) } : filter,
        read: (body, isOk, headers) =>
          isOk && transfers.Check(body) ? { list: body.transfers, clock: serverTime(headers) } : undefined,
      }),
    settle: (body, at) => request('v1/x402/settle', { ...at, body, read: parseSettleReply }),
  }
}

function randomUnused(): never {
  throw new Error('this API has no key')
}

function serverTime(headers: Headers): number | undefined {
  const time = Date.parse(headers.get('date') ?? '')
  return Number.isNaN(time) ? undefined : time
}

/** Ignores other schemes, tokens and versions. */
function parseSupported(body: unknown): readonly BatchedNetwork[] | undefined {
  if (!supported.Check(body)) return undefined
  const found = new Map<string, BatchedNetwork>()
  for (const each of body.kinds) {
    if (!kind.Check(each) || found.has(each.network)) continue
    const { network, extra } = each
    const usdc = extra.assets.find(({ symbol, decimals = 6 }) => symbol === 'USDC' && decimals === 6)?.address
    const isToken =
      usdc !== undefined && /^0x[0-9a-fA-F]{40}$/.test(usdc) && lower(usdc) !== lower(extra.verifyingContract)
    if (isToken)
      found.set(network, {
        network,
        asset: usdc,
        wallet: extra.verifyingContract,
        minValiditySeconds: secondsIn(extra.minValiditySeconds),
      })
  }
  return [...found.values()]
}

/** Treats more than a month as a mistake. */
function secondsIn(value: unknown): number {
  const isSane = Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 31 * 86_400
  return isSane ? Number(value) : MIN_VALIDITY_SECONDS
}

function parseDeposit(body: unknown, of: { depositor: string; domain: number }): bigint | undefined {
  if (!balances.Check(body)) return undefined
  const entry = body.balances.find(
    ({ domain, depositor }) => domain === of.domain && lower(depositor) === lower(of.depositor),
  )
  if (!entry) return 0n
  const { num, den } = dollars(entry.balance)
  return (num * 1_000_000n) / den
}

/** A refusal counts with any HTTP status, an acceptance only with a good one and a transfer id. */
function parseSettleReply(body: unknown, isOk: boolean): BatchedSettleReply | undefined {
  if (!settled.Check(body)) return undefined
  const { success, transaction, errorReason } = body
  if (success) return isOk && transferId.Check(transaction) ? { kind: 'accepted', transfer: transaction } : undefined
  if (errorReason === 'nonce_already_used') return { kind: 'used', reason: errorReason }
  return REFUSALS.includes(errorReason) ? { kind: 'refused', reason: String(errorReason) } : undefined
}

/**
 * Circle's domain numbers (`GATEWAY_DOMAINS` of @circle-fin/x402-batching 3.3.0), needed to read deposits. /supported
 * does not report them.
 */
export const DOMAINS: Readonly<Record<string, number>> = {
  'eip155:1': 0,
  'eip155:43114': 1,
  'eip155:10': 2,
  'eip155:42161': 3,
  'eip155:8453': 6,
  'eip155:137': 7,
  'eip155:130': 10,
  'eip155:146': 13,
  'eip155:480': 14,
  'eip155:1329': 16,
  'eip155:999': 19,
  'eip155:5042': 26,
  'eip155:11155111': 0,
  'eip155:43113': 1,
  'eip155:11155420': 2,
  'eip155:421614': 3,
  'eip155:84532': 6,
  'eip155:80002': 7,
  'eip155:1301': 10,
  'eip155:14601': 13,
  'eip155:4801': 14,
  'eip155:1328': 16,
  'eip155:998': 19,
  'eip155:5042002': 26,
}
