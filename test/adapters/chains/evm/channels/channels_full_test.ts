/** Channels on a real node: what is charged, claimed and paid, and what buyers may try. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { signVoucher } from '@x402/evm/batch-settlement/client'
import { encodeAbiParameters, encodeFunctionData, type Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { CHANNEL_KIND } from '../../../../../adapters/chains/evm/channels/records.ts'
import { hexOf } from '../../../../../adapters/chains/lib/hex.ts'
import {
  BATCH_SETTLEMENT,
  batchSettlementAbi as abi,
  ERC3009_COLLECTOR,
} from '../../../../../adapters/chains/evm/node/x402_contracts.ts'
import { memoryStorage } from '../../../../../adapters/storage/memory/mod.ts'
import { usdc } from '../../../../../core/x402/money.ts'
import { NETWORK, world, type World } from '../evm_kit.ts'
import { channelKit, DEPOSIT, PRICE } from './channel_kit.ts'

let node: World
const { seller, buyer, sendAs, buy, at } = channelKit(() => node)

beforeAll(async () => void (node = await world()), 60_000)
afterAll(async () => await node.close())

describe('channels on a node', () => {
  test('many channels are claimed in one transaction, and the payee gets what was charged, to the unit', async () => {
    const { chain, offer, payTo, alerts } = await seller()
    const first = hexOf(BigInt(await node.ask<Hex>('eth_blockNumber')) + 1n)
    let due = 0n
    for (let i = 0; i < 3; i++) {
      const { deposit, voucher } = await buyer(offer)
      expect(await buy(chain, offer, { payment: await deposit(), charge: 300n })).toMatchObject({ kind: 'settled' })
      expect(await buy(chain, offer, { payment: await voucher(300n), charge: 7n })).toMatchObject({
        kind: 'settled',
        receipt: { transaction: '', amount: '7', extra: { channelState: { chargedCumulativeAmount: '307' } } },
      })
      due += 307n
    }
    expect(await chain.claimChannels?.({ now: node.now(), above: due + 1n })).toEqual({ claimed: 0n })
    expect(await chain.claimChannels?.({ now: node.now() })).toEqual({ claimed: due })
    expect(await node.balanceOf(payTo)).toBe(due)
    expect(await chain.claimChannels?.({ now: node.now() })).toEqual({ claimed: 0n })
    const logs = await node.ask<{ transactionHash: Hex }[]>('eth_getLogs', {
      address: BATCH_SETTLEMENT,
      fromBlock: first,
    })
    // Three deposits, and one that claims and pays out.
    expect(new Set(logs.map(({ transactionHash }) => transactionHash)).size).toBe(4)
    expect(alerts).toEqual([])
    chain.close()
  })

  test('a charge is made once, however often and by whichever replica it is settled', async () => {
    const storage = memoryStorage()
    const { chain, open, offer } = await seller(storage)
    const other = await open(storage)
    const { deposit, voucher } = await buyer(offer)
    await buy(chain, offer, { payment: await deposit(), charge: 500n })
    const payment = await voucher(500n)
    const settling = { ...at(), charge: usdc(20n) }
    const all = await Promise.all([chain, other, chain].map((each) => each.settle(payment, offer, settling)))
    for (const each of all)
      expect(each).toMatchObject({ kind: 'settled', receipt: { amount: '20', extra: { chargedAmount: '20' } } })
    expect(await other.fate(payment, offer, settling)).toMatchObject({ kind: 'paid', receipt: { amount: '20' } })
    expect(await buy(chain, offer, { payment: await voucher(520n), charge: 0n })).toMatchObject({
      kind: 'settled',
      receipt: { extra: { channelState: { chargedCumulativeAmount: '521' } } },
    })
    for (const each of [chain, other]) each.close()
  })

  test('a stale voucher, and one of an invented base, are corrected by the last voucher; nothing is charged', async () => {
    const { chain, offer } = await seller()
    const { deposit, voucher, id } = await buyer(offer)
    await buy(chain, offer, { payment: await deposit(), charge: 500n })
    for (const base of [0n, 499n, 501n])
      expect(await buy(chain, offer, { payment: await voucher(base), charge: 1n })).toMatchObject({
        kind: 'refused',
        corrected: {
          error: 'invalid_batch_settlement_evm_cumulative_amount_mismatch',
          extra: {
            channelState: { channelId: id, balance: '10000', totalClaimed: '0', chargedCumulativeAmount: '500' },
            voucherState: { signedMaxClaimable: '1000' },
          },
        },
      })
    chain.close()
  })

  test('a voucher beyond the balance, and one of a channel without money, are refused', async () => {
    const { chain, offer } = await seller()
    const { deposit, voucher } = await buyer(offer)
    expect(await buy(chain, offer, { payment: await voucher(0n), charge: 1n })).toMatchObject({
      code: 'PAYMENT_UNFUNDED',
      reason: expect.stringContaining('channel_not_found'),
    })
    for (let base = 0n; base < DEPOSIT; base += PRICE)
      await buy(chain, offer, { payment: await (base === 0n ? deposit() : voucher(base)), charge: PRICE })
    expect(await buy(chain, offer, { payment: await voucher(DEPOSIT), charge: 1n })).toMatchObject({
      code: 'PAYMENT_UNFUNDED',
      reason: expect.stringContaining('cumulative_exceeds_balance'),
    })
    expect(await buy(chain, offer, { payment: await deposit(DEPOSIT), charge: 1n })).toMatchObject({ kind: 'settled' })
    chain.close()
  })

  test('a deposit that would revert is refused; one is sent once, however often it is settled', async () => {
    const { chain, offer } = await seller()
    const { account, deposit, id } = await buyer(offer)
    const payment = await deposit()
    await node.setBalance(account.address, DEPOSIT - 1n)
    expect(await buy(chain, offer, { payment, charge: 1n })).toMatchObject({
      code: 'PAYMENT_UNFUNDED',
      reason: expect.stringContaining('deposit_simulation_failed'),
    })
    await node.setBalance(account.address, DEPOSIT)
    expect(await chain.settle(payment, offer, { ...at(), charge: usdc(5n) })).toMatchObject({ kind: 'settled' })
    const again = await chain.settle(payment, offer, { ...at(), charge: usdc(5n) })
    expect(again).toMatchObject({ kind: 'settled', receipt: { extra: { channelState: { channelId: id } } } })
    expect(await node.balanceOf(account.address)).toBe(0n)
    chain.close()
  })

  test('a deposit that somebody else has sent counts, and is not sent again', async () => {
    const { chain, offer } = await seller()
    const { account, config, deposit } = await buyer(offer)
    const payment = await deposit()
    const { amount, authorization } = (payment.payload as { deposit: { amount: string; authorization: any } }).deposit
    const { salt, signature } = authorization.erc3009Authorization as { salt: Hex; signature: Hex }
    const types = [{ type: 'uint256' }, { type: 'uint256' }, { type: 'uint256' }, { type: 'bytes' }] as const
    const signed = encodeAbiParameters(types, [0n, 2n ** 40n, BigInt(salt), signature])
    const args = [config, BigInt(amount), ERC3009_COLLECTOR as Hex, signed] as const
    await node.act(BATCH_SETTLEMENT, encodeFunctionData({ abi, functionName: 'deposit', args }))
    expect(await node.balanceOf(account.address)).toBe(DEPOSIT)
    expect(await buy(chain, offer, { payment, charge: 5n })).toMatchObject({
      kind: 'settled',
      receipt: { amount: '5', extra: { channelState: { balance: String(DEPOSIT), chargedCumulativeAmount: '5' } } },
    })
    expect(await node.balanceOf(account.address)).toBe(DEPOSIT)
    chain.close()
  })

  test('of a batch with a claim that would revert the others come in, and that one is named', async () => {
    const storage = memoryStorage()
    const { chain, open, offer, payTo, alerts } = await seller(storage)
    const buyers = await Promise.all(Array.from({ length: 5 }, () => buyer(offer)))
    for (const { deposit } of buyers) await buy(chain, offer, { payment: await deposit(), charge: 100n })
    const [spoiled] = buyers
    const record = await storage.getRecord('channel', `${NETWORK}/${spoiled?.id}`, node.now())
    if (!record) throw new Error('no record of the channel')
    const { version, data } = record.data as { version: number; data: object }
    const forged = { version, data: { ...data, signature: `0x${'11'.repeat(64)}1b` } }
    expect(await storage.moveRecord({ ...record, data: forged }, record.data, node.now())).toBe(true)
    const after = await open({ ...storage })
    expect(await after.claimChannels?.({ now: node.now() })).toEqual({ claimed: 400n })
    expect(await node.balanceOf(payTo)).toBe(400n)
    expect(alerts).toEqual(['a channel cannot be claimed'])
    chain.close()
    after.close()
  })

  test('a voucher of another key, seller or chain is refused', async () => {
    const [one, two] = [await seller(), await seller()]
    const { deposit, voucher } = await buyer(one.offer)
    await buy(one.chain, one.offer, { payment: await deposit(), charge: 1n })
    const payment = await voucher(1n)
    expect(await two.chain.identify(payment, two.offer, at())).toMatchObject({
      reason: expect.stringContaining('receiver_mismatch'),
    })
    const stranger = privateKeyToAccount(node.key())
    const { channelConfig, voucher: signed } = payment.payload as { channelConfig: object; voucher: { channelId: Hex } }
    const forged = { ...signed, ...(await signVoucher(stranger, signed.channelId, '1001', NETWORK)) }
    const elsewhere = { ...signed, ...(await signVoucher(stranger, signed.channelId, '1001', 'eip155:8453')) }
    for (const each of [forged, elsewhere]) {
      const bad = { ...payment, payload: { type: 'voucher', channelConfig, voucher: each } }
      expect(await one.chain.identify(bad, one.offer, at())).toMatchObject({
        code: 'PAYMENT_INVALID',
        reason: expect.stringContaining('voucher_signature'),
      })
    }
    for (const each of [one.chain, two.chain]) each.close()
  })

  test('after the loss of the records the chain is the base, never what the buyer says', async () => {
    const { chain, open, offer } = await seller()
    const { deposit, voucher } = await buyer(offer)
    await buy(chain, offer, { payment: await deposit(), charge: 400n })
    await chain.claimChannels?.({ now: node.now() })
    await buy(chain, offer, { payment: await voucher(400n), charge: 50n })
    const restored = await open(memoryStorage())
    const refused = await buy(restored, offer, { payment: await voucher(450n), charge: 1n })
    expect(refused).toMatchObject({ corrected: { extra: { channelState: { chargedCumulativeAmount: '400' } } } })
    expect(JSON.stringify(refused)).not.toContain('voucherState')
    expect(await buy(restored, offer, { payment: await voucher(400n), charge: 1n })).toMatchObject({ kind: 'settled' })
    for (const each of [chain, restored]) each.close()
  })

  for (const [name, isLost] of [
    ['the restore of a backup older than the claims', false],
    ['the loss of the records', true],
  ] as const)
    test(`after ${name}, a voucher that a claim has published buys nothing, and its owner goes on`, async () => {
      const storage = memoryStorage()
      const { chain, open, offer } = await seller(storage)
      const { deposit, voucher, refund, id } = await buyer(offer)
      await buy(chain, offer, { payment: await deposit(), charge: 400n })
      const older = memoryStorage()
      const record = await storage.getRecord(CHANNEL_KIND, `${NETWORK}/${id}`, node.now())
      if (record && !isLost) await older.putRecord(record, node.now())
      // The claims publish the ceilings 1,400 and 1,450; of the second one 550 are left above what was claimed.
      await buy(chain, offer, { payment: await voucher(400n), charge: 50n })
      await chain.claimChannels?.({ now: node.now() })
      await buy(chain, offer, { payment: await voucher(450n), charge: 450n })
      await chain.claimChannels?.({ now: node.now() })
      const later = node.now() + 3_600_000
      const restored = await open(older)
      const request = { now: later, signal: AbortSignal.timeout(20_000) }
      for (const ceiling of [1_400n, 1_450n]) {
        // A stranger orders at the price that makes it the next voucher.
        const priced = { ...offer, amount: String(ceiling - 900n) }
        const base = ceiling - PRICE
        const stolen = { ...(await voucher(base)), accepted: priced }
        expect(await restored.verify(stolen, priced, request)).toMatchObject({
          kind: 'refused',
          code: 'PAYMENT_REPLAY',
        })
        expect(await restored.fate(stolen, priced, { ...request, charge: usdc(1n) })).not.toMatchObject({
          kind: 'open',
        })
      }
      expect(await restored.verify(await voucher(900n), offer, request)).toMatchObject({ kind: 'valid' })
      const settled = await restored.settle(await voucher(900n), offer, { ...request, charge: usdc(30n) })
      expect(settled).toMatchObject({ kind: 'settled', receipt: { amount: '30' } })
      // The part that they allow above the new charge is as public as before.
      const priced = { ...offer, amount: String(1_450n - 930n) }
      const stolen = { ...(await voucher(450n)), accepted: priced }
      expect(await restored.identify(stolen, priced, request)).toMatchObject({ code: 'PAYMENT_REPLAY' })
      const refunding = { ...request, isFree: async () => true, isFrom: async () => false }
      if (!isLost)
        expect(await restored.refund?.(await refund(930n), offer, refunding)).toMatchObject({ kind: 'refused' })
      for (const each of [chain, restored]) each.close()
    })

  test('a withdrawal is seen: what is due is claimed at once, and no more is served than is left', async () => {
    const { chain, offer, payTo, alerts } = await seller()
    const { account, config, deposit, voucher } = await buyer(offer)
    await buy(chain, offer, { payment: await deposit(), charge: 600n })
    await sendAs(account, encodeFunctionData({ abi, functionName: 'initiateWithdraw', args: [config, DEPOSIT] }))
    expect(await chain.claimChannels?.({ now: node.now(), above: 10n ** 12n })).toEqual({ claimed: 600n })
    expect(await node.balanceOf(payTo)).toBe(600n)
    expect(alerts).toEqual(['a payer withdraws from a channel; what is due is claimed now'])
    expect(await buy(chain, offer, { payment: await voucher(600n), charge: 1n })).toMatchObject({
      code: 'PAYMENT_UNFUNDED',
      reason: expect.stringContaining('cumulative_exceeds_balance'),
    })
    chain.close()
  })
})
