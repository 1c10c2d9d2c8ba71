/** The schemes of EVM on a real node, with the real contracts. Each gateway there sells by all of them. */
import { encodeFunctionData, type Hex, parseAbi, toHex } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { type EvmChain, evmChain } from '../../../adapters/chains/evm/mod.ts'
import {
  BATCH_SETTLEMENT,
  batchSettlementAbi,
  EVM_SCHEMES,
  type EvmScheme,
  PERMIT2,
} from '../../../adapters/chains/evm/node/x402_contracts.ts'
import { systemClock } from '../../../adapters/local.ts'
import type { Offer, Payment, Storage } from '../../../core/mod.ts'
import { ASSET, DOMAIN, isSend, type Line, line, NETWORK, type World } from '../../adapters/chains/evm/evm_kit.ts'
import { harness as facilitatorHarness, referenceDesk } from '../../adapters/chains/facilitator/facilitator_kit.ts'
import { chargeClient, prescribed } from './charge_client.ts'
import { schemeOn } from './harness_schemes.ts'
import type { Buyer, Scheme, SchemeFactory } from './scheme.ts'
import {
  type Channel,
  channelOf,
  COLLECTOR,
  COLLECTOR_CODE,
  signDeposit,
  signExact,
  signUpto,
  signVoucher,
} from './signers.ts'

const APPROVE = parseAbi(['function approve(address spender, uint256 value)'])
const MIN_DEPOSIT = 10_000n
const MAX = 2n ** 256n - 1n
const COLLECTED = 5_000_000n

/** `node` is asked for when it is needed, because tests start it. */
export const evmScheme =
  (way: EvmScheme | 'charge', node: () => World): SchemeFactory =>
  async (storage) => {
    const scheme = way === 'charge' ? 'exact' : way
    const world = node()
    const network = line()
    const chain = await chainOf({ world, network, storage })
    const payTo = String(chain.terms(world.now())[0]?.payTo)
    const channels: Channel[] = []
    return {
      way: `evm/${way}`,
      scheme,
      chain,
      clock: { ...systemClock, now: world.now },
      async buyer(calls, price) {
        const each = scheme === 'batch-settlement' && price < MIN_DEPOSIT ? MIN_DEPOSIT : price
        const account = await accountWith(world, each * BigInt(calls))
        let salt = 0n
        return {
          address: account.address,
          drain: () => world.setBalance(account.address, 0n),
          ...(scheme === 'batch-settlement' &&
            ({
              async payNext(offer: Offer, receipt) {
                const channel = channelOf(offer, { payer: account.address, salt: 0n })
                const base = BigInt(receipt?.extra?.channelState?.chargedCumulativeAmount ?? 0)
                if (base > 0n) return await signVoucher(account, { offer, channel, base })
                channels.push(channel)
                return await signDeposit(account, { offer, channel, amount: each * BigInt(calls), by: account })
              },
            } satisfies Partial<Buyer>)),
          async pay(offer) {
            if (scheme === 'exact') return await signExact(account, { offer, now: world.now(), ...prescribed(offer) })
            if (scheme === 'upto') return await signUpto(account, { offer, now: world.now() })
            const channel = channelOf(offer, { payer: account.address, salt: ++salt })
            channels.push(channel)
            return await signDeposit(account, { offer, channel, amount: depositFor(offer), by: account })
          },
        }
      },
      forged: (victim, offers) => forgedOn(world, victim, offers),
      ...(way === 'charge' && chargeClient),
      async received() {
        let all = await world.balanceOf(payTo)
        for (const { id } of channels) all += await balanceIn(world, id)
        return all
      },
      outage: (isOn) => void (network.judge = isOn ? () => 'lost' : undefined),
      gas: await gasOf({ world, network, chain }),
      close: async () => chain.close(),
    }
  }

/** Gas that the operator of this chain spends from now on. */
export async function gasOf({
  world,
  network,
  chain,
}: Pick<ChainOptions, 'world' | 'network'> & { readonly chain: EvmChain }): Promise<NonNullable<Scheme['gas']>> {
  const block = Number(await world.ask<Hex>('eth_blockNumber'))
  return {
    emptyBeforeSends(address) {
      network.judge = (messages) => (messages.some(isSend) ? emptying : 'fine')
      return { fill: () => world.setBalance(address, 10n ** 9n) }

      async function emptying(_: unknown, forward: () => Promise<any>) {
        await world.setBalance(address, 0n)
        return await forward()
      }
    },
    reverted: () => revertedSince(world, { sender: chain.gas().address, block }),
  }
}

/** How many transactions of an account have reverted after a block. */
async function revertedSince(world: World, { sender, block }: { sender: string; block: number }): Promise<number> {
  type Block = { readonly transactions: readonly { readonly from: Hex; readonly hash: Hex }[] }
  let count = 0
  const last = Number(await world.ask<Hex>('eth_blockNumber'))
  for (let number = block + 1; number <= last; number++) {
    const { transactions } = await world.ask<Block>('eth_getBlockByNumber', toHex(number), true)
    for (const { from, hash } of transactions.filter((each) => each.from.toLowerCase() === sender.toLowerCase())) {
      const { status } = await world.ask<{ status: Hex }>('eth_getTransactionReceipt', hash)
      if (from && status !== '0x1') count++
    }
  }
  return count
}

