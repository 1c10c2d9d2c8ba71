/**
 * The settlement contract and the token on a chain in memory, as the calls of `adapters/chains/evm/channels` see them:
 * the calldata is decoded by the public ABI and every signature is checked. Each transaction is a block, so that a node
 * may show an older one.
 */
import { decodeAbiParameters, type DecodeFunctionDataReturnType, keccak256, toFunctionSelector, toHex } from 'viem'
import { type ChannelConfig, channelDigests } from '../../../adapters/chains/evm/channels/digests.ts'
import { claimLogs, refundLogs } from '../../../adapters/chains/evm/channels/contract.ts'
import type { ContractCall } from '../../../adapters/chains/evm/node/multicall.ts'
import type { ChainLog } from '../../../adapters/chains/evm/node/token.ts'
import { type Hex, lower, word } from '../../../adapters/chains/lib/hex.ts'
import { boundedMap } from '../../../core/lib/bounded_map.ts'
import { batchSettlementAbi as abi, ERC3009_COLLECTOR } from '../../../adapters/chains/evm/node/x402_contracts.ts'
import { domainSeparator, receiveDigestOf } from '../../../adapters/chains/evm/exact/eip3009.ts'
import { hasSigned } from './keys.ts'
import { ASSET, DOMAIN } from './terms.ts'

export const CHAIN_ID = 84_532
export const digests = channelDigests(CHAIN_ID)
const SEPARATOR = domainSeparator(DOMAIN, CHAIN_ID, ASSET)

/** A channel as the contract knows it. Times in seconds. */
type Escrow = {
  /** Gross: claims do not lower it. */
  readonly balance: bigint
  readonly claimed: bigint
  readonly withdrawing: bigint
  readonly withdrawRequestedAt: number
  readonly refundNonce: bigint
}

type State = {
  readonly tokens: Map<Hex, bigint>
  readonly used: Set<string>
  readonly escrows: Map<Hex, Escrow>
  /** Of the one receiver: what was claimed for it, and what of that it was sent. */
  claimed: bigint
  settled: bigint
}

/** `time` in milliseconds. */
export type Block = { readonly number: number; readonly time: number; readonly state: State }

export type Mined = {
  readonly hash: Hex
  readonly isSuccess: boolean
  readonly block: number
  readonly logs: readonly ChainLog[]
}

export type Contract = {
  head(): Block
  /** The block that a node shows which is so many blocks behind. */
  at(lagBlocks: number): Block
  /** Time passes: a block without transactions. */
  advance(now: number): void
  fund(owner: Hex, amount: bigint): void
  drain(owner: Hex): void
  /** Anybody's money for a channel, through another collector. */
  gift(channelId: Hex, amount: bigint): void
  balanceOf(owner: Hex): bigint
  escrow(channelId: Hex): Escrow
  /** Result of a view, or of a transaction, on top of a block. */
  call(call: ContractCall, block: Block): { readonly ok: boolean; readonly data: Hex }
  /** Anybody's transaction at the head of the chain. `from` matters to withdrawals only. */
  send(call: ContractCall, from?: Hex): Mined
  /** The events of a channel with these topics, in blocks up to one. */
  events(topics: readonly unknown[], blocks: { readonly from: number; readonly to: number }): readonly ChainLog[]
  /** The calldata of a transaction that was mined. */
  inputOf(hash: Hex): Hex | undefined
}

const NONE: Escrow = { balance: 0n, claimed: 0n, withdrawing: 0n, withdrawRequestedAt: 0, refundNonce: 0n }
export const CHANNELS_VIEW = toFunctionSelector('channels(bytes32)')
export const WITHDRAWALS_VIEW = toFunctionSelector('pendingWithdrawals(bytes32)')
const REFUND_NONCE = toFunctionSelector('refundNonce(bytes32)')
const AUTHORIZATION_STATE = toFunctionSelector('authorizationState(address,bytes32)')
const DEPOSIT_DATA = [{ type: 'uint256' }, { type: 'uint256' }, { type: 'uint256' }, { type: 'bytes' }] as const
const BASIC = { minDelay: 900, maxDelay: 2_592_000 } as const

type Decoded = DecodeFunctionDataReturnType<typeof abi>

const FUNCTIONS = new Map(
  abi.flatMap((item) => (item.type === 'function' ? [[toFunctionSelector(item) as string, item] as const] : [])),
)

/** The simulated transaction is sent next. */
const decodedBefore = boundedMap<Decoded>(100)

