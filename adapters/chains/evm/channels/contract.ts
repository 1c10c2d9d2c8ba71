/** Calls of the settlement contract, and what its views answer. */
import {
  type AbiStateMutability,
  type ContractFunctionArgs,
  type ContractFunctionName,
  encodeAbiParameters,
  encodeEventTopics,
  toFunctionSelector,
} from 'viem'
import type { ContractCall } from '../node/multicall.ts'
import type { ChainLog } from '../node/token.ts'
import { type Hex, lower } from '../../lib/hex.ts'
import { BATCH_SETTLEMENT, batchSettlementAbi as abi, ERC3009_COLLECTOR } from '../node/x402_contracts.ts'
import type { ChannelConfig } from './digests.ts'
import type { Deposit } from './payload.ts'
import type { ChannelState, Mirror } from './state.ts'

const to = lower(BATCH_SETTLEMENT)
const DEPOSIT_DATA = [{ type: 'uint256' }, { type: 'uint256' }, { type: 'uint256' }, { type: 'bytes' }] as const

type Name = ContractFunctionName<typeof abi>
type Args<N extends Name> = ContractFunctionArgs<typeof abi, AbiStateMutability, N>

/** Selectors are hashed once; viem's `encodeFunctionData` hashes one for each call. */
const FUNCTIONS = new Map(
  abi.flatMap((item) =>
    item.type === 'function' ? [[item.name as Name, { inputs: item.inputs, selector: toFunctionSelector(item) }]] : [],
  ),
)

function dataOf<const N extends Name>(name: N, args: Args<N>): Hex {
  const found = FUNCTIONS.get(name)
  if (!found) throw new RangeError(`the settlement contract has no function ${name}`)
  return `${found.selector}${encodeAbiParameters(found.inputs, args as never).slice(2)}` as Hex
}

/** Brings a signed deposit, whoever sends it. */
export function depositCall(config: ChannelConfig, deposit: Deposit): ContractCall {
  const { amount, validAfter, validBefore, salt, signature } = deposit
  const data = encodeAbiParameters(DEPOSIT_DATA, [validAfter, validBefore, BigInt(salt), signature])
  return { to, data: dataOf('deposit', [config, amount, ERC3009_COLLECTOR, data]) }
}

/** Claims what was charged, never the ceiling. `signature` is of the receiver's authorizer over all rows. */
export function claimCall(states: readonly ChannelState[], signature: Hex): ContractCall {
  const rows = states.map(({ config, ceiling, signature: signed, charged }) => ({
    voucher: { channel: config, maxClaimableAmount: ceiling },
    signature: signed,
    totalClaimed: charged,
  }))
  return { to, data: dataOf('claimWithSignature', [rows, signature]) }
}

/** Sends the receiver everything that was claimed. */
export const settleCall = (receiver: Hex, token: Hex): ContractCall => ({
  to,
  data: dataOf('settle', [receiver, token]),
})

type SignedRefund = { readonly amount: bigint; readonly nonce: bigint; readonly signature: Hex }

/** Sends the payer at most `amount` of what was not claimed. `signature` is of the receiver's authorizer. */
export const refundCall = (config: ChannelConfig, { amount, nonce, signature }: SignedRefund): ContractCall => ({
  to,
  data: dataOf('refundWithSignature', [config, amount, nonce, signature]),
})

/** All of the calls in one transaction, or none. */
export const allOf = (calls: readonly ContractCall[]): ContractCall => ({
  to,
  data: dataOf('multicall', [calls.map(({ data }) => data)]),
})

/** The filter of a channel's claims. */
export const claimLogs = (channelId: Hex) => ({
  address: to,
  topics: encodeEventTopics({ abi, eventName: 'Claimed', args: { channelId } }).slice(0, 2),
})

/** The filter of a channel's refunds; each moves its refund nonce by one. */
export const refundLogs = (channelId: Hex) => ({
  address: to,
  topics: encodeEventTopics({ abi, eventName: 'Refunded', args: { channelId } }).slice(0, 2),
})

/** Amount that a channel's refund sent to its payer; undefined if the logs are not of a refund. */
export function refundIn(
  logs: readonly ChainLog[],
  channelId: Hex,
): (Pick<ChainLog, 'transactionHash'> & { readonly amount: bigint }) | undefined {
  const { topics } = refundLogs(channelId)
  const log = logs.findLast((each) => each.address === to && topics.every((topic, i) => each.topics[i] === topic))
  return log && { transactionHash: log.transactionHash, amount: BigInt(log.data) }
}

const VIEWS = ['channels', 'pendingWithdrawals', 'refundNonce'] as const

/** Three views; `mirrorIn` reads their answers. */
export const mirrorCalls = (channelId: Hex): readonly ContractCall[] =>
  VIEWS.map((name) => ({ to, data: dataOf(name, [channelId]) }))

type Result = { readonly ok: boolean; readonly data: Hex } | undefined

export function mirrorIn(results: readonly Result[]): Mirror | undefined {
  const [channel, withdrawal, nonce] = results.map(wordsIn)
  const [balance, claimed] = channel ?? []
  const [withdrawing, at] = withdrawal ?? []
  const [refundNonce] = nonce ?? []
  if (balance === undefined || claimed === undefined || refundNonce === undefined) return undefined
  if (withdrawing === undefined || at === undefined) return undefined
  return { balance, claimed, withdrawing, withdrawRequestedAt: Number(at), refundNonce }
}

function wordsIn(result: Result): readonly bigint[] | undefined {
  if (!result?.ok || result.data.length % 64 !== 2) return undefined
  return (result.data.slice(2).match(/.{64}/g) ?? []).map((each) => BigInt(`0x${each}`))
}
