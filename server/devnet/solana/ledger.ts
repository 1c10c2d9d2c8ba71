/**
 * A Solana chain in memory: accounts, slots, blockhashes and landed transactions, as seen at each of the three
 * commitments. Nothing is persisted.
 */
import { createHash } from 'node:crypto'
import {
  type Address,
  address,
  type EncodedAccount,
  getBase58Decoder,
  getBase58Encoder,
  type Transaction,
} from '@solana/kit'
import { Clock as ClockSysvar, LiteSVM } from 'litesvm'
import type { Clock } from '../../../core/mod.ts'
import type { TransactionError } from './errors.ts'
import { type Holding, holdingOf, walletAccount } from './tokens.ts'
import { failure, isSigned, type Message, type Outcome, outcomeOf, type Parsed, type Ran } from './transaction.ts'

export const SLOT_MS = 400
/** A transaction may land while its blockhash is at most this many slots old. */
export const BLOCKHASH_LIFE = 150
/** How many slots finalized is behind confirmed. */
export const ROOT_DEPTH = 31
export const SLOTS_PER_EPOCH = 432_000
/** Skipped slots, so that a block height is never mistaken for a slot. */
const SKIPPED = 11_000_000
/** Age in slots of the oldest state that can be requested: finalized, with a large lag. */
const FIRST_SLOT_OFFSET = 200
/** Transactions that are remembered beyond that age: about 8 KB of memory each. */
const MAX_TRANSACTIONS = 5_000

const CLOCK = address('SysvarC1ock11111111111111111111111111111111')
const SYSVARS = address('Sysvar1111111111111111111111111111111111111')

export type Commitment = 'processed' | 'confirmed' | 'finalized'

/**
 * A transaction in a block, including one that failed there and paid its fee. Balances are by index of its account
 * keys.
 */
export type Landed = Outcome & {
  readonly signature: string
  readonly slot: number
  readonly wire: Uint8Array
  readonly message: Message
  readonly fee: bigint
  readonly before: readonly Holding[]
  readonly after: readonly Holding[]
}

type Simulating = {
  readonly slot: number
  readonly sigVerify: boolean
  /** Run as if signed over the newest blockhash. */
  readonly isRenewed?: boolean
}

export type SolanaLedger = {
  /** The chain's own time in milliseconds. A slot begins every 400 ms. */
  now(): number
  /** Advances the time; throws when it would go back. */
  setTime(ms: number): void
  /** The newest slot. Transactions that are due have landed when this returns. */
  tip(): number
  /** The newest slot of a commitment, as the node sees it: lower than the real one while it is behind. */
  slotOf(commitment: Commitment): number
  timeOf(slot: number): number
  heightOf(slot: number): number
  blockhashOf(slot: number): string
  /** The slot of a blockhash that is known and valid at `slot`. */
  slotOfBlockhash(blockhash: string, slot: number): number | undefined
  account(address: Address, slot: number): EncodedAccount | undefined
  accountsOf(program: Address, slot: number): readonly EncodedAccount[]
  /** Landed transactions as the node sees them, at any commitment. */
  find(signature: string): Landed | undefined
  /** Transactions that have really landed. */
  landed(signature: string): Landed | undefined
  /** Newest first. */
  history(): readonly Landed[]
  simulate(parsed: Parsed, how: Simulating): Outcome
  /**
   * Lands the transaction now, or later with `delay`. It silently never lands when its blockhash has expired, a
   * signature is wrong, or the fee payer has no money.
   */
  submit(parsed: Parsed): void
  rentFor(bytes: number): bigint
  /** Overwrites an account at every commitment. */
  put(account: EncodedAccount): void
  /** Slots that confirmed is behind processed; initially 0. */
  setLag(slots: number): void
  /** Slots between sending and landing; initially 0. */
  setDelay(slots: number): void
  /** Drops everything that is not confirmed, transactions and blockhashes; returns the signatures. */
  fork(): readonly string[]
  /** Marks the current state; the next slot begins. */
  mark(): void
  /** Shows the chain as it was at the mark, or as it is now. */
  rewind(on: boolean): void
}

