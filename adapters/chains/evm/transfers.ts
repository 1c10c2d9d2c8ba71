/** Payments to an address as the chain has them, for a range of blocks: what the ledger is compared with. */
import { encodeEventTopics } from 'viem'
import { checksummed } from '../../../core/lib/mod.ts'
import { type Hex, isHex, isQuantity, lower, word } from '../lib/hex.ts'
import { jsonRpc, type Rpc } from '../lib/json_rpc.ts'
import { BATCH_SETTLEMENT, batchSettlementAbi } from './node/x402_contracts.ts'
import { AUTHORIZATION_USED } from './node/token.ts'

/** A transfer of the asset to the payee. `nonce` is that of its EIP-3009 authorization; null for any other transfer. */
export type ChainTransfer = {
  readonly transaction: string
  readonly block: number
  readonly payer: string
  /** In base units. */
  readonly amount: string
  readonly nonce: string | null
  /** The settlement contract pays out what was claimed of many channels. */
  readonly isClaim: boolean
}

/** Total claimed of a channel, by the last claim of a range. */
export type ChannelClaim = {
  readonly channel: string
  /** In base units. */
  readonly claimed: bigint
  readonly transaction: string
  readonly block: number
}

export type TransferRange = { readonly fromBlock?: number; readonly toBlock?: number }
export type Transfers = {
  readonly fromBlock: number
  readonly toBlock: number
  /** When the first block was made, in milliseconds. */
  readonly since: number
  readonly transfers: readonly ChainTransfer[]
  /** Of channels whose claims were paid out to the payee. */
  readonly claims: readonly ChannelClaim[]
}

type Log = {
  readonly topics: readonly Hex[]
  readonly data: Hex
  readonly transaction: Hex
  readonly block: number
  readonly index: number
}

const TRANSFER: Hex = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'
/** `Claimed(bytes32,address,uint128,uint128)` of the settlement contract. */
const CLAIMED = encodeEventTopics({ abi: batchSettlementAbi, eventName: 'Claimed' })[0]
const CONTRACT = `0x${word(lower(BATCH_SETTLEMENT))}`
/** Without a first block: about a day on Base. */
const USUAL_BLOCKS = 43_200
const FIRST_WINDOW = 2_000
/** Authorizers in one filter. */
const MAX_AUTHORIZERS = 100

/** State of `readTransfers`. */
export type TransferReader = {
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
    const first = await block(reader, `0x${fromBlock.toString(16)}`)
    const transfers: ChainTransfer[] = []
    const claims = new Map<string, ChannelClaim>()
    let window = FIRST_WINDOW
    for (let low = fromBlock; low <= toBlock;) {
      const high = Math.min(toBlock, low + window - 1)
      const found = await inWindow(reader, low, high)
      const claimed = found?.some(({ isClaim }) => isClaim) ? await claimsIn(reader, low, high, found) : []
      if (!found || !claimed) {
        if (window < 8) throw new Error(`the node refuses eth_getLogs for ${window} blocks`)
        window = Math.floor(window / 2)
        continue
      }
      transfers.push(...found)
      for (const claim of claimed) claims.set(claim.channel, claim)
      low = high + 1
    }
    return { fromBlock, toBlock, since: first.time * 1_000, transfers, claims: [...claims.values()] }
  } finally {
    rpc.close()
  }
}

export async function block(
  reader: TransferReader,
  tag: string,
): Promise<{ readonly number: number; readonly time: number }> {
  const answer = await reader.rpc.request('eth_getBlockByNumber', [tag, false])
  if (answer.kind === 'failure') throw new Error(answer.reason)
  const { number, timestamp } = ((answer.kind === 'result' && answer.value) || {}) as Record<string, unknown>
  if (!isQuantity(number) || !isQuantity(timestamp)) throw new Error(`the node has no block ${tag}`)
  return { number: Number(number), time: Number(timestamp) }
}

/** Undefined where the node refuses so many blocks. */
export async function inWindow(
  reader: TransferReader,
  low: number,
  high: number,
): Promise<readonly ChainTransfer[] | undefined> {
  const paid = await logs(reader, low, high, [TRANSFER, null, `0x${word(lower(reader.payTo as Hex))}`])
  if (!paid) return undefined
  const payers = [...new Set(paid.flatMap(({ topics }) => topics[1] ?? []))]
  const used = new Map<string, Hex>()
  for (let at = 0; at < payers.length; at += MAX_AUTHORIZERS) {
    const some = await logs(reader, low, high, [AUTHORIZATION_USED, payers.slice(at, at + MAX_AUTHORIZERS)])
    if (!some) return undefined
    for (const { transaction, index, topics } of some)
      used.set(`${transaction} ${index} ${topics[1]}`, topics[2] ?? '0x')
  }
  return paid.map(({ transaction, index, block: number, topics, data }) => ({
    transaction,
    block: number,
    payer: checksummed(`0x${(topics[1] ?? '').slice(-40)}`),
    isClaim: topics[1] === CONTRACT,
    amount: BigInt(data).toString(),
    // The transfer of an authorization is the next event after its use.
    nonce: used.get(`${transaction} ${index - 1} ${topics[1]}`) ?? null,
  }))
}

/** Claims that were paid out in the same transaction. */
export async function claimsIn(
  reader: TransferReader,
  low: number,
  high: number,
  transfers: readonly ChainTransfer[],
): Promise<readonly ChannelClaim[] | undefined> {
  const paidOut = new Set(transfers.flatMap(({ isClaim, transaction }) => (isClaim ? [transaction] : [])))
  const found = await logs(reader, low, high, [CLAIMED], BATCH_SETTLEMENT)
  return found
    ?.filter(({ transaction }) => paidOut.has(transaction))
    .map(({ topics, data, transaction, block: number }) => ({
      channel: topics[1] ?? '0x',
      claimed: BigInt(`0x${data.slice(-64)}`),
      transaction,
      block: number,
    }))
}

export async function logs(
  reader: TransferReader,
  low: number,
  high: number,
  topics: readonly unknown[],
  address = reader.asset,
): Promise<readonly Log[] | undefined> {
  const [fromBlock, toBlock] = [low, high].map((number) => `0x${number.toString(16)}`)
  const answer = await reader.rpc.request('eth_getLogs', [{ address, fromBlock, toBlock, topics }])
  if (answer.kind === 'failure') throw new Error(answer.reason)
  if (answer.kind === 'error') return undefined
  if (!Array.isArray(answer.value)) throw new Error('eth_getLogs: the answer is no list')
  return answer.value.map((value) => {
    const log = value as Record<string, unknown>
    const { topics: words, data, transactionHash, blockNumber, logIndex } = log
    const isRead = Array.isArray(words) && words.every(isHex) && isHex(data) && isHex(transactionHash)
    if (!isRead || !isQuantity(blockNumber) || !isQuantity(logIndex))
      throw new Error('eth_getLogs: an entry of the answer is no log')
    return {
      topics: (words as Hex[]).map(lower),
      data: data as Hex,
      transaction: lower(transactionHash as Hex),
      block: Number(blockNumber),
      index: Number(logIndex),
    }
  })
}
