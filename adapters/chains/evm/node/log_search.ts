/**
 * Searches the logs of a range of blocks, one window after the other: the newest or the oldest first, as wide as the
 * node allows, with a bounded number of questions, until what was searched for is found.
 */
import type { BoundedMap } from '../../../../core/lib/mod.ts'
import { type Hex, hexOf, numberIn } from '../../lib/hex.ts'
import { asFailure, failure, type Rpc, type RpcFailure } from '../../lib/json_rpc.ts'
import { type ChainLog, parseLogs } from './token.ts'

/** Numbers of the first and the last block of a window. */
export type BlockRange = { readonly from: number; readonly to: number }

export type LogFilter = {
  readonly address: string
  readonly topics: readonly (string | readonly string[] | null)[]
}

/** `refused`: the node answers with an error, mostly because of too many blocks or logs. */
export type RangeRefused = { readonly kind: 'refused'; readonly reason: string }
type LogsRead = { readonly kind: 'logs'; readonly logs: readonly ChainLog[] } | RangeRefused | RpcFailure

/** The result of one window. `on` goes on with the next one, or leaps to one that ends or begins at `next`. */
export type WindowRead<Found> =
  | { readonly kind: 'found'; readonly found: Found }
  | { readonly kind: 'on'; readonly next?: number }
  | { readonly kind: 'end' }
  | RangeRefused
  | RpcFailure

/** `end`: everything was searched. `more`: the questions are used up, and `next` is the block to go on with. */
type SearchEnd<Found> =
  | Exclude<WindowRead<Found>, { readonly kind: 'on' }>
  | { readonly kind: 'more'; readonly next: number }

export type LogSearch = BlockRange & {
  readonly first: 'newest' | 'oldest'
  /** Widths in blocks, widest first: each refusal moves on to the next one. Refused at the last, the search ends. */
  readonly windows: readonly [number, ...number[]]
  /** Windows that are asked for, refused ones included. Default: no limit but the range. */
  readonly maxWindows?: number
}

/** Blocks of one question, as public nodes allow them. */
const LOG_WINDOW = 2_000
/** Windows searched per call where somebody waits for the answer. */
const MAX_LOG_WINDOWS = 64

/** A width and its halves, down to below eight blocks. Default: 2,000. */
export function halvedWindows(widest = LOG_WINDOW): readonly [number, ...number[]] {
  return widest < 8 ? [widest] : [widest, ...halvedWindows(Math.floor(widest / 2))]
}

/** Asks for the logs of one window. */
export async function logsIn(
  rpc: Pick<Rpc, 'request'>,
  filter: LogFilter,
  { from, to }: BlockRange,
  signal?: AbortSignal,
): Promise<LogsRead> {
  const [fromBlock, toBlock] = [from, to].map((number): Hex => hexOf(BigInt(number)))
  const answer = await rpc.request('eth_getLogs', [{ ...filter, fromBlock, toBlock }], signal)
  if (answer.kind === 'failure') return answer
  if (answer.kind === 'error') return { kind: 'refused', reason: `eth_getLogs: ${answer.message}` }
  const logs = parseLogs(answer.value)
  return logs ? { kind: 'logs', logs } : failure('eth_getLogs: the answer is not a list of logs')
}

/** Reads window after window until one says `found` or `end`, or the range, the widths or the windows are used up. */
export async function searchWindows<Found>(
  { from, to, first, windows, maxWindows = Number.POSITIVE_INFINITY }: LogSearch,
  read: (window: BlockRange) => Promise<WindowRead<Found>>,
): Promise<SearchEnd<Found>> {
  const isNewestFirst = first === 'newest'
  let [width, at] = [0, isNewestFirst ? to : from]
  for (let count = 0; from <= at && at <= to; count++) {
    if (count >= maxWindows) return { kind: 'more', next: at }
    const blocks = (windows[width] ?? 1) - 1
    const window = isNewestFirst
      ? { from: Math.max(from, at - blocks), to: at }
      : { from: at, to: Math.min(to, at + blocks) }
    const result = await read(window)
    if (result.kind === 'on') at = result.next ?? (isNewestFirst ? window.from - 1 : window.to + 1)
    else if (result.kind !== 'refused' || ++width >= windows.length) return result
  }
  return { kind: 'end' }
}

