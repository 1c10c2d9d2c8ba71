/** Forwards JSON-RPC 2.0 calls and batches to the operator's nodes (contract 15.11, 15.7). */
import { type Static, Type } from '@sinclair/typebox'
import { networkNamed, networkOf } from './networks.ts'
import { type Context, type Offering, paid } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { quoted } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'
import { PASSTHROUGH_RETENTION } from '../lib/passthrough_path.ts'
import { piecePrice } from '../../x402/pricing.ts'
import type { Json } from '../../lib/json.ts'
import type { RpcAnswer, RpcCall } from '../../ports/vendors/rpc.ts'

/** US dollars per call of a batch, before the fee. */
const PER_CALL = '0.002'
const PER_SOLANA_CALL = '0.0005'
const MAX_CALLS = 1_000
const MAX_ID = 128

const Params = Type.Optional(Type.Array(Type.Unknown(), { description: 'In order, as the method takes them.' }))
const Id = Type.Union([Type.String({ maxLength: MAX_ID }), Type.Integer()], {
  description: 'Returned with the answer. Required: a call without id would get no answer.',
})
const callFields = {
  jsonrpc: Type.Optional(Type.Literal('2.0')),
  id: Type.Optional(Id),
  method: Type.Optional(Type.String({ minLength: 1, maxLength: 100, description: 'For example eth_getBalance.' })),
  params: Params,
  batch: Type.Optional(
    Type.Array(Type.Unknown(), { description: `A body that is a list of up to ${MAX_CALLS} calls. Each is priced.` }),
  ),
}
const onSolana = Type.Object(callFields)
const anywhere = Type.Object({
  network: Type.String({ description: 'For example ethereum-mainnet, or eth.' }),
  ...callFields,
})
type Input = Static<typeof onSolana> & { readonly network?: string }

const output = Type.Unknown({
  description: 'The answer of the node, as it came: a result or an error, or a list of them in any order.',
})

/**
 * Methods that any caller may use: reads, and sending of signed transactions. `eth_send*` is listed by name, because
 * nodes have others that sign with their own keys, and local chains one that needs no signature.
 */
const EVM =
  /^(?:eth_(?:blobBaseFee|blockNumber|call|callMany|chainId|config|createAccessList|estimateGas|feeHistory|gasPrice|get[A-Z][A-Za-z0-9]{1,60}|maxPriorityFeePerGas|protocolVersion|sendRawTransaction(?:Sync|Conditional)?|simulateV1|syncing)|net_(?:listening|peerCount|version)|web3_(?:clientVersion|sha3))$/
/** Methods with state on the node, which callers would share. */
const NOT_EVM = /^eth_get(?:Filter.*|Work.*)$/
const SOLANA = /^(get|is|simulate|send)[A-Z][A-Za-z0-9]{1,60}$|^minimumLedgerSlot$/

/** Methods that a Solana client needs before it can pay (contract 15.13), besides the account of the mint. */
const FREE = new Set(['getLatestBlockhash', 'isBlockhashValid', 'getRecentPrioritizationFees', 'getGenesisHash'])
const MINTS: ReadonlySet<unknown> = new Set([
  'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v',
  '4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU',
])
const FREE_LIMITS = [{ requests: 300, windowMs: 60_000 }]

const shared = {
  tag: 'data',
  from: 'body',
  order: 'quote_then_check',
  output,
  delivery: 'inline',
  verbatim: true,
  failure: 'Upstream provider error',
  retention: PASSTHROUGH_RETENTION,
  errors: ['UPSTREAM_FAILED'],
  show: () => ({}),
} as const

const evm = paid({
  ...shared,
  name: 'rpc',
  path: '/api/v1/rpc/{network}',
  summary: 'Call a node of any chain',
  description: `JSON-RPC 2.0 to one of the operator's nodes: a call, or a list of up to ${MAX_CALLS}, each at the price of one. X-Network says which chain answered, X-Cache whether it had to be asked.`,
  input: anywhere,
  example: { network: 'base-mainnet', jsonrpc: '2.0', id: 1, method: 'eth_blockNumber', params: [] },
  sample: (offering) => ({
    network: offering.vendors.rpc?.networks.find((slug) => !isSolana(slug)) ?? 'base-mainnet',
    jsonrpc: '2.0' as const,
    id: 1,
    method: 'eth_blockNumber',
    params: [],
  }),
  arrange: ({ params, body }) => ({ ...asCalls(body), network: params.network }),
  check: (given) => checkInput(given),
  isAvailable: (given, offering) => isAvailable(offering, () => slugOf(given.network, offering)),
  price: (given, context) => quote(given, PER_CALL, context),
  run: ({ input, vendors, signal }) => ask(input, slugOf(input.network, { vendors }), { vendors, signal }),
})

const solana = paid({
  ...shared,
  name: 'solana.rpc',
  path: '/api/v1/solana/rpc',
  summary: 'Call a Solana node',
  description: `JSON-RPC 2.0 to the operator's node: a call, or a list of up to ${MAX_CALLS}, each at the price of one. On a gateway that is paid on Solana, what a client has to know before it pays is free: ${[...FREE].join(', ')}, and getAccountInfo of the USDC mint.`,
  input: onSolana,
  example: { jsonrpc: '2.0', id: 1, method: 'getSlot', params: [] },
  arrange: ({ body }) => asCalls(body),
  check: (given) => checkInput(given),
  isAvailable: (_given, offering) => isAvailable(offering, () => solanaOf(offering)),
  price: (given, context) => (isFree(given, context) ? 'free' : quote(given, PER_SOLANA_CALL, context)),
  freeLimits: FREE_LIMITS,
  run: ({ input, vendors, networks = [], signal }) =>
    ask(input, solanaOf({ vendors, networks }) ?? '', { vendors, signal }),
})

