/** The scheme `upto` on a real node: the laws, and what only a chain with several keys can get wrong. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createWalletClient, type Hex, http, parseAbi, toHex } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { baseSepolia } from 'viem/chains'
import { type EvmChain, type EvmConfig, evmChain } from '../../../../adapters/chains/evm/mod.ts'
import { PERMIT2, permit2Abi, UPTO_PROXY } from '../../../../adapters/chains/lib/x402_contracts.ts'
import { usdc } from '../../../../core/x402/money.ts'
import type { Offer, Payment } from '../../../../core/x402/protocol.ts'
import { runLaws } from '../../../conformance/law.ts'
import { type UptoHarness, uptoLaws, type UptoSigning } from '../../../conformance/upto.ts'
import { ASSET, DOMAIN, NETWORK, type World, world } from './evm_kit.ts'

let chainWorld: World
beforeAll(async () => void (chainWorld = await world()), 60_000)
afterAll(() => chainWorld.close())

const TYPES = {
  PermitWitnessTransferFrom: [
    { name: 'permitted', type: 'TokenPermissions' },
    { name: 'spender', type: 'address' },
    { name: 'nonce', type: 'uint256' },
    { name: 'deadline', type: 'uint256' },
    { name: 'witness', type: 'Witness' },
  ],
  TokenPermissions: [
    { name: 'token', type: 'address' },
    { name: 'amount', type: 'uint256' },
  ],
  Witness: [
    { name: 'to', type: 'address' },
    { name: 'facilitator', type: 'address' },
    { name: 'validAfter', type: 'uint256' },
  ],
} as const
const TOKEN = parseAbi(['function approve(address spender, uint256 value) returns (bool)'])

type Harness = Omit<UptoHarness, 'payer'> & {
  readonly chain: EvmChain
  readonly config: EvmConfig
  payer(balance?: bigint, allowance?: bigint): Promise<string>
}

async function harness(change: Partial<EvmConfig> = {}): Promise<Harness> {
  const relayerKey = chainWorld.key()
  const facilitator = privateKeyToAccount(relayerKey).address
  await chainWorld.ask('anvil_setBalance', facilitator, toHex(10n ** 20n))
  const payTo = privateKeyToAccount(chainWorld.key()).address
  const config: EvmConfig = {
    network: NETWORK,
    rpcUrl: chainWorld.url,
    asset: ASSET,
    payTo,
    domain: DOMAIN,
    relayerKey,
    schemes: ['exact', 'upto'],
    resendMs: 64,
    pollMs: 4,
    ...change,
  }
  const chain = evmChain(config)
  const checked = await chain.check()
  if (checked.kind !== 'ready') throw new Error(JSON.stringify(checked))
  const [terms] = chain.terms(chainWorld.now()).filter(({ scheme }) => scheme === 'upto')
  if (!terms) throw new Error('it does not sell by upto')
  const offer: Offer = { ...terms, amount: '10000', maxTimeoutSeconds: 300 }
  const accounts = new Map<string, PrivateKeyAccount>()
  let nonces = BigInt(chainWorld.key())
  const send = (account: PrivateKeyAccount, to: string, data: { abi: any; functionName: string; args: any }) =>
    createWalletClient({ account, chain: baseSepolia, transport: http(chainWorld.url) }).writeContract({
      address: to as Hex,
      ...data,
    } as never)

  return {
    chain,
    config,
    offer,
    now: chainWorld.now,
    async payer(balance = 1_000_000n, allowance = 2n ** 255n) {
      const account = privateKeyToAccount(chainWorld.key())
      accounts.set(account.address, account)
      await chainWorld.setBalance(account.address, balance)
      await chainWorld.ask('anvil_setBalance', account.address, toHex(10n ** 18n))
      await send(account, ASSET, { abi: TOKEN, functionName: 'approve', args: [PERMIT2, allowance] })
      return account.address
    },
    async sign(from, signing: UptoSigning = {}) {
      const { to = payTo, value = 10_000n, validAfter = 0n, isForged = false } = signing
      const deadline = signing.validBefore ?? BigInt(Math.floor(chainWorld.now() / 1000) + offer.maxTimeoutSeconds)
      const nonce = signing.nonce === undefined ? nonces++ : BigInt(signing.nonce)
      const account = isForged ? privateKeyToAccount(chainWorld.key()) : (accounts.get(from) as PrivateKeyAccount)
      const witness = { to: to as Hex, facilitator, validAfter }
      const permitted = { token: ASSET, amount: value }
      const signature = await account.signTypedData({
        domain: { name: 'Permit2', chainId: 84_532, verifyingContract: PERMIT2 },
        types: TYPES,
        primaryType: 'PermitWitnessTransferFrom',
        message: { permitted, spender: UPTO_PROXY, nonce, deadline, witness },
      })
      const permit2Authorization = {
        from,
        permitted: { token: ASSET, amount: String(value) },
        spender: UPTO_PROXY,
        nonce: String(nonce),
        deadline: String(deadline),
        witness: { to, facilitator, validAfter: String(validAfter) },
      }
      return { x402Version: 2, accepted: offer, payload: { signature, permit2Authorization } }
    },
    balanceOf: chainWorld.balanceOf,
    async cancel(payment: Payment) {
      const { from, nonce } = payment.payload.permit2Authorization as { from: string; nonce: string }
      const args = [BigInt(nonce) >> 8n, 1n << (BigInt(nonce) & 0xffn)]
      await send(accounts.get(from) as PrivateKeyAccount, PERMIT2, {
        abi: permit2Abi,
        functionName: 'invalidateUnorderedNonces',
        args,
      })
    },
    mineAt: chainWorld.mineAt,
  }
}

runLaws('evm by upto', uptoLaws, async () => {
  const made = await harness()
  return { open: async () => made, close: async () => made.chain.close() }
})

describe('several keys', () => {
  const at = (h: Harness) => ({ now: h.now(), signal: AbortSignal.timeout(10_000), charge: usdc(1_234n) })

  test('a replica with another key verifies the payment, sends nothing, and sees what the right one has settled', async () => {
    const h = await harness()
    const facilitators = [privateKeyToAccount(h.config.relayerKey as Hex).address]
    const other = await harness({ payTo: h.config.payTo, facilitators })
    const payer = await h.payer()
    const payment = await h.sign(payer)
    expect(await other.chain.identify(payment, other.offer, at(h))).toMatchObject({ kind: 'known', payer })
    expect(await other.chain.verify(payment, other.offer, at(h))).toMatchObject({ kind: 'valid' })
    expect(await other.chain.settle(payment, other.offer, at(h))).toMatchObject({ kind: 'unavailable' })
    expect(await h.balanceOf(payer)).toBe(1_000_000n)
    const settled = await h.chain.settle(payment, h.offer, at(h))
    expect(settled).toMatchObject({ kind: 'settled' })
    expect(await other.chain.fate(payment, other.offer, at(h))).toEqual({
      kind: 'paid',
      receipt: settled.kind === 'settled' ? settled.receipt : undefined,
    } as never)
    h.chain.close()
    other.chain.close()
  })

  test('a stranger’s key is refused', async () => {
    const [h, other] = [await harness(), await harness()]
    const payment = await h.sign(await h.payer())
    expect(await other.chain.identify(payment, other.offer, at(h))).toMatchObject({
      kind: 'refused',
      reason: expect.stringContaining('invalid_permit2_recipient_mismatch'),
    })
    h.chain.close()
    other.chain.close()
  })
})

describe('the funds of a wallet', () => {
  const at = (h: Harness) => ({ now: h.now(), signal: AbortSignal.timeout(10_000) })

  test('are no more than Permit2 may move, so that open calls together are covered', async () => {
    const h = await harness()
    const payer = await h.payer(1_000_000n, 15_000n)
    expect(await h.chain.verify(await h.sign(payer), h.offer, at(h))).toMatchObject({ kind: 'valid', balance: 15_000n })
    const poor = await h.payer(1_000_000n, 9_999n)
    const verdict = await h.chain.verify(await h.sign(poor), h.offer, at(h))
    expect(verdict).toMatchObject({ kind: 'refused', code: 'PAYMENT_UNFUNDED' })
    expect(verdict.kind === 'refused' && verdict.reason).toContain('invalid_permit2_allowance_required')
    h.chain.close()
  })
})

describe('what the payer does between verification and settlement', () => {
  const at = (h: Harness) => ({ now: h.now(), signal: AbortSignal.timeout(10_000), charge: usdc(1_234n) })

  test('an emptied wallet, a taken allowance or a burnt nonce is refused, and costs no gas', async () => {
    const h = await harness()
    const relayer = privateKeyToAccount(h.config.relayerKey as Hex).address
    const before = await chainWorld.ask<Hex>('eth_getBalance', relayer, 'latest')
    for (const act of ['empty', 'burn'] as const) {
      const payer = await h.payer()
      const payment = await h.sign(payer)
      expect(await h.chain.verify(payment, h.offer, at(h))).toMatchObject({ kind: 'valid' })
      if (act === 'empty') await chainWorld.setBalance(payer, 0n)
      if (act === 'burn') await h.cancel(payment)
      expect(await h.chain.settle(payment, h.offer, at(h))).toMatchObject({ kind: 'refused' })
    }
    expect(await chainWorld.ask<Hex>('eth_getBalance', relayer, 'latest')).toBe(before)
    h.chain.close()
  })
})
