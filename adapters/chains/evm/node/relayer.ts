import type { Fee } from './contracts.ts'
import { keccak256 } from 'viem'
import type { PrivateKeyAccount } from 'viem/accounts'
import { type ContractCall } from './multicall.ts'
import { type ChainReceipt, parseReceipt } from './token.ts'
import type { GasMonitor } from './gas.ts'

import type { Clock } from '../../../../core/mod.ts'
import { pause } from '../../../machine.ts'
import type { Answer, Rpc, RpcFailure } from '../../lib/json_rpc.ts'
import { type Hex, isQuantity, numberIn } from '../../lib/hex.ts'

export type OutgoingTransaction = ContractCall & { readonly gas: bigint }

export type SendResult =
  /** `hasOtherNonces`: versions with another nonce were sent as well, and may still be mined. */
  | { readonly kind: 'mined'; readonly receipt: ChainReceipt; readonly hasOtherNonces: boolean }
  /** No node has it, and its nonce is free again. `isUnderfunded`: the account cannot pay for it. */
  | { readonly kind: 'rejected'; readonly reason: string; readonly isUnderfunded?: true }
  /** Another transaction took its nonce, or the relayer is closed. Read the outcome from the chain. */
  | { readonly kind: 'lost'; readonly reason: string }

export type Relayer = {
  /**
   * Sends one transaction and waits until it is mined, however long that takes. Never rejects. `now` only ages the gas
   * price.
   */
  send(call: OutgoingTransaction, now: number): Promise<SendResult>
  /** The gas price that a transaction would offer now. */
  feeAt(now: number): Promise<Fee | RpcFailure>
  /** Whether the node holds a send open until the receipt exists (EIP-7966), as found by `check`. */
  setSync(found: boolean): void
  close(): void
}

export type RelayerConfig = {
  readonly chainId: number
  /** Highest price of one unit of gas, in wei. Default 500 gwei. */
  readonly maxFeePerGas?: bigint
  /** Resends after this long without a receipt. Default 4,000 ms. Every third resend offers a quarter more. */
  readonly resendMs?: number
  /** Longest pause between two polls for a receipt. Default 1,000 ms. */
  readonly pollMs?: number
  /** Waits between questions to the node. Default: the timers of the process. */
  readonly wait?: Clock['wait']
  /** Receives what transactions may cost and did cost. */
  readonly gasMonitor?: Pick<GasMonitor, 'reserve' | 'reportUnderfunded'>
}

/** One transaction under way. Every version ever signed is kept: any of them may be mined. */
type PendingTransaction = {
  readonly call: OutgoingTransaction
  readonly now: number
  nonce: number
  fee: Fee
  /** The newest signed version; undefined after a change of nonce or fee. */
  raw: Hex | undefined
  readonly hashes: Set<Hex>
  gapChecks: number
  hasOtherNonces: boolean
}

/** A node's answer to a send. Only unambiguous texts are trusted; after an unclear one it may have been broadcast. */
type BroadcastResult =
  | { readonly kind: 'mined'; readonly receipt: ChainReceipt }
  | { readonly kind: 'accepted' | 'unclear' | 'stale' | 'cheap' }
  | { readonly kind: 'refused'; readonly reason: string; readonly isUnderfunded: boolean }

const FEE_TTL_MS = 4_000
const SYNC_MS = 3_000
const MAX_ATTEMPTS = 12

/** State of `evmRelayer`. */
type RelayerParts = {
  readonly rpc: Rpc
  readonly account: PrivateKeyAccount
  readonly config: RelayerConfig
  readonly resendMs: number
  readonly pollMs: number
  readonly cap: bigint
  readonly pendingTxs: Set<PendingTransaction>
  readonly wait: Clock['wait']
  readonly closing: AbortController
  /** Nonces below this are known to be used. */
  nextNonce: number | undefined
  nonceRequest: Promise<number | RpcFailure> | undefined
  cachedFee: { fee: Fee; at: number } | undefined
  usesSync: boolean
  /** Smoothed time from a send to its receipt in milliseconds; decides when to poll first. */
  typicalMs: number
}

/**
 * The nonce queue of one key. It uses the lowest nonce that neither the chain nor a pending transaction has, so a
 * transaction that was never broadcast leaves no gap. Use a key in one process only (decision 24).
 */
