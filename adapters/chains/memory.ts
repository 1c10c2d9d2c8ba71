import type { CallOptions } from './results.ts'
import { sha256 } from '@noble/hashes/sha2'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils'
import { checksummed } from '../../core/lib/checksum.ts'
import { type Usdc, usdc } from '../../core/x402/money.ts'
import type { Chain, Fate, Identity, Settlement, Verdict } from '../../core/ports/mod.ts'
import type { Terms } from '../../core/x402/offer.ts'
import type { Offer, Payment, Receipt } from '../../core/x402/protocol.ts'
import { parseAddress, type Exact, checkExact, checkValue, parseExact, refused } from './exact.ts'
import { type Hex, lower } from './hex.ts'

/** Network, asset and recipient of a `memoryChain`; defaults to USDC on Base Sepolia. */
export type MemoryChainOptions = {
  readonly network?: string
  readonly asset?: string
  readonly payTo?: string
  readonly domain?: { readonly name: string; readonly version: string }
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

/** What to sign, beyond the offer. Times are the authorization's, in seconds; `now` is in milliseconds. */
export type SignOptions = {
  readonly from: string
  readonly now: number
  readonly nonce?: string
  readonly to?: string
  readonly value?: bigint
  readonly validAfter?: bigint
  readonly validBefore?: bigint
  /** The account whose key signs. Default: `from`. */
  readonly by?: string
  /** The domain's name. Default: the offer's. */
  readonly name?: string
}

/** A chain in memory, with controls for tests. */
export type MemoryChain = Chain &
  Required<Pick<Chain, 'balance'>> & {
    /** Every transfer moved by an authorization, oldest first. */
    readonly transfers: readonly MemoryTransfer[]
    /** The address of a wallet by name. */
    wallet(name: string): Hex
    fund(who: string, amount: bigint): void
    drain(who: string): void
    balanceOf(who: string): bigint
    sign(offer: Offer, signing: SignOptions): Payment
    /** An `exact` offer of this chain. */
    offer(amount: bigint, maxTimeoutSeconds?: number): Offer
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

type SpentNonce = { readonly block: number; readonly transfer: (MemoryTransfer & { readonly to: Hex }) | undefined }

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
  const terms: readonly Terms[] = [{ scheme: 'exact', network, asset, payTo, extra: { ...domain } }]

  const blocks: number[] = [0]
  const balanceChanges: { readonly block: number; readonly who: Hex; readonly delta: bigint }[] = []
  const balances = new Map<Hex, bigint>()
  const spentNonces = new Map<string, SpentNonce>()
  const transfers: MemoryTransfer[] = []
  const outcomes: SimulatedOutcome[] = []
  const mempool: Exact[] = []
  let nonces = 0
  let isDown = false
  let lagBlocks = 0
  let newestReported = 0

  const head = () => blocks.length - 1
  const mineBlock = (now: number) => void blocks.push(Math.max(now, blocks[head()] ?? 0))
  const advance = (now: number) => void (now > (blocks[head()] ?? 0) && mineBlock(now))

  function move(who: string, delta: bigint): void {
    const owner = lower(who)
    balances.set(owner, (balances.get(owner) ?? 0n) + delta)
    balanceChanges.push({ block: head(), who: owner, delta })
  }

  function balanceAt(who: Hex, block: number): bigint {
    let balance = balances.get(who) ?? 0n
    for (let i = balanceChanges.length - 1; i >= 0; i--) {
      const entry = balanceChanges[i]
      if (!entry || entry.block <= block) return balance
      if (entry.who === who) balance -= entry.delta
    }
    return balance
  }

  function spentAt(key: string, block: number): SpentNonce | undefined {
    const found = spentNonces.get(key)
    return found && found.block <= block ? found : undefined
  }

  /** The block that the node shows, or undefined when it is behind one already shown. */
  function visibleBlock(): number | undefined {
    const block = Math.max(0, head() - lagBlocks)
    if (block < newestReported) return undefined
    newestReported = block
    return block
  }

  /** Executes the transfer at the head of the chain as the token would, or returns why it reverts. */
  function execute(exact: Exact): string | undefined {
    const time = blocks[head()] ?? 0
    if (BigInt(time) < exact.validAfter * 1000n) return 'the authorization is not yet valid'
    if (time >= exact.expiresAt) return 'the authorization is expired'
    if (spentNonces.has(exact.key)) return 'the authorization is used or canceled'
    if ((balances.get(exact.from) ?? 0n) < exact.value)
      return `the balance is ${balances.get(exact.from) ?? 0n} base units; the price is ${exact.value}`
    mineBlock(time)
    move(exact.from, -exact.value)
    move(exact.to, exact.value)
    const transaction = `0x${digest(`transaction ${transfers.length}`)}`
    const transfer = { transaction, from: checksummed(exact.from), to: exact.to, value: exact.value }
    transfers.push(transfer)
    spentNonces.set(exact.key, { block: head(), transfer })
    return undefined
  }

  function fateAt(exact: Exact, offer: Offer, block: number): Fate {
    const found = spentAt(exact.key, block)
    if (found?.transfer && found.transfer.to === lower(offer.payTo) && found.transfer.value === exact.value) {
      return { kind: 'paid', receipt: { ...receiptOf(found.transfer, network), block: found.block } }
    }
    if (found || (blocks[block] ?? 0) >= exact.expiresAt) return { kind: 'dead' }
    return { kind: 'open' }
  }

  function isSignedBy(exact: Exact, offer: Offer): boolean {
    return exact.signature === signFields(exact, exact.from, nameOf(offer, domain.name))
  }

  async function identify(payment: Payment, offer: Offer): Promise<Identity> {
    const exact = parseExact(payment, offer)
    if (exact.kind === 'refused') return exact
    if (!isSignedBy(exact, offer))
      return refused('PAYMENT_INVALID', 'signature', `it was not signed by ${exact.from} in this domain`)
    return { kind: 'known', payer: checksummed(exact.from), key: exact.key, expiresAt: exact.expiresAt }
  }

  async function verify(payment: Payment, offer: Offer, at: CallOptions): Promise<Verdict> {
    await options.before?.('verify')
    advance(at.now)
    if (isDown || at.signal.aborted) return { kind: 'unavailable', reason: 'the node does not answer' }
    const who = await identify(payment, offer)
    if (who.kind !== 'known') return who
    const exact = parseExact(payment, offer)
    if (exact.kind === 'refused') return exact
    const bad = checkExact(exact, offer, at.now)
    if (bad) return bad
    const block = visibleBlock()
    if (block === undefined) return { kind: 'unavailable', reason: 'the node is behind' }
    if (spentAt(exact.key, block))
      return refused('PAYMENT_REPLAY', 'nonce_already_used', 'the authorization is used or canceled')
    const balance = balanceAt(exact.from, block)
    if (balance >= exact.value) return { kind: 'valid', balance: usdc(balance), asOf: at.now, block }
    return refused(
      'PAYMENT_UNFUNDED',
      'insufficient_balance',
      `the balance is ${balance} base units; the price is ${exact.value}`,
    )
  }

  async function settle(payment: Payment, offer: Offer, at: CallOptions): Promise<Settlement> {
    await options.before?.('settle')
    advance(at.now)
    const exact = parseExact(payment, offer)
    if (exact.kind === 'refused') return { kind: 'refused', reason: exact.reason }
    const bad = checkValue(exact, offer)
    if (bad) return { kind: 'refused', reason: bad.reason }
    if (isDown || at.signal.aborted) return { kind: 'unknown', reason: 'the node does not answer' }
    if (!isSignedBy(exact, offer))
      return { kind: 'refused', reason: `it was not signed by ${exact.from} in this domain` }

    const before = fateAt(exact, offer, head())
    if (before.kind === 'paid') return { kind: 'settled', receipt: before.receipt }
    if (before.kind === 'dead') return { kind: 'refused', reason: 'the authorization is dead' }
    const outcome = outcomes.shift() ?? 'normal'
    if (outcome === 'refused') return { kind: 'refused', reason: 'refused by simulation' }
    if (outcome === 'late') mempool.push(exact)
    if (outcome === 'late' || outcome === 'dropped') return { kind: 'unknown', reason: 'no receipt in time' }
    const reverted = execute(exact)
    if (reverted !== undefined) return { kind: 'refused', reason: reverted }
    if (outcome === 'landed') return { kind: 'unknown', reason: 'no receipt in time' }
    newestReported = head()
    const after = fateAt(exact, offer, head())
    return after.kind === 'paid'
      ? { kind: 'settled', receipt: after.receipt }
      : { kind: 'unknown', reason: 'no transfer' }
  }

  async function fate(payment: Payment, offer: Offer, at: CallOptions): Promise<Fate> {
    await options.before?.('fate')
    advance(at.now)
    if (isDown || at.signal.aborted) return { kind: 'unknown', reason: 'the node does not answer' }
    const exact = parseExact(payment, offer)
    if (exact.kind === 'refused') return { kind: 'unknown', reason: exact.reason }
    const block = visibleBlock()
    if (block === undefined) return { kind: 'unknown', reason: 'the node is behind' }
    return fateAt(exact, offer, block)
  }

  async function balance(address: string, at: { signal: AbortSignal }): Promise<Usdc> {
    await options.before?.('balance')
    const who = parseAddress(address)
    const block = isDown || at.signal.aborted ? undefined : visibleBlock()
    if (block === undefined) throw new Error('the node does not answer')
    return usdc(balanceAt(who, block))
  }

  function sign(offer: Offer, signing: SignOptions): Payment {
    const from = lower(signing.from)
    const now = BigInt(Math.floor(signing.now / 1000))
    const authorization = {
      from,
      to: signing.to ?? offer.payTo,
      value: String(signing.value ?? offer.amount),
      validAfter: String(signing.validAfter ?? 0n),
      validBefore: String(signing.validBefore ?? now + BigInt(offer.maxTimeoutSeconds)),
      nonce: signing.nonce ?? `0x${digest(`nonce ${nonces++}`)}`,
    }
    const content = { ...authorization, to: lower(authorization.to), nonce: lower(authorization.nonce) }
    const signature = signFields(content, lower(signing.by ?? from), signing.name ?? nameOf(offer, domain.name))
    return { x402Version: 2, accepted: offer, payload: { signature, authorization } }
  }

  return {
    terms: () => terms,
    identify,
    verify,
    settle,
    fate,
    balance,
    transfers,
    wallet: (name) => checksummed(`0x${digest(`wallet ${name}`).slice(0, 40)}`),
    fund(who, amount) {
      mineBlock(0)
      move(who, amount)
    },
    drain(who) {
      mineBlock(0)
      move(who, -(balances.get(lower(who)) ?? 0n))
    },
    balanceOf: (who) => balances.get(lower(who)) ?? 0n,
    sign,
    offer: (amount, maxTimeoutSeconds = 300) => ({
      scheme: 'exact',
      network,
      asset,
      payTo,
      amount: String(amount),
      maxTimeoutSeconds,
      extra: { ...domain },
    }),
    cancel(payment) {
      const exact = parseAsSigned(payment)
      mineBlock(0)
      if (!spentNonces.has(exact.key)) spentNonces.set(exact.key, { block: head(), transfer: undefined })
    },
    submit: (payment) => execute(parseAsSigned(payment)) === undefined,
    simulate: (...next) => void outcomes.push(...next),
    deliver() {
      for (const exact of mempool.splice(0)) execute(exact)
    },
    outage: (on) => void (isDown = on),
    lag: (blocks) => void (lagBlocks = blocks),
    height: head,
    advance,
  }
}

/** Parses a payload as the token would: with its own recipient, whatever was offered. */
function parseAsSigned(payment: Payment): Exact {
  const to = (payment.payload.authorization as { to?: unknown } | undefined)?.to
  const exact = parseExact(payment, { ...payment.accepted, payTo: String(to) })
  if (exact.kind === 'refused') throw new TypeError(exact.reason)
  return exact
}

function receiptOf(transfer: MemoryTransfer, network: string): Receipt {
  return { transaction: transfer.transaction, network, payer: transfer.from, amount: String(transfer.value) }
}

type SignedFields = Pick<Exact, 'from' | 'to' | 'nonce'> &
  Record<'value' | 'validAfter' | 'validBefore', bigint | string>

/** 65 bytes in the form of a signature. They prove nothing to anyone who can run this code. */
function signFields(content: SignedFields, key: string, name: string): Hex {
  const { from, to, value, validAfter, validBefore, nonce } = content
  const r = digest(['sealed', key, name, from, to, value, validAfter, validBefore, nonce].join('|'))
  return `0x${r}0${digest(r).slice(1)}1b`
}

function nameOf(offer: Offer, otherwise: string): string {
  return typeof offer.extra?.name === 'string' ? offer.extra.name : otherwise
}

function digest(text: string): string {
  return bytesToHex(sha256(utf8ToBytes(text)))
}
