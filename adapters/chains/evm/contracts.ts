/**
 * Calls to contracts that a caller chose: an ERC-1271 wallet, or the token that calls one. Such code may loop, return
 * megabytes or be slow, so each call is an HTTP request of its own with small limits, and can fail its own caller only.
 */
import { type ConcurrencyLimiter, concurrencyLimiter } from '../../../core/lib/limiter.ts'
import type { Target } from './payload.ts'
import type { Fee } from './reads.ts'
import { type Rpc, type Trouble, trouble, troubleIn } from './rpc.ts'
import { type Hex, hexOf, isHex } from './hex.ts'

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

export type Returned = { readonly kind: 'returned'; readonly ok: boolean; readonly data: Hex }

export type Asking = {
  /** A block number in hex, or a tag. */
  readonly block: string
  readonly signal?: AbortSignal | undefined
  readonly from?: Hex | undefined
  readonly gas?: bigint | undefined
  readonly fee?: Fee | undefined
}

export type Contracts = {
  /**
   * Runs code of the contract at `chosen`. `ok: false` means that the code failed; a failure is the node's, or a full
   * queue.
   */
  ask(chosen: Hex, call: Target, at: Asking): Promise<Returned | Trouble>
}

/** Messages with which nodes report that the code failed, not the node. */
const CODE_FAILED =
  /revert|out ?of ?gas|gas (required )?exceeds|invalid ?(opcode|jump|fe)|opcode ?not|stack|EVM error|bad instruction/i

/** Makes one call at once, in an HTTP request of its own. */
export async function askContract(
  rpc: Rpc,
  { to, data }: Target,
  { limits = CONTRACT_LIMITS, ...at }: Asking & { readonly limits?: ContractLimits },
): Promise<Returned | Trouble> {
  const fees = at.fee && { maxFeePerGas: hexOf(at.fee.max), maxPriorityFeePerGas: hexOf(at.fee.tip) }
  const call = { ...(at.from && { from: at.from }), gas: hexOf(at.gas ?? limits.gas), ...fees, to, data }
  const { timeoutMs, maxBytes } = limits
  const bounds = { timeoutMs, maxBytes, ...(at.signal && { signal: at.signal }) }
  const answer = await rpc.alone('eth_call', [call, at.block], bounds)
  if (answer.kind === 'trouble') return answer.isTooLong ? FAILED : answer
  if (answer.kind === 'error') return CODE_FAILED.test(answer.message) ? FAILED : troubleIn('eth_call', answer)
  if (!isHex(answer.value)) return trouble('eth_call: the answer is not hex')
  return { kind: 'returned', ok: true, data: answer.value }
}

const FAILED: Returned = { kind: 'returned', ok: false, data: '0x' }

type Lane = { readonly pass: ConcurrencyLimiter; users: number }

/** Limits concurrent calls, in total and per contract, so that a slow contract leaves room for others. */
export function contracts(rpc: Rpc, change: Partial<ContractLimits> = {}): Contracts {
  const limits = { ...CONTRACT_LIMITS, ...change }
  const full = () => new Error('too many contract calls are waiting')
  const bounded = (atOnce: number) => concurrencyLimiter(atOnce, { most: limits.maxWaiting, full })
  const all = bounded(limits.maxAtOnce)
  const lanes = new Map<Hex, Lane>()

  async function ask(chosen: Hex, call: Target, at: Asking): Promise<Returned | Trouble> {
    const lane = lanes.get(chosen) ?? { pass: bounded(limits.maxAtOncePerContract), users: 0 }
    lanes.set(chosen, lane)
    lane.users++
    try {
      return await lane.pass(() => all(() => askContract(rpc, call, { ...at, limits }), at.signal), at.signal)
    } catch (error) {
      const reason = at.signal?.aborted ? "the caller's time ran out" : (error as Error).message
      return trouble(`eth_call: ${reason}`)
    } finally {
      lane.users--
      if (lane.users === 0) lanes.delete(chosen)
    }
  }

  return { ask }
}
