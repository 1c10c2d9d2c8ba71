/** Calls to a token with EIP-3009, and the payments in its events. */
import { encodeFunctionData, parseAbi } from 'viem'
import { checksummed } from '../../../../core/lib/mod.ts'
import type { Receipt } from '../../../../core/x402/mod.ts'
import { type Hex, isHex, isQuantity, lower, numberIn, word } from '../../lib/hex.ts'

/** Answer of an ERC-1271 wallet to a valid signature, padded to a word. */
export const ERC1271_MAGIC = word('1626ba7e', 'left')

/** Events of FiatToken v2 (circlefin/stablecoin-evm, FiatTokenV2_2). */
export const AUTHORIZATION_USED: Hex = '0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5'
export const AUTHORIZATION_CANCELED: Hex = '0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81'
const TRANSFER: Hex = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'

const abi = parseAbi([
  'function transferWithAuthorization(address, address, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature)',
  'function isValidSignature(bytes32 digest, bytes signature) view returns (bytes4)',
])

// ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A transfer that its payer has authorized by a signature (EIP-3009). */
type AuthorizedTransfer = {
  readonly from: Hex
  readonly to: Hex
  readonly value: bigint
  readonly validAfter: bigint
  readonly validBefore: bigint
  readonly nonce: Hex
  readonly signature: Hex
}

/** Encodes the transfer: the overload with v, r, s for a key's 65 bytes, the one with bytes otherwise (decision 67). */
export function transferCall(transfer: AuthorizedTransfer): Hex {
  const { from, to, value, validAfter, validBefore, nonce, signature } = transfer
  if (signature.length !== 132) {
    return encodeFunctionData({
      abi,
      functionName: 'transferWithAuthorization',
      args: [from, to, value, validAfter, validBefore, nonce, signature],
    })
  }
  const [r, s, v] = [signature.slice(2, 66), signature.slice(66, 130), signature.slice(130)]
  return `0xe3ee160e${[from, to, value, validAfter, validBefore, nonce, v, r, s].map((part) => word(part)).join('')}`
}

export const SEPARATOR_CALL: Hex = '0x3644e515'
export const balanceCall = (owner: Hex): Hex => `0x70a08231${word(owner)}`
export const stateCall = (from: Hex, nonce: Hex): Hex => `0xe94a0102${word(from)}${word(nonce)}`
export const signatureCall = (digest: Hex, signature: Hex): Hex =>
  encodeFunctionData({ abi, functionName: 'isValidSignature', args: [digest, signature] })

// ── logs and receipts ───────────────────────────────────────────────────────────────────────────────────────────────

export type ChainLog = {
  readonly address: Hex
  readonly topics: readonly Hex[]
  readonly data: Hex
  readonly transactionHash: Hex
  /** Its place in the chain, where the node tells it. */
  readonly block?: number
  readonly index?: number
}
/** `cost` is in wei and includes the L1 fee where the node reports one. */
export type ChainReceipt = {
  readonly transactionHash: Hex
  readonly block: number
  readonly success: boolean
  readonly logs: readonly ChainLog[]
  readonly cost?: bigint
}

/**
 * Finds the payment in a transaction: Transfer(from, to, value) of the asset as the asset's very next event after
 * AuthorizationUsed of the same authorization. The status alone proves nothing (decision 67), nor does a used nonce: a
 * cancellation marks it too.
 */
export function findPayment(
  receipt: ChainReceipt,
  { from, nonce, value }: Pick<AuthorizedTransfer, 'from' | 'nonce' | 'value'>,
  offer: { asset: string; payTo: string; network: string },
): Receipt | undefined {
  if (!receipt.success) return undefined
  const asset = lower(offer.asset)
  const logs = receipt.logs.filter((log) => log.address === asset)
  const usedIndex = logs.findIndex((log) => isEvent(log, AUTHORIZATION_USED, [from, nonce]))
  const next = usedIndex < 0 ? undefined : logs[usedIndex + 1]
  if (!next || !isEvent(next, TRANSFER, [from, lower(offer.payTo)]) || next.data !== `0x${word(value)}`)
    return undefined
  return {
    transaction: receipt.transactionHash,
    network: offer.network,
    payer: checksummed(from),
    amount: String(value),
    block: receipt.block,
  }
}

function isEvent(log: ChainLog, event: Hex, indexed: readonly Hex[]): boolean {
  return log.topics[0] === event && indexed.every((value, i) => log.topics[i + 1]?.slice(2) === word(value))
}

/** Parses a transaction receipt from a node; undefined while there is none, and for anything else. */
export function parseReceipt(value: unknown): ChainReceipt | undefined {
  const raw = value as {
    transactionHash?: unknown
    status?: unknown
    blockNumber?: unknown
    logs?: unknown
    gasUsed?: unknown
    effectiveGasPrice?: unknown
    l1Fee?: unknown
  } | null
  if (!raw || !isHex(raw.transactionHash) || !isQuantity(raw.status) || !isQuantity(raw.blockNumber)) return undefined
  const logs = parseLogs(raw.logs)
  const { gasUsed, effectiveGasPrice: price, l1Fee } = raw
  const l1Cost = isQuantity(l1Fee) ? BigInt(l1Fee) : 0n
  const cost = isQuantity(gasUsed) && isQuantity(price) ? BigInt(gasUsed) * BigInt(price) + l1Cost : undefined
  const block = Number(BigInt(raw.blockNumber))
  return (
    logs && {
      transactionHash: lower(raw.transactionHash),
      block,
      success: BigInt(raw.status) === 1n,
      logs,
      ...(cost !== undefined && { cost }),
    }
  )
}

/** Parses logs from a node, without those that a reorganization removed; undefined for anything else. */
export function parseLogs(value: unknown): readonly ChainLog[] | undefined {
  if (!Array.isArray(value)) return undefined
  const logs: ChainLog[] = []
  for (const log of value as ({
    address?: unknown
    topics?: unknown
    data?: unknown
    transactionHash?: unknown
    blockNumber?: unknown
    logIndex?: unknown
    removed?: unknown
  } | null)[]) {
    if (!log || !isHex(log.address) || !Array.isArray(log.topics) || !log.topics.every(isHex)) return undefined
    if (!isHex(log.data) || !isHex(log.transactionHash)) return undefined
    if (log.removed === true) continue
    const [block, index] = [numberIn(log.blockNumber), numberIn(log.logIndex)]
    logs.push({
      address: lower(log.address),
      topics: log.topics.map(lower),
      data: lower(log.data),
      transactionHash: lower(log.transactionHash),
      ...(block !== undefined && { block }),
      ...(index !== undefined && { index }),
    })
  }
  return logs
}