export function decodedCall(data: Hex): Decoded {
  const before = decodedBefore.get(data)
  if (before) return before
  const item = FUNCTIONS.get(data.slice(0, 10))
  if (!item) throw new RangeError(`no function of the settlement contract has the selector ${data.slice(0, 10)}`)
  const args = decodeAbiParameters(item.inputs, `0x${data.slice(10)}`)
  const decoded = { functionName: item.name, args } as Decoded
  decodedBefore.set(data, decoded)
  return decoded
}

/** A payer's signature to have tokens taken into a channel. */
export function depositDigest(deposit: {
  readonly payer: Hex
  readonly amount: bigint
  readonly validBefore: bigint
  readonly nonce: Hex
}): Hex {
  const { payer, amount, validBefore, nonce } = deposit
  const transfer = { from: payer, to: lower(ERC3009_COLLECTOR), value: amount, validAfter: 0n, validBefore, nonce }
  return receiveDigestOf(transfer, SEPARATOR)
}

class Revert extends Error {}

function need(condition: boolean, problem: string): asserts condition {
  if (!condition) throw new Revert(problem)
}

type Rows = readonly {
  readonly voucher: { readonly channel: ChannelConfig; readonly maxClaimableAmount: bigint }
  readonly signature: Hex
  readonly totalClaimed: bigint
}[]

export function createContract(): Contract {
  const blocks: Block[] = [{ number: 0, time: 0, state: empty() }]
  const logs: { readonly block: number; readonly log: ChainLog }[] = []
  const inputs = new Map<Hex, Hex>()
  let transactions = 0

  const head = (): Block => blocks[blocks.length - 1] as Block

  function mine(state: State, now = 0): Block {
    const block = { number: blocks.length, time: Math.max(now, head().time), state }
    blocks.push(block)
    return block
  }

  /** Carries out a call on a copy of the state of a block, as if it were in the next one. Throws where it reverts. */
  function execute({ data }: ContractCall, { state: before, time }: Block, from: Hex): State {
    const state = copyOf(before)
    const now = BigInt(Math.floor(time / 1000))
    const decoded = decodedCall(data)
    if (decoded.functionName === 'multicall')
      return decoded.args[0].reduce(
        (on, inner) => execute({ to: '0x', data: inner }, { number: 0, time, state: on }, from),
        state,
      )
    if (decoded.functionName === 'deposit') deposit(state, decoded.args, now)
    if (decoded.functionName === 'claimWithSignature') claim(state, ...decoded.args)
    if (decoded.functionName === 'settle') settle(state, lower(decoded.args[0]))
    if (decoded.functionName === 'refundWithSignature') refund(state, decoded.args)
    if (decoded.functionName === 'initiateWithdraw') initiate(state, decoded.args, { now, from })
    if (decoded.functionName === 'finalizeWithdraw') finalize(state, decoded.args[0], { now, from })
    return state
  }

  function call(given: ContractCall, block: Block): { ok: boolean; data: Hex } {
    const selector = given.data.slice(0, 10)
    const { state } = block
    const last: Hex = `0x${given.data.slice(-64)}`
    const { balance, claimed, withdrawing, withdrawRequestedAt, refundNonce } = state.escrows.get(last) ?? NONE
    if (selector === CHANNELS_VIEW) return { ok: true, data: `0x${word(balance)}${word(claimed)}` }
    if (selector === WITHDRAWALS_VIEW)
      return { ok: true, data: `0x${word(withdrawing)}${word(BigInt(withdrawRequestedAt))}` }
    if (selector === REFUND_NONCE) return { ok: true, data: `0x${word(refundNonce)}` }
    if (selector === AUTHORIZATION_STATE) {
      const isUsed = state.used.has(nonceKey(`0x${given.data.slice(34, 74)}`, last))
      return { ok: true, data: `0x${word(isUsed ? 1n : 0n)}` }
    }
    try {
      execute(given, block, '0x')
      return { ok: true, data: '0x' }
    } catch (error) {
      if (error instanceof Revert) return { ok: false, data: '0x' }
      throw error
    }
  }

  function change(owner: Hex, delta: bigint): void {
    const state = copyOf(head().state)
    move(state, owner, delta)
    mine(state)
  }

  return {
    head,
    at: (lagBlocks) => blocks[Math.max(0, blocks.length - 1 - lagBlocks)] as Block,
    advance(now) {
      if (now > head().time) mine(head().state, now)
    },
    fund: (owner, amount) => change(owner, amount),
    drain: (owner) => change(owner, -(head().state.tokens.get(owner) ?? 0n)),
    gift(channelId, amount) {
      const state = copyOf(head().state)
      const escrow = state.escrows.get(channelId) ?? NONE
      state.escrows.set(channelId, { ...escrow, balance: escrow.balance + amount })
      mine(state)
    },
    balanceOf: (owner) => head().state.tokens.get(owner) ?? 0n,
    escrow: (channelId) => head().state.escrows.get(channelId) ?? NONE,
    call,
    send(given, from = '0x') {
      transactions++
      const hash = keccak256(toHex(`transaction ${transactions}`))
      const before = head()
      try {
        const { number, state } = mine(execute(given, before, from))
        const made = eventsBetween(before.state, state).map((log) => ({ ...log, transactionHash: hash }))
        inputs.set(hash, given.data)
        for (const log of made) logs.push({ block: number, log })
        return { hash, isSuccess: true, block: number, logs: made }
      } catch (error) {
        if (error instanceof Revert) return { hash, isSuccess: false, block: mine(head().state).number, logs: [] }
        throw error
      }
    },
    events(topics, { from, to }) {
      const own = logs.filter(({ block }) => block >= from && block <= to)
      return own.flatMap(({ log }) => (topics.every((topic, i) => log.topics[i] === topic) ? [log] : []))
    },
    inputOf: (hash) => inputs.get(hash),
  }
}