/** A block by its number or tag; `time` in seconds. */
export type Block = { readonly number: number; readonly time: number }

export async function blockAt(
  rpc: Pick<Rpc, 'request'>,
  number: number | string,
  signal?: AbortSignal,
): Promise<({ readonly kind: 'block' } & Block) | RpcFailure> {
  const name = typeof number === 'number' ? hexOf(BigInt(number)) : number
  const answer = await rpc.request('eth_getBlockByNumber', [name, false], signal)
  if (answer.kind !== 'result') return asFailure('eth_getBlockByNumber', answer)
  const block = answer.value as { number?: unknown; timestamp?: unknown } | null
  const [found, time] = [numberIn(block?.number), numberIn(block?.timestamp)]
  if (found === undefined || time === undefined) return failure('eth_getBlockByNumber: the answer is not a block')
  return { kind: 'block', number: found, time }
}

/** Where a search goes on; `time` is absent after a leap. */
export type SearchPosition = { readonly number: number; readonly time?: number }

type PastSearch = {
  readonly filter: LogFilter
  /** Names the search in `positions`. */
  readonly key: string
  /** Seconds before which the log cannot be. */
  readonly first: number
  /** Seconds after which the log cannot be: newer blocks are leapt over where that is safe. */
  readonly last: number
  /** The newest block, where a new search begins. */
  readonly head: Block
  /** Searches whose windows were used up: they go on where they stopped. */
  readonly positions: BoundedMap<SearchPosition>
  /** Blocks of one question. */
  readonly window?: number | undefined
  readonly signal?: AbortSignal | undefined
}

/** Searches logs between two times, newest blocks first, until `match` finds one. */
export async function searchPast<Found>(
  rpc: Pick<Rpc, 'request'>,
  { filter, key, first, last, head, positions, window, signal }: PastSearch,
  match: (logs: readonly ChainLog[]) => Promise<Found | undefined> | Found | undefined,
): Promise<SearchEnd<Found>> {
  let high: SearchPosition = positions.get(key) ?? head
  positions.delete(key)
  let secondsPerBlock = 0
  const bounds = { from: 0, to: high.number, first: 'newest', maxWindows: MAX_LOG_WINDOWS } as const
  const end = await searchWindows<Found>({ ...bounds, windows: halvedWindows(window) }, async (range) => {
    const [read, floor] = await Promise.all([logsIn(rpc, filter, range, signal), blockAt(rpc, range.from, signal)])
    if (read.kind !== 'logs') return read
    if (floor.kind === 'failure') return floor
    const found = await match(read.logs)
    if (found !== undefined) return { kind: 'found', found }
    if (floor.time < first) return { kind: 'end' }
    if (high.time !== undefined && high.number > range.from)
      secondsPerBlock = (high.time - floor.time) / (high.number - range.from)
    high = nextPosition({ number: range.from, time: floor.time }, last, secondsPerBlock)
    return { kind: 'on', next: high.number }
  })
  if (end.kind === 'more') positions.set(key, high)
  return end
}

/** Where a search goes on: right below, or nearer to `last` by the average block time, a tenth short of it. */
function nextPosition(low: Block, last: number, secondsPerBlock: number): SearchPosition {
  const next = low.number - 1
  const skip = secondsPerBlock > 0 && low.time > last ? Math.floor(((low.time - last) / secondsPerBlock) * 0.9) : 0
  return skip === 0 || skip > next ? { number: next, time: low.time } : { number: next - skip }
}
