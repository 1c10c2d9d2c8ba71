import type { CallOptions } from '../lib/results.ts'
import {
  type Chain,
  familyOf,
  type Fate,
  type Identity,
  type Refused,
  type Settlement,
  type SettleOptions,
  type Verdict,
} from '../../../core/ports/mod.ts'
import { evmFamily, families } from '../families.ts'
import { sha256 } from '@noble/hashes/sha2'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils'
import { checksummed } from '../../../core/lib/mod.ts'
import { type Offer, type Payment, type Receipt, type Terms, type Usdc, usdc } from '../../../core/x402/mod.ts'
import { parseAddress } from './node/address.ts'
import { type Exact, checkExact, checkValue, parseExact, refused } from './exact/payload.ts'
import { type Hex, lower, word } from '../lib/hex.ts'
import { checkAmount, checkUpto, parseUpto, UPTO_PROXY, type UptoPayload } from './upto/payload.ts'

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

/** Fields to sign besides the offer. Times are the authorization's, in seconds; `now` is in milliseconds. */
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

type SpentNonce = { readonly block: number; readonly transfer: (MemoryTransfer & { readonly to: Hex }) | undefined }

/** State of `memoryChain`. */
type MemoryLedger = {
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

const head = (ledger: MemoryLedger) => ledger.blocks.length - 1

const mineBlock = (ledger: MemoryLedger, now: number) =>
  void ledger.blocks.push(Math.max(now, ledger.blocks[head(ledger)] ?? 0))

const advance = (ledger: MemoryLedger, now: number) =>
  void (now > (ledger.blocks[head(ledger)] ?? 0) && mineBlock(ledger, now))

function move(ledger: MemoryLedger, who: string, delta: bigint): void {
  const owner = lower(who)
  ledger.balances.set(owner, (ledger.balances.get(owner) ?? 0n) + delta)
  ledger.balanceChanges.push({ block: head(ledger), who: owner, delta })
}

function balanceAt(ledger: MemoryLedger, who: Hex, block: number): bigint {
  let balance = ledger.balances.get(who) ?? 0n
  for (let i = ledger.balanceChanges.length - 1; i >= 0; i--) {
    const entry = ledger.balanceChanges[i]
    if (!entry || entry.block <= block) return balance
    if (entry.who === who) balance -= entry.delta
  }
  return balance
}

function spentAt(ledger: MemoryLedger, key: string, block: number): SpentNonce | undefined {
  const found = ledger.spentNonces.get(key)
  return found && found.block <= block ? found : undefined
}

/** The block that the node shows, or undefined when it is behind one already shown. */
function visibleBlock(ledger: MemoryLedger): number | undefined {
  const block = Math.max(0, head(ledger) - ledger.lagBlocks)
  if (block < ledger.newestReported) return undefined
  ledger.newestReported = block
  return block
}

/** Executes the transfer at the head of the chain as the token would, or returns why it reverts. */
function execute(ledger: MemoryLedger, exact: Authorized, value = exact.value): string | undefined {
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

function fateAt(ledger: MemoryLedger, exact: Authorized, offer: Offer, block: number, charge?: bigint): Fate {
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

function isSignedBy(ledger: MemoryLedger, exact: Authorized, offer: Offer): boolean {
  return exact.signature === signFields(exact, exact.from, nameOf(offer, ledger.domain.name))
}

async function identify(ledger: MemoryLedger, payment: Payment, offer: Offer): Promise<Identity> {
  const exact = parsePayment(payment, offer)
  if (exact.kind === 'refused') return exact
  if (!isSignedBy(ledger, exact, offer))
    return refused('PAYMENT_INVALID', 'signature', `it was not signed by ${exact.from} in this domain`)
  return { kind: 'known', payer: checksummed(exact.from), key: exact.key, expiresAt: exact.expiresAt }
}

async function verify(ledger: MemoryLedger, payment: Payment, offer: Offer, at: CallOptions): Promise<Verdict> {
  await ledger.options.before?.('verify')
  advance(ledger, at.now)
  if (ledger.isDown || at.signal.aborted) return { kind: 'unavailable', reason: 'the node does not answer' }
  const who = await identify(ledger, payment, offer)
  if (who.kind !== 'known') return who
  const exact = parsePayment(payment, offer)
  if (exact.kind === 'refused') return exact
  const bad = checkPayment(exact, offer, at.now)
  if (bad) return bad
  const block = visibleBlock(ledger)
  if (block === undefined) return { kind: 'unavailable', reason: 'the node is behind' }
  if (spentAt(ledger, exact.key, block))
    return refused('PAYMENT_REPLAY', 'nonce_already_used', 'the authorization is used or canceled')
  const balance = balanceAt(ledger, exact.from, block)
  if (balance >= exact.value) return { kind: 'valid', balance: usdc(balance), asOf: at.now, block }
  return refused(
    'PAYMENT_UNFUNDED',
    'insufficient_balance',
    `the balance is ${balance} base units; the price is ${exact.value}`,
  )
}

async function settle(ledger: MemoryLedger, payment: Payment, offer: Offer, at: SettleOptions): Promise<Settlement> {
  await ledger.options.before?.('settle')
  advance(ledger, at.now)
  const exact = parsePayment(payment, offer)
  if (exact.kind === 'refused') return { kind: 'refused', reason: exact.reason }
  const bad = checkPrice(exact, offer)
  if (bad) return { kind: 'refused', reason: bad.reason }
  const value = exact.kind === 'upto' ? (at.charge ?? exact.value) : exact.value
  if (value > exact.value) return { kind: 'refused', reason: 'the charge is more than was signed' }
  if (ledger.isDown || at.signal.aborted) return { kind: 'unknown', reason: 'the node does not answer' }
  if (!isSignedBy(ledger, exact, offer))
    return { kind: 'refused', reason: `it was not signed by ${exact.from} in this domain` }

  const before = fateAt(ledger, exact, offer, head(ledger), at.charge)
  if (before.kind === 'paid') return { kind: 'settled', receipt: before.receipt }
  if (before.kind === 'dead') return { kind: 'refused', reason: 'the authorization is dead' }
  const outcome = ledger.outcomes.shift() ?? 'normal'
  if (outcome === 'refused') return { kind: 'refused', reason: 'refused by simulation' }
  if (outcome === 'late') ledger.mempool.push({ exact, value })
  if (outcome === 'late' || outcome === 'dropped') return { kind: 'unknown', reason: 'no receipt in time' }
  const reverted = execute(ledger, exact, value)
  if (reverted !== undefined) return { kind: 'refused', reason: reverted }
  if (outcome === 'landed') return { kind: 'unknown', reason: 'no receipt in time' }
  ledger.newestReported = head(ledger)
  const after = fateAt(ledger, exact, offer, head(ledger))
  return after.kind === 'paid'
    ? { kind: 'settled', receipt: after.receipt }
    : { kind: 'unknown', reason: 'no transfer' }
}

async function fate(ledger: MemoryLedger, payment: Payment, offer: Offer, at: SettleOptions): Promise<Fate> {
  await ledger.options.before?.('fate')
  advance(ledger, at.now)
  if (ledger.isDown || at.signal.aborted) return { kind: 'unknown', reason: 'the node does not answer' }
  const exact = parsePayment(payment, offer)
  if (exact.kind === 'refused') return { kind: 'unknown', reason: exact.reason }
  const block = visibleBlock(ledger)
  if (block === undefined) return { kind: 'unknown', reason: 'the node is behind' }
  return fateAt(ledger, exact, offer, block, at.charge)
}

async function balance(ledger: MemoryLedger, address: string, at: { signal: AbortSignal }): Promise<Usdc> {
  await ledger.options.before?.('balance')
  const who = parseAddress(address)
  const block = ledger.isDown || at.signal.aborted ? undefined : visibleBlock(ledger)
  if (block === undefined) throw new Error('the node does not answer')
  return usdc(balanceAt(ledger, who, block))
}

function sign(ledger: MemoryLedger, offer: Offer, signing: SignOptions): Payment {
  const from = lower(signing.from)
  const now = BigInt(Math.floor(signing.now / 1000))
  if (offer.scheme === 'upto') return signUpTo(ledger, offer, signing)
  const authorization = {
    from,
    to: signing.to ?? offer.payTo,
    value: String(signing.value ?? offer.amount),
    validAfter: String(signing.validAfter ?? 0n),
    validBefore: String(signing.validBefore ?? now + BigInt(offer.maxTimeoutSeconds)),
    nonce: signing.nonce ?? `0x${digest(`nonce ${ledger.nonces++}`)}`,
  }
  const content = { ...authorization, to: lower(authorization.to), nonce: lower(authorization.nonce) }
  const signature = signFields(content, lower(signing.by ?? from), signing.name ?? nameOf(offer, ledger.domain.name))
  return { x402Version: 2, accepted: offer, payload: { signature, authorization } }
}

function signUpTo(ledger: MemoryLedger, offer: Offer, signing: SignOptions): Payment {
  const from = lower(signing.from)
  const now = BigInt(Math.floor(signing.now / 1000))
  const to = signing.to ?? offer.payTo
  const validAfter = signing.validAfter ?? 0n
  const value = signing.value ?? BigInt(offer.amount)
  const validBefore = signing.validBefore ?? now + BigInt(offer.maxTimeoutSeconds)
  const nonce = signing.nonce ?? `0x${digest(`nonce ${ledger.nonces++}`)}`
  const content = { from, to: lower(to), value, validAfter, validBefore, nonce: lower(nonce) }
  const signature = signFields(content, lower(signing.by ?? from), signing.name ?? nameOf(offer, ledger.domain.name))
  const permit2Authorization = {
    from,
    permitted: { token: ledger.asset, amount: String(value) },
    spender: UPTO_PROXY,
    nonce: String(BigInt(nonce)),
    deadline: String(validBefore),
    witness: { to, facilitator: FACILITATOR, validAfter: String(validAfter) },
  }
  return { x402Version: 2, accepted: offer, payload: { signature, permit2Authorization } }
}

const offerOf = (ledger: MemoryLedger, scheme: 'exact' | 'upto', amount: bigint, maxTimeoutSeconds: number): Offer => {
  return {
    scheme,
    network: ledger.network,
    asset: ledger.asset,
    payTo: ledger.payTo,
    amount: String(amount),
    maxTimeoutSeconds,
    extra: ledger.extras[scheme],
  }
}

/** Parses a payload as the token would: with its own recipient, whatever was offered. */
function parseAsSigned(payment: Payment): Authorized {
  if (payment.accepted.scheme === 'upto') {
    const { witness } = payment.payload.permit2Authorization as UptoPayload['permit2Authorization']
    const upto = parsePayment(payment, { ...payment.accepted, payTo: witness.to })
    if (upto.kind === 'refused') throw new TypeError(upto.reason)
    return upto
  }
  const to = (payment.payload.authorization as { to?: unknown } | undefined)?.to
  const exact = parseExact(payment, { ...payment.accepted, payTo: String(to) })
  if (exact.kind === 'refused') throw new TypeError(exact.reason)
  return exact
}

/** A transfer that was signed, by either scheme. An `upto` one may move less than its value. */
type Authorized = Omit<Exact, 'kind'> & { readonly kind: 'exact' | 'upto' }

function parsePayment(payment: Payment, offer: Offer): Authorized | Refused {
  if (offer.scheme !== 'upto') return parseExact(payment, offer)
  const upto = parseUpto(payment, offer)
  if (upto.kind === 'refused') return upto
  const { amount, deadline, nonce, ...rest } = upto
  return { ...rest, value: amount, validBefore: deadline, nonce: `0x${word(nonce)}` }
}

const uptoOf = ({ value: amount, validBefore: deadline, validAfter }: Authorized) => ({ amount, deadline, validAfter })

const checkPayment = (exact: Authorized, offer: Offer, now: number): Refused | undefined =>
  exact.kind === 'upto' ? checkUpto(uptoOf(exact), offer, now) : checkExact({ ...exact, kind: 'exact' }, offer, now)

const checkPrice = (exact: Authorized, offer: Offer): Refused | undefined =>
  exact.kind === 'upto' ? checkAmount(uptoOf(exact), offer) : checkValue({ ...exact, kind: 'exact' }, offer)

/** The account that would send `upto` payments. */
const FACILITATOR: Hex = '0x00000000000000000000000000000000facade00'
const BY_PERMIT2 = { assetTransferMethod: 'permit2' }

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

const signedText = (key: string, text: string): Hex => `0x${digest(`text ${key} ${text}`)}`

function nameOf(offer: Offer, otherwise: string): string {
  return typeof offer.extra?.name === 'string' ? offer.extra.name : otherwise
}

function digest(text: string): string {
  return bytesToHex(sha256(utf8ToBytes(text)))
}
