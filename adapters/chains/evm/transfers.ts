/** Payments to an address as the chain has them, for a range of blocks: what the ledger is compared with. */
import { encodeEventTopics } from 'viem'
import { checksummed } from '../../../core/lib/mod.ts'
import { type Hex, lower, word } from '../lib/hex.ts'
import type { ChainTransfer, ChannelClaim, TransferRange } from '../lib/manifest.ts'
import { failure, jsonRpc, type Rpc, type RpcFailure } from '../lib/json_rpc.ts'
import {
  type Block,
  blockAt,
  type BlockRange,
  halvedWindows,
  type LogFilter,
  logsIn,
  type RangeRefused,
  searchWindows,
} from './node/log_search.ts'
import { BATCH_SETTLEMENT, batchSettlementAbi } from './node/x402_contracts.ts'
import { AUTHORIZATION_USED, type ChainLog } from './node/token.ts'

type Transfers = {
  readonly fromBlock: number
  readonly toBlock: number
  /** When the first block was made, in milliseconds. */
  readonly since: number
  readonly transfers: readonly ChainTransfer[]
  /** Of channels whose claims were paid out to the payee. */
  readonly claims: readonly ChannelClaim[]
}

type Log = ChainLog & { readonly block: number; readonly index: number }

const TRANSFER: Hex = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'
/** `Claimed(bytes32,address,uint128,uint128)` of the settlement contract. */
const [CLAIMED = '0x'] = encodeEventTopics({ abi: batchSettlementAbi, eventName: 'Claimed' })
const CONTRACT = `0x${word(lower(BATCH_SETTLEMENT))}`
/** Without a first block: about a day on Base. */
const USUAL_BLOCKS = 43_200
/** Authorizers in one filter. */
const MAX_AUTHORIZERS = 100

/** State of `readTransfers`. */
type TransferReader = {
  readonly asset: string
  readonly payTo: string
  readonly rpc: Rpc
}

/** Reads them from a node. Throws, without its URL, where the node does not answer; ranges are halved as it demands. */
export async function readTransfers(
  { rpcUrl, asset, payTo }: { readonly rpcUrl: string; readonly asset: string; readonly payTo: string },
  range: TransferRange,
): Promise<Transfers> {
  const rpc = jsonRpc({ url: rpcUrl })
  const reader: TransferReader = { asset, payTo, rpc }
  try {
    const latest = await block(reader, 'latest')
    const toBlock = Math.min(range.toBlock ?? latest.number, latest.number)
    const fromBlock = range.fromBlock ?? Math.max(0, toBlock - USUAL_BLOCKS)
    if (fromBlock > toBlock) throw new Error(`the range begins at block ${fromBlock}, after its end at ${toBlock}`)
    const first = await block(reader, fromBlock)
    const transfers: ChainTransfer[] = []
    const claims = new Map<string, ChannelClaim>()
    const search = { from: fromBlock, to: toBlock, first: 'oldest', windows: halvedWindows() } as const
    const end = await searchWindows(search, async (window) => {
      const found = await inWindow(reader, window)
      if ('kind' in found) return found
      const claimed = found.some(({ isClaim }) => isClaim) ? await claimsIn(reader, window, found) : []
      if ('kind' in claimed) return claimed
      transfers.push(...found)
      for (const claim of claimed) claims.set(claim.channel, claim)
      return { kind: 'on' }
    })
    if (end.kind === 'refused' || end.kind === 'failure') throw new Error(end.reason)
    return { fromBlock, toBlock, since: first.time * 1_000, transfers, claims: [...claims.values()] }
  } finally {
    rpc.close()
  }
}

async function block(reader: TransferReader, number: number | 'latest'): Promise<Block> {
  const found = await blockAt(reader.rpc, number)
  if (found.kind === 'failure') throw new Error(found.reason)
  return found
}

type Unread = RangeRefused | RpcFailure

async function inWindow(reader: TransferReader, window: BlockRange): Promise<readonly ChainTransfer[] | Unread> {
  const paid = await logs(reader, window, [TRANSFER, null, `0x${word(lower(reader.payTo))}`])
  if ('kind' in paid) return paid
  const payers = [...new Set(paid.flatMap(({ topics }) => topics[1] ?? []))]
  const used = new Map<string, Hex>()
  for (let at = 0; at < payers.length; at += MAX_AUTHORIZERS) {
    const some = await logs(reader, window, [AUTHORIZATION_USED, payers.slice(at, at + MAX_AUTHORIZERS)])
    if ('kind' in some) return some
    for (const { transactionHash, index, topics } of some)
      used.set(`${transactionHash} ${index} ${topics[1]}`, topics[2] ?? '0x')
  }
  return paid.map(({ transactionHash, index, block: number, topics, data }) => ({
    transaction: transactionHash,
    block: number,
    payer: checksummed(`0x${(topics[1] ?? '').slice(-40)}`),
    isClaim: topics[1] === CONTRACT,
    amount: BigInt(data).toString(),
    // The transfer of an authorization is the next event after its use.
    nonce: used.get(`${transactionHash} ${index - 1} ${topics[1]}`) ?? null,
  }))
}

/** Claims that were paid out in the same transaction. */
async function claimsIn(
  reader: TransferReader,
  window: BlockRange,
  transfers: readonly ChainTransfer[],
): Promise<readonly ChannelClaim[] | Unread> {
  const paidOut = new Set(transfers.flatMap(({ isClaim, transaction }) => (isClaim ? [transaction] : [])))
  const found = await logs(reader, window, [CLAIMED], BATCH_SETTLEMENT)
  if ('kind' in found) return found
  return found
    .filter(({ transactionHash }) => paidOut.has(transactionHash))
    .map(({ topics, data, transactionHash, block: number }) => ({
      channel: topics[1] ?? '0x',
      claimed: BigInt(`0x${data.slice(-64)}`),
      transaction: transactionHash,
      block: number,
    }))
}

async function logs(
  reader: TransferReader,
  window: BlockRange,
  topics: LogFilter['topics'],
  address = reader.asset,
): Promise<readonly Log[] | Unread> {
  const read = await logsIn(reader.rpc, { address, topics }, window)
  if (read.kind !== 'logs') return read
  const placed = read.logs.flatMap(({ block: number, index, ...log }) =>
    number === undefined || index === undefined ? [] : { ...log, block: number, index },
  )
  return placed.length === read.logs.length ? placed : failure('eth_getLogs: a log has no block or no index')
}