export function evmRelayer(rpc: Rpc, account: PrivateKeyAccount, config: RelayerConfig): Relayer {
  const sender: RelayerParts = {
    rpc,
    account,
    config,
    resendMs: config.resendMs ?? 4_000,
    pollMs: config.pollMs ?? 1_000,
    cap: config.maxFeePerGas ?? 500_000_000_000n,
    pendingTxs: new Set<PendingTransaction>(),
    wait: config.wait ?? pause,
    closing: new AbortController(),
    nextNonce: undefined,
    nonceRequest: undefined,
    cachedFee: undefined,
    usesSync: false,
    typicalMs: 0,
  }
  return {
    send: (...args) => send(sender, ...args),
    feeAt: (...args) => feeAt(sender, ...args),
    setSync: (found) => void (sender.usesSync = found),
    close() {
      sender.closing.abort()
    },
  }
}

async function send(sender: RelayerParts, call: OutgoingTransaction, now: number): Promise<SendResult> {
  const [fee, first] = await Promise.all([feeAt(sender, now), sender.nextNonce ?? refreshNonce(sender)])
  if ('kind' in fee) return { kind: 'rejected', reason: fee.reason }
  if (typeof first !== 'number') return { kind: 'rejected', reason: first.reason }
  const tx: PendingTransaction = {
    call,
    now,
    nonce: lowestFree(sender),
    fee,
    raw: undefined,
    hashes: new Set(),
    gapChecks: 0,
    hasOtherNonces: false,
  }
  sender.pendingTxs.add(tx)
  const most = call.gas * fee.max
  const end = sender.config.gasMonitor?.reserve(most)
  let cost = 0n
  try {
    const sent = await submit(sender, tx)
    if (sent.kind !== 'rejected') sender.nextNonce = Math.max(sender.nextNonce ?? 0, tx.nonce + 1)
    if (sent.kind === 'mined') cost = sent.receipt.cost ?? most
    if (sent.kind === 'rejected' && sent.isUnderfunded) sender.config.gasMonitor?.reportUnderfunded(most)
    return sent
  } finally {
    end?.(cost)
    sender.pendingTxs.delete(tx)
  }
}

/** Until a node may have it, a transaction may change nonce and price freely, and may be given up. */
async function submit(sender: RelayerParts, tx: PendingTransaction): Promise<SendResult> {
  for (let attempt = 1; attempt <= MAX_ATTEMPTS && !sender.closing.signal.aborted; attempt++) {
    const result = await broadcast(sender, tx)
    if (result.kind === 'mined') return mined(tx, result.receipt)
    if (result.kind === 'refused')
      return { kind: 'rejected', reason: result.reason, ...(result.isUnderfunded && { isUnderfunded: true }) }
    if (result.kind === 'accepted' || result.kind === 'unclear') return waitUntilMined(sender, tx, result)
    if (result.kind === 'cheap') await reprice(sender, tx)
    if (result.kind === 'stale') {
      const count = await refreshNonce(sender)
      if (typeof count !== 'number') return { kind: 'rejected', reason: count.reason }
      // The node that counts is behind the one that accepts.
      if (attempt > 1) sender.nextNonce = Math.max(count, tx.nonce + 1)
      renumber(tx, lowestFree(sender, tx))
    }
  }
  return { kind: 'rejected', reason: 'the node accepted it at no nonce and no price' }
}

/**
 * Resends a broadcast transaction until it is mined or its nonce is taken: a dropped one would block all after it.
 */
async function waitUntilMined(
  sender: RelayerParts,
  tx: PendingTransaction,
  first: BroadcastResult,
): Promise<SendResult> {
  let result = first
  let timeoutMs = 0
  let takenChecks = 0
  let stuckChecks = 0
  while (!sender.closing.signal.aborted) {
    const isSure = result.kind === 'accepted' && takenChecks === 0
    timeoutMs = isSure ? sender.resendMs : Math.min(Math.max(timeoutMs * 2, sender.resendMs / 16), sender.resendMs)
    const receipt = await pollReceipt(sender, tx, timeoutMs)
    if (receipt) return mined(tx, receipt)
    const count = await countOf(sender, 'latest')
    if (typeof count !== 'number') {
      result = { kind: 'unclear' }
      continue
    }
    takenChecks = count > tx.nonce ? takenChecks + 1 : 0
    if (takenChecks > 3) return { kind: 'lost', reason: 'another transaction took its nonce' }
    if (takenChecks > 0) continue // its receipt may be late
    fillGap(sender, tx, count)
    stuckChecks = isSure && count === tx.nonce ? stuckChecks + 1 : 0
    if (stuckChecks === 3 || result.kind === 'cheap') {
      stuckChecks = 0
      await reprice(sender, tx)
    }
    result = await broadcast(sender, tx)
    if (result.kind === 'mined') return mined(tx, result.receipt)
  }
  return { kind: 'lost', reason: 'the relayer is closed' }
}