export const rpc = [evm, solana]

/** An array is a batch. Other non-objects are refused by the check. */
function asCalls(body: unknown): Record<string, unknown> {
  if (body === undefined) return {}
  return typeof body === 'object' && body !== null && !Array.isArray(body) ? { ...body } : { batch: body }
}

function callsOf({ batch, jsonrpc, id, method, params }: Input): readonly unknown[] {
  return Array.isArray(batch) ? batch : [{ jsonrpc, id, method, ...(params !== undefined && { params }) }]
}

function quote(given: Input, usd: string, { prices }: Context) {
  const calls = Array.isArray(given.batch) ? Math.min(Math.max(given.batch.length, 1), MAX_CALLS) : 1
  return { amount: piecePrice(usd, calls, prices), maxTimeoutSeconds: 300, publicPrice: {}, also: { calls } }
}

/** Throws a 400 that names the call and its field. */
function checkInput<Given extends Input>(given: Given): Given {
  const calls = callsOf(given)
  if (calls.length < 1 || calls.length > MAX_CALLS)
    throw refused('batch', `must be a list of 1 to ${MAX_CALLS} calls, has ${calls.length}`)
  for (const [index, call] of calls.entries()) checkCall(call, given.batch === undefined ? '' : `batch.${index}`)
  return given
}

function checkCall(call: unknown, at: string): void {
  const field = (name: string) => (at === '' ? name : `${at}.${name}`)
  if (typeof call !== 'object' || call === null || Array.isArray(call))
    throw refused(
      at,
      `must be a call of JSON-RPC 2.0: an object with jsonrpc, id, method and params; got ${quoted(call)}`,
    )
  const { jsonrpc, id, method, params } = call as Record<string, unknown>
  if (jsonrpc !== '2.0') throw refused(field('jsonrpc'), `must be "2.0", got ${quoted(jsonrpc)}`)
  if (!isId(id))
    throw refused(
      field('id'),
      `must be a whole number or a text of at most ${MAX_ID} characters: a call without one gets no answer; got ${quoted(id)}`,
    )
  if (params !== undefined && !Array.isArray(params))
    throw refused(field('params'), `must be a list, got ${quoted(params)}`)
  if (typeof method !== 'string' || !isAllowedMethod(method))
    throw refused(
      field('method'),
      `must be one that reads a chain or sends what is signed, such as eth_call or getBalance; got ${quoted(method)}`,
    )
}

const isId = (id: unknown): boolean =>
  (typeof id === 'string' && id.length <= MAX_ID) || (typeof id === 'number' && Number.isSafeInteger(id))
const isAllowedMethod = (method: string): boolean => SOLANA.test(method) || (EVM.test(method) && !NOT_EVM.test(method))

function isFree(given: Input, { networks = [] }: Context): boolean {
  if (!networks.some((network) => network.startsWith('solana:'))) return false
  const [account] = Array.isArray(given.params) ? given.params : []
  return (
    given.batch === undefined &&
    (FREE.has(given.method ?? '') || (given.method === 'getAccountInfo' && MINTS.has(account)))
  )
}

const isSolana = (slug: string): boolean => slug.startsWith('solana-')

/** False if the operator has no nodes at all. An unknown network is a 400 that lists the available ones. */
function isAvailable({ vendors }: Offering, found: () => string | undefined): boolean {
  return vendors.rpc !== undefined && found() !== undefined
}

function slugOf(name: string | undefined, { vendors }: Pick<Offering, 'vendors'>): string {
  const served = vendors.rpc?.networks ?? []
  if (!/^[a-z0-9-]{1,41}$/i.test(name ?? ''))
    throw unknown(`must be up to 41 letters, digits and -, got ${quoted(name)}`, served)
  const found = networkNamed(name ?? '', served)
  if (found === undefined) throw unknown(`must be one of ${served.join(', ')}, got ${quoted(name)}`, served)
  return found
}

function unknown(message: string, supportedNetworks: readonly string[]): ApiError {
  return new ApiError('INVALID_BODY', {
    message: `network: ${message}. Nothing was charged.`,
    details: [{ path: 'network', message }],
    fields: { supportedNetworks },
  })
}

/** The gateway's payment network if it is Solana; else Solana mainnet, or its devnet. */
function solanaOf({ vendors, networks = [] }: Pick<Offering, 'vendors' | 'networks'>): string | undefined {
  const own = networks.map(networkOf).filter((slug) => slug !== undefined && isSolana(slug))
  return [...own, 'solana-mainnet', 'solana-devnet'].find((slug) => vendors.rpc?.networks.includes(slug ?? ''))
}

async function ask(
  input: Input,
  network: string,
  { vendors, signal }: Pick<Offering, 'vendors'> & { signal: AbortSignal },
): Promise<{ result: Json }> {
  if (!vendors.rpc) throw new ApiError('NOT_CONFIGURED')
  const [first, ...rest] = (callsOf(input) as readonly RpcCall[]).map(canonicalCall)
  const calls = input.batch === undefined ? (first as RpcCall) : [first as RpcCall, ...rest]
  const { text, isCached }: RpcAnswer = await vendors.rpc.ask(network, calls, { signal })
  return { result: { text, headers: { 'x-network': network, 'x-cache': isCached ? 'HIT' : 'MISS' } } }
}

/** Copies only the checked members: some nodes read `Method` as `method`, and the last one wins. */
const canonicalCall = ({ jsonrpc, id, method, params }: RpcCall): RpcCall => ({
  jsonrpc,
  id,
  method,
  ...(params !== undefined && { params }),
})
