/**
 * Gas of 100 calls on the local chain: by `exact`, alone and batched, by `upto`, and over a channel. Counts what the
 * relayer's transactions used; nothing is timed.
 */
import { privateKeyToAccount } from 'viem/accounts'
import type { Hex } from 'viem'
import type { Chain, Offer, Payment } from '../../core/mod.ts'
import { usdc } from '../../core/x402/money.ts'
import { channelKit } from '../adapters/chains/evm/channels/channel_kit.ts'
import { evmHarness, type World, world } from '../adapters/chains/evm/evm_kit.ts'
import { uptoHarness } from '../adapters/chains/evm/upto/upto_kit.ts'
import { count, table } from './print.ts'

const CALLS = 100
/** A channel of the kit is opened with ten prices, so each of its calls uses a little. */
const USED = 7n

type Used = { readonly name: string; readonly gas: bigint; readonly transactions: number }

export async function gas(): Promise<void> {
  const node = await world()
  try {
    const rows = [await exact(node, 'alone'), await exact(node, 'together'), await upto(node), ...(await channel(node))]
    console.log(`\ngas of ${CALLS} calls on the local chain`)
    table(
      ['', 'transactions', 'gas', 'a call'],
      rows.map(({ name, gas: used, transactions }) => [
        name,
        String(transactions),
        count(Number(used)),
        count(Number(used) / CALLS),
      ]),
    )
  } finally {
    await node.close()
  }
}

/** Gas that an account's transactions have used while `work` went on. */
async function usedBy(node: World, sender: string, work: () => Promise<void>): Promise<Omit<Used, 'name'>> {
  const before = Number(await node.ask<Hex>('eth_blockNumber'))
  await work()
  const after = Number(await node.ask<Hex>('eth_blockNumber'))
  let [total, transactions] = [0n, 0]
  for (let block = before + 1; block <= after; block++) {
    const receipts = await node.ask<readonly { from: string; gasUsed: Hex }[]>(
      'eth_getBlockReceipts',
      `0x${block.toString(16)}`,
    )
    for (const { from, gasUsed } of receipts) {
      if (from.toLowerCase() !== sender.toLowerCase()) continue
      total += BigInt(gasUsed)
      transactions++
    }
  }
  return { gas: total, transactions }
}

/** As often as it takes: the node refuses to read while it makes a block, and settling again moves nothing twice. */
async function settle(
  chain: Pick<Chain, 'settle'>,
  { payment, offer, now, charge }: { payment: Payment; offer: Offer; now: number; charge?: bigint },
): Promise<void> {
  const at = { now, signal: AbortSignal.timeout(30_000), ...(charge !== undefined && { charge: usdc(charge) }) }
  for (let tries = 1; ; tries++) {
    const settlement = await chain.settle(payment, offer, at)
    if (settlement.kind === 'settled') return
    if (tries === 20) throw new Error(JSON.stringify(settlement))
  }
}

async function exact(node: World, how: 'alone' | 'together'): Promise<Used> {
  const h = await evmHarness(node, { maxInFlight: 1 })
  const payments: Payment[] = []
  for (let call = 0; call < CALLS; call++) payments.push(await h.sign(await h.payer(), h.offer))
  const pay = (payment: Payment) => settle(h.chain, { payment, offer: h.offer, now: h.now() })
  const used = await usedBy(node, privateKeyToAccount(h.config.relayerKey as Hex).address, async () => {
    if (how === 'together') await Promise.all(payments.map(pay))
    else for (const payment of payments) await pay(payment)
  })
  h.chain.close()
  return { name: `exact, ${how === 'alone' ? 'one after another' : 'all at once'}`, ...used }
}

async function upto(node: World): Promise<Used> {
  const h = await uptoHarness(node)
  const payments: Payment[] = []
  for (let call = 0; call < CALLS; call++) payments.push(await h.sign(await h.payer()))
  const used = await usedBy(node, privateKeyToAccount(h.config.relayerKey as Hex).address, async () => {
    await Promise.all(
      payments.map((payment) => settle(h.chain, { payment, offer: h.offer, now: h.now(), charge: USED })),
    )
  })
  h.chain.close()
  return { name: 'upto, all at once', ...used }
}

async function channel(node: World): Promise<readonly Used[]> {
  const { seller, buyer } = channelKit(() => node)
  const { chain, offer } = await seller()
  const { deposit, voucher } = await buyer(offer)
  const { address } = chain.gas()
  const now = node.now()
  const opened = await usedBy(node, address, async () =>
    settle(chain, { payment: await deposit(), offer, now, charge: USED }),
  )
  const bought = await usedBy(node, address, async () => {
    for (let call = 1; call < CALLS; call++)
      await settle(chain, { payment: await voucher(USED * BigInt(call)), offer, now, charge: USED })
  })
  const claimed = await usedBy(node, address, async () => void (await chain.claimChannels?.({ now })))
  chain.close()
  const all = [opened, bought, claimed]
  return [
    {
      name: 'a channel, in all',
      gas: all.reduce((sum, each) => sum + each.gas, 0n),
      transactions: all.reduce((sum, each) => sum + each.transactions, 0),
    },
    { name: '  its deposit', ...opened },
    { name: '  its vouchers', ...bought },
    { name: '  its claim, which pays out', ...claimed },
  ]
}
