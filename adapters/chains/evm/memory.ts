import { checksummed } from '../../../core/lib/mod.ts'
import { type Chain, familyOf } from '../../../core/ports/mod.ts'
import type { Offer, Payment, Terms } from '../../../core/x402/mod.ts'
import { evmFamily, families } from '../families.ts'
import { type Hex, lower } from '../lib/hex.ts'
import {
  advance,
  execute,
  head,
  type MemoryChainOptions,
  type MemoryLedger,
  type MemoryTransfer,
  mineBlock,
  move,
  type SimulatedOutcome,
  type SpentNonce,
  digest,
} from './memory/ledger.ts'
import { type Authorized, parseAsSigned } from './memory/payload.ts'
import { FACILITATOR, offerOf, sign, signedText, type SignOptions } from './memory/signing.ts'
import { balance, fate, identify, settle, verify } from './memory/verbs.ts'

/** A chain in memory, with controls for tests. */
export type MemoryChain = Chain &
  Required<Pick<Chain, 'balance' | 'hasSigned'>> & {
    /** Every transfer moved by an authorization, oldest first. */
    readonly transfers: readonly MemoryTransfer[]
    /** The address of a wallet by name. */
    wallet(name: string): Hex
    fund(who: string, amount: bigint): void
    drain(who: string): void
    balanceOf(who: string): bigint
    sign(offer: Offer, signing: SignOptions): Payment
    /** The signature of a wallet over a text. */
    signText(who: string, text: string): string
    /** An `exact` offer of this chain. */
    offer(amount: bigint, maxTimeoutSeconds?: number): Offer
    /** An `upto` offer of this chain. */
    offerUpTo(amount: bigint, maxTimeoutSeconds?: number): Offer
    /** Cancels the authorization on chain, as its payer could. */
    cancel(payment: Payment): void
    /** Sends the authorization, as anybody could. Returns false when the token would revert. */
    submit(payment: Payment): boolean
    /** Sets the outcomes of the next settlements, in order; later ones are `normal`. */
    simulate(...outcomes: readonly SimulatedOutcome[]): void
    /** Executes the `late` settlements that are still valid. */
    deliver(): void
    /** Simulates a node that does not answer: unavailable, or unknown with nothing sent. */
    outage(on: boolean): void
    /** Simulates a node that is this many blocks behind. */
    lag(blocks: number): void
    /** The number of blocks. */
    height(): number
    /** Adds a block at this time, in milliseconds, as does every `now` passed to a question. Time never goes back. */
    advance(now: number): void
  }

/**
 * Test money in memory that behaves like an EVM chain with an EIP-3009 token, for tests and first embeddings. Not a
 * wallet.
 *
 * @example
 * const chain = memoryChain()
 * const alice = chain.wallet('alice')
 * chain.fund(alice, 1_000_000n)
 * const payment = chain.sign(chain.offer(10_000n), { from: alice, now: Date.now() })
 */
export function memoryChain(options: MemoryChainOptions = {}): MemoryChain {
  const network = options.network ?? 'eip155:84532'
  const asset = options.asset ?? '0x036CbD53842c5426634e7929541eC2318f3dCF7e'
  const payTo = options.payTo ?? '0x209693Bc6afc0C5328bA36FaF03C514EF312287C'
  const domain = options.domain ?? { name: 'USDC', version: '2' }
  const extras = { exact: { ...domain }, upto: { ...domain, facilitatorAddress: FACILITATOR, ...BY_PERMIT2 } }
  const terms: readonly Terms[] = (options.schemes ?? ['exact']).map((scheme) => ({
    scheme,
    network,
    asset,
    payTo,
    extra: extras[scheme],
  }))
  const blocks: number[] = [0]

  const balances = new Map<Hex, bigint>()
  const spentNonces = new Map<string, SpentNonce>()
  const transfers: MemoryTransfer[] = []
  const outcomes: SimulatedOutcome[] = []
  const mempool: { readonly exact: Authorized; readonly value: bigint }[] = []
  const ledger: MemoryLedger = {
    options,
    network,
    asset,
    payTo,
    domain,
    extras,
    blocks,
    balanceChanges: [],
    balances,
    spentNonces,
    transfers,
    outcomes,
    mempool,
    nonces: 0,
    isDown: false,
    lagBlocks: 0,
    newestReported: 0,
  }
  return {
    terms: () => terms,
    identify: (payment, offer) => identify(ledger, payment, offer),
    verify: (...args) => verify(ledger, ...args),
    settle: (...args) => settle(ledger, ...args),
    fate: (...args) => fate(ledger, ...args),
    balance: (...args) => balance(ledger, ...args),
    families: [familyOf(families, network) ?? evmFamily],
    transfers,
    wallet: (name) => checksummed(`0x${digest(`wallet ${name}`).slice(0, 40)}`),
    fund(who, amount) {
      mineBlock(ledger, 0)
      move(ledger, who, amount)
    },
    drain(who) {
      mineBlock(ledger, 0)
      move(ledger, who, -(balances.get(lower(who)) ?? 0n))
    },
    balanceOf: (who) => balances.get(lower(who)) ?? 0n,
    sign: (...args) => sign(ledger, ...args),
    signText: (who, text) => signedText(lower(who), text),
    hasSigned: async ({ wallet, network: on, message, signature }) =>
      on === network && signature === signedText(lower(wallet), message) ? checksummed(lower(wallet)) : undefined,
    offer: (amount, maxTimeoutSeconds = 300) => offerOf(ledger, 'exact', amount, maxTimeoutSeconds),
    offerUpTo: (amount, maxTimeoutSeconds = 300) => offerOf(ledger, 'upto', amount, maxTimeoutSeconds),
    cancel(payment) {
      const exact = parseAsSigned(payment)
      mineBlock(ledger, 0)
      if (!spentNonces.has(exact.key)) spentNonces.set(exact.key, { block: head(ledger), transfer: undefined })
    },
    submit: (payment) => execute(ledger, parseAsSigned(payment)) === undefined,
    simulate: (...next) => void outcomes.push(...next),
    deliver() {
      for (const { exact, value } of mempool.splice(0)) execute(ledger, exact, value)
    },
    outage: (on) => void (ledger.isDown = on),
    lag: (blocks) => void (ledger.lagBlocks = blocks),
    height: () => head(ledger),
    advance: (...args) => advance(ledger, ...args),
  }
}

const BY_PERMIT2 = { assetTransferMethod: 'permit2' }