type Change = { readonly slot: number; readonly address: Address; readonly before: EncodedAccount | undefined }

type ChainState = {
  readonly clock: Pick<Clock, 'now'>
  readonly svm: LiteSVM
  /** The first slot, and when it began. */
  readonly first: number
  readonly startedAt: number
  readonly landed: Map<string, Landed>
  /**
   * The same by message: with another signature of the fee payer, or before it has signed, it is the same transaction.
   */
  readonly ran: Map<string, Landed>
  readonly forks: number[]
  changes: Change[]
  underway: { readonly parsed: Parsed; readonly due: number }[]
  /** Milliseconds that the chain's time is ahead of the clock. */
  offset: number
  newest: number
  lag: number
  delay: number
  marked: number
  isBehind: boolean
}

export function solanaLedger(clock: Pick<Clock, 'now'>): SolanaLedger {
  const svm = new LiteSVM().withBlockhashCheck(false).withTransactionHistory(0n)
  const first = Number(svm.getClock().slot) + FIRST_SLOT_OFFSET // the programs exist since litesvm's own first slot
  const chain: ChainState = {
    clock,
    svm,
    first,
    startedAt: clock.now(),
    landed: new Map(),
    ran: new Map(),
    forks: [],
    changes: [],
    underway: [],
    offset: 0,
    newest: first,
    lag: 0,
    delay: 0,
    marked: Infinity,
    isBehind: false,
  }
  return {
    now: () => now(chain),
    timeOf: (slot) => timeOf(chain, slot),
    slotOf: (commitment) => slotOf(chain, commitment),
    blockhashOf: (slot) => blockhashOf(chain, slot),
    slotOfBlockhash: (blockhash, slot) => slotOfBlockhash(chain, blockhash, slot),
    account: (address, slot) => account(chain, address, slot),
    heightOf: (slot) => slot - SKIPPED,
    rentFor: (bytes) => svm.minimumBalanceForRentExemption(BigInt(bytes)),
    setTime: (ms) => setTime(chain, ms),
    tip: () => tip(chain),
    accountsOf: (program, slot) => accountsOf(chain, program, slot),
    landed(signature) {
      tip(chain)
      return chain.landed.get(signature)
    },
    find(signature) {
      const newestSeen = slotOf(chain, 'processed')
      const found = chain.landed.get(signature)
      return found && found.slot <= newestSeen ? found : undefined
    },
    history() {
      const newestSeen = slotOf(chain, 'processed')
      return [...chain.landed.values()].filter(({ slot }) => slot <= newestSeen).reverse()
    },
    simulate: (parsed, how) => simulate(chain, parsed, how),
    submit(parsed) {
      const due = tip(chain) + chain.delay
      if (!chain.underway.some((each) => each.parsed.signature === parsed.signature))
        chain.underway.push({ parsed, due })
      tip(chain)
    },
    put(account) {
      chain.changes = chain.changes.filter((change) => change.address !== account.address)
      svm.setAccount(account)
    },
    setLag: (slots) => void (chain.lag = slots),
    setDelay: (slots) => void (chain.delay = slots),
    fork: () => fork(chain),
    mark() {
      chain.marked = tip(chain)
      setTime(chain, timeOf(chain, chain.marked + 1))
    },
    rewind: (on) => void (chain.isBehind = on),
  }
}

function now(chain: ChainState): number {
  return chain.clock.now() + chain.offset
}

function timeOf(chain: ChainState, slot: number): number {
  return chain.startedAt + (slot - chain.first) * SLOT_MS
}

function tip(chain: ChainState): number {
  chain.newest = Math.max(chain.newest, chain.first + Math.floor((now(chain) - chain.startedAt) / SLOT_MS))
  const due = chain.underway.filter((each) => each.due <= chain.newest).sort((one, other) => one.due - other.due)
  chain.underway = chain.underway.filter((each) => each.due > chain.newest)
  for (const each of due) land(chain, each.parsed, each.due)
  return chain.newest
}

function slotOf(chain: ChainState, commitment: Commitment): number {
  const seen = Math.min(tip(chain), chain.isBehind ? chain.marked : Infinity)
  if (commitment === 'processed') return seen
  return commitment === 'confirmed' ? seen - chain.lag : seen - chain.lag - ROOT_DEPTH
}

