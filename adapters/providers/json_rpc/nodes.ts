/**
 * The operator's nodes, by network: JSON-RPC 2.0 over HTTP, passed through unchanged. Sources: the JSON-RPC 2.0
 * specification; contract 15.11.
 */
import { type Clock, ApiError, type Log, type RpcAnswer, type RpcCall, type RpcVendor } from '../../../core/mod.ts'
import { type Fetch, vendorHttp } from '../../http/fetch.ts'
import { type ErrorFor, record } from '../../http/error_replies.ts'
import { ttlCache, singleFlight } from '../../http/single_flight.ts'

export type RpcNodesConfig = {
  /** Node URLs by network slug. A URL may contain a key, and is never shown. */
  readonly nodes: Readonly<Record<string, string>>
  readonly clock: Clock
  readonly log: Log
  readonly fetch?: Fetch | undefined
}

/** Contract 15.11. */
const TIMEOUT_MS = 20_000
const SOLANA_TIMEOUT_MS = 15_000
const MAX_REPLY_BYTES = 16 * 1024 * 1024
const FAILED_MS = 500

/** Methods whose answers never change once they exist; never a write, a gas price or a latest block. */
const FIXED = new Set([
  'eth_chainId',
  'net_version',
  'eth_getBlockByHash',
  'eth_getTransactionByHash',
  'eth_getTransactionReceipt',
  'getGenesisHash',
  'getBlockTime',
  'getTransaction',
])
/** A block may still be replaced by another one. */
const CACHE_MS = 10_000
const ROOM = 16 * 1024 * 1024
/** Longer requests are not cached. */
const MAX_KEY = 1_024

/** Errors of the node itself: internal error, limit exceeded, behind, unhealthy. */
const NODE_ERRORS = new Set([-32603, -32005, -32016, -32004, 429])

export function rpcNodes({ nodes, ...ports }: RpcNodesConfig): RpcVendor {
  const { clock } = ports
  const networks = Object.keys(nodes)
  const asks = new Map(networks.map((network) => [network, nodeOf(network, nodes[network] ?? '', ports)]))
  const cache = ttlCache<string>({ clock, ttlMs: CACHE_MS, maxWeight: ROOM, weigh: (text) => MAX_KEY + text.length })
  const shared = singleFlight(ttlCache<unknown>({ clock, ttlMs: FAILED_MS, maxWeight: 1_000, weigh: () => 1 }))

  return {
    networks,
    async ask(network, calls, { signal }): Promise<RpcAnswer> {
      const node = asks.get(network)
      if (!node) throw new RangeError(`there is no node of ${network}`)
      if (!('method' in calls) || !FIXED.has(calls.method)) return { text: await node(calls, signal), isCached: false }
      const key = `${network} ${JSON.stringify(calls)}`
      if (key.length > MAX_KEY) return { text: await node(calls, signal), isCached: false }
      const known = cache.get(key)
      if (known) return { text: known.value, isCached: true }
      const text = await shared(key, signal, (wanted) => node(calls, wanted))
      if (isThere(text)) cache.set(key, text)
      return { text, isCached: false }
    },
  }
}

type Ask = (calls: RpcCall | readonly RpcCall[], signal: AbortSignal) => Promise<string>

function nodeOf(network: string, url: string, ports: Omit<RpcNodesConfig, 'nodes'>): Ask {
  const timeoutMs = network.startsWith('solana-') ? SOLANA_TIMEOUT_MS : TIMEOUT_MS
  const http = vendorHttp({
    ...ports,
    name: `rpc ${network}`,
    maker: network,
    timeoutMs,
    maxBytes: MAX_REPLY_BYTES,
    errorFor: kindOf(network, timeoutMs),
  })
  return async (calls, signal) => {
    const text = await http.requestText(url, { signal, body: calls })
    const problem = problemIn(JSON.parse(text), calls)
    if (problem === undefined) return text
    ports.log.warn('a node gave no answer', { network, problem })
    throw silent(network, 'gave no answer')
  }
}

function kindOf(network: string, timeoutMs: number): ErrorFor {
  return (trouble) =>
    silent(
      network,
      trouble === 'timeout' ? `did not answer within ${timeoutMs / 1000} s` : 'failed, or could not be reached',
    )
}

function silent(network: string, what: string): ApiError {
  return new ApiError('UPSTREAM_FAILED', {
    message: `The node of ${network} ${what}. Payment was NOT charged.`,
    headers: { 'retry-after': '30' },
  })
}

/** Why a reply does not answer the calls; undefined when it does. An error caused by a call is a valid answer. */
function problemIn(reply: unknown, calls: RpcCall | readonly RpcCall[]): string | undefined {
  const isOne = 'method' in calls
  const answers = isOne ? [reply] : reply
  if (!Array.isArray(answers) || answers.length !== (isOne ? 1 : calls.length)) return 'not as many answers as calls'
  const read = answers.map(record)
  if (read.some((answer) => !('result' in answer) && !('error' in answer))) return 'neither a result nor an error'
  if (!isToThem(read, isOne ? [calls] : calls)) return 'answers to other calls'
  const isNodeError = read.every(({ error }) => NODE_ERRORS.has(Number(record(error).code)))
  return isNodeError ? `its own fault: ${String(record(read[0]?.error).message).slice(0, 200)}` : undefined
}

/**
 * Each result must have the id of a call, as often as it was sent; an error may replace a call that the node could not
 * parse.
 */
function isToThem(answers: readonly Readonly<Record<string, unknown>>[], calls: readonly RpcCall[]): boolean {
  const open = new Map<unknown, number>()
  for (const { id } of calls) open.set(id, (open.get(id) ?? 0) + 1)
  return answers.every(({ id, error }) => {
    const left = open.get(id) ?? 0
    open.set(id, left - 1)
    return left > 0 || ((id === null || id === undefined) && error !== undefined)
  })
}

/** An absent result may arrive at any moment, and so may the block of a pending transaction. */
function isThere(text: string): boolean {
  const { result } = record(JSON.parse(text))
  return result !== undefined && result !== null && record(result).blockHash !== null
}
