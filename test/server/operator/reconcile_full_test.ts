/** The ledger against a real EVM node: nothing differs, until a backup of before is restored. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Hex, keccak256, pad, toHex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { backupSqlite, restoreSqlite } from '../../../adapters/storage/sqlite/backup.ts'
import { sqliteStorage } from '../../../adapters/storage/sqlite/mod.ts'
import { usdc } from '../../../core/x402/money.ts'
import type { Storage } from '../../../core/ports/mod.ts'
import type { Offer, Payment } from '../../../core/x402/protocol.ts'
import type { EvmChain } from '../../../adapters/chains/evm/mod.ts'
import type { Io } from '../../../server/cli/command.ts'
import { runFarebox } from '../../../server/cli/mod.ts'
import {
  type EvmHarness,
  evmHarness,
  NETWORK,
  offerTo,
  signPayment,
  type World,
  world,
} from '../../adapters/chains/evm/evm_kit.ts'
import { channelKit } from '../../adapters/chains/evm/channels/channel_kit.ts'
import { newCall } from '../../conformance/storage_questions.ts'

let node: World
const { seller, buyer, at } = channelKit(() => node)
let dir: string
beforeAll(async () => {
  node = await world()
  dir = mkdtempSync(join(tmpdir(), 'farebox-reconcile-'))
}, 60_000)
afterAll(async () => {
  await node.close()
  rmSync(dir, { recursive: true })
})

test('reconcile agrees with the chain, and names what a restored older backup has forgotten', async () => {
  const harness = await evmHarness(node)
  const path = join(dir, 'farebox.db')
  const first = sqliteStorage(path)
  const before = [await sell(first, harness), await sell(first, harness)]
  const backup = join(dir, 'backup.db')
  backupSqlite(path, backup)
  const half = await sell(first, harness, { isRecorded: false })
  const after = await sell(first, harness)
  const { out, exit } = await reconcile(harness, path)
  expect(out.slice(1).map((line) => line.trim().split(':', 1)[0])).toEqual(['not_settled_in_ledger'])
  expect([exit, out[0]]).toEqual([
    1,
    expect.stringMatching(/^eip155:84532, blocks 0 to \d+: 3 payments agree, 1 differ\.$/),
  ])
  expect(out[1]).toContain(`for ${half.id}, which the ledger has as settling`)
  await first.close()

  restoreSqlite(backup, path, join(dir, 'aside.db'))
  const restored = await reconcile(harness, path)
  expect(restored.out[0]).toContain(': 2 payments agree, 2 differ.')
  expect(restored.out.slice(1)).toEqual(
    [half, after].map(
      ({ transaction, payer, nonce }) =>
        expect.stringMatching(
          new RegExp(
            `not_in_ledger: ${payer} paid 0\\.010000 USDC by ${transaction} in block \\d+ with nonce ${nonce}, and`,
          ),
        ) as never,
    ),
  )
  const json = JSON.parse((await reconcile(harness, path, '--json')).out.join(''))
  expect(json[0]).toMatchObject({ matched: before.length, differences: [{ call: null }, { call: null }] })

  const mended = await reconcile(harness, path, '--mend')
  expect(mended.out.slice(3)).toEqual(
    [half, after].map(({ transaction }) => expect.stringMatching(`  booked: ${transaction} as job_`)),
  )
  for (const again of [await reconcile(harness, path), await reconcile(harness, path, '--mend')])
    expect(again).toMatchObject({
      exit: 0,
      out: [expect.stringContaining(`: ${before.length + 2} payments agree, 0 differ.`)],
    })
  const storage = sqliteStorage(path)
  for (const { payer, nonce, transaction } of [half, after]) {
    expect((await storage.spendByModel(payer, 0)).map(({ calls, spent }) => [calls, spent])).toEqual([
      [1, usdc(10_000n)],
    ])
    const [booked] = await storage.findCalls(transaction, 1)
    expect(booked).toMatchObject({ gateway: 'base', endpoint: 'recovered', paymentStatus: 'settled', payer })
    // The payment of the recovered call opens no other call.
    const key = `${booked?.asset}/${payer.toLowerCase()}/${nonce}`
    const now = node.now()
    const authorization = { key, payer, payment: {} as never, offer: offerTo(harness.config.payTo), expiresAt: now + 9 }
    expect((await storage.openCall(newCall('again', { payer }), authorization, { now, until: now + 9 })).kind).toBe(
      'replayed',
    )
  }
  expect(await storage.listOpen(9)).toEqual([])
  await storage.close()
}, 120_000)

test('reconcile --mend settles a call that the ledger knows, and leaves what the chain cannot explain', async () => {
  const harness = await evmHarness(node)
  const path = join(dir, 'mended.db')
  const storage = sqliteStorage(path)
  const half = await sell(storage, harness, { isRecorded: false })
  const invented = await sell(storage, harness, { receipt: { transaction: `0x${'cd'.repeat(32)}` } })
  const busy = await reconcile(harness, path, '--json')
  expect(JSON.parse(busy.out.join(''))[0].differences[0]).not.toHaveProperty('transfer')
  await storage.close()
  const { out, exit } = await reconcile(harness, path, '--mend')
  expect(exit).toBe(1)
  expect(out.filter((line) => line.includes('booked'))).toContain(`  booked: ${half.transaction} as ${half.id}`)
  const again = sqliteStorage(path)
  expect((await again.getCall(half.id))?.paymentStatus).toBe('settled')
  expect((await again.getCall(invented.id))?.receipt?.transaction).toBe(`0x${'cd'.repeat(32)}`)
  await again.close()
}, 120_000)

test('reconcile --mend books nothing on a call that its payment does not pay for, and settles none by a nonce alone', async () => {
  const harness = await evmHarness(node)
  const path = join(dir, 'forged.db')
  const storage = sqliteStorage(path)
  const own = { now: node.now(), signal: AbortSignal.timeout(30_000) }
  const cheap = await order(storage, harness)
  const { nonce } = cheap.payment.payload.authorization as { nonce: Hex }
  const oneUnit = { ...cheap.offer, amount: '1' }
  const dust = await signPayment(cheap.account, oneUnit, { now: node.now(), nonce })
  expect((await harness.chain.settle(dust, oneUnit, own)).kind).toBe('settled')
  const failed = await order(storage, harness)
  await storage.moveCall(failed.id, { workStatus: ['queued'] }, { workStatus: 'failed', endedAt: node.now() })
  expect((await harness.chain.settle(failed.payment, failed.offer, own)).kind).toBe('settled')
  const working = await order(storage, harness)
  expect((await harness.chain.settle(working.payment, working.offer, own)).kind).toBe('settled')
  const victim = await sell(storage, harness)
  const thief = await order(storage, harness, { nonce: victim.nonce as Hex })
  await storage.close()
  const { out } = await reconcile(harness, path, '--mend')
  expect(out.slice(1)).toEqual([
    expect.stringMatching(
      new RegExp(`different: .* for ${cheap.id}, .*: the call costs 0.010000 USDC, so it is not booked`),
    ),
    expect.stringMatching(new RegExp(`different: .* for ${failed.id}, .*: the call has failed`)),
    expect.stringMatching(new RegExp(`different: .* for ${working.id}, .*: its work is not done`)),
  ])
  const after = sqliteStorage(path)
  for (const { id } of [cheap, failed, working, thief])
    expect((await after.getCall(id))?.paymentStatus).toBe('verified')
  await after.close()

  // The same after the restore of a backup that does not know what the victim bought.
  const restored = join(dir, 'forged_backup.db')
  const older = sqliteStorage(restored)
  const later = await order(older, harness, { nonce: victim.nonce as Hex })
  await older.close()
  const mended = await reconcile(harness, restored, '--mend')
  expect(mended.out.filter((line) => line.includes(victim.transaction))).toEqual([
    expect.stringContaining('not_in_ledger'),
    expect.not.stringContaining(later.id),
  ])
  const end = sqliteStorage(restored)
  expect((await end.getCall(later.id))?.paymentStatus).toBe('verified')
  await end.close()
}, 120_000)

test('reconcile names what the chain has not, what differs, and transfers that no call can have made', async () => {
  const harness = await evmHarness(node)
  const path = join(dir, 'other.db')
  const storage = sqliteStorage(path)
  const invented = `0x${'ab'.repeat(32)}`
  await sell(storage, harness, { receipt: { transaction: invented } })
  const less = await sell(storage, harness, { receipt: { amount: '9999' } })
  const { out, exit } = await reconcile(harness, path)
  await storage.close()
  expect(exit).toBe(1)
  expect(
    out
      .slice(1)
      .map((line) => line.trim().split(':', 1)[0])
      .sort(),
  ).toEqual(['different', 'different', 'not_on_chain'])
  expect(out.join('\n')).toContain(`was paid for by ${invented}, and its buyer is owed the money, so it is not booked`)
  expect(out.join('\n')).toContain(
    `${less.transaction}: the chain has 0.010000 USDC of ${less.payer}, the ledger 0.009999`,
  )
  expect((await reconcile(harness, path, '--from-block', 'x')).exit).toBe(2)
  const { exit: failed, err } = await reconcile(harness, path, '--network', 'eip155:1')
  expect([failed, err.join('')]).toEqual([1, expect.stringContaining(`configured: ${NETWORK}`)])
}, 120_000)

test('reconcile sums what vouchers were charged and what claims have paid out; neither is a difference', async () => {
  const path = join(dir, 'channels.db')
  const storage = sqliteStorage(path)
  const { chain, offer, payTo } = await seller(storage)
  const { deposit, voucher, refund } = await buyer(offer)
  await charge({ storage, chain, offer }, 'first', await deposit())
  await charge({ storage, chain, offer }, 'second', await voucher(300n))
  const config = { config: { payTo } } as EvmHarness
  const due = await reconcile(config, path)
  expect(due.out[1]).toBe('  channels: 0.000600 USDC charged by vouchers, 0.000000 USDC paid out by claims.')
  await chain.refund?.(await refund(600n), offer, { ...at(), isFree: async () => true, isFrom: async () => true })
  const { out, exit } = await reconcile(config, path)
  expect([exit, out.slice(1)]).toEqual([
    0,
    ['  channels: 0.000600 USDC charged by vouchers, 0.000600 USDC paid out by claims.'],
  ])
  expect(out[0]).toMatch(/: 0 payments agree, 0 differ\.$/)
  chain.close()
  await storage.close()
}, 60_000)

test('reconcile names the channels whose last vouchers a restored older backup has lost', async () => {
  const path = join(dir, 'vouchers.db')
  const first = sqliteStorage(path)
  const { chain, open, offer, payTo } = await seller(first)
  const { deposit, voucher, id: channel } = await buyer(offer)
  await charge({ storage: first, chain, offer }, 'first', await deposit())
  const backup = join(dir, 'vouchers_backup.db')
  backupSqlite(path, backup)
  await charge({ storage: first, chain, offer }, 'second', await voucher(300n))
  expect(await chain.claimChannels?.({ now: node.now() })).toEqual({ claimed: 600n })
  const config = { config: { payTo } } as EvmHarness
  expect((await reconcile(config, path)).exit).toBe(0)
  chain.close()
  await first.close()

  restoreSqlite(backup, path, join(dir, 'vouchers_aside.db'))
  const lost = expect.stringMatching(
    new RegExp(
      `not_charged_in_ledger: channel ${channel}: 0\\.000600 USDC .* has lost calls of it for 0\\.000300 USDC`,
    ),
  ) as never
  const { out, exit } = await reconcile(config, path)
  expect([exit, out.slice(2)]).toEqual([1, [lost]])
  // The record takes the chain's figure; the calls are lost all the same.
  const second = sqliteStorage(path)
  const restored = await open(second)
  expect(await restored.claimChannels?.({ now: node.now() })).toEqual({ claimed: 0n })
  await charge({ storage: second, chain: restored, offer }, 'third', await voucher(600n))
  expect((await reconcile(config, path)).out.slice(2)).toEqual([lost])
  restored.close()
  await second.close()
}, 60_000)

/** A call that is charged 300 base units by a channel. */
async function charge(
  { storage, chain, offer }: { storage: Storage; chain: EvmChain; offer: Offer },
  id: string,
  payment: Payment,
): Promise<void> {
  const identity = await chain.identify(payment, offer, at())
  if (identity.kind !== 'known') throw new Error(identity.reason)
  const { key, payer, expiresAt } = identity
  const now = node.now()
  const authorization = { key, payer, payment, offer, expiresAt }
  const call = newCall(id, { payer, offer, quote: usdc(1_000n), createdAt: now, expiresAt: now + 3_600_000 })
  await storage.openCall(call, authorization, { now, until: now + 60_000 })
  const result = { result: { made: id }, expiresAt: now + 3_600_000, charge: usdc(300n) }
  const claim = await storage.claimSettlement(id, authorization, { now, until: now + 60_000, result })
  const settlement = await chain.settle(payment, offer, { ...at(), charge: usdc(300n) })
  if (settlement.kind !== 'settled' || claim.kind !== 'yours') throw new Error(`${settlement.kind} ${claim.kind}`)
  await storage.finishSettlement(id, claim.token, { kind: 'paid', receipt: settlement.receipt }, { now, by: 'reply' })
}

