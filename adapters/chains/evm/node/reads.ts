import { type Usdc, usdc } from '../../../../core/x402/mod.ts'
import { aggregateCall, aggregateResults, type CallResult, type ContractCall, MULTICALL } from './multicall.ts'
import { balanceCall } from './token.ts'
import { parseAddress } from './address.ts'
import { callContract, type ContractLimits, contractCaller, type ContractResult, type Fee } from './contracts.ts'
import { asFailure, failure, type Rpc, type RpcFailure } from '../../lib/json_rpc.ts'
import { type Hex, hexOf, isHex, lower, numberIn, uintIn } from '../../lib/hex.ts'
import { blockAt } from './log_search.ts'

/**
 * The results of several calls at one block. `time` is the block's, in seconds; a call that reverted has `ok: false`.
 */
export type ViewResult = {
  readonly kind: 'seen'
  readonly time: number
  /** The block's number as receipts count blocks; absent where the chain's contracts use another count. */
  readonly block?: number
  readonly results: readonly CallResult[]
}

export type ViewOptions = {
  /** How many seconds the node may be behind the newest block seen so far. */
  readonly lagSeconds: number
  readonly signal?: AbortSignal
  readonly from?: Hex
  readonly gas?: bigint
  /** The gas price to simulate with. Default: free gas, which a contract can detect. */
  readonly fee?: Fee
  /**
   * Bypasses Multicall3 and sends each call in its own HTTP request, so that the callee sees `from` and all of `gas`.
   */
  readonly direct?: boolean
}

export type Reads = {
  view(calls: readonly ContractCall[], at: ViewOptions): Promise<ViewResult | RpcFailure>
  /**
   * Calls code at an address that a caller chose, in a request of its own with small limits, so that it delays nobody
   * else.
   */
  callContract(
    contract: Hex,
    call: ContractCall,
    at: { signal: AbortSignal; from?: Hex },
  ): Promise<ContractResult | RpcFailure>
  /** The token balance of an address. Rejects for an invalid address and when the node does not answer. */
  balance(token: string, address: string, at: Pick<ViewOptions, 'lagSeconds' | 'signal'>): Promise<Usdc>
  /** Whether Multicall3 is available, as found by `check`. Until then, reads take one more round trip. */
  multicall(): boolean
  /** Also checks how contracts count blocks: on some rollups they see the parent chain's count. */
  setMulticall(found: boolean): Promise<void>
}

export type ReadsConfig = {
  /**
   * Default `latest`. Use `pending` for a local node that mines only on demand, whose latest block may be hours old.
   */
  readonly readAt?: 'latest' | 'pending'
  /** Blocks per eth_getLogs. Default 2,000; halved when the node refuses that many. */
  readonly logWindow?: number
  /**
   * How far before an authorization's likely signing its event is searched for. Default one day. Pass it to
   * `checkExact` too.
   */
  readonly lookbackSeconds?: number
  /** Limits of calls to contracts that callers choose. */
  readonly contracts?: Partial<ContractLimits>
}

/** Multicall3's getBlockNumber(). */
const BLOCK_NUMBER_CALL: ContractCall = { to: MULTICALL, data: '0x42cbb15c' }

/** State of `evmReads`. */
type EvmNode = {
  readonly rpc: Rpc
  readonly config: ReadsConfig
  readonly tag: 'latest' | 'pending'
  multicall: boolean
  countsBlocks: boolean
  /** Time of the newest block seen by this process; a node that shows an older one is behind. */
  newest: number
}

export function evmReads(rpc: Rpc, config: ReadsConfig): Reads {
  const tag = config.readAt ?? 'latest'
  const contracts = contractCaller(rpc, config.contracts)

  const node: EvmNode = {
    rpc,
    config,
    tag,
    multicall: false,
    countsBlocks: false,
    newest: 0,
  }
  return {
    view: (...args) => view(node, ...args),
    callContract: (address, call, at) => contracts.request(address, call, { ...at, block: tag }),
    balance: (...args) => balance(node, ...args),
    multicall: () => node.multicall,
    setMulticall: (...args) => setMulticall(node, ...args),
  }
}

/**
 * A Multicall3 call reads one block by construction. Without it, the block is read first and then named in each call.
 */
async function view(node: EvmNode, calls: readonly ContractCall[], at: ViewOptions): Promise<ViewResult | RpcFailure> {
  const options = {
    ...(at.from ? { from: at.from } : {}),
    ...(at.gas ? { gas: hexOf(at.gas) } : {}),
    ...(at.fee ? { maxFeePerGas: hexOf(at.fee.max), maxPriorityFeePerGas: hexOf(at.fee.tip) } : {}),
  }
  const attempt = async () => {
    const shared = node.multicall ? viewByMulticall : viewByBlock
    const seen = await (at.direct ? viewDirect(node, calls, at) : shared(node, calls, options, at.signal))
    if (seen.kind === 'failure' || seen.time + at.lagSeconds >= node.newest) return seen
    return { ...failure('the node is behind a block it has already shown'), retryable: true as const }
  }
  let seen = await attempt()
  // Retry: a block arrived in between, or another node answered behind the same address.
  for (let retry = 0; retry < 2 && seen.kind === 'failure' && seen.retryable; retry++) seen = await attempt()
  if (seen.kind === 'seen') node.newest = Math.max(node.newest, seen.time)
  return seen
}

