/** Channels on a real node: what is charged, claimed and paid, and what buyers may try. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { signVoucher } from '@x402/evm/batch-settlement/client'
import { encodeFunctionData, type Hex, keccak256, toHex } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { channelDigests } from '../../../../../adapters/chains/evm/channels/digests.ts'
import { type EvmChain, evmChain } from '../../../../../adapters/chains/evm/mod.ts'
import { hexOf, lower } from '../../../../../adapters/chains/hex.ts'
import {
  BATCH_SETTLEMENT,
  batchSettlementAbi as abi,
  ERC3009_COLLECTOR,
} from '../../../../../adapters/chains/lib/x402_contracts.ts'
import { memoryStorage } from '../../../../../adapters/storage/memory.ts'
import { usdc } from '../../../../../core/x402/money.ts'
import { offerOf } from '../../../../../core/x402/offer.ts'
import type { Offer, Payment } from '../../../../../core/x402/protocol.ts'
import { ASSET, DOMAIN, NETWORK, world, type World } from '../evm_kit.ts'

const PRICE = 1_000n
const DEPOSIT = 10_000n
const digests = channelDigests(84532)
const FIELDS = ['uint256 value', 'uint256 validAfter', 'uint256 validBefore', 'bytes32 nonce']
const TRANSFER = ['address from', 'address to', ...FIELDS].map((field) => {
  const [type = '', name = ''] = field.split(' ')
  return { name, type }
})

let node: World
let made = 0

beforeAll(async () => void (node = await world()), 60_000)
afterAll(async () => await node.close())

const at = () => ({ now: node.now(), signal: AbortSignal.timeout(20_000) })

/** A seller with its own key and storage, and what it alerted. */
async function seller(storage = memoryStorage()) {
  const [relayerKey, authorizerKey] = [node.key(), node.key()]
  await node.ask('anvil_setBalance', privateKeyToAccount(relayerKey).address, toHex(10n ** 20n))
  const payTo = privateKeyToAccount(node.key()).address
  const alerts: string[] = []
  const open = async (records = storage): Promise<EvmChain> => {
    const chain = evmChain({
      network: NETWORK,
      rpcUrl: node.url,
      asset: ASSET,
      payTo,
      domain: DOMAIN,
      relayerKey,
      resendMs: 64,
      pollMs: 4,
      schemes: ['batch-settlement'],
      channels: {
        storage: records,
        authorizerKey,
        withdrawDelay: 900,
        minDeposit: DEPOSIT,
        takeLease: (name, lease) => records.lease(name, 'worker', lease),
        alert: (message) => void alerts.push(message),
      },
    })
    const checked = await chain.check()
    if (checked.kind !== 'ready') throw new Error(JSON.stringify(checked))
    return chain
  }
  const chain = await open()
  const [terms] = chain.terms(0)
  if (!terms) throw new Error('it sells nothing')
  return { chain, open, payTo, alerts, offer: offerOf(terms, { amount: usdc(PRICE), maxTimeoutSeconds: 600 }) }
}

/** A buyer with one channel at this seller. */
async function buyer(offer: Offer) {
  const account = privateKeyToAccount(keccak256(toHex(`channel buyer ${made++}`)))
  await node.setBalance(account.address, DEPOSIT * 2n)
  await node.ask('anvil_setBalance', account.address, toHex(10n ** 20n))
  const extra = offer.extra as { receiverAuthorizer: Hex; withdrawDelay: number }
  const config = {
    payer: lower(account.address),
    payerAuthorizer: lower(account.address),
    receiver: lower(offer.payTo),
    receiverAuthorizer: lower(extra.receiverAuthorizer),
    token: lower(offer.asset),
    withdrawDelay: extra.withdrawDelay,
    salt: toHex(1n, { size: 32 }),
  }
  const id = digests.channelId(config)
  const paying = async (base: bigint, more: object = { type: 'voucher' }): Promise<Payment> => ({
    x402Version: 2,
    accepted: offer,
    payload: { channelConfig: config, voucher: await signVoucher(account, id, String(base + PRICE), NETWORK), ...more },
  })
  return {
    account,
    config,
    id,
    voucher: (base: bigint) => paying(base),
    deposit: async (base = 0n) => paying(base, { type: 'deposit', deposit: await depositOf(account, id) }),
  }
}

async function depositOf(account: PrivateKeyAccount, id: Hex) {
  const salt = toHex(BigInt(made++), { size: 32 })
  const message = {
    from: account.address,
    to: ERC3009_COLLECTOR as Hex,
    value: DEPOSIT,
    validAfter: 0n,
    validBefore: 2n ** 40n,
    nonce: digests.depositNonce(id, salt),
  }
  const signature = await account.signTypedData({
    domain: { ...DOMAIN, chainId: 84532, verifyingContract: ASSET },
    types: { ReceiveWithAuthorization: TRANSFER },
    primaryType: 'ReceiveWithAuthorization',
    message,
  })
  const erc3009Authorization = { validAfter: '0', validBefore: String(2n ** 40n), salt, signature }
  return { amount: String(DEPOSIT), authorization: { erc3009Authorization } }
}

/** Sends a transaction of the buyer itself to the contract. */
async function sendAs(account: PrivateKeyAccount, data: Hex): Promise<void> {
  const nonce = Number(await node.ask<Hex>('eth_getTransactionCount', account.address, 'latest'))
  const fees = { gas: 500_000n, maxFeePerGas: 10n ** 11n, maxPriorityFeePerGas: 0n }
  const raw = await account.signTransaction({ chainId: 84532, nonce, to: BATCH_SETTLEMENT, data, ...fees })
  const hash = await node.ask<Hex>('eth_sendRawTransaction', raw)
  // The node answers before the block is there.
  await node.ask('evm_mine')
  const receipt = await node.ask<{ status: Hex } | null>('eth_getTransactionReceipt', hash)
  if (receipt?.status !== '0x1') throw new Error(`the transaction ${receipt ? 'reverted' : 'is not mined'}`)
}

async function buy(chain: EvmChain, offer: Offer, { payment, charge }: { payment: Payment; charge: bigint }) {
  const identity = await chain.identify(payment, offer, at())
  if (identity.kind !== 'known') return identity
  const verdict = await chain.verify(payment, offer, at())
  if (verdict.kind !== 'valid') return verdict
  return await chain.settle(payment, offer, { ...at(), charge: usdc(charge) })
}

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
    // Three deposits, one claim and one settlement.
    expect(new Set(logs.map(({ transactionHash }) => transactionHash)).size).toBe(5)
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
