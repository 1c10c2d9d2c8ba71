/** The primary is killed while three replicas sell, and its standby is promoted. */
import { expect, test } from 'bun:test'
import { memoryChain } from '../../../../adapters/chains/evm/memory.ts'
import { postgresStorage } from '../../../../adapters/storage/postgres/mod.ts'
import type { Gateway, Offer, Payment } from '../../../../core/mod.ts'
import { reconcileRange } from '../../../../server/operator/reconcile.ts'
import { DONE, streamAnswer } from '../../../fakes/chat.ts'
import { COMPLETIONS, HELLO, STREAM, table } from '../../../core/call/stream_kit.ts'
import { voucherBuyer, voucherChain } from '../../chains/evm/channels/vouchers.ts'
import { primaryAndStandby } from './standby.ts'

const METHODS = ['exact', 'upto', 'channels'] as const
const LANES = 12

type Sale = {
  readonly method: (typeof METHODS)[number]
  readonly wallet: string
  readonly attempts: number
  readonly isServed: boolean
}

/** Three replicas, each with a gateway for each method, and buyers who send what failed again. */
async function market(url: string, methods: readonly Sale['method'][] = METHODS) {
  const storages = Array.from({ length: 3 }, () => postgresStorage(url, { waitMs: 200 }))
  for (const storage of storages) await storage.ready()
  const sellers = await Promise.all(
    methods.map(async (method) => {
      const chain = memoryChain(method === 'upto' ? { schemes: [method] } : {})
      const [first] = storages
      if (!first) throw new Error('no storage')
      const subject = await table(async () => streamAnswer(HELLO), { chain, name: method, ports: { storage: first } })
      const gateways = storages.map((storage, at) => {
        const ports = { ...subject.ports, storage, ...(method === 'channels' && { chain: voucherChain(storage) }) }
        return subject.restart({ workerId: `${method} ${at}`, ports })
      })
      return { method, chain, subject, gateways }
    }),
  )
  type Seller = (typeof sellers)[number]
  // Waits for the database go on: the time of the gateways is twenty times as fast.
  const ticking = setInterval(() => {
    for (const { subject } of sellers) void subject.clock.advance(100)
  }, 5)
  const sales: Sale[] = []
  let made = 0

  async function attempt({ subject }: Seller, gateway: Gateway, payment: Payment): Promise<boolean> {
    try {
      const reply = await subject.post(STREAM, { payment, gateway })
      return reply.status === 200 && (await reply.text()).endsWith(DONE)
    } catch {
      return false
    }
  }

  /** A purchase, sent again by the same payment to the next replica while it fails. */
  async function buy(lane: number): Promise<void> {
    const n = made++
    const seller = sellers[n % sellers.length] as Seller
    const { wallet, payment } = await signedOffer(seller, `wallet ${n}`)
    let attempts = 0
    for (let isServed = false; !isServed && attempts < 400; attempts++) {
      isServed = await attempt(seller, seller.gateways[(lane + attempts) % 3] as Gateway, payment)
      if (isServed) sales.push({ method: seller.method, wallet, attempts, isServed })
      else await new Promise((turn) => setTimeout(turn, 5))
    }
    if (attempts === 400) sales.push({ method: seller.method, wallet, attempts, isServed: false })
  }

  /** Asks every replica, because the database need not be there. A voucher is the first of its channel. */
  async function signedOffer({ method, subject, gateways }: Seller, name: string) {
    const buyer = subject.buyer(name)
    for (let n = 0; ; n++) {
      const gateway = gateways[n % 3] as Gateway
      const challenge = await buyer.ask(STREAM, { path: COMPLETIONS, gateway })
      const [offer] = (challenge.body.accepts ?? []) as readonly Offer[]
      if (challenge.status === 402 && offer) {
        if (method !== 'channels') return { wallet: buyer.wallet, payment: buyer.sign(challenge) }
        const channel = voucherBuyer(name)
        return { wallet: channel.address, payment: await channel.sign(offer, 0n) }
      }
      await new Promise((turn) => setTimeout(turn, 5))
    }
  }

  return {
    storages,
    sellers,
    sales,
    /** Sells until so many purchases have ended in all. */
    async sell(count: number): Promise<void> {
      await Promise.all(
        Array.from({ length: LANES }, async (_, lane) => {
          while (sales.length < count) await buy(lane)
        }),
      )
    },
    /** Leases of what was lost end, and maintenance settles what is open. */
    async settleAll(): Promise<void> {
      for (let round = 0; round < 6; round++) {
        for (const { subject, gateways } of sellers) {
          await subject.clock.advance(40_000)
          for (const gateway of gateways) await gateway.maintain()
          await subject.idle()
        }
      }
    },
    async close(): Promise<void> {
      clearInterval(ticking)
      for (const { subject } of sellers) await subject.idle()
      for (const storage of storages) await storage.close()
    },
  }
}

