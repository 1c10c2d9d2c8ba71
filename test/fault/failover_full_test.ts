/** The primary of two gateway processes is killed while they sell on a local chain, and its standby is promoted. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import type { PrivateKeyAccount } from 'viem/accounts'
import { expect, test } from 'bun:test'
import type { Payment } from '../../core/x402/protocol.ts'
import { type Pair, primaryAndStandby } from '../adapters/storage/postgres/standby.ts'
import {
  balanceOf,
  isWhole,
  offerFor,
  ORDERS,
  post,
  type Scheme,
  SCHEMES,
  variant,
  walletWith,
} from './attacks/caller.ts'
import { MAIN } from '../scope.ts'
import { startTarget, type Target } from './attacks/target.ts'
import { pay } from './attacks/take.ts'

const MONEY = 10_000_000n
const TRIES = 600

type Sale = {
  readonly scheme: Scheme
  readonly wallet: PrivateKeyAccount
  readonly price: bigint
  readonly tries: number
}

/** Two replicas on the address of the primary, which moves to the standby. */
async function market(pair: Pair) {
  const ledger = {
    url: pair.url,
    count: async (table: string, condition = 'true') =>
      Number((await pair.run(`SELECT count(*) AS count FROM ${table} WHERE ${condition}`))[0]?.count),
    drop: () => Promise.reject(new Error('nobody drops it here')),
  }
  const target = await startTarget({}, { size: 2, fresh: async () => ledger, stop: async () => {} })
  let made = 0

  /** Sends the same payment again, to whichever replica is next, until it has the answer. */
  async function sell(scheme: Scheme): Promise<Sale> {
    const number = made++
    const wallet = await walletWith(target, MONEY)
    const order = { ...variant(ORDERS.chat, number), ip: `198.51.100.${number}` }
    let signed: { payment: Payment; price: bigint } | undefined
    for (let tries = 1; tries <= TRIES; tries++) {
      signed ??= await offerFor(target, order, scheme).then(
        async (offer) => ({ payment: await pay(wallet, offer, BigInt(number + 1)), price: BigInt(offer.amount) }),
        () => undefined,
      )
      const answer = signed && (await post(target, order, signed.payment).catch(() => undefined))
      if (signed && answer && isWhole(answer)) return { scheme, wallet, price: signed.price, tries }
      await pause(200)
    }
    throw new Error(`a buyer by ${scheme} was not served`)
  }

  return { target, ledger, sell }
}

const allSettled = async ({ count }: { count(table: string, condition: string): Promise<number> }) => {
  for (let n = 0; n < TRIES && (await count('calls', "payment_status IN ('settling', 'verified')")) > 0; n++)
    await pause(200)
}

const settledOf = async (pair: Pair, { address }: PrivateKeyAccount): Promise<readonly bigint[]> =>
  (await pair.run(`SELECT paid FROM calls WHERE payer = '${address}' AND payment_status = 'settled'`)).map(({ paid }) =>
    BigInt(String(paid)),
  )

/** Amount that left the wallet, a deposit aside. */
const spentBy = async (target: Target, { wallet, scheme }: Sale): Promise<bigint> =>
  MONEY - (await balanceOf(target, wallet.address)) - (scheme === 'batch-settlement' ? 2_000_000n : 0n)

test('two processes on a local chain sell on after the failover to a synchronous standby: each buyer is served and charged once', async () => {
  const pair = await primaryAndStandby({ isSynchronous: true })
  const { target, ledger, sell } = await market(pair)
  const sales = [await sell('exact'), await sell('upto'), await sell('batch-settlement')]
  const selling = Array.from({ length: 18 }, (_, n) => sell(SCHEMES[n % SCHEMES.length] as Scheme))
  const before = target.vendor.answers()
  while (target.vendor.answers() < before + 3) await pause(5)
  await pair.kill()
  await pair.promote()
  sales.push(...(await Promise.all(selling)))
  await allSettled(ledger)
  expect(sales.filter(({ tries }) => tries > 1).length).toBeGreaterThan(0)
  for (const sale of sales) {
    const settled = await settledOf(pair, sale.wallet)
    expect([sale.scheme, settled]).toEqual([sale.scheme, [sale.price]])
    expect([sale.scheme, await spentBy(target, sale)]).toEqual([
      sale.scheme,
      sale.scheme === 'batch-settlement' ? 0n : sale.price,
    ])
  }
  await target.stop()
  await pair.stop()
}, 600_000)

test('after the failover to an asynchronous standby, reconcile --mend books what the ledger has lost', async () => {
  const pair = await primaryAndStandby({ isSynchronous: false })
  const { target, ledger, sell } = await market(pair)
  await sell('exact')
  await allSettled(ledger)
  const arrived = 'SELECT pg_current_wal_lsn() = min(replay_lsn) AS arrived FROM pg_stat_replication'
  while (!(await pair.run(arrived))[0]?.arrived) await pause(20)
  pair.cutReplication()
  const late = [await sell('exact'), await sell('exact')]
  await allSettled(ledger)
  await pair.kill()
  await pair.promote()
  await sell('exact')
  await allSettled(ledger)
  for (const { wallet } of late) expect(await settledOf(pair, wallet)).toEqual([])
  const reconcile = async (...more: string[]) => {
    const env = { PATH: process.env.PATH ?? '', HOME: target.dir, ...target.environment }
    const args = [MAIN, 'reconcile', '--from-block', '0', '--network', 'eip155:84532', ...more]
    const child = spawn(process.execPath, args, { cwd: target.dir, env, stdio: ['ignore', 'pipe', 'pipe'] })
    let text = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (text += String(chunk)))
    const [status] = await once(child, 'close')
    return { status, text }
  }
  const named = await reconcile()
  expect([named.status, named.text.match(/not_in_ledger/g)?.length]).toEqual([1, 2])
  const mended = await reconcile('--mend')
  expect([mended.status, mended.text.match(/booked/g)?.length]).toEqual([0, 2])
  for (const { wallet, price } of late) expect(await settledOf(pair, wallet)).toEqual([price])
  expect(await reconcile()).toMatchObject({ status: 0, text: expect.stringContaining('4 payments agree, 0 differ') })
  await target.stop()
  await pair.stop()
}, 600_000)
