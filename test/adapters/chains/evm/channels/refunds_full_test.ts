/** Refunds of channels on a real node: what payers get back, and what stands between a refund and a purchase. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { encodeFunctionData, type Hex } from 'viem'
import { hexOf } from '../../../../../adapters/chains/lib/hex.ts'
import { BATCH_SETTLEMENT, batchSettlementAbi as abi } from '../../../../../adapters/chains/evm/node/x402_contracts.ts'
import { memoryStorage } from '../../../../../adapters/storage/memory/mod.ts'
import type { EvmChain } from '../../../../../adapters/chains/evm/mod.ts'
import type { Offer, Payment, Storage, StoredRecord } from '../../../../../core/mod.ts'
import { usdc } from '../../../../../core/x402/money.ts'
import { world, type World } from '../evm_kit.ts'
import { channelKit, DEPOSIT, PRICE } from './channel_kit.ts'

let node: World
const { seller, buyer, sendAs, buy, at } = channelKit(() => node)

beforeAll(async () => void (node = await world()), 60_000)
afterAll(async () => await node.close())

const free = async () => true

const ask = async (
  chain: EvmChain,
  offer: Offer,
  { payment, isFree = free, later = 0 }: { payment: Payment; isFree?: () => Promise<boolean>; later?: number },
) =>
  await chain.refund?.(payment, offer, {
    now: node.now() + later,
    signal: AbortSignal.timeout(20_000),
    isFree,
    isFrom: free,
  })

/** The transactions that had events of the contract since a block. */
async function transactionsSince(block: bigint): Promise<number> {
  const filter = { address: BATCH_SETTLEMENT, fromBlock: hexOf(block) }
  const logs = await node.ask<{ transactionHash: Hex; blockNumber: Hex }[]>('eth_getLogs', filter)
  const later = logs.filter(({ blockNumber }) => BigInt(blockNumber) > block)
  return new Set(later.map(({ transactionHash }) => transactionHash)).size
}
const height = async () => BigInt(await node.ask<Hex>('eth_blockNumber'))

/** A storage of a process that dies as soon as a channel's refund has this status, before or after it is stored. */
function dyingAt(storage: Storage, status: 'sent' | 'done', { isStored }: { isStored: boolean }): Storage {
  return {
    ...storage,
    async moveRecord(record: StoredRecord, from, now) {
      const isLast = JSON.stringify(record.data).includes(`"status":"${status}"`)
      if (isLast && !isStored) throw new Error('the process is gone')
      const isMoved = await storage.moveRecord(record, from, now)
      if (isLast) throw new Error('the process is gone')
      return isMoved
    },
  }
}

/** A channel with a deposit, of which 300 base units are charged. */
async function charged() {
  // As if other processes had it too.
  const storage: Storage = { ...memoryStorage(), isShared: true }
  const sold = await seller(storage)
  const bought = await buyer(sold.offer)
  await buy(sold.chain, sold.offer, { payment: await bought.deposit(), charge: 300n })
  return { ...sold, ...bought, storage, before: await node.balanceOf(bought.account.address) }
}

const named = (problem: string) => ({
  kind: 'refused',
  reason: expect.stringContaining(`invalid_batch_settlement_evm_${problem}: `),
  corrected: { error: `invalid_batch_settlement_evm_${problem}` },
})

