/** Finds the channels of API keys in the logs of the contract, after the loss of the database. */
import { decodeAbiParameters, encodeEventTopics } from 'viem'
import { BATCH_SETTLEMENT, batchSettlementAbi as abi } from '../../node/x402_contracts.ts'
import { type Hex, lower, numberIn, word } from '../../../lib/hex.ts'
import type { Rpc } from '../../../lib/json_rpc.ts'
import {
  type BlockRange,
  halvedWindows,
  type LogSearch,
  logsIn,
  searchWindows,
  type WindowRead,
} from '../../node/log_search.ts'
import type { ChainLog } from '../../node/token.ts'
import type { ChannelConfig, ChannelDigests } from '../digests.ts'
import type { KeyCalls } from './calls.ts'
import { isKeyChannel, type KeyIndex } from './key_index.ts'
import type { ChannelStates } from '../records.ts'

type KeyRecoveryContext = {
  readonly rpc: Pick<Rpc, 'request'>
  readonly states: ChannelStates
  readonly index: KeyIndex
  readonly calls: Pick<KeyCalls, 'recorded'>
  readonly digests: ChannelDigests
}

type KeyRecoveryConfig = {
  readonly asset: string
  /** The key that claims: channels of other sellers are left alone. */
  readonly authorizer: Hex
  /** The account that sends deposits. */
  readonly relayer: Hex
  /** Blocks of one question. Default: 2,000, and fewer where the node refuses that many. */
  readonly logWindow?: number | undefined
}

export type KeyRecovering = {
  readonly now: number
  readonly fromBlock: number
  /** Other accounts that have sent deposits for this gateway. */
  readonly relayers?: readonly Hex[] | undefined
}

export type KeysRecovered = { readonly channels: number; readonly toBlock: number }

const [DEPOSITED = '0x'] = encodeEventTopics({ abi, eventName: 'Deposited' })
const [CREATED = '0x'] = encodeEventTopics({ abi, eventName: 'ChannelCreated' })
const CONFIG = ['address', 'address', 'address', 'address', 'address', 'uint40', 'bytes32'].map((type) => ({ type }))

/**
 * Writes a record and the list of the key for each channel whose deposit this gateway has sent. What was charged and
 * not claimed is lost: a record begins at what was claimed. Throws where the node does not answer; it may be repeated.
 */
export function keyRecovery(context: KeyRecoveryContext, config: KeyRecoveryConfig) {
  const { rpc, states, index, calls, digests } = context
  const { asset, authorizer, logWindow } = config

  async function recover({ now, fromBlock, relayers = [] }: KeyRecovering): Promise<KeysRecovered> {
    const head = await rpc.request('eth_blockNumber', [])
    const toBlock = head.kind === 'result' ? numberIn(head.value) : undefined
    if (toBlock === undefined) throw new Error('the node does not tell its last block')
    const senders = [config.relayer, ...relayers].map((address) => `0x${word(address)}`)
    const range = { from: fromBlock, to: toBlock, first: 'oldest', windows: halvedWindows(logWindow) } as const
    let channels = 0
    const opened = new Set<Hex>()
    const waiting = new Set<Hex>()
    await search(range, async (window) => {
      const deposited = await logsIn(rpc, { address: BATCH_SETTLEMENT, topics: [DEPOSITED, null, senders] }, window)
      if (deposited.kind !== 'logs') return deposited
      const ids = deposited.logs.flatMap(({ topics }) => topics[1] ?? []).filter((id) => !opened.has(id))
      for (const id of ids) waiting.add(id)
      return ids.length > 0 ? await recordCreated(window) : { kind: 'on' }
    })
    // Anyone may have opened a channel before its deposit.
    await search(range, recordCreated)
    return { channels, toBlock }

    /** Records the waiting channels that were opened in a window. */
    async function recordCreated(window: BlockRange): Promise<WindowRead<never>> {
      if (waiting.size === 0) return { kind: 'on' }
      const created = await logsIn(rpc, { address: BATCH_SETTLEMENT, topics: [CREATED, [...waiting]] }, window)
      if (created.kind !== 'logs') return created
      for (const log of created.logs) {
        if (await record(log, now)) channels++
        const id = log.topics[1] as Hex
        opened.add(id)
        waiting.delete(id)
      }
      return { kind: 'on' }
    }
  }

  async function search(range: LogSearch, read: (window: BlockRange) => Promise<WindowRead<never>>): Promise<void> {
    const end = await searchWindows(range, read)
    if (end.kind === 'failure' || end.kind === 'refused')
      throw new Error(`the node does not answer for the logs of the contract: ${end.reason}`)
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