/** The last eight bytes are the slot; the others distinguish forks, and this chain from that of another start. */
function blockhashOf(chain: ChainState, slot: number): string {
  const fork = chain.forks.filter((at) => at < slot).length
  const hash = createHash('sha256').update(`block ${slot} of fork ${fork} since ${chain.startedAt}`).digest()
  hash.writeBigUInt64BE(BigInt(slot), 24)
  return getBase58Decoder().decode(hash)
}

function slotOfBlockhash(chain: ChainState, blockhash: string, slot: number): number | undefined {
  const bytes = Buffer.from(getBase58Encoder().encode(blockhash))
  if (bytes.length !== 32) return undefined
  const made = Number(bytes.readBigUInt64BE(24))
  return made <= slot && slot - made <= BLOCKHASH_LIFE && blockhashOf(chain, made) === blockhash ? made : undefined
}

function current(chain: ChainState, address: Address): EncodedAccount | undefined {
  const found = chain.svm.getAccount(address)
  return found.exists ? found : undefined
}

function account(chain: ChainState, address: Address, slot: number): EncodedAccount | undefined {
  if (address === CLOCK) return clockAt(chain, Math.min(slot, tip(chain)))
  const next = changesAfter(chain, slot).find((change) => change.address === address)
  return next ? next.before : current(chain, address)
}

/** Ordered by slot; mostly the newest are requested. */
function changesAfter(chain: ChainState, slot: number): readonly Change[] {
  return chain.changes.slice(chain.changes.findLastIndex((change) => change.slot <= slot) + 1)
}

/** Not written by transactions: each block has its own. */
function clockAt(chain: ChainState, slot: number): EncodedAccount {
  const [data, epoch] = [Buffer.alloc(40), BigInt(Math.floor(slot / SLOTS_PER_EPOCH))]
  const fields = [BigInt(slot), 0n, epoch, epoch + 1n, BigInt(Math.floor(timeOf(chain, slot) / 1000))]
  fields.forEach((field, i) => data.writeBigInt64LE(field, 8 * i))
  return { ...walletAccount(CLOCK, 1_169_280n), data: Uint8Array.from(data), space: 40n, programAddress: SYSVARS }
}

/** Restores the accounts of a slot; returns the replaced ones. */
function unwind(chain: ChainState, slot: number): readonly (readonly [Address, EncodedAccount | undefined])[] {
  const touched = [...new Set(changesAfter(chain, slot).map((change) => change.address))]
  const previous = touched.map((address) => [address, current(chain, address)] as const)
  for (const address of touched) write(chain, address, account(chain, address, slot))
  return previous
}

function write(chain: ChainState, address: Address, account: EncodedAccount | undefined): void {
  chain.svm.setAccount(account ?? walletAccount(address, 0n))
}

/** The reason why a block would refuse it without running it. */
function refusalOf(chain: ChainState, { message, wire }: Parsed, slot: number): TransactionError | undefined {
  if (slotOfBlockhash(chain, message.blockhash, slot) === undefined) return 'BlockhashNotFound'
  const twin = chain.ran.get(signedIn(wire))
  return twin && twin.slot <= slot ? 'AlreadyProcessed' : undefined
}

function run(
  chain: ChainState,
  { transaction }: Parsed,
  slot: number,
  act: (transaction: Transaction) => Ran,
): Outcome {
  const epoch = BigInt(Math.floor(slot / SLOTS_PER_EPOCH))
  chain.svm.setClock(
    new ClockSysvar(BigInt(slot), 0n, epoch, epoch + 1n, BigInt(Math.floor(timeOf(chain, slot) / 1000))),
  )
  try {
    return outcomeOf(act(transaction))
  } catch {
    return failure('SanitizeFailure')
  }
}