/** Claimed amounts, and amounts that refunds have sent to their payers; each moves its channel's refund nonce. */
function eventsBetween(before: State, after: State): Omit<ChainLog, 'transactionHash'>[] {
  return [...after.escrows].flatMap(([id, escrow]) => {
    const was = before.escrows.get(id) ?? NONE
    const made: Omit<ChainLog, 'transactionHash'>[] = []
    if (escrow.claimed > was.claimed) {
      const { address, topics } = claimLogs(id)
      const data = `0x${word(escrow.claimed - was.claimed)}${word(escrow.claimed)}` as const
      made.push({ address, topics: topics as Hex[], data })
    }
    if (escrow.refundNonce === was.refundNonce) return made
    const { address, topics } = refundLogs(id)
    return [...made, { address, topics: topics as Hex[], data: `0x${word(was.balance - escrow.balance)}` as const }]
  })
}

const nonceKey = (payer: Hex, nonce: Hex): string => `${payer}/${nonce}`

function empty(): State {
  return { tokens: new Map(), used: new Set(), escrows: new Map(), claimed: 0n, settled: 0n }
}

function copyOf({ tokens, used, escrows, claimed, settled }: State): State {
  return { tokens: new Map(tokens), used: new Set(used), escrows: new Map(escrows), claimed, settled }
}

function move(state: State, owner: Hex, delta: bigint): void {
  state.tokens.set(owner, (state.tokens.get(owner) ?? 0n) + delta)
}

export function lowered(config: ChannelConfig): ChannelConfig {
  return {
    payer: lower(config.payer),
    payerAuthorizer: lower(config.payerAuthorizer),
    receiver: lower(config.receiver),
    receiverAuthorizer: lower(config.receiverAuthorizer),
    token: lower(config.token),
    withdrawDelay: config.withdrawDelay,
    salt: lower(config.salt),
  }
}

function deposit(
  state: State,
  [given, amount, collector, data]: readonly [ChannelConfig, bigint, Hex, Hex],
  now: bigint,
): void {
  const config = lowered(given)
  need(config.withdrawDelay >= BASIC.minDelay && config.withdrawDelay <= BASIC.maxDelay, 'WithdrawDelayOutOfRange')
  need(amount > 0n, 'InvalidAmount')
  need(lower(collector) === lower(ERC3009_COLLECTOR), 'InvalidCollector')
  const id = digests.channelId(config)
  const [validAfter, validBefore, salt, signature] = decodeAbiParameters(DEPOSIT_DATA, data)
  const nonce = digests.depositNonce(id, toHex(salt, { size: 32 }))
  const { payer } = config
  need(now > validAfter && now < validBefore, 'the authorization is not valid now')
  need(!state.used.has(nonceKey(payer, nonce)), 'the authorization is used')
  need(hasSigned(payer, depositDigest({ payer, amount, validBefore, nonce }), signature), 'InvalidSignature')
  need((state.tokens.get(payer) ?? 0n) >= amount, 'the balance is too low')
  state.used.add(nonceKey(payer, nonce))
  move(state, payer, -amount)
  const escrow = state.escrows.get(id) ?? NONE
  state.escrows.set(id, { ...escrow, balance: escrow.balance + amount })
}

