import { decodeFunctionResult } from 'viem'
import { type Usdc, usdc } from '../../../core/x402/money.ts'
import type { Fate } from '../../../core/ports/mod.ts'
import type { Offer } from '../../../core/x402/protocol.ts'
import {
  AGGREGATE_ABI,
  aggregateCall,
  AUTHORIZATION_CANCELED,
  AUTHORIZATION_USED,
  balanceCall,
  type ChainLog,
  MULTICALL,
  paidIn,
  readLogs,
  readReceipt,
  stateCall,
  type Target,
} from './payload.ts'
import { askContract, type ContractLimits, contracts, type Returned } from './contracts.ts'
import { type Rpc, type Trouble, trouble, troubleIn } from './rpc.ts'
import { addressOf, type Exact, LOOKBACK_SECONDS } from '../exact.ts'
import { flagIn, type Hex, hexOf, isHex, isQuantity, lower, numberIn, uintIn, word } from './hex.ts'
import { lruCache } from '../lru_cache.ts'

/** Some calls, answered by one block: its time in seconds, and per call what it returned, or that it reverted. */
export type Seen = {
  readonly kind: 'seen'
  readonly time: number
  /** Number of that block, as receipts count blocks; absent where the chain's contracts see another count. */
  readonly block?: number
  readonly results: readonly { readonly ok: boolean; readonly data: Hex }[]
}

/** What pays for a unit of gas, in wei. */
export type Fee = { readonly max: bigint; readonly tip: bigint }

export type ViewAt = {
  /** How far the node may be behind the newest block seen so far. */
  readonly lagSeconds: number
  readonly signal?: AbortSignal
  readonly from?: Hex
  readonly gas?: bigint
  /** As a transaction would pay; without it gas is free, which a contract can see. */
  readonly fee?: Fee
  /** Not through Multicall3, and in HTTP requests of their own: what is called sees `from` itself, and all of `gas`. */
  readonly direct?: boolean
}

/** A fate; `isUsed` where the token says that the authorization is used, and no event tells on what. */
export type Found = Fate | { readonly kind: 'unknown'; readonly reason: string; readonly isUsed: true }

export type Reads = {
  view(calls: readonly Target[], at: ViewAt): Promise<Seen | Trouble>
  /** Asks what runs the code of `chosen`, an address that a caller named: by itself and in small measure, so that no other caller pays for it. */
  askContract(chosen: Hex, call: Target, at: { signal: AbortSignal; from?: Hex }): Promise<Returned | Trouble>
  fate(exact: Exact, offer: Offer, signal?: AbortSignal): Promise<Found>
  /** What an address holds of a token. Rejects for what is no address, and where the node does not tell. */
  balance(token: string, address: string, at: Pick<ViewAt, 'lagSeconds' | 'signal'>): Promise<Usdc>
  /** Remembers in which transaction an authorization was seen to be paid, so that `fate` need not search. */
  hint(key: string, transaction: Hex): void
  /** Whether Multicall3 is there, as `check` has found it. Until then, reads take one round trip more. */
  multicall(): boolean
  /** Also asks how its contracts count blocks: some rollups show those of the chain below. */
  foundMulticall(found: boolean): Promise<void>
}

export type ReadsConfig = {
  /** `latest` unless told. `pending` is for a local node that mines only on demand: its latest block may be hours old. */
  readonly readAt?: 'latest' | 'pending'
  /** Blocks per eth_getLogs, 2,000 unless told; halved where the node refuses that many. */
  readonly logWindow?: number
  /** How long before an authorization's likely signing its event is still searched for; a day unless told. `judgeExact` must know. */
  readonly lookbackSeconds?: number
  /** Limits of questions to contracts that callers choose. */
  readonly contracts?: Partial<ContractLimits>
}

/** At most this many windows are searched at a time; what was not found by then is unknown, not dead, and searched on when asked again. */
const WINDOWS = 64
const REMEMBERED = 10_000

/** getBlockNumber() of Multicall3. */
const NUMBER: Target = { to: MULTICALL, data: '0x42cbb15c' }

