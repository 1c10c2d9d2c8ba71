/** Sellers and buyers of channels on a real node. */
import { signVoucher } from '@x402/evm/batch-settlement/client'
import { type Hex, keccak256, toHex } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { channelDigests } from '../../../../../adapters/chains/evm/channels/digests.ts'
import { type EvmChain, evmChain } from '../../../../../adapters/chains/evm/mod.ts'
import { lower } from '../../../../../adapters/chains/lib/hex.ts'
import { BATCH_SETTLEMENT, ERC3009_COLLECTOR } from '../../../../../adapters/chains/evm/node/x402_contracts.ts'
import { memoryStorage } from '../../../../../adapters/storage/memory/mod.ts'
import { usdc } from '../../../../../core/x402/money.ts'
import { offerOf } from '../../../../../core/x402/offer.ts'
import type { Offer, Payment } from '../../../../../core/x402/protocol.ts'
import { ASSET, DOMAIN, NETWORK, type World } from '../evm_kit.ts'
import type { ChannelSettings } from '../../../../../adapters/chains/evm/channels/mod.ts'

export const PRICE = 1_000n
export const DEPOSIT = 10_000n
export const digests = channelDigests(84532)
const FIELDS = ['uint256 value', 'uint256 validAfter', 'uint256 validBefore', 'bytes32 nonce']
const TRANSFER = ['address from', 'address to', ...FIELDS].map((field) => {
  const [type = '', name = ''] = field.split(' ')
  return { name, type }
})

/** `node` is asked for at each use, because it starts later. */
export function channelKit(node: () => World) {
  let made = 0
  const at = () => ({ now: node().now(), signal: AbortSignal.timeout(20_000) })

  /** A seller with its own key and storage, and what it alerted. */
  async function seller(
    storage = memoryStorage(),
    settings: Partial<ChannelSettings> = {},
    payTo: string = privateKeyToAccount(node().key()).address,
  ) {
    const [relayerKey, authorizerKey] = [node().key(), node().key()]
    await node().ask('anvil_setBalance', privateKeyToAccount(relayerKey).address, toHex(10n ** 20n))
    const alerts: string[] = []
    const open = async (records = storage, rpcUrl = node().url): Promise<EvmChain> => {
      const chain = evmChain({
        network: NETWORK,
        rpcUrl,
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
          coinPrice: 0,
          withdrawDelay: 900,
          minDeposit: DEPOSIT,
          takeLease: (name, lease) => records.lease(name, 'worker', lease),
          alert: (message) => void alerts.push(message),
          ...settings,
        },
      })
      const checked = await chain.check()
      if (checked.kind !== 'ready') throw new Error(JSON.stringify(checked))
      return chain
    }
    const chain = await open()
    const [terms] = chain.terms(0)
    if (!terms) throw new Error('it sells nothing')
    return {
      chain,
      open,
      payTo,
      authorizerKey,
      alerts,
      offer: offerOf(terms, { amount: usdc(PRICE), maxTimeoutSeconds: 600 }),
    }
  }

  /** A buyer with one channel at this seller. */
  async function buyer(offer: Offer) {
    const account = privateKeyToAccount(keccak256(toHex(`channel buyer ${made++}`)))
    await node().setBalance(account.address, DEPOSIT * 2n)
    await node().ask('anvil_setBalance', account.address, toHex(10n ** 20n))
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
      payload: {
        channelConfig: config,
        voucher: await signVoucher(account, id, String(base + PRICE), NETWORK),
        ...more,
      },
    })
    return {
      account,
      config,
      id,
      voucher: (base: bigint) => paying(base),
      /** Asks for what is left, or for a part of it. */
      refund: async (charged: bigint, amount?: bigint): Promise<Payment> => ({
        x402Version: 2,
        accepted: offer,
        payload: {
          type: 'refund',
          channelConfig: config,
          voucher: await signVoucher(account, id, String(charged), NETWORK),
          ...(amount !== undefined && { amount: String(amount) }),
        },
      }),
      deposit: async (base = 0n) =>
        paying(base, { type: 'deposit', deposit: await depositOf(account, id, toHex(BigInt(made++), { size: 32 })) }),
    }
  }

  /** Sends a transaction of the buyer itself to the contract. */
  async function sendAs(account: PrivateKeyAccount, data: Hex): Promise<void> {
    const nonce = Number(await node().ask<Hex>('eth_getTransactionCount', account.address, 'latest'))
    const fees = { gas: 500_000n, maxFeePerGas: 10n ** 11n, maxPriorityFeePerGas: 0n }
    const raw = await account.signTransaction({ chainId: 84532, nonce, to: BATCH_SETTLEMENT, data, ...fees })
    const hash = await node().ask<Hex>('eth_sendRawTransaction', raw)
    // The node answers before the block is there.
    await node().ask('evm_mine')
    const receipt = await node().ask<{ status: Hex } | null>('eth_getTransactionReceipt', hash)
    if (receipt?.status !== '0x1') throw new Error(`the transaction ${receipt ? 'reverted' : 'is not mined'}`)
  }

  async function buy(chain: EvmChain, offer: Offer, { payment, charge }: { payment: Payment; charge: bigint }) {
    const identity = await chain.identify(payment, offer, at())
    if (identity.kind !== 'known') return identity
    const verdict = await chain.verify(payment, offer, at())
    if (verdict.kind !== 'valid') return verdict
    return await chain.settle(payment, offer, { ...at(), charge: usdc(charge) })
  }

  return { seller, buyer, sendAs, buy, at }
}

export async function depositOf(account: PrivateKeyAccount, id: Hex, salt: Hex) {
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