async function viewByMulticall(
  node: EvmNode,
  calls: readonly ContractCall[],
  options: object,
  signal?: AbortSignal,
): Promise<ViewResult | RpcFailure> {
  const time: ContractCall = { to: MULTICALL, data: '0x0f28c97d' } // getCurrentBlockTimestamp()
  const answer = await node.rpc.request(
    'eth_call',
    [{ ...options, to: MULTICALL, data: aggregateCall([time, BLOCK_NUMBER_CALL, ...calls]) }, node.tag],
    signal,
  )
  if (answer.kind !== 'result') return asFailure('eth_call', answer)
  const results = aggregateResults(answer.value, calls.length + 2)
  if (!results) return failure('eth_call: the answer cannot be decoded')
  const [first, second, ...rest] = results
  const [seconds, number] = [first && numberIn(first.data), second && numberIn(second.data)]
  if (seconds === undefined || number === undefined)
    return failure('eth_call: the answer is not a block time, a block number and one result per call')
  return { kind: 'seen', time: seconds, results: rest, ...(node.countsBlocks && { block: wholeBlock(node, number) }) }
}

async function viewByBlock(
  node: EvmNode,
  calls: readonly ContractCall[],
  options: object,
  signal?: AbortSignal,
): Promise<ViewResult | RpcFailure> {
  const block = await blockAt(node.rpc, node.tag, signal)
  if (block.kind === 'failure') return block
  const at = node.tag === 'latest' ? hexOf(BigInt(block.number)) : node.tag
  const answers = await Promise.all(
    calls.map(({ to, data }) => node.rpc.request('eth_call', [{ ...options, to, data }, at], signal)),
  )
  const results: { ok: boolean; data: Hex }[] = []
  for (const answer of answers) {
    if (answer.kind === 'failure') return answer
    if (answer.kind === 'result' && !isHex(answer.value)) return failure('eth_call: the answer is not hex')
    if (answer.kind === 'error' && !isRevert(answer)) return asFailure('eth_call', answer)
    results.push(answer.kind === 'result' ? { ok: true, data: answer.value as Hex } : { ok: false, data: '0x' })
  }
  return { kind: 'seen', time: block.time, block: wholeBlock(node, block.number), results }
}

/** The pending block is incomplete: its balances do not include transactions still to come. */
function wholeBlock(node: EvmNode, number: number): number {
  return node.tag === 'latest' ? number : number - 1
}

/** Compares the contracts' block number with the node's; if they differ, receipts cannot be compared with views. */
async function setMulticall(node: EvmNode, found: boolean): Promise<void> {
  node.multicall = found
  const head = found ? await blockAt(node.rpc, 'latest') : undefined
  if (head?.kind !== 'block') return
  const answer = await node.rpc.request('eth_call', [BLOCK_NUMBER_CALL, hexOf(BigInt(head.number))])
  node.countsBlocks = answer.kind === 'result' && isHex(answer.value) && numberIn(answer.value) === head.number
}

async function viewDirect(
  node: EvmNode,
  calls: readonly ContractCall[],
  { from, gas, fee, signal }: ViewOptions,
): Promise<ViewResult | RpcFailure> {
  const block = await blockAt(node.rpc, node.tag, signal)
  if (block.kind === 'failure') return block
  const at = { from, gas, fee, signal, block: node.tag === 'latest' ? hexOf(BigInt(block.number)) : node.tag }
  const answers = await Promise.all(calls.map((call) => callContract(node.rpc, call, at)))
  const results: ContractResult[] = []
  for (const answer of answers) {
    if (answer.kind === 'failure') return answer
    results.push(answer)
  }
  return { kind: 'seen', time: block.time, results }
}

async function balance(
  node: EvmNode,
  token: string,
  address: string,
  at: Pick<ViewOptions, 'lagSeconds' | 'signal'>,
): Promise<Usdc> {
  const seen = await view(node, [{ to: lower(token), data: balanceCall(parseAddress(address)) }], at)
  if (seen.kind === 'failure') throw new Error(seen.reason)
  const units = uintIn(seen.results[0])
  if (units === undefined) throw new Error('balanceOf() did not return a number')
  return usdc(units)
}

/** Whether the call itself failed, and not the node. */
export const isRevert = ({ message }: { readonly message: string }): boolean =>
  /revert|out of gas|invalid opcode|stack/i.test(message)
