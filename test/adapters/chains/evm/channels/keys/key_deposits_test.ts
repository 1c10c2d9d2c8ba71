/** Deposits for API keys that move nothing. */
import { expect, test } from 'bun:test'
import { memoryStorage } from '../../../../../../adapters/storage/memory/mod.ts'
import { usdc } from '../../../../../../core/x402/money.ts'
import { offerOf } from '../../../../../../core/x402/offer.ts'
import { FREE, keyBuyer, voucherChain } from '../vouchers.ts'

const NOW = 1_795_132_800_000

test('a deposit whose nonce is used, into a channel that is empty, is refused and stores nothing (contract 23.9)', async () => {
  const memory = memoryStorage()
  let puts = 0
  const putRecord: typeof memory.putRecord = async (...given) => (puts++, await memory.putRecord(...given))
  const empty = [[0n, 0n], [0n, 0n], [0n]]
  // The wallet has used the nonce for another transfer: the transaction of the deposit has no effect.
  const chain = voucherChain(
    { ...memory, putRecord },
    [],
    () => empty,
    () => 'lost',
    FREE,
    true,
  )
  const [terms] = chain.terms(NOW)
  if (!terms || !chain.apiKeys) throw new Error('it sells nothing to keys')
  const buyer = keyBuyer(new Uint8Array(32).fill(9), offerOf(terms, { amount: usdc(0n), maxTimeoutSeconds: 600 }))
  const at = { now: NOW, signal: AbortSignal.timeout(10_000) }
  for (const payment of [await buyer.deposit(2_000_000n), await buyer.deposit(2_000_000n)])
    expect(await chain.apiKeys.deposit(payment, at)).toMatchObject({
      kind: 'refused',
      reason: expect.stringContaining('the channel is empty'),
    })
  expect([puts, await chain.apiKeys.channels(buyer.key.address, at)]).toEqual([0, []])
})