export const evmFacilitatorScheme =
  (node: () => World): SchemeFactory =>
  async () => {
    const desk = await referenceDesk(node())
    const h = await facilitatorHarness(node(), [desk])
    const close = async () => {
      h.chain.close()
      await desk.close()
    }
    return { ...schemeOn(h, { way: 'evm/facilitators', close }), clock: { ...systemClock, now: h.now } }
  }

const depositFor = ({ amount }: Offer): bigint => (BigInt(amount) < MIN_DEPOSIT ? MIN_DEPOSIT : BigInt(amount))

type ChainOptions = {
  readonly world: World
  readonly network: Line
  readonly storage: Storage
  readonly channels?: { readonly apiKeys: boolean; readonly minDeposit: bigint }
}

export async function chainOf({ world, network, storage, channels }: ChainOptions): Promise<EvmChain> {
  const [relayerKey, authorizerKey] = [world.key(), world.key()]
  await world.ask('anvil_setBalance', privateKeyToAccount(relayerKey).address, toHex(10n ** 20n))
  const chain = evmChain({
    network: NETWORK,
    rpcUrl: world.url,
    asset: ASSET,
    payTo: privateKeyToAccount(world.key()).address,
    domain: DOMAIN,
    relayerKey,
    fetch: network.fetch,
    resendMs: 64,
    pollMs: 4,
    schemes: EVM_SCHEMES,
    channels: {
      storage,
      authorizerKey,
      coinPrice: 0,
      withdrawDelay: 900,
      minDeposit: MIN_DEPOSIT,
      takeLease: (name, lease) => storage.lease(name, 'worker', lease),
      alert: () => {},
      ...channels,
    },
  })
  const checked = await chain.check()
  if (checked.kind !== 'ready') throw new Error(JSON.stringify(checked))
  return chain
}

/** An account with so much of the token, which Permit2 may move. */
async function accountWith(world: World, value: bigint): Promise<PrivateKeyAccount> {
  const account = privateKeyToAccount(world.key())
  await world.setBalance(account.address, value)
  await world.ask('anvil_setBalance', account.address, toHex(10n ** 18n))
  const data = encodeFunctionData({ abi: APPROVE, functionName: 'approve', args: [PERMIT2, MAX] })
  const fees = { gas: 100_000n, maxFeePerGas: 10n ** 11n, maxPriorityFeePerGas: 0n }
  const raw = await account.signTransaction({ chainId: 84_532, nonce: 0, to: ASSET, data, ...fees })
  await world.ask('eth_sendRawTransactionSync', raw)
  return account
}

export async function balanceIn(world: World, id: Hex): Promise<bigint> {
  const data = encodeFunctionData({ abi: batchSettlementAbi, functionName: 'channels', args: [id] })
  return BigInt((await world.ask<Hex>('eth_call', { to: BATCH_SETTLEMENT, data }, 'latest')).slice(0, 66))
}

/**
 * By each scheme: signatures of the thief in the victim's name, deposits that nobody or the thief has signed, and
 * vouchers of a channel in the victim's name that the thief has filled with money of its own.
 */
export async function forgedOn(world: World, victim: string, offers: readonly Offer[]): Promise<readonly Payment[]> {
  const thief = privateKeyToAccount(world.key())
  const named = { ...thief, address: victim as Hex }
  const made: Payment[] = []
  for (const offer of offers) {
    const now = world.now()
    if (offer.scheme === 'exact') made.push(await signExact(named, { offer, now, by: thief, ...prescribed(offer) }))
    if (offer.scheme === 'upto') made.push(await signUpto(named, { offer, now, by: thief }))
    if (offer.scheme !== 'batch-settlement') continue
    const channelWith = (salt: bigint) => channelOf(offer, { payer: victim, authorizer: thief.address, salt })
    const [channel, filled] = [channelWith(1n), channelWith(2n)]
    await fill(world, filled)
    const deposit = { offer, channel, amount: depositFor(offer) }
    made.push(await signDeposit(thief, { ...deposit, by: undefined }))
    made.push(await signDeposit(thief, { ...deposit, by: thief }))
    made.push(await signVoucher(thief, { offer, channel: filled }))
    made.push(await signDeposit(thief, { ...deposit, channel: filled, by: undefined }))
  }
  return made
}

/** Puts a stranger's money into a channel: the contract takes any collector. */
async function fill(world: World, { config }: Channel): Promise<void> {
  await world.ask('anvil_setCode', COLLECTOR, COLLECTOR_CODE)
  await world.setBalance(COLLECTOR, COLLECTED)
  const args = [config, COLLECTED, COLLECTOR, '0x'] as const
  await world.act(BATCH_SETTLEMENT, encodeFunctionData({ abi: batchSettlementAbi, functionName: 'deposit', args }))
}