/** Polls for a receipt for this long: first at the typical time, then at growing pauses. */
async function pollReceipt(
  sender: RelayerParts,
  tx: PendingTransaction,
  timeoutMs: number,
): Promise<ChainReceipt | undefined> {
  let waitedMs = 0
  let pauseMs = Math.min(sender.typicalMs * 0.8, sender.pollMs, timeoutMs)
  for (;;) {
    const receipt = await receiptOf(sender, tx)
    if (receipt) sender.typicalMs += (waitedMs - sender.typicalMs) / 8
    if (receipt || sender.closing.signal.aborted || waitedMs >= timeoutMs) return receipt
    await sender.wait(pauseMs, sender.closing.signal)
    waitedMs += Math.max(pauseMs, 1)
    pauseMs = Math.min(pauseMs * 1.5 + 1, sender.pollMs, Math.max(1, timeoutMs - waitedMs))
  }
}

/**
 * Moves this transaction to a missing lower nonce once the gap was seen twice: after a node reset, or a nonce given
 * back.
 */
function fillGap(sender: RelayerParts, tx: PendingTransaction, count: number): void {
  const isMissing = count < tx.nonce && ![...sender.pendingTxs].some((each) => each.nonce === count)
  tx.gapChecks = isMissing ? tx.gapChecks + 1 : 0
  if (tx.gapChecks < 2) return
  tx.gapChecks = 0
  tx.hasOtherNonces = true
  sender.nextNonce = Math.min(sender.nextNonce ?? count, count)
  renumber(tx, count)
}

function renumber(tx: PendingTransaction, nonce: number): void {
  tx.nonce = nonce
  tx.raw = undefined
}

/** A replacement must raise both prices by at least a tenth; a quarter satisfies every node. */
async function reprice(sender: RelayerParts, tx: PendingTransaction): Promise<void> {
  sender.cachedFee = undefined
  const today = await feeAt(sender, tx.now)
  const more = (wei: bigint, now: bigint) => (now > (wei * 5n) / 4n ? now : (wei * 5n) / 4n + 1n)
  const { max, tip } = 'kind' in today ? tx.fee : today
  tx.fee = capFee(sender, { max: more(tx.fee.max, max), tip: more(tx.fee.tip, tip) })
  tx.raw = undefined
}

async function broadcast(sender: RelayerParts, tx: PendingTransaction): Promise<BroadcastResult> {
  const raw = (tx.raw ??= await signed(sender, tx))
  tx.hashes.add(keccak256(raw))
  if (!sender.usesSync) return classifyAnswer(await sender.rpc.request('eth_sendRawTransaction', [raw]), tx)
  const answer = await sender.rpc.requestAlone('eth_sendRawTransactionSync', [raw], { timeoutMs: SYNC_MS })
  const result = classifyAnswer(answer, tx)
  if (result.kind !== 'unclear' || answer.kind !== 'error') return result
  sender.usesSync = /time(d )?-?out/i.test(answer.message) // any other error: the node does not support this call
  return classifyAnswer(await sender.rpc.request('eth_sendRawTransaction', [raw]), tx)
}

function signed(sender: RelayerParts, { call, nonce, fee }: PendingTransaction): Promise<Hex> {
  const { to, data, gas } = call
  const fees = { maxFeePerGas: fee.max, maxPriorityFeePerGas: fee.tip }
  return sender.account.signTransaction({
    type: 'eip1559',
    chainId: sender.config.chainId,
    nonce,
    to,
    data,
    gas,
    ...fees,
  })
}

