/** Finds the channels of API keys in the logs of the contract, after the loss of the database. */
import { decodeAbiParameters, encodeEventTopics } from 'viem'
import { BATCH_SETTLEMENT, batchSettlementAbi as abi } from '../../node/x402_contracts.ts'
import { type Hex, hexOf, lower, numberIn } from '../../../lib/hex.ts'
import type { Rpc } from '../../../lib/json_rpc.ts'
import { type ChainLog, parseLogs } from '../../node/token.ts'
import type { ChannelConfig, ChannelDigests } from '../digests.ts'
import type { KeyCalls } from './calls.ts'
import { isKeyChannel, type KeyIndex } from './key_index.ts'
import type { ChannelStates } from '../state.ts'

export type KeyRecoveryContext = {
  readonly rpc: Pick<Rpc, 'request'>
  readonly states: ChannelStates
  readonly index: KeyIndex
  readonly calls: Pick<KeyCalls, 'recorded'>
  readonly digests: ChannelDigests
}

export type KeyRecoveryConfig = {
  readonly asset: string
  /** The key that claims: channels of other sellers are left alone. */
  readonly authorizer: Hex
  /** The account that sends deposits. */
  readonly relayer: Hex
  /** Blocks of one question. Public nodes refuse more. */
  readonly logWindow?: number | undefined
}

export type KeyRecovering = {
  readonly now: number
  readonly fromBlock: number
  /** Other accounts that have sent deposits for this gateway. */
  readonly relayers?: readonly Hex[] | undefined
}

export type KeysRecovered = { readonly channels: number; readonly toBlock: number }

const LOG_WINDOW = 2_000
const [DEPOSITED = '0x'] = encodeEventTopics({ abi, eventName: 'Deposited' })
const [CREATED = '0x'] = encodeEventTopics({ abi, eventName: 'ChannelCreated' })
const CONFIG = ['address', 'address', 'address', 'address', 'address', 'uint40', 'bytes32'].map((type) => ({ type }))

/**
 * Writes a record and the list of the key for each channel whose deposit this gateway has sent. What was charged and
 * not claimed is lost: a record begins at what was claimed. Throws where the node does not answer; it may be repeated.
 */
export function keyRecovery(context: KeyRecoveryContext, config: KeyRecoveryConfig) {
  const { rpc, states, index, calls, digests } = context
  const { asset, authorizer, logWindow = LOG_WINDOW } = config

  async function logs(topics: readonly unknown[], from: number, to: number): Promise<readonly ChainLog[]> {
    const range = { fromBlock: hexOf(BigInt(from)), toBlock: hexOf(BigInt(to)) }
    const answer = await rpc.request('eth_getLogs', [{ address: BATCH_SETTLEMENT, topics, ...range }])
    const found = answer.kind === 'result' ? parseLogs(answer.value) : undefined
    if (!found) throw new Error(`the node does not answer for the logs of the blocks ${from} to ${to}`)
    return found
  }

  async function recover({ now, fromBlock, relayers = [] }: KeyRecovering): Promise<KeysRecovered> {
    const head = await rpc.request('eth_blockNumber', [])
    const toBlock = head.kind === 'result' ? numberIn(head.value) : undefined
    if (toBlock === undefined) throw new Error('the node does not tell its last block')
    const senders = [config.relayer, ...relayers].map((address) => `0x${lower(address).slice(2).padStart(64, '0')}`)
    let channels = 0
    for (let from = fromBlock; from <= toBlock; from += logWindow) {
      const to = Math.min(from + logWindow - 1, toBlock)
      const deposited = await logs([DEPOSITED, null, senders], from, to)
      const ids = [...new Set(deposited.flatMap(({ topics }) => topics[1] ?? []))]
      // The contract logs the configuration in the block of the first deposit.
      const created = ids.length > 0 ? await logs([CREATED, ids], from, to) : []
      for (const log of created) if (await record(log, now)) channels++
    }
    return { channels, toBlock }
  }

  async function record({ data }: ChainLog, now: number): Promise<boolean> {
    const channel = configIn(data)
    const isOurs = channel.receiverAuthorizer === authorizer && channel.token === lower(asset)
    if (!isOurs || !isKeyChannel(channel)) return false
    const channelId = digests.channelId(channel)
    const known = await states.get(channelId, now)
    const state = known ?? (await calls.recorded({ channelId, config: channel }, { now }))
    if ('kind' in state) throw new Error(`${channelId}: ${state.reason}`)
    await index.add(state, now)
    return known === undefined
  }

  return recover
}

function configIn(data: Hex): ChannelConfig {
  const [payer, payerAuthorizer, receiver, receiverAuthorizer, token, withdrawDelay, salt] = decodeAbiParameters(
    CONFIG,
    data,
  ) as [Hex, Hex, Hex, Hex, Hex, number, Hex]
  return {
    payer: lower(payer),
    payerAuthorizer: lower(payerAuthorizer),
    receiver: lower(receiver),
    receiverAuthorizer: lower(receiverAuthorizer),
    token: lower(token),
    withdrawDelay: Number(withdrawDelay),
    salt: lower(salt),
  }
}
