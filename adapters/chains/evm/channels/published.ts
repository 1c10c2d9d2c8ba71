/**
 * Vouchers that claims have published and the record of a channel does not know: after the restore of an older backup,
 * and where a record has ended (decision 150). Their ceilings stand in the transactions of the claims.
 */
import { decodeFunctionData } from 'viem'
import { boundedMap } from '../../../../core/lib/mod.ts'
import type { Unavailable } from '../../../../core/ports/mod.ts'
import { batchSettlementAbi as abi } from '../node/x402_contracts.ts'
import { type Hex, isHex, lower, numberIn } from '../../lib/hex.ts'
import type { Rpc } from '../../lib/json_rpc.ts'
import { unavailable } from '../../lib/results.ts'
import { logsIn, searchWindows } from '../node/log_search.ts'
import type { ChainLog } from '../node/token.ts'
import { claimLogs } from './contract.ts'
import type { ChannelConfig, ChannelDigests } from './digests.ts'
import { type ChannelState, spentBy, spentWith } from './state.ts'

/** Claims of one channel above a total. */
type Published = { readonly channelId: Hex; readonly above: bigint; readonly claimed: bigint }

type PublishedContext = {
  readonly rpc: Pick<Rpc, 'request'>
  readonly digests: Pick<ChannelDigests, 'channelId'>
}

/**
 * Claims whose vouchers the record does not know; undefined where there are none, or where they were read. Those of a
 * record that is older than the chain are above what it knew, those of a channel without a record are all.
 */
export function unreadClaims(state: ChannelState): { readonly above: bigint; readonly claimed: bigint } | undefined {
  const { ceiling, forgotten, publishedTo, unread } = state
  const claimed = unread === undefined ? state.claimed : BigInt(unread)
  // A record of before that was noted has no voucher at all.
  const isUnnoted = ceiling === 0n && claimed > 0n && publishedTo !== String(claimed)
  if (unread === undefined && !isUnnoted) return undefined
  return { above: forgotten === undefined ? 0n : claimed - BigInt(forgotten), claimed }
}

/** The channel with the ceilings that claims up to a total have published. */
export function withPublished(state: ChannelState, ceilings: readonly bigint[], claimed: bigint): ChannelState {
  if (unreadClaims(state)?.claimed !== claimed) return state
  const spent = ceilings.reduce((before, ceiling) => spentWith({ ...state, spent: before }, ceiling), spentBy(state))
  const { unread: _, ...read } = state
  return { ...read, spent, publishedTo: String(claimed) }
}

/** Blocks of one question, from what nodes of one's own allow to what public ones do. */
const WINDOWS = [1_000_000, 10_000, 2_000] as const
/** Questions for logs, and claims that are read, for one channel. */
const MAX_QUESTIONS = 60
const MAX_CLAIMS = 64
/** Channels of which the answer is remembered. */
const MAX_KNOWN = 1_000

/**
 * Returns the ceilings of the vouchers that claims of a channel have published, as far back as the bounds allow. A
 * claim that was sent through a contract of somebody else does not show them. Each answer is remembered.
 */
export function publishedCeilings({ rpc, digests }: PublishedContext) {
  const known = boundedMap<readonly bigint[]>(MAX_KNOWN)
  const asking = new Map<string, Promise<readonly bigint[] | Unavailable>>()

  function find(published: Published): Promise<readonly bigint[] | Unavailable> | readonly bigint[] {
    const { channelId, above, claimed } = published
    const name = `${channelId} ${above} ${claimed}`
    const found = known.get(name)
    if (found) return found
    const before = asking.get(name)
    if (before) return before
    const searching = search(published)
      .then((ceilings) => {
        if (!('kind' in ceilings)) known.set(name, ceilings)
        return ceilings
      })
      .finally(() => asking.delete(name))
    asking.set(name, searching)
    return searching
  }

  async function search(published: Published): Promise<readonly bigint[] | Unavailable> {
    const transactions = await claimsOf(published)
    if ('kind' in transactions) return transactions
    const inputs = await Promise.all(transactions.map(inputOf))
    const failed = inputs.find((input) => typeof input === 'object')
    if (failed) return failed
    const ceilings = inputs.flatMap((input) => vouchersIn(input as Hex).filter(({ id }) => id === published.channelId))
    return [...new Set(ceilings.map(({ ceiling }) => ceiling))]
  }

  /** Transactions of the claims above the total, newest first. */
  async function claimsOf({ channelId, above, claimed }: Published): Promise<readonly Hex[] | Unavailable> {
    const head = await rpc.request('eth_blockNumber', [])
    const last = head.kind === 'result' ? numberIn(head.value) : undefined
    if (last === undefined) return unavailable('the node does not tell its last block')
    const found: Hex[] = []
    const bounds = { from: 0, to: last, first: 'newest', windows: WINDOWS, maxWindows: MAX_QUESTIONS } as const
    const end = await searchWindows<Unavailable>(bounds, async (window) => {
      const read = await logsIn(rpc, claimLogs(channelId), window)
      if (read.kind !== 'logs') return read
      for (const log of read.logs.toReversed()) {
        const { total, amount } = claimIn(log)
        // The total was read from another node, which is ahead of this one.
        if (found.length === 0 && total < claimed)
          return { kind: 'found', found: unavailable('the node is behind the last claim of the channel') }
        if (total <= above) return { kind: 'end' }
        found.push(log.transactionHash)
        if (total - amount <= above) return { kind: 'end' }
      }
      return found.length < MAX_CLAIMS ? { kind: 'on' } : { kind: 'end' }
    })
    if (end.kind === 'failure') return unavailable(end.reason)
    if (end.kind === 'found') return end.found
    return found.slice(0, MAX_CLAIMS)
  }

  async function inputOf(hash: Hex): Promise<Hex | Unavailable> {
    const answer = await rpc.request('eth_getTransactionByHash', [hash])
    if (answer.kind === 'failure') return unavailable(answer.reason)
    const input = answer.kind === 'result' ? (answer.value as { input?: unknown } | null)?.input : undefined
    return isHex(input) ? lower(input) : unavailable(`the node does not have the transaction ${hash} of a claim`)
  }

  /** Vouchers in a call of the settlement contract, those of a multicall included. */
  function vouchersIn(data: Hex): readonly { readonly id: Hex; readonly ceiling: bigint }[] {
    const call = decoded(data)
    if (call?.functionName === 'multicall') return call.args[0].flatMap(vouchersIn)
    if (call?.functionName !== 'claim' && call?.functionName !== 'claimWithSignature') return []
    return call.args[0].map(({ voucher: { channel, maxClaimableAmount } }) => ({
      id: digests.channelId(lowered(channel)),
      ceiling: maxClaimableAmount,
    }))
  }

  return find
}

export type PublishedCeilings = ReturnType<typeof publishedCeilings>

function lowered({ withdrawDelay, ...words }: ChannelConfig): ChannelConfig {
  const entries = Object.entries(words).map(([name, text]) => [name, lower(text)])
  return { ...(Object.fromEntries(entries) as typeof words), withdrawDelay }
}

function decoded(data: Hex) {
  try {
    return decodeFunctionData({ abi, data })
  } catch {
    return undefined // of another contract
  }
}

function claimIn({ data }: ChainLog): { readonly amount: bigint; readonly total: bigint } {
  return { amount: BigInt(data.slice(0, 66)), total: BigInt(`0x${data.slice(66, 130)}`) }
}
