import { describe, expect, test } from 'bun:test'
import { usdc } from '../../../core/x402/money.ts'
import type { Json } from '../../../core/lib/json.ts'
import type { Spend } from '../../../core/ports/mod.ts'
import { summed, tokensOf } from '../../../core/payment/reports/spend_report.ts'
import { reading, SKY, STREAM, table } from '../call/stream_kit.ts'
import { rowsOf } from '../../vectors/rows.ts'

describe('tokens', () => {
  const counted: readonly (readonly [string, Json, readonly [number, number] | null])[] =
    rowsOf<[string, Json, readonly [number, number] | null]>('chat/token_counts')
  test.each([...counted])('are read from %s', (_, usage, tokens) => {
    expect(tokensOf(usage)).toEqual(tokens && { input: tokens[0], output: tokens[1] })
  })
})

test('sums are the same in whatever parts and order they come', () => {
  const part = (more: Partial<Spend>): Spend => ({
    gateway: 'base',
    endpoint: 'chat',
    model: 'a',
    asset: 'usdc',
    calls: 1,
    spent: usdc(5n),
    inputTokens: 1,
    outputTokens: 2,
    lastAt: 3,
    ...more,
  })
  const parts = [
    part({ lastAt: 9 }),
    part({ model: 'b', spent: usdc(11n) }),
    part({ calls: 4, spent: usdc(6n), inputTokens: 10 }),
    part({ model: null, spent: usdc(11n) }),
  ]
  const sums = [
    part({ model: null, spent: usdc(11n) }),
    part({ calls: 5, spent: usdc(11n), inputTokens: 11, outputTokens: 4, lastAt: 9 }),
    part({ model: 'b', spent: usdc(11n) }),
  ]
  expect(summed(parts)).toEqual(sums)
  expect(summed(parts.toReversed())).toEqual(sums)
  expect(summed(sums)).toEqual(sums)
  expect(summed([])).toEqual([])
})

test('an answer leaves its tokens and its payment in the ledger of its wallet, whole or streamed', async () => {
  for (const body of [SKY, STREAM]) {
    const { alice, post, signed, ports, chain, clock, idle } = await table()
    const since = clock.now()
    const response = await post(body, { payment: await signed(body) })
    if (body === STREAM) await reading(response).rest()
    await idle()
    const [transfer] = chain.transfers
    const [sum, ...more] = await ports.storage.spendByModel(alice.wallet, since)
    expect(more).toEqual([])
    expect(sum).toMatchObject({
      endpoint: 'chat.completions',
      model: SKY.model,
      calls: 1,
      spent: usdc(transfer?.value ?? 0n),
    })
    expect([Number(sum?.inputTokens) > 0, Number(sum?.outputTokens) > 0]).toEqual([true, true])
  }
})