/** A call that is paid on the chain, and recorded as the ledger would: whole, with another receipt, or not at all. */
/** A call that a payment of 0.01 USDC has opened. */
async function order(storage: Storage, { chain, config }: EvmHarness, signing: { nonce?: Hex } = {}) {
  const account = privateKeyToAccount(node.key())
  await node.setBalance(account.address, 1_000_000n)
  const offer = offerTo(config.payTo)
  const now = node.now()
  const payment = await signPayment(account, offer, { now, ...signing })
  const identity = await chain.identify(payment, offer, { now, signal: AbortSignal.timeout(10_000) })
  if (identity.kind !== 'known') throw new Error(identity.reason)
  const { key, payer, expiresAt } = identity
  const id = `job_${keccak256(toHex(key)).slice(-32)}`
  const authorization = { key, payer, payment, offer, expiresAt }
  const call = newCall(id, { payer, offer, quote: usdc(10_000n), createdAt: now, expiresAt: now + 3_600_000 })
  await storage.openCall(call, authorization, { now, until: now + 60_000 })
  return { id, payer, account, offer, payment, authorization, now, nonce: key.split('/').at(-1) }
}

/** One that is made, and paid on chain; the ledger has it unless it is not recorded. */
async function sell(
  storage: Storage,
  harness: EvmHarness,
  { isRecorded = true, receipt = {} }: { isRecorded?: boolean; receipt?: object } = {},
) {
  const { id, payer, offer, payment, authorization, now, nonce } = await order(storage, harness)
  const result = { result: { made: true }, expiresAt: now + 3_600_000 }
  const claim = await storage.claimSettlement(id, authorization, { now, until: now + 60_000, result })
  const settlement = await harness.chain.settle(payment, offer, { now, signal: AbortSignal.timeout(30_000) })
  if (settlement.kind !== 'settled' || claim.kind !== 'yours') throw new Error(`${settlement.kind} ${claim.kind}`)
  const paid = { kind: 'paid', receipt: { ...settlement.receipt, ...receipt } } as const
  if (isRecorded) await storage.finishSettlement(id, claim.token, paid, { now, by: 'reply' })
  return { id, payer, nonce, transaction: settlement.receipt.transaction }
}

async function reconcile({ config }: EvmHarness, path: string, ...more: readonly string[]) {
  const file = join(dir, 'farebox.toml')
  writeFileSync(
    file,
    `[[gateways]]
name = "base"
network = "${NETWORK}"
pay_to = "${config.payTo}"
rpc_url = "${node.url}"
relayer_key_env = "RELAYER_KEY"
`,
  )
  const lines = { out: [] as string[], err: [] as string[] }
  const io: Io = {
    env: { RELAYER_KEY: pad(toHex(7)), FAREBOX_CONFIG: file, DATABASE_URL: `sqlite:${path}` },
    hasColor: false,
    out: (line) => void lines.out.push(line),
    err: (line) => void lines.err.push(line),
    serve: () => Promise.reject(new Error('this command starts no gateway')),
  }
  const exit = await runFarebox(['reconcile', '--from-block', '0', ...more], io)
  if (exit === 1 && lines.out.length === 0 && more.length === 0) throw new Error(lines.err.join('\n'))
  return { ...lines, exit }
}
