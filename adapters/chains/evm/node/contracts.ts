/**
 * Calls to contracts that a caller chose: an ERC-1271 wallet, or the token that calls one (decision 87). Such code may
 * loop, return megabytes or be slow, so each call is an HTTP request of its own with small limits, and can fail its own
 * caller only.
 */
import { type ConcurrencyLimiter, concurrencyLimiter } from '../../../../core/lib/mod.ts'
import type { ContractCall } from './multicall.ts'
import { type Rpc, type RpcFailure, failure, asFailure } from '../../lib/json_rpc.ts'
import { type Hex, hexOf, isHex } from '../../lib/hex.ts'

/** Price of one unit of gas, in wei. */
export type Fee = { readonly max: bigint; readonly tip: bigint }

export type ContractLimits = {
  /** Gas per call. Default 500,000, the limit of a contract wallet's settlement. */
  readonly gas: bigint
  /** Largest HTTP response in bytes. Default 4,096; a good answer has about 100. */
  readonly maxBytes: number
  /** Deadline of one call. Default 3,000 ms. */
  readonly timeoutMs: number
  /** Concurrent calls, in total (default 8) and per contract (default 2). */
  readonly maxAtOnce: number
  readonly maxAtOncePerContract: number
  /** Waiting calls. Default 256; further ones fail at once. */
  readonly maxWaiting: number
}

export const CONTRACT_LIMITS: ContractLimits = {
  gas: 500_000n,
  maxBytes: 4_096,
  timeoutMs: 3_000,
  maxAtOnce: 8,
  maxAtOncePerContract: 2,
  maxWaiting: 256,
}

export type ContractResult = { readonly kind: 'returned'; readonly ok: boolean; readonly data: Hex }

type ContractCallOptions = {
  /** A block number in hex, or a tag. */
  readonly block: string
  readonly signal?: AbortSignal | undefined
  readonly from?: Hex | undefined
  readonly gas?: bigint | undefined
  readonly fee?: Fee | undefined
}

type ContractCaller = {
  /**
   * Runs code of the contract at `chosen`. `ok: false` means that the code failed; a failure is the node's, or a full
   * queue.
   */
  request(contract: Hex, call: ContractCall, at: ContractCallOptions): Promise<ContractResult | RpcFailure>
}

/** Messages with which nodes report that the code failed, not the node. */
const CODE_FAILURE =
  /revert|out ?of ?gas|gas (required )?exceeds|invalid ?(opcode|jump|fe)|opcode ?not|stack|EVM error|bad instruction/i

/** Makes one call at once, in an HTTP request of its own. */
export async function callContract(
  rpc: Rpc,
  { to, data }: ContractCall,
  { limits = CONTRACT_LIMITS, ...at }: ContractCallOptions & { readonly limits?: ContractLimits },
): Promise<ContractResult | RpcFailure> {
  const fees = at.fee && { maxFeePerGas: hexOf(at.fee.max), maxPriorityFeePerGas: hexOf(at.fee.tip) }
  const call = { ...(at.from && { from: at.from }), gas: hexOf(at.gas ?? limits.gas), ...fees, to, data }
  const { timeoutMs, maxBytes } = limits
  const bounds = { timeoutMs, maxBytes, ...(at.signal && { signal: at.signal }) }
  const answer = await rpc.requestAlone('eth_call', [call, at.block], bounds)
  if (answer.kind === 'failure') return answer.isTooLarge ? CODE_FAILED : answer
  if (answer.kind === 'error') return CODE_FAILURE.test(answer.message) ? CODE_FAILED : asFailure('eth_call', answer)
  if (!isHex(answer.value)) return failure('eth_call: the answer is not hex')
  return { kind: 'returned', ok: true, data: answer.value }
}

const CODE_FAILED: ContractResult = { kind: 'returned', ok: false, data: '0x' }

type ContractQueue = { readonly limiter: ConcurrencyLimiter; callers: number }

/** Limits concurrent calls, in total and per contract, so that a slow contract leaves room for others. */
export function contractCaller(rpc: Rpc, overrides: Partial<ContractLimits> = {}): ContractCaller {
  const limits = { ...CONTRACT_LIMITS, ...overrides }
  const full = () => new Error('too many contract calls are waiting')
  const newLimiter = (atOnce: number) => concurrencyLimiter(atOnce, { most: limits.maxWaiting, full })
  const total = newLimiter(limits.maxAtOnce)
  const queues = new Map<Hex, ContractQueue>()

  async function request(
    contract: Hex,
    call: ContractCall,
    at: ContractCallOptions,
  ): Promise<ContractResult | RpcFailure> {
    const queue = queues.get(contract) ?? { limiter: newLimiter(limits.maxAtOncePerContract), callers: 0 }
    queues.set(contract, queue)
    queue.callers++
    try {
      return await queue.limiter(() => total(() => callContract(rpc, call, { ...at, limits }), at.signal), at.signal)
    } catch (error) {
      const reason = at.signal?.aborted ? "the caller's time ran out" : (error as Error).message
      return failure(`eth_call: ${reason}`)
    } finally {
      queue.callers--
      if (queue.callers === 0) queues.delete(contract)
    }
  }

  return { request }
}