function land(chain: ChainState, parsed: Parsed, slot: number): void {
  if (refusalOf(chain, parsed, slot) || !isSigned(parsed)) return
  const { keys, instructions } = parsed.message
  const called = new Set(instructions.map(({ programIdIndex }) => programIdIndex))
  const snapshot = () =>
    // programs are large to copy
    keys.map((key, i) => (called.has(i) ? walletAccount(key, chain.svm.getBalance(key) ?? 0n) : current(chain, key)))
  const before = snapshot()
  const outcome = run(chain, parsed, slot, (transaction) => chain.svm.sendTransaction(transaction))
  const after = snapshot()
  const fee = sum(before) - sum(after)
  if (fee === 0n) return // refused before it began
  keys.forEach((address, i) => {
    if (!isSame(before[i], after[i])) chain.changes.push({ slot, address, before: before[i] })
  })
  const { wire, message, signature } = parsed
  const made: Landed = {
    ...outcome,
    signature,
    slot,
    wire,
    message,
    fee,
    before: before.map(holdingOf),
    after: after.map(holdingOf),
  }
  chain.landed.set(signature, made)
  chain.ran.set(signedIn(wire), made)
  forget(chain)
}

/**
 * A transaction is remembered while its blockhash is valid, however many there are; otherwise it could land twice.
 */
function forget(chain: ChainState): void {
  const past = Math.min(chain.newest, chain.marked) - FIRST_SLOT_OFFSET
  for (const [signature, { slot }] of chain.landed) {
    if (chain.landed.size <= MAX_TRANSACTIONS || slot >= past) break
    drop(chain, signature)
  }
  if (chain.changes[0] && chain.changes[0].slot < past - FIRST_SLOT_OFFSET)
    chain.changes = chain.changes.filter((change) => change.slot >= past)
}

function drop(chain: ChainState, signature: string): void {
  const gone = chain.landed.get(signature)
  if (gone) chain.ran.delete(signedIn(gone.wire))
  chain.landed.delete(signature)
}

function setTime(chain: ChainState, ms: number): void {
  if (ms < now(chain)) throw new RangeError(`it is already ${now(chain)}: time does not go back to ${ms}`)
  chain.offset += ms - now(chain)
  tip(chain)
}

function accountsOf(chain: ChainState, program: Address, slot: number): readonly EncodedAccount[] {
  const all = new Set([
    ...chain.svm.getProgramAccounts(program).map((each) => each.address),
    ...chain.changes.map((change) => change.address),
  ])
  return [...all]
    .map((address) => account(chain, address, slot))
    .filter((each) => each?.programAddress === program) as EncodedAccount[]
}

function simulate(chain: ChainState, parsed: Parsed, { slot, sigVerify, isRenewed = false }: Simulating): Outcome {
  const { svm } = chain
  if (sigVerify && !isSigned(parsed)) return failure('SignatureFailure')
  const refusal = isRenewed ? undefined : refusalOf(chain, parsed, slot)
  if (refusal) return failure(refusal)
  const previous = unwind(chain, slot)
  svm.withSigverify(sigVerify)
  try {
    return run(chain, parsed, slot, (transaction) => svm.simulateTransaction(transaction))
  } finally {
    svm.withSigverify(true)
    for (const [address, account] of previous) write(chain, address, account)
  }
}

function fork(chain: ChainState): readonly string[] {
  const safe = tip(chain) - chain.lag
  const lost = [...chain.landed.values()].filter(({ slot }) => slot > safe).map(({ signature }) => signature)
  unwind(chain, safe)
  chain.changes = chain.changes.filter((change) => change.slot <= safe)
  for (const signature of lost) drop(chain, signature)
  chain.forks.push(safe)
  return lost
}

function sum(accounts: readonly (EncodedAccount | undefined)[]): bigint {
  return accounts.reduce((total, account) => total + (account?.lamports ?? 0n), 0n)
}

function isSame(one: EncodedAccount | undefined, other: EncodedAccount | undefined): boolean {
  if (!one || !other) return one === other
  return (
    one.lamports === other.lamports &&
    one.programAddress === other.programAddress &&
    Buffer.from(one.data).equals(Buffer.from(other.data))
  )
}

const signedIn = (wire: Uint8Array): string =>
  createHash('sha256')
    .update(wire.subarray(1 + 64 * (wire[0] ?? 0)))
    .digest('base64')