export function evmReads(rpc: Rpc, config: ReadsConfig): Reads {
  const tag = config.readAt ?? 'latest'
  const chosen = contracts(rpc, config.contracts)
  const hints = lruCache<Hex>(REMEMBERED)
  /** Searches that came to no end, by how far down they have come. */
  const searches = lruCache<{ readonly number: bigint; readonly time?: number }>(REMEMBERED)
  let multicall = false
  let countsBlocks = false
  /** Time of the newest block that this process has seen: a node that shows less is behind. */
  let newest = 0

  /** One call through Multicall3 is one block by construction; without it, the block is read first and then named. */
  async function view(calls: readonly Target[], at: ViewAt): Promise<Seen | Trouble> {
    const options = {
      ...(at.from ? { from: at.from } : {}),
      ...(at.gas ? { gas: hexOf(at.gas) } : {}),
      ...(at.fee ? { maxFeePerGas: hexOf(at.fee.max), maxPriorityFeePerGas: hexOf(at.fee.tip) } : {}),
    }
    const look = async () => {
      const shared = multicall ? viewAtOnce : viewByBlock
      const seen = await (at.direct ? viewAlone(calls, at) : shared(calls, options, at.signal))
      if (seen.kind === 'trouble' || seen.time + at.lagSeconds >= newest) return seen
      return { ...trouble('the node is behind what it has shown before'), stumbled: true as const }
    }
    let seen = await look()
    // a block came in between, or another node stands behind the same address
    for (let again = 0; again < 2 && seen.kind === 'trouble' && seen.stumbled; again++) seen = await look()
    if (seen.kind === 'seen') newest = Math.max(newest, seen.time)
    return seen
  }

  async function viewAtOnce(calls: readonly Target[], options: object, signal?: AbortSignal): Promise<Seen | Trouble> {
    const time: Target = { to: MULTICALL, data: '0x0f28c97d' } // getCurrentBlockTimestamp()
    const answer = await rpc.ask(
      'eth_call',
      [{ ...options, to: MULTICALL, data: aggregateCall([time, NUMBER, ...calls]) }, tag],
      signal,
    )
    if (answer.kind !== 'result') return troubleIn('eth_call', answer)
    try {
      const results = decodeFunctionResult({
        abi: AGGREGATE_ABI,
        functionName: 'aggregate3',
        data: answer.value as Hex,
      })
      const [first, second, ...rest] = results.map(({ success, returnData }) => ({ ok: success, data: returnData }))
      const [seconds, number] = [first && numberIn(first.data), second && numberIn(second.data)]
      if (seconds === undefined || number === undefined || rest.length !== calls.length)
        return trouble('eth_call: the answer is not a block time, its number and its results')
      return { kind: 'seen', time: seconds, results: rest, ...(countsBlocks && { block: wholeBlock(number) }) }
    } catch {
      return trouble('eth_call: the answer cannot be decoded')
    }
  }

  async function viewByBlock(calls: readonly Target[], options: object, signal?: AbortSignal): Promise<Seen | Trouble> {
    const block = await blockAt(tag, signal)
    if (block.kind === 'trouble') return block
    const at = tag === 'latest' ? hexOf(block.number) : tag
    const answers = await Promise.all(
      calls.map(({ to, data }) => rpc.ask('eth_call', [{ ...options, to, data }, at], signal)),
    )
    const results: { ok: boolean; data: Hex }[] = []
    for (const answer of answers) {
      if (answer.kind === 'trouble') return answer
      if (answer.kind === 'result' && !isHex(answer.value)) return trouble('eth_call: the answer is not hex')
      if (answer.kind === 'error' && !/revert|out of gas|invalid opcode|stack/i.test(answer.message))
        return troubleIn('eth_call', answer)
      results.push(answer.kind === 'result' ? { ok: true, data: answer.value as Hex } : { ok: false, data: '0x' })
    }
    return { kind: 'seen', time: block.time, block: wholeBlock(Number(block.number)), results }
  }

  /** The pending block is not whole: what is yet to come into it is not in its balances. */
  function wholeBlock(number: number): number {
    return tag === 'latest' ? number : number - 1
  }

  /** A block that is named must have its own number for contracts, too: else theirs are not to be compared with those of receipts. */
  async function foundMulticall(found: boolean): Promise<void> {
    multicall = found
    const head = found ? await blockAt('latest') : undefined
    if (head?.kind !== 'block') return
    const answer = await rpc.ask('eth_call', [NUMBER, hexOf(head.number)])
    countsBlocks = answer.kind === 'result' && isHex(answer.value) && numberIn(answer.value) === Number(head.number)
  }

  async function viewAlone(calls: readonly Target[], { from, gas, fee, signal }: ViewAt): Promise<Seen | Trouble> {
    const block = await blockAt(tag, signal)
    if (block.kind === 'trouble') return block
    const at = { from, gas, fee, signal, block: tag === 'latest' ? hexOf(block.number) : tag }
    const answers = await Promise.all(calls.map((call) => askContract(rpc, call, at)))
    const results: Returned[] = []
    for (const answer of answers) {
      if (answer.kind === 'trouble') return answer
      results.push(answer)
    }
    return { kind: 'seen', time: block.time, results }
  }

  async function blockAt(
    number: bigint | string,
    signal?: AbortSignal,
  ): Promise<{ kind: 'block'; number: bigint; time: number } | Trouble> {
    const name = typeof number === 'bigint' ? hexOf(number) : number
    const answer = await rpc.ask('eth_getBlockByNumber', [name, false], signal)
    if (answer.kind !== 'result') return troubleIn('eth_getBlockByNumber', answer)
    const block = answer.value as { number?: unknown; timestamp?: unknown } | null
    const time = numberIn(block?.timestamp)
    if (!block || !isQuantity(block.number) || time === undefined)
      return trouble('eth_getBlockByNumber: the answer is not a block')
    return { kind: 'block', number: BigInt(block.number), time }
  }

  async function balance(token: string, address: string, at: Pick<ViewAt, 'lagSeconds' | 'signal'>): Promise<Usdc> {
    const seen = await view([{ to: lower(token), data: balanceCall(addressOf(address)) }], at)
    if (seen.kind === 'trouble') throw new Error(seen.reason)
    const held = uintIn(seen.results[0])
    if (held === undefined) throw new Error('balanceOf() did not answer a number')
    return usdc(held)
  }

  async function fate(exact: Exact, offer: Offer, signal?: AbortSignal): Promise<Found> {
    const call = { to: lower(offer.asset), data: stateCall(exact.from, exact.nonce) }
    const seen = await view([call], { lagSeconds: 0, ...(signal ? { signal } : {}) })
    if (seen.kind === 'trouble') return { kind: 'unknown', reason: seen.reason }
    const used = flagIn(seen.results[0])
    if (used === undefined) return { kind: 'unknown', reason: 'authorizationState() did not answer yes or no' }
    // A transfer needs block.timestamp < validBefore, and time only grows: unused in this block, it is unused for good.
    if (!used) return BigInt(seen.time) >= exact.validBefore ? { kind: 'dead' } : { kind: 'open' }
    const known = hints.get(exact.key)
    const hinted = known && (await fateIn(known, { exact, offer }, signal))
    if (hinted && hinted.kind === 'paid') return hinted
    return search(exact, offer, signal)
  }

  /** Paid or dead by what the transaction that used the authorization did. */
  async function fateIn(
    transaction: Hex,
    { exact, offer }: { exact: Exact; offer: Offer },
    signal?: AbortSignal,
  ): Promise<Fate> {
    const answer = await rpc.ask('eth_getTransactionReceipt', [transaction], signal)
    if (answer.kind === 'trouble') return { kind: 'unknown', reason: answer.reason }
    const receipt = answer.kind === 'result' ? readReceipt(answer.value) : undefined
    if (!receipt) return { kind: 'unknown', reason: 'the transaction that used the authorization has no receipt' }
    const paid = paidIn(receipt, exact, offer)
    if (!paid) return { kind: 'dead' }
    hints.set(exact.key, receipt.transactionHash)
    return { kind: 'paid', receipt: paid }
  }

  /** Looks for the event that used the authorization, newest blocks first, no further back than it can lie (`longestLife`). */
  async function search(exact: Exact, offer: Offer, signal?: AbortSignal): Promise<Found> {
    const head = await blockAt('latest', signal)
    if (head.kind === 'trouble') return { kind: 'unknown', reason: head.reason }
    const last = exact.validBefore < BigInt(head.time) ? Number(exact.validBefore) : head.time
    const first = last - offer.maxTimeoutSeconds - (config.lookbackSeconds ?? LOOKBACK_SECONDS)
    let window = BigInt(config.logWindow ?? 2_000)
    let high: { number: bigint; time?: number } = searches.get(exact.key) ?? head
    searches.delete(exact.key)
    let isOver = false
    let pace = 0
    for (let i = 0; i < WINDOWS && !isOver; i++) {
      const low = high.number >= window ? high.number - window + 1n : 0n
      const [answer, floor] = await Promise.all([
        rpc.ask('eth_getLogs', [filterFor(exact, offer, low, high.number)], signal),
        blockAt(low, signal),
      ])
      if (answer.kind === 'trouble') return { kind: 'unknown', reason: answer.reason }
      if (floor.kind === 'trouble') return { kind: 'unknown', reason: floor.reason }
      if (answer.kind === 'error') {
        if (window < 8n) return { kind: 'unknown', reason: `eth_getLogs: ${answer.message}` }
        window /= 2n
        continue
      }
      const logs = readLogs(answer.value)
      if (!logs) return { kind: 'unknown', reason: 'eth_getLogs: the answer is not a list of logs' }
      const found = logs.find((log) => isOf(log, exact, offer))
      if (found?.topics[0] === AUTHORIZATION_CANCELED) return { kind: 'dead' }
      if (found?.topics[0] === AUTHORIZATION_USED) return fateIn(found.transactionHash, { exact, offer }, signal)
      isOver = low === 0n || floor.time < first
      if (high.time !== undefined && high.number > low) pace = (high.time - floor.time) / Number(high.number - low)
      high = below({ number: low, time: floor.time }, last, pace)
    }
    if (!isOver) searches.set(exact.key, high)
    return {
      kind: 'unknown',
      reason: `the authorization is used, but its event was not found${isOver ? '' : ' yet'}`,
      isUsed: true,
    }
  }

  return {
    view,
    askContract: (address, call, at) => chosen.ask(address, call, { ...at, block: tag }),
    fate,
    balance,
    hint: hints.set,
    multicall: () => multicall,
    foundMulticall,
  }
}

/** Where to search on: right below, or nearer to `last` by the seconds per block, a tenth short of it. */
function below(low: { number: bigint; time: number }, last: number, pace: number): { number: bigint; time?: number } {
  const next = low.number - 1n
  const skip = pace > 0 && low.time > last ? BigInt(Math.floor(((low.time - last) / pace) * 0.9)) : 0n
  if (skip === 0n || skip > next) return { number: next, time: low.time }
  return { number: next - skip }
}

/** A node that answers with somebody else's event must not make ours dead. */
function isOf(log: ChainLog, exact: Exact, offer: Offer): boolean {
  return (
    log.address === lower(offer.asset) &&
    log.topics[1]?.slice(2) === word(exact.from) &&
    log.topics[2]?.slice(2) === word(exact.nonce)
  )
}

function filterFor(exact: Exact, offer: Offer, low: bigint, high: bigint): object {
  return {
    address: lower(offer.asset),
    topics: [[AUTHORIZATION_USED, AUTHORIZATION_CANCELED], `0x${word(exact.from)}`, exact.nonce],
    fromBlock: hexOf(low),
    toBlock: hexOf(high),
  }
}