/** The rows of a claim, as they are hashed. */
export function claimRowsOf(rows: Rows) {
  return rows.map(({ voucher, totalClaimed, signature: signed }) => {
    const config = lowered(voucher.channel)
    const channelId = digests.channelId(config)
    return { config, channelId, ceiling: voucher.maxClaimableAmount, charged: totalClaimed, signed }
  })
}

function claim(state: State, rows: Rows, signature: Hex): void {
  const [first] = rows
  need(first !== undefined, 'EmptyBatch')
  const authorizer = lower(first.voucher.channel.receiverAuthorizer)
  const listed = claimRowsOf(rows)
  need(
    listed.every(({ config }) => config.receiverAuthorizer === authorizer),
    'NotAuthorized',
  )
  need(hasSigned(authorizer, digests.claims(listed), signature), 'InvalidSignature')
  for (const { config, channelId, ceiling, charged, signed } of listed) {
    const escrow = state.escrows.get(channelId) ?? NONE
    if (charged <= escrow.claimed) continue
    need(charged <= ceiling, 'ClaimExceedsCeiling')
    need(charged <= escrow.balance, 'ClaimExceedsBalance')
    need(hasSigned(config.payerAuthorizer, digests.voucher(channelId, ceiling), signed), 'InvalidSignature')
    state.claimed += charged - escrow.claimed
    state.escrows.set(channelId, { ...escrow, claimed: charged })
  }
}

function settle(state: State, receiver: Hex): void {
  move(state, receiver, state.claimed - state.settled)
  state.settled = state.claimed
}

/** Sends the payer at most `amount` of what is free. */
function payBack(state: State, config: ChannelConfig, { id, amount }: { id: Hex; amount: bigint }): Escrow {
  const escrow = state.escrows.get(id) ?? NONE
  const free = escrow.balance - escrow.claimed
  const sent = amount < free ? amount : free
  move(state, config.payer, sent)
  return { ...escrow, balance: escrow.balance - sent }
}

function refund(state: State, [given, amount, nonce, signature]: readonly [ChannelConfig, bigint, bigint, Hex]): void {
  const config = lowered(given)
  const id = digests.channelId(config)
  need(nonce === (state.escrows.get(id) ?? NONE).refundNonce, 'InvalidRefundNonce')
  need(hasSigned(config.receiverAuthorizer, digests.refund(id, { nonce, amount }), signature), 'InvalidSignature')
  need(amount > 0n, 'InvalidAmount')
  const escrow = payBack(state, config, { id, amount })
  const free = escrow.balance - escrow.claimed
  const withdrawing = escrow.withdrawing < free ? escrow.withdrawing : free
  const rest = withdrawing === 0n ? { withdrawing, withdrawRequestedAt: 0 } : { withdrawing }
  state.escrows.set(id, { ...escrow, ...rest, refundNonce: nonce + 1n })
}

function initiate(
  state: State,
  [given, amount]: readonly [ChannelConfig, bigint],
  { now, from }: { now: bigint; from: Hex },
): void {
  const config = lowered(given)
  const id = digests.channelId(config)
  const escrow = state.escrows.get(id) ?? NONE
  need(from === config.payer, 'NotAuthorized')
  need(escrow.withdrawRequestedAt === 0, 'WithdrawalPending')
  need(amount > 0n && amount <= escrow.balance - escrow.claimed, 'InvalidAmount')
  state.escrows.set(id, { ...escrow, withdrawing: amount, withdrawRequestedAt: Number(now) })
}

function finalize(state: State, given: ChannelConfig, { now, from }: { now: bigint; from: Hex }): void {
  const config = lowered(given)
  const id = digests.channelId(config)
  const escrow = state.escrows.get(id) ?? NONE
  need(from === config.payer, 'NotAuthorized')
  need(escrow.withdrawRequestedAt !== 0, 'NoWithdrawalPending')
  need(now >= BigInt(escrow.withdrawRequestedAt + config.withdrawDelay), 'WithdrawDelayNotOver')
  const after = payBack(state, config, { id, amount: escrow.withdrawing })
  state.escrows.set(id, { ...after, withdrawing: 0n, withdrawRequestedAt: 0 })
}
