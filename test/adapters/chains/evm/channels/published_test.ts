/**
 * Vouchers that a gateway reads from claims that its records do not know. channels_full_test.ts has the vouchers
 * themselves.
 */
import { expect, test } from 'bun:test'
import {
  publishedCeilings,
  unreadClaims,
  withPublished,
} from '../../../../../adapters/chains/evm/channels/published.ts'
import { BATCH_SETTLEMENT } from '../../../../../adapters/chains/evm/node/x402_contracts.ts'
import { type Hex, hexOf, word } from '../../../../../adapters/chains/lib/hex.ts'
import type { Answer } from '../../../../../adapters/chains/lib/json_rpc.ts'
import {
  chargedState,
  type ChannelState,
  isRefundPublic,
  isSpentVoucher,
  newState,
  withMirror,
} from '../../../../../adapters/chains/evm/channels/state.ts'
import { digests } from './channel_kit.ts'

const CHANNEL: Hex = `0x${'c'.repeat(64)}`
const LAST = 1_000_000
const TOTALS = [100n, 250n, 400n]

/** A node that takes so many blocks at a time, with a claim every 100,000 blocks up to its last one. */
function node(width: number) {
  const questions: { readonly method: string; readonly from: number }[] = []
  const claims = TOTALS.map((total, index) => ({
    block: LAST - (TOTALS.length - 1 - index) * 100_000,
    log: {
      address: BATCH_SETTLEMENT,
      topics: [CHANNEL],
      data: `0x${word(total - (TOTALS[index - 1] ?? 0n))}${word(total)}`,
      transactionHash: hexOf(total),
    },
  }))
  const request = async (method: string, [given]: readonly unknown[]): Promise<Answer> => {
    if (method === 'eth_blockNumber') return { kind: 'result', value: hexOf(BigInt(LAST)) }
    if (method === 'eth_getTransactionByHash') return { kind: 'result', value: { input: '0x00' } }
    const [from, to] = [given as { fromBlock: Hex; toBlock: Hex }].flatMap((range) => [
      Number(range.fromBlock),
      Number(range.toBlock),
    ]) as [number, number]
    questions.push({ method, from })
    if (to - from >= width) return { kind: 'error', code: -32_000, message: 'too many blocks' }
    const found = claims.filter(({ block }) => block >= from && block <= to)
    return { kind: 'result', value: found.map(({ log }) => log) }
  }
  return { questions, find: publishedCeilings({ rpc: { request }, digests }) }
}

test('one question is enough where the node allows it, and the answer is remembered', async () => {
  const { questions, find } = node(2_000_000)
  const published = { channelId: CHANNEL, above: 250n, claimed: 400n }
  expect(await find(published)).toEqual([])
  expect(await find(published)).toEqual([])
  expect(questions).toHaveLength(1)
})

test('a node that refuses many blocks is asked for fewer, and no more than sixty times', async () => {
  const { questions, find } = node(2_000)
  expect(await find({ channelId: CHANNEL, above: 0n, claimed: 400n })).toEqual([])
  expect(questions).toHaveLength(60)
  expect(LAST - (questions.at(-1)?.from ?? 0)).toBeLessThan(58 * 2_000)
})

test('a node that is behind the claims is not believed', async () => {
  const { find } = node(2_000_000)
  expect(await find({ channelId: CHANNEL, above: 0n, claimed: 401n })).toMatchObject({ kind: 'unavailable' })
})

const mirror = { balance: 900n, claimed: 400n, withdrawing: 0n, withdrawRequestedAt: 0, refundNonce: 0n }
const config = {} as ChannelState['config']
/** The effect of a call of a key on its channel: it is charged, and the key signs for what it was charged. */
const afterCall = (state: ChannelState) =>
  chargedState(state, { due: 20n, ceiling: state.charged + 20n, signature: '0x01' })

test('calls of a key do not hide that the claims of its channel were not read (decision 150)', () => {
  const lost = newState({ channelId: CHANNEL, config }, mirror, 1)
  const old = withMirror({ ...lost, charged: 250n, claimed: 250n, ceiling: 250n, spent: ['250'] }, mirror, 2)
  for (const [state, above] of [
    [lost, 0n],
    [old, 250n],
  ] as const) {
    const bought = afterCall(afterCall(state))
    expect(unreadClaims(bought)).toEqual({ above, claimed: 400n })
    expect(isRefundPublic(bought)).toBe(true)
    const read = withPublished(bought, [480n], 400n)
    expect([unreadClaims(read), isSpentVoucher(read, 480n), isSpentVoucher(read, 481n)]).toEqual([
      undefined,
      true,
      false,
    ])
    expect(unreadClaims(afterCall(read))).toBeUndefined()
  }
})