async function receiptOf(sender: RelayerParts, tx: PendingTransaction): Promise<ChainReceipt | undefined> {
  const answers = await Promise.all(
    [...tx.hashes].slice(-6).map((hash) => sender.rpc.request('eth_getTransactionReceipt', [hash])),
  )
  const receipts = answers.map((answer) => (answer.kind === 'result' ? parseReceipt(answer.value) : undefined))
  return receipts.find((receipt) => receipt && tx.hashes.has(receipt.transactionHash))
}

function lowestFree(sender: RelayerParts, self?: PendingTransaction): number {
  const takenNonces = new Set([...sender.pendingTxs].filter((tx) => tx !== self).map((tx) => tx.nonce))
  let nonce = sender.nextNonce ?? 0
  while (takenNonces.has(nonce)) nonce++
  return nonce
}

/**
 * Reads the count once for all concurrent callers. Transactions in the mempool, perhaps of an earlier process, count
 * as used.
 */
function refreshNonce(sender: RelayerParts): Promise<number | RpcFailure> {
  sender.nonceRequest ??= countOf(sender, 'pending').then((count) => {
    sender.nonceRequest = undefined
    if (typeof count === 'number') sender.nextNonce = count
    return count
  })
  return sender.nonceRequest
}

async function countOf(sender: RelayerParts, tag: 'latest' | 'pending'): Promise<number | RpcFailure> {
  const answer = await sender.rpc.request('eth_getTransactionCount', [sender.account.address, tag])
  if (answer.kind === 'failure') return answer
  const count = answer.kind === 'result' ? numberIn(answer.value) : undefined
  return count ?? { kind: 'failure', reason: 'eth_getTransactionCount: the answer is not a count' }
}

/** Twice the base fee, which survives several full blocks, plus the tip that the node suggests. */
async function feeAt(sender: RelayerParts, now: number): Promise<Fee | RpcFailure> {
  if (sender.cachedFee && Math.abs(now - sender.cachedFee.at) < FEE_TTL_MS) return sender.cachedFee.fee
  const [block, suggestedTip] = await Promise.all([
    sender.rpc.request('eth_getBlockByNumber', ['latest', false]),
    sender.rpc.request('eth_maxPriorityFeePerGas', []),
  ])
  const base = block.kind === 'result' ? (block.value as { baseFeePerGas?: unknown } | null)?.baseFeePerGas : undefined
  if (!isQuantity(base)) return sender.cachedFee?.fee ?? { kind: 'failure', reason: 'the price of gas cannot be read' }
  const tip = suggestedTip.kind === 'result' && isQuantity(suggestedTip.value) ? BigInt(suggestedTip.value) : 1_000_000n
  const fee = capFee(sender, { max: BigInt(base) * 2n + tip, tip })
  sender.cachedFee = { fee, at: now }
  return fee
}

function capFee(sender: RelayerParts, { max, tip }: Fee): Fee {
  const most = max < sender.cap ? max : sender.cap
  return { max: most, tip: tip < most ? tip : most }
}

function mined({ hasOtherNonces }: PendingTransaction, receipt: ChainReceipt): SendResult {
  return { kind: 'mined', receipt, hasOtherNonces }
}

function classifyAnswer(answer: Answer, tx: PendingTransaction): BroadcastResult {
  if (answer.kind === 'failure') return { kind: 'unclear' }
  if (answer.kind === 'result') {
    const receipt = parseReceipt(answer.value)
    return receipt && tx.hashes.has(receipt.transactionHash) ? { kind: 'mined', receipt } : { kind: 'accepted' }
  }
  const { message } = answer
  if (/already known|already imported|known transaction|already exists/i.test(message)) return { kind: 'accepted' }
  if (/nonce (is )?too low|old nonce|nonce has already been used/i.test(message)) return { kind: 'stale' }
  if (/underpriced|block base fee|fee (is )?too low|fee cap/i.test(message)) return { kind: 'cheap' }
  if (/insufficient funds|intrinsic gas|block gas limit|gas limit|invalid sender|chain id/i.test(message)) {
    return {
      kind: 'refused',
      reason: `the node refused the relayer's transaction: ${message}`,
      isUnderfunded: /insufficient funds/i.test(message),
    }
  }
  return { kind: 'unclear' }
}
