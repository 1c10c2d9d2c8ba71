/** API keys on a real node: deposits that pay for no call, what is charged and sent back, and the index of keys. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { encodeFunctionData, type Hex, keccak256, toHex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import type { ChannelConfig } from '../../../../../../adapters/chains/evm/channels/digests.ts'
import { evmChain } from '../../../../../../adapters/chains/evm/mod.ts'
import { batchSettlementAbi } from '../../../../../../adapters/chains/evm/node/x402_contracts.ts'
import { leasedChain } from '../../../../../../adapters/chains/evm/relayer_lease.ts'
import { lower } from '../../../../../../adapters/chains/lib/hex.ts'
import { systemClock } from '../../../../../../adapters/local.ts'
import { memoryStorage } from '../../../../../../adapters/storage/memory/mod.ts'
import { keyText } from '../../../../../../core/x402/api_key.ts'
import { usdc } from '../../../../../../core/x402/money.ts'
import { offerOf } from '../../../../../../core/x402/offer.ts'
import { COLLECTOR, COLLECTOR_CODE } from '../../../../../conformance/schemes/signers.ts'
import { scriptedChat, wholeAnswer } from '../../../../../fakes/chat.ts'
import { encodePayment, kit } from '../../../../../kit.ts'
import { ASSET, DOMAIN, NETWORK, world, type World } from '../../evm_kit.ts'
import { DEPOSIT, PRICE } from '../channel_kit.ts'
import { nodeKeys } from './key_kit.ts'

let node: World
const { keySeller, keyBuyer, buyWith, channelsOf, sendAs, at } = nodeKeys(() => node)

beforeAll(async () => void (node = await world()), 60_000)
afterAll(async () => await node.close())

describe('API keys on a node', () => {
  test('a deposit without a call funds a key, once; calls are charged and the rest is sent back to the unit', async () => {
    const sold = await keySeller()
    const { chain, keys, offer, payTo } = sold
    const { payer, key, seed, deposit, channelId } = await keyBuyer(offer)
    expect(await channelsOf(keys, seed)).toEqual([])
    const payment = await deposit()
    const first = await keys.deposit(payment, at())
    expect(first).toMatchObject({ kind: 'deposited', channel: { channelId, payer: payer.address, available: DEPOSIT } })
    expect(await keys.deposit(payment, at())).toEqual(first)
    expect(await node.balanceOf(payer.address)).toBe(DEPOSIT)
    const { identity, settle } = await buyWith(sold, { seed, charge: 321n })
    expect(identity).toMatchObject({ kind: 'known', payer: payer.address, signer: key.address })
    expect(await channelsOf(keys, seed)).toMatchObject([{ reserved: PRICE, available: DEPOSIT - PRICE }])
    const opened = await keys.open(seed)
    const closing = () => ({ ...at(), settleFinished: async () => {} })
    // The reserve of the open call stays, and is charged after the refund as before it.
    const left = { kind: 'refunded', receipt: { amount: String(DEPOSIT - PRICE) } }
    expect(await keys.close(opened, closing())).toMatchObject(left)
    expect(await keys.close(opened, closing())).toMatchObject({ ...left, isRepeated: true })
    expect(await settle()).toMatchObject({ kind: 'settled', receipt: { amount: '321' } })
    const rest = { kind: 'refunded', receipt: { amount: String(PRICE - 321n) } }
    expect(await keys.close(opened, closing())).toMatchObject(rest)
    opened.end()
    expect(await node.balanceOf(payer.address)).toBe(DEPOSIT * 2n - 321n)
    expect(await node.balanceOf(payTo)).toBe(321n)
    expect(await channelsOf(keys, seed)).toMatchObject([{ deposited: 321n, charged: 321n, available: 0n }])
    expect(await keys.deposit(await deposit(), at())).toMatchObject({
      kind: 'deposited',
      channel: { available: DEPOSIT },
    })
    chain.close()
  })

  test('what an open call of a closed key leaves is sent back once it has ended, without being asked for', async () => {
    const sold = await keySeller()
    const { chain, keys, offer } = sold
    const { payer, seed, deposit } = await keyBuyer(offer)
    await keys.deposit(await deposit(), at())
    const { settle } = await buyWith(sold, { seed, charge: 321n })
    const opened = await keys.open(seed)
    const back = await keys.close(opened, { ...at(), settleFinished: async () => {} })
    expect(back).toMatchObject({ kind: 'refunded', receipt: { amount: String(DEPOSIT - PRICE) } })
    const round = async () => await chain.claimChannels?.({ now: node.now() })
    await round()
    expect(await channelsOf(keys, seed)).toMatchObject([{ deposited: PRICE, reserved: PRICE, available: 0n }])
    expect(await settle()).toMatchObject({ kind: 'settled', receipt: { amount: '321' } })
    expect(await channelsOf(keys, seed)).toMatchObject([{ reserved: 0n, available: 0n }])
    await round()
    expect(await node.balanceOf(payer.address)).toBe(DEPOSIT * 2n - 321n)
    expect(await channelsOf(keys, seed)).toMatchObject([{ deposited: 321n, charged: 321n, claimed: 321n }])
    opened.end()
    chain.close()
  })

  test('a lost index is written again from the logs of the chain, for the keys of this seller alone', async () => {
    const storage = memoryStorage()
    const sold = await keySeller(storage)
    const { chain, keys, offer, open } = sold
    const other = await keySeller()
    const [mine, theirs] = [await keyBuyer(offer), await keyBuyer(other.offer)]
    const fromBlock = Number(await node.ask<Hex>('eth_blockNumber'))
    await keys.deposit(await mine.deposit(), at())
    await other.keys.deposit(await theirs.deposit(), at())
    await (await buyWith(sold, { seed: mine.seed, charge: 200n })).settle()
    await chain.claimChannels?.({ now: node.now() })
    const restored = await open(memoryStorage())
    const found = restored.apiKeys
    if (!found) throw new Error('keys are off')
    expect(await channelsOf(found, mine.seed)).toEqual([])
    expect(await restored.recoverKeys?.({ now: node.now(), fromBlock })).toMatchObject({ channels: 1 })
    expect(await restored.recoverKeys?.({ now: node.now(), fromBlock })).toMatchObject({ channels: 0 })
    const later = { now: node.now() + 60_000, signal: at().signal }
    expect(await found.channels(mine.key.address, later)).toMatchObject([
      { channelId: mine.channelId, charged: 200n, available: DEPOSIT - 200n },
    ])
    expect(await found.channels(theirs.key.address, later)).toEqual([])
    for (const each of [chain, restored, other.chain]) each.close()
  })

  test('a channel that a stranger opened long before its deposit is found again, and none that strangers fill', async () => {
    const storage = memoryStorage()
    const { chain, keys, offer, open } = await keySeller(storage)
    const [owner, stranger] = [await keyBuyer(offer), await keyBuyer(offer)]
    const fromBlock = Number(await node.ask<Hex>('eth_blockNumber'))
    await node.ask('anvil_setCode', COLLECTOR, COLLECTOR_CODE)
    await node.setBalance(COLLECTOR, 2n)
    await node.ask('anvil_setBalance', stranger.payer.address, toHex(10n ** 20n))
    const fill = (config: ChannelConfig) =>
      sendAs(
        stranger.payer,
        encodeFunctionData({ abi: batchSettlementAbi, functionName: 'deposit', args: [config, 1n, COLLECTOR, '0x'] }),
      )
    await fill(owner.config)
    await fill({ ...owner.config, payer: lower(stranger.payer.address) })
    // More blocks than one question for logs has.
    await node.ask('anvil_mine', toHex(2_100), '0x0')
    await keys.deposit(await owner.deposit(), at())
    const restored = await open(memoryStorage())
    expect(await restored.recoverKeys?.({ now: node.now(), fromBlock })).toMatchObject({ channels: 1 })
    expect(await restored.apiKeys?.channels(owner.key.address, at())).toMatchObject([
      { channelId: owner.channelId, available: DEPOSIT + 1n },
    ])
    for (const each of [chain, restored]) each.close()
  })

  test('deposits that are sent again, in any order, count their gas once (contract 23.9)', async () => {
    const { chain, keys, offer } = await keySeller(memoryStorage(), { coinPrice: 1 })
    const { key, deposit } = await keyBuyer(offer)
    const [one, two] = [await deposit(), await deposit()]
    for (const payment of [one, two]) expect(await keys.deposit(payment, at())).toMatchObject({ kind: 'deposited' })
    const gas = async () => {
      const listed = await keys.list({ now: node.now(), after: '', limit: 100 })
      return listed.find(({ address }) => address === lower(key.address))?.gasSpent
    }
    const spent = await gas()
    expect(spent).toBeGreaterThan(0n)
    for (const payment of [one, two, one, two])
      expect(await keys.deposit(payment, at())).toMatchObject({ kind: 'deposited' })
    expect(await gas()).toBe(spent as NonNullable<typeof spent>)
    chain.close()
  })

  test('a closed key is opened again by a deposit of its payer, not by the units of a stranger (contract 23.11)', async () => {
    const sold = await keySeller()
    const { chain, keys, offer } = sold
    const [owner, stranger] = [await keyBuyer(offer), await keyBuyer(offer)]
    await node.setBalance(owner.payer.address, DEPOSIT * 3n)
    await keys.deposit(await owner.deposit(), at())
    await (await buyWith(sold, { seed: owner.seed, charge: 1n })).settle()
    const { settle } = await buyWith(sold, { seed: owner.seed, charge: 321n })
    const opened = await keys.open(owner.seed)
    const closing = () => ({ ...at(), settleFinished: async () => {} })
    expect(await keys.close(opened, closing())).toMatchObject({ kind: 'refunded' })
    await node.ask('anvil_setCode', COLLECTOR, COLLECTOR_CODE)
    await node.setBalance(COLLECTOR, 5n)
    await node.ask('anvil_setBalance', stranger.payer.address, toHex(10n ** 20n))
    await sendAs(
      stranger.payer,
      encodeFunctionData({
        abi: batchSettlementAbi,
        functionName: 'deposit',
        args: [owner.config, 5n, COLLECTOR, '0x'],
      }),
    )
    // It reads the channel from the chain.
    await chain.claimChannels?.({ now: node.now() })
    await settle()
    expect(await channelsOf(keys, owner.seed)).toMatchObject([{ available: 0n }])
    await keys.deposit(await owner.deposit(), at())
    const [{ available = 0n } = {}] = await channelsOf(keys, owner.seed)
    expect(available).toBeGreaterThanOrEqual(DEPOSIT)
    opened.end()
    chain.close()
  })

  test('a deposit is refused for a wallet as the key, another salt, and a signature that is not of the payer', async () => {
    const { chain, keys, offer } = await keySeller()
    const owned = await keyBuyer(offer)
    await node.setBalance(owned.key.address, 1n)
    const wallet = await keyBuyer(offer)
    const stranger = privateKeyToAccount(keccak256(toHex('stranger')))
    const self = await keyBuyer(offer, { authorizer: lower(owned.payer.address) })
    const refusals = [
      await keys.deposit(await owned.deposit(), at()),
      await keys.deposit(await (await keyBuyer(offer, { salt: toHex(7n, { size: 32 }) })).deposit(), at()),
      await keys.deposit(await wallet.deposit(stranger), at()),
      await keys.deposit(await self.deposit(), at()),
    ]
    for (const each of refusals) expect(each).toMatchObject({ kind: 'refused', code: 'PAYMENT_INVALID' })
    expect(await channelsOf(keys, wallet.seed)).toEqual([])
    chain.close()
  })

  test('nobody but the gateway makes the payment of a key: a caller that sends one is refused', async () => {
    const sold = await keySeller()
    const { chain, keys, offer } = sold
    const { seed, deposit } = await keyBuyer(offer)
    await keys.deposit(await deposit(), at())
    const { payment } = await buyWith(sold, { seed, charge: 1n })
    const copied = structuredClone(payment)
    expect(await chain.identify(copied, offer, at())).toMatchObject({ kind: 'refused', code: 'PAYMENT_INVALID' })
    chain.close()
  })

  test('a gateway that leases its relayer key takes a key from its deposit to its refund, to the unit', async () => {
    const storage = memoryStorage()
    const [relayerKey, authorizerKey] = [node.key(), node.key()]
    await node.ask('anvil_setBalance', privateKeyToAccount(relayerKey).address, toHex(10n ** 20n))
    const takeLease = (name: string, lease: { now: number; until: number }) => storage.lease(name, 'worker', lease)
    const chain = leasedChain({
      keys: [{ name: 'relayer', key: relayerKey, address: privateKeyToAccount(relayerKey).address }],
      takeLease,
      leaseMs: 600_000,
      build: (key, role) =>
        evmChain({
          network: NETWORK,
          rpcUrl: node.url,
          asset: ASSET,
          payTo: privateKeyToAccount(authorizerKey).address,
          domain: DOMAIN,
          relayerKey: key,
          resendMs: 64,
          pollMs: 4,
          watchesGas: role === 'sender',
          schemes: ['batch-settlement'],
          channels: {
            storage,
            authorizerKey,
            coinPrice: 0,
            withdrawDelay: 900,
            minDeposit: DEPOSIT,
            takeLease,
            alert: () => {},
            apiKeys: true,
          },
        }),
    })
    await chain.check({ now: node.now() })
    await chain.renew(node.now())
    const clock = { ...systemClock, now: node.now }
    const random = (bytes: number) => crypto.getRandomValues(new Uint8Array(bytes))
    const { gateway } = kit({
      chatVendor: scriptedChat(async () => wholeAnswer()),
      ports: { storage, chain, clock, random },
    })
    const [terms] = chain.terms(node.now())
    if (!terms) throw new Error('it sells nothing')
    const { payer, seed, deposit } = await keyBuyer(offerOf(terms, { amount: usdc(PRICE), maxTimeoutSeconds: 600 }))
    const headers = { authorization: `Bearer ${keyText(seed, 'test')}`, 'content-type': 'application/json' }
    const post = async (path: string, body: unknown, more: Record<string, string> = headers) => {
      const init = { method: 'POST', headers: more, body: JSON.stringify(body) }
      const response = await gateway.fetch(new Request(`https://gateway.example${path}`, init), { ip: '192.0.2.1' })
      return { status: response.status, body: (await response.json()) as Record<string, unknown> }
    }
    const paid = { payment: encodePayment(await deposit()) }
    expect(await post('/api/v1/keys/deposit', paid, { 'content-type': 'application/json' })).toMatchObject({
      status: 200,
    })
    const order = {
      model: 'vendor-a/chat-5.4-mini',
      messages: [{ role: 'user', content: 'Why is the sky blue?' }],
      max_tokens: 100,
    }
    const answers = await Promise.all(Array.from({ length: 8 }, () => post('/api/v1/chat/completions', order)))
    const served = answers.filter(({ status }) => status === 200).length
    // Five quotes of 2,000 fit into the deposit.
    expect([served, answers.every(({ status }) => status === 200 || status === 402)]).toEqual([5, true])
    expect(await post('/api/v1/keys/close', {})).toMatchObject({ status: 200, body: { amount: '0.004915' } })
    expect(await node.balanceOf(payer.address)).toBe(DEPOSIT * 2n - 1_017n * 5n)
    expect(await node.balanceOf(privateKeyToAccount(authorizerKey).address)).toBe(1_017n * 5n)
    expect((await post('/api/v1/chat/completions', order)).status).toBe(402)
    chain.close()
  })
})
