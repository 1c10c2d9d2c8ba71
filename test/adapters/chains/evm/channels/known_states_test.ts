/** A process that owns its storage remembers the states of its channels, and does not read them again. */
import { expect, test } from 'bun:test'
import { channelDigests, type ChannelConfig } from '../../../../../adapters/chains/evm/channels/digests.ts'
import { channelStates } from '../../../../../adapters/chains/evm/channels/records.ts'
import { type ChannelState, newState } from '../../../../../adapters/chains/evm/channels/state.ts'
import { memoryStorage } from '../../../../../adapters/storage/memory/mod.ts'
import type { Hex } from '../../../../../adapters/chains/lib/hex.ts'
import { door } from '../../../../kit.ts'

const NOW = 1_795_132_800_000
const NETWORK = 'eip155:84532'
const [PAYER, SELLER, ASSET] = ['1', '2', '3'].map((digit) => `0x${digit.repeat(40)}`) as [Hex, Hex, Hex]

function channel(): ChannelState {
  const parties = { payer: PAYER, payerAuthorizer: PAYER, receiver: SELLER, receiverAuthorizer: SELLER }
  const config: ChannelConfig = { ...parties, token: ASSET, withdrawDelay: 900, salt: `0x${'0'.repeat(64)}` }
  const mirror = { balance: 1_000n, claimed: 0n, withdrawing: 0n, withdrawRequestedAt: 0, refundNonce: 0n }
  return newState({ channelId: channelDigests(84_532).channelId(config), config }, mirror, NOW)
}

test('the last change of a channel is known, in whatever order the answers of the storage arrive', async () => {
  const memory = memoryStorage()
  const answer = door()
  let moves = 0
  const moveRecord: typeof memory.moveRecord = async (...given) => {
    const isFirst = ++moves === 1
    const isStored = await memory.moveRecord(...given)
    if (isFirst) await answer.passed
    return isStored
  }
  const states = channelStates({ ...memory, moveRecord }, { network: NETWORK, seller: SELLER })
  const first = channel()
  const { channelId } = first
  await states.replace(undefined, first, NOW)
  const slow = states.change(channelId, NOW, (state) => ({ ...state, charged: state.charged + 1n }))
  const quick = await states.change(channelId, NOW, (state) => ({ ...state, charged: state.charged + 10n }))
  expect(quick?.charged).toBe(11n)
  answer.open()
  await slow
  expect((await states.get(channelId, NOW))?.charged).toBe(11n)
})

test('a state that changes while it is read is read again', async () => {
  const memory = memoryStorage()
  const first = channel()
  await channelStates(memory, { network: NETWORK, seller: SELLER }).replace(undefined, first, NOW)
  const answer = door()
  let reads = 0
  const getRecord: typeof memory.getRecord = async (...given) => {
    const isFirst = ++reads === 1
    const record = await memory.getRecord(...given)
    if (isFirst) await answer.passed
    return record
  }
  const states = channelStates({ ...memory, getRecord }, { network: NETWORK, seller: SELLER })
  const slow = states.get(first.channelId, NOW)
  expect(await states.replace(first, { ...first, charged: 1n }, NOW)).toBe(true)
  answer.open()
  expect([(await slow)?.charged, (await states.get(first.channelId, NOW))?.charged]).toEqual([1n, 1n])
})

test('channels with something due are listed in pages, and the process does other work between two of them', async () => {
  const states = channelStates(memoryStorage(), { network: NETWORK, seller: SELLER })
  const idOf = (index: number) => `0x${String(index).padStart(64, '0')}` as Hex
  for (let index = 0; index < 250; index++)
    await states.replace(undefined, { ...channel(), channelId: idOf(index), charged: 5n, ceiling: 5n }, NOW)
  const listed: string[] = []
  let otherWork = 0
  setTimeout(() => void otherWork++, 0)
  for await (const page of states.due(NOW)) {
    expect(otherWork).toBe(listed.length === 0 ? 0 : 1)
    listed.push(...page.map(({ channelId }) => channelId))
  }
  expect(listed).toEqual(Array.from({ length: 250 }, (_, index) => idOf(index)))
})
