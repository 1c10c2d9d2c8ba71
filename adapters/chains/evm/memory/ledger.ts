/** The money of a chain in memory: blocks, balances and used nonces. */
import { sha256 } from '@noble/hashes/sha2'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils'
import { checksummed } from '../../../../core/lib/mod.ts'
import type { Fate } from '../../../../core/ports/mod.ts'
import type { Offer, Receipt } from '../../../../core/x402/mod.ts'
import { type Hex, lower } from '../../lib/hex.ts'
import type { Authorized } from './payload.ts'

/** Network, asset and recipient of a `memoryChain`; defaults to USDC on Base Sepolia. */
export type MemoryChainOptions = {
  readonly network?: string
  readonly asset?: string
  readonly payTo?: string
  readonly domain?: { readonly name: string; readonly version: string }
  /** Schemes that it accepts, preferred first. Default: `exact` only. */
  readonly schemes?: readonly ('exact' | 'upto')[]
  /** Awaited before each question that would leave the machine: tests use it to block, fail or count. */
  readonly before?: (question: 'verify' | 'settle' | 'fate' | 'balance') => Promise<void> | void
}

/** The outcome of one settlement. `landed`, `late` and `dropped` return unknown; `late` ones wait for `deliver`. */
export type SimulatedOutcome = 'normal' | 'refused' | 'landed' | 'late' | 'dropped'

/** One transfer, in base units. */
export type MemoryTransfer = {
  readonly transaction: string
  readonly from: Hex
  readonly to: Hex
  readonly value: bigint
}

export type SpentNonce = {
  readonly block: number
  readonly transfer: (MemoryTransfer & { readonly to: Hex }) | undefined
}

/** State of `memoryChain`. */
export type MemoryLedger = {
  readonly options: MemoryChainOptions
  readonly network: string
  readonly asset: string
  readonly payTo: string
  readonly domain: { readonly name: string; readonly version: string }
  readonly extras: {
    exact: { name: string; version: string }
    upto: { assetTransferMethod: string; facilitatorAddress: Hex; name: string; version: string }
  }
  readonly blocks: number[]
  readonly balanceChanges: { readonly block: number; readonly who: Hex; readonly delta: bigint }[]
  readonly balances: Map<Hex, bigint>
  readonly spentNonces: Map<string, SpentNonce>
  readonly transfers: MemoryTransfer[]
  readonly outcomes: SimulatedOutcome[]
  readonly mempool: { readonly exact: Authorized; readonly value: bigint }[]
  nonces: number
  isDown: boolean
  lagBlocks: number
  newestReported: number
}

export const head = (ledger: MemoryLedger) => ledger.blocks.length - 1

export const mineBlock = (ledger: MemoryLedger, now: number) =>
  void ledger.blocks.push(Math.max(now, ledger.blocks[head(ledger)] ?? 0))

export const advance = (ledger: MemoryLedger, now: number) =>
  void (now > (ledger.blocks[head(ledger)] ?? 0) && mineBlock(ledger, now))

export function move(ledger: MemoryLedger, who: string, delta: bigint): void {
  const owner = lower(who)
  ledger.balances.set(owner, (ledger.balances.get(owner) ?? 0n) + delta)
  ledger.balanceChanges.push({ block: head(ledger), who: owner, delta })
}

export function balanceAt(ledger: MemoryLedger, who: Hex, block: number): bigint {
  let balance = ledger.balances.get(who) ?? 0n
  for (let i = ledger.balanceChanges.length - 1; i >= 0; i--) {
    const entry = ledger.balanceChanges[i]
    if (!entry || entry.block <= block) return balance
    if (entry.who === who) balance -= entry.delta
  }
  return balance
}

export function spentAt(ledger: MemoryLedger, key: string, block: number): SpentNonce | undefined {
  const found = ledger.spentNonces.get(key)
  return found && found.block <= block ? found : undefined
}

/** The block that the node shows, or undefined when it is behind one already shown. */
export function visibleBlock(ledger: MemoryLedger): number | undefined {
  const block = Math.max(0, head(ledger) - ledger.lagBlocks)
  if (block < ledger.newestReported) return undefined
  ledger.newestReported = block
  return block
}

/** Executes the transfer at the head of the chain as the token would, or returns why it reverts. */
export function execute(ledger: MemoryLedger, exact: Authorized, value = exact.value): string | undefined {
  const time = ledger.blocks[head(ledger)] ?? 0
  if (BigInt(time) < exact.validAfter * 1000n) return 'the authorization is not yet valid'
  if (time >= exact.expiresAt) return 'the authorization is expired'
  if (ledger.spentNonces.has(exact.key)) return 'the authorization is used or canceled'
  if ((ledger.balances.get(exact.from) ?? 0n) < value)
    return `the balance is ${ledger.balances.get(exact.from) ?? 0n} base units; the price is ${value}`
  mineBlock(ledger, time)
  move(ledger, exact.from, -value)
  move(ledger, exact.to, value)
  const transaction = `0x${digest(`transaction ${ledger.transfers.length}`)}`
  const transfer = { transaction, from: checksummed(exact.from), to: exact.to, value }
  ledger.transfers.push(transfer)
  ledger.spentNonces.set(exact.key, { block: head(ledger), transfer })
  return undefined
}

export function fateAt(ledger: MemoryLedger, exact: Authorized, offer: Offer, block: number, charge?: bigint): Fate {
  const found = spentAt(ledger, exact.key, block)
  if (charge === 0n && exact.kind === 'upto' && !found)
    return {
      kind: 'paid',
      receipt: { transaction: '', network: ledger.network, payer: checksummed(exact.from), amount: '0' },
    }
  const isPrice = found?.transfer && (exact.kind === 'upto' || found.transfer.value === exact.value)
  if (found?.transfer && found.transfer.to === lower(offer.payTo) && isPrice) {
    return { kind: 'paid', receipt: { ...receiptOf(found.transfer, ledger.network), block: found.block } }
  }
  if (found || (ledger.blocks[block] ?? 0) >= exact.expiresAt) return { kind: 'dead' }
  return { kind: 'open' }
}

function receiptOf(transfer: MemoryTransfer, network: string): Receipt {
  return { transaction: transfer.transaction, network, payer: transfer.from, amount: String(transfer.value) }
}

export function digest(text: string): string {
  return bytesToHex(sha256(utf8ToBytes(text)))
}
