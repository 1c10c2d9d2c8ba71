/** Sellers that take API keys, and buyers with one, on a real node. */
import { expect } from 'bun:test'
import { type Hex, keccak256, toHex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { lower } from '../../../../../../adapters/chains/lib/hex.ts'
import { memoryStorage } from '../../../../../../adapters/storage/memory/mod.ts'
import type { ChainKeys } from '../../../../../../core/ports/mod.ts'
import type { Offer, Payment } from '../../../../../../core/mod.ts'
import { keySalt, privateKeyOf } from '../../../../../../core/x402/api_key.ts'
import { usdc } from '../../../../../../core/x402/money.ts'
import type { World } from '../../evm_kit.ts'
import { channelKit, DEPOSIT, depositOf, digests } from '../channel_kit.ts'
import type { ChannelSettings } from '../../../../../../adapters/chains/evm/channels/mod.ts'

/** `world` is asked for at each use, because it starts later. */
export function nodeKeys(world: () => World) {
  const { seller, sendAs, at } = channelKit(world)
  let made = 0

  async function keySeller(storage = memoryStorage(), settings: Partial<ChannelSettings> = {}, payTo?: string) {
    const sold = await seller(storage, { apiKeys: true, ...settings }, payTo)
    const { apiKeys } = sold.chain
    if (!apiKeys) throw new Error('keys are off')
    return { ...sold, keys: apiKeys }
  }

  /** A wallet with a key of its own, and what each has signed. */
  async function keyBuyer(offer: Offer, change: { salt?: Hex; authorizer?: Hex } = {}) {
    const payer = privateKeyToAccount(keccak256(toHex(`key buyer ${made}`)))
    const seed = Uint8Array.from({ length: 32 }, (_, i) => (i * 7 + ++made) % 251)
    const key = privateKeyToAccount(toHex(privateKeyOf(seed)))
    await world().setBalance(payer.address, DEPOSIT * 2n)
    const extra = offer.extra as { receiverAuthorizer: Hex; withdrawDelay: number }
    const payerAuthorizer = change.authorizer ?? lower(key.address)
    const config = {
      payer: lower(payer.address),
      payerAuthorizer,
      receiver: lower(offer.payTo),
      receiverAuthorizer: lower(extra.receiverAuthorizer),
      token: lower(offer.asset),
      withdrawDelay: extra.withdrawDelay,
      salt: change.salt ?? keySalt(payerAuthorizer),
    }
    const channelId = digests.channelId(config)
    const signer = change.authorizer === config.payer ? payer : key
    async function deposit(by = payer): Promise<Payment> {
      const signature = await signer.sign({ hash: digests.voucher(channelId, 0n) })
      const voucher = { channelId, maxClaimableAmount: '0', signature }
      const funded = await depositOf(payer, channelId, toHex(BigInt(++made), { size: 32 }))
      const other = by === payer ? funded : await depositOf(by, channelId, toHex(BigInt(++made), { size: 32 }))
      return {
        x402Version: 2,
        accepted: offer,
        payload: { type: 'deposit', channelConfig: config, voucher, deposit: other },
      }
    }
    return { payer, key, seed, config, channelId, deposit }
  }

  async function buyWith(
    { chain, keys, offer }: Pick<Awaited<ReturnType<typeof keySeller>>, 'chain' | 'keys' | 'offer'>,
    { seed, charge }: { readonly seed: Uint8Array; readonly charge: bigint },
  ) {
    const opened = await keys.open(seed)
    const order = { offers: [offer], name: `call ${++made}`, isLate: true, until: world().now() + 600_000 }
    const paying = await keys.pay(opened, order, at())
    if (!paying) throw new Error('the key has no channel')
    const { payment } = paying
    const identity = await chain.identify(payment, offer, at())
    expect(await chain.verify(payment, offer, at())).toMatchObject({ kind: 'valid', isSecured: true, isPrepaid: true })
    expect(await chain.secure?.(payment, offer, at())).toMatchObject({ kind: 'secured' })
    // The open call still needs its signer.
    opened.end()
    return { identity, payment, settle: () => chain.settle(payment, offer, { ...at(), charge: usdc(charge) }) }
  }

  const channelsOf = async (keys: ChainKeys, seed: Uint8Array) => {
    const opened = await keys.open(seed)
    opened.end()
    return await keys.channels(opened.address, at())
  }

  return { keySeller, keyBuyer, buyWith, channelsOf, sendAs, at }
}