test('a primary with a synchronous standby is killed under load: nothing is lost, charged twice or given away', async () => {
  const pair = await primaryAndStandby({ isSynchronous: true })
  const { sellers, sales, sell, settleAll, close } = await market(pair.url)
  await sell(100)
  const selling = sell(300)
  while (sales.length < 150) await new Promise((turn) => setImmediate(turn))
  await pair.kill()
  await pair.promote()
  await selling
  await settleAll()
  expect(sales.filter(({ isServed }) => !isServed)).toEqual([])
  const transfers = sellers.flatMap(({ chain }) => chain.transfers)
  const charged = await pair.run(
    `SELECT payer AS "from", (SELECT data::json ->> 'charged' FROM records WHERE kind = 'channel' AND data LIKE '%' || lower(payer) || '%') AS value
     FROM calls WHERE gateway = 'channels' AND payment_status = 'settled'`,
  )
  const paidBy = (wallet: string) =>
    [...transfers, ...charged].filter(({ from }) => String(from).toLowerCase() === wallet.toLowerCase())
  expect(sales.filter(({ wallet }) => paidBy(wallet).length !== 1)).toEqual([])
  expect(new Set(charged.map(({ value }) => value)).size).toBe(1)
  expect(transfers.length + charged.length).toBe(sales.length)
  const settled = await pair.run("SELECT count(*)::int AS settled FROM calls WHERE payment_status = 'settled'")
  expect(settled).toEqual([{ settled: sales.length }])
  // The failover was under load.
  expect(sales.filter(({ attempts }) => attempts > 0).length).toBeGreaterThan(0)
  await close()
  await pair.stop()
}, 300_000)

test('with an asynchronous standby the ledger lacks what had not arrived, and reconcile names each payment', async () => {
  const pair = await primaryAndStandby({ isSynchronous: false })
  const { sellers, storages, sales, sell, settleAll, close } = await market(pair.url, ['exact'])
  await sell(60)
  await settleAll()
  const arrived = 'SELECT pg_current_wal_lsn() = min(replay_lsn) AS arrived FROM pg_stat_replication'
  while (!(await pair.run(arrived))[0]?.arrived);
  const [cash] = sellers
  if (!cash) throw new Error('no seller')
  const { chain } = cash
  const before = chain.transfers.length
  pair.cutReplication()
  await sell(sales.length + 40)
  await settleAll()
  await pair.kill()
  await pair.promote()
  const late = chain.transfers.slice(before)
  await sell(sales.length + 40)
  await settleAll()
  const [storage] = storages
  if (!storage) throw new Error('no storage')
  const transfers = chain.transfers.map(({ transaction, from: payer, value }) => {
    return { transaction, block: 1, payer, amount: String(value), nonce: 'a nonce' }
  })
  const range = { fromBlock: 0, toBlock: chain.height(), since: 0, transfers }
  const { matched, differences } = await reconcileRange(storage, { ...sideOf(chain.offer(1n)), ...range })
  expect(differences.map(({ kind, transaction }) => [kind, transaction])).toEqual(
    late.map(({ transaction }) => ['not_in_ledger', transaction]),
  )
  expect(matched).toBe(chain.transfers.length - late.length)
  expect(late.length).toBeGreaterThan(0)
  await close()
  await pair.stop()
}, 300_000)

const sideOf = ({ payTo, asset, network }: { payTo: string; asset: string; network: string }) => ({
  payTo,
  asset,
  network,
})