describe('refunds on a node', () => {
  test('what is due is claimed and paid out, and what is left goes back to the payer, in one transaction', async () => {
    const { chain, offer, payTo, account, id, before, refund, deposit } = await charged()
    const block = await height()
    expect(await ask(chain, offer, { payment: await refund(300n) })).toMatchObject({
      kind: 'refunded',
      receipt: {
        transaction: expect.stringMatching(/^0x[0-9a-f]{64}$/),
        payer: account.address,
        amount: '9700',
        extra: {
          channelState: {
            channelId: id,
            balance: '300',
            totalClaimed: '300',
            refundNonce: '1',
            chargedCumulativeAmount: '300',
          },
        },
      },
    })
    expect([await node.balanceOf(account.address), await node.balanceOf(payTo)]).toEqual([before + 9_700n, 300n])
    expect(await transactionsSince(block)).toBe(1)
    expect(await buy(chain, offer, { payment: await deposit(300n), charge: 5n })).toMatchObject({ kind: 'settled' })
    expect(await ask(chain, offer, { payment: await refund(305n) })).toMatchObject({ receipt: { amount: '9995' } })
    chain.close()
  })

  test('a part of it leaves the channel open; the same request again refunds nothing more, another part is refused', async () => {
    const { chain, offer, account, before, refund, voucher } = await charged()
    const part = await refund(300n, 700n)
    const first = await ask(chain, offer, { payment: part })
    expect(first).toMatchObject({ receipt: { amount: '700', extra: { channelState: { balance: '9300' } } } })
    const block = await height()
    expect(await ask(chain, offer, { payment: part })).toEqual({ ...first, isRepeated: true } as never)
    expect(await ask(chain, offer, { payment: await refund(300n, 701n) })).toMatchObject(named('refund_amount_invalid'))
    expect(await transactionsSince(block)).toBe(0)
    expect(await buy(chain, offer, { payment: await voucher(300n), charge: 100n })).toMatchObject({ kind: 'settled' })
    expect(await ask(chain, offer, { payment: await refund(400n, 700n) })).toMatchObject({ kind: 'refunded' })
    expect(await ask(chain, offer, { payment: await refund(400n) })).toMatchObject({ receipt: { amount: '8200' } })
    expect(await node.balanceOf(account.address)).toBe(before + 9_600n)
    chain.close()
  })

  test('a refund of everything that is asked for again gets the outcome of the first', async () => {
    const { chain, offer, refund } = await charged()
    const payment = await refund(300n)
    const first = await ask(chain, offer, { payment })
    const block = await height()
    expect(await ask(chain, offer, { payment })).toEqual({ ...first, isRepeated: true } as never)
    expect(await ask(chain, offer, { payment: await refund(300n, 1n) })).toMatchObject(named('refund_no_balance'))
    expect(await transactionsSince(block)).toBe(0)
    chain.close()
  })

  test('an unknown channel, a wrong amount, a wrong base and a foreign signature are refused by name', async () => {
    const { chain, offer, refund, deposit } = await charged()
    const stranger = await buyer(offer)
    expect(await ask(chain, offer, { payment: await stranger.refund(0n) })).toMatchObject(named('channel_not_found'))
    for (const amount of [0n, 9_701n])
      expect(await ask(chain, offer, { payment: await refund(300n, amount) })).toMatchObject({
        ...named('refund_amount_invalid'),
        reason: expect.stringContaining(`amount is ${amount}; it must be from 1 to 9700`),
      })
    expect(await ask(chain, offer, { payment: await refund(299n) })).toMatchObject({
      corrected: {
        error: 'invalid_batch_settlement_evm_cumulative_amount_mismatch',
        extra: { channelState: { chargedCumulativeAmount: '300' }, voucherState: { signedMaxClaimable: '1000' } },
      },
    })
    const mine = (await refund(300n)).payload as { voucher: object }
    const theirs = (await stranger.refund(300n)).payload as { voucher: { signature: Hex } }
    const { signature } = theirs.voucher
    const forged = { ...(await deposit()), payload: { ...mine, voucher: { ...mine.voucher, signature } } }
    expect(await ask(chain, offer, { payment: forged })).toMatchObject({
      reason: expect.stringContaining('voucher_signature'),
    })
    chain.close()
  })

  test('a refund waits for no call that is under way: it is refused, and the call is charged', async () => {
    const { chain, offer, refund, voucher } = await charged()
    const payment = await voucher(300n)
    const isFree = async () => {
      // The call was opened before the refund was asked for, and is settled while it looks.
      await chain.settle(payment, offer, { ...at(), charge: usdc(40n) })
      return false
    }
    expect(await ask(chain, offer, { payment: await refund(300n), isFree })).toMatchObject(named('channel_busy'))
    expect(await ask(chain, offer, { payment: await refund(340n) })).toMatchObject({ receipt: { amount: '9660' } })
    chain.close()
  })

  test('a purchase that is verified before a refund begins is told that the money moved', async () => {
    const { chain, offer, refund, voucher } = await charged()
    const payment = await voucher(300n)
    const verdict = await chain.verify(payment, offer, at())
    if (verdict.kind !== 'valid') throw new Error(verdict.reason)
    expect(await verdict.holds?.(at())).toBe(true)
    const isFree = async () => {
      expect(await verdict.holds?.(at())).toBe(false)
      expect(await chain.verify(payment, offer, at())).toMatchObject(named('channel_busy'))
      return true
    }
    expect(await ask(chain, offer, { payment: await refund(300n), isFree })).toMatchObject({ kind: 'refunded' })
    expect(await verdict.holds?.(at())).toBe(false)
    expect(await chain.settle(payment, offer, { ...at(), charge: usdc(40n) })).toMatchObject({ kind: 'refused' })
    chain.close()
  })

  test('of two requests at once, by whichever replica, one is sent', async () => {
    const { chain, open, offer, storage, refund, account, before } = await charged()
    const other = await open(storage)
    const block = await height()
    const payment = await refund(300n)
    const all = await Promise.all([chain, other, chain, other].map((each) => ask(each, offer, { payment })))
    expect(all.filter((each) => each?.kind === 'refunded').length).toBeGreaterThan(0)
    for (const each of all) if (each?.kind !== 'refunded') expect(JSON.stringify(each)).toMatch(/channel_busy|sent/)
    expect(await transactionsSince(block)).toBe(1)
    expect(await node.balanceOf(account.address)).toBe(before + 9_700n)
    for (const each of [chain, other]) each.close()
  })

  test('killed between broadcast and answer: the next request gets the outcome, and nothing is sent twice', async () => {
    const { chain, open, offer, storage, refund, voucher, account, before } = await charged()
    const dying = await open(dyingAt(storage, 'done', { isStored: false }))
    const payment = await refund(300n)
    await expect(ask(dying, offer, { payment })).rejects.toThrow('the process is gone')
    const block = await height()
    expect(await buy(chain, offer, { payment: await voucher(300n), charge: 1n })).toMatchObject({ kind: 'refused' })
    expect(await ask(chain, offer, { payment })).toMatchObject({
      kind: 'refunded',
      receipt: { transaction: expect.stringMatching(/^0x[0-9a-f]{64}$/), amount: '9700' },
    })
    expect(await transactionsSince(block)).toBe(0)
    expect(await node.balanceOf(account.address)).toBe(before + 9_700n)
    for (const each of [chain, dying]) each.close()
  })

  test('killed before the broadcast: no purchase is charged until the refund is sent again, a minute later', async () => {
    const { chain, open, offer, storage, refund, voucher, account, before } = await charged()
    const dying = await open(dyingAt(storage, 'sent', { isStored: true }))
    const payment = await refund(300n)
    await expect(ask(dying, offer, { payment })).rejects.toThrow('the process is gone')
    const bought = await voucher(300n)
    expect(await chain.verify(bought, offer, at())).toMatchObject(named('channel_busy'))
    expect(await chain.settle(bought, offer, { ...at(), charge: usdc(1n) })).toMatchObject({ kind: 'refused' })
    expect(await ask(chain, offer, { payment })).toMatchObject({ kind: 'unknown' })
    expect(await node.balanceOf(account.address)).toBe(before)
    expect(await ask(chain, offer, { payment, later: 61_000 })).toMatchObject({ receipt: { amount: '9700' } })
    expect(await node.balanceOf(account.address)).toBe(before + 9_700n)
    for (const each of [chain, dying]) each.close()
  })

  test('what a process left behind is ended by the maintenance of another one', async () => {
    const { chain, open, offer, storage, refund, account, before } = await charged()
    const dying = await open(dyingAt(storage, 'sent', { isStored: true }))
    await expect(ask(dying, offer, { payment: await refund(300n) })).rejects.toThrow('the process is gone')
    await chain.claimChannels?.({ now: node.now() + 61_000 })
    expect(await node.balanceOf(account.address)).toBe(before + 9_700n)
    for (const each of [chain, dying]) each.close()
  })

  test('a refund that was asked for and never sent ends by itself, and purchases go on', async () => {
    const { chain, open, offer, storage, refund, voucher } = await charged()
    const dying = await open(dyingAt(storage, 'sent', { isStored: false }))
    await expect(ask(dying, offer, { payment: await refund(300n) })).rejects.toThrow('the process is gone')
    const payment = await voucher(300n)
    expect(await chain.verify(payment, offer, at())).toMatchObject(named('channel_busy'))
    const later = { ...at(), now: node.now() + 61_000 }
    expect(await chain.verify(payment, offer, later)).toMatchObject({ kind: 'valid' })
    expect(await chain.settle(payment, offer, { ...later, charge: usdc(9n) })).toMatchObject({ kind: 'settled' })
    for (const each of [chain, dying]) each.close()
  })

  test('after the loss of the records the refund begins at what was claimed on chain, and after a purchase (contract 1.100)', async () => {
    const { chain, open, offer, refund, voucher } = await charged()
    await chain.claimChannels?.({ now: node.now() })
    await buy(chain, offer, { payment: await voucher(300n), charge: 50n })
    const restored = await open(memoryStorage())
    expect(await ask(restored, offer, { payment: await refund(350n) })).toMatchObject({
      corrected: { extra: { channelState: { chargedCumulativeAmount: '300' } } },
    })
    expect(await ask(restored, offer, { payment: await refund(300n) })).toMatchObject(named('refund_owner_unproven'))
    await buy(restored, offer, { payment: await voucher(300n), charge: 40n })
    expect(await ask(restored, offer, { payment: await refund(340n) })).toMatchObject({ receipt: { amount: '9660' } })
    for (const each of [chain, restored]) each.close()
  })

  test('a refund ends a withdrawal of the same money', async () => {
    const { chain, offer, account, config, before, refund } = await charged()
    await sendAs(account, encodeFunctionData({ abi, functionName: 'initiateWithdraw', args: [config, DEPOSIT] }))
    expect(await ask(chain, offer, { payment: await refund(300n) })).toMatchObject({
      receipt: { amount: '9700', extra: { channelState: { withdrawRequestedAt: 0 } } },
    })
    expect(await node.balanceOf(account.address)).toBe(before + 9_700n)
    chain.close()
  })

  test('of a channel that is used up, less than a price goes back as well', async () => {
    const { chain, offer, refund, voucher, account } = await charged()
    for (let base = 300n; base + PRICE <= DEPOSIT; base += PRICE)
      await buy(chain, offer, { payment: await voucher(base), charge: PRICE })
    const before = await node.balanceOf(account.address)
    expect(await ask(chain, offer, { payment: await refund(9_300n) })).toMatchObject({ receipt: { amount: '700' } })
    expect(await node.balanceOf(account.address)).toBe(before + 700n)
    chain.close()
  })
})
