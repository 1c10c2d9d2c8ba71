/** The ledger against a chain whose transactions carry several payments, while a gateway goes on selling. */
import { expect, test } from 'bun:test'
import { exactKey } from '../../../adapters/chains/evm/exact/payload.ts'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import type { LedgerReads, Storage } from '../../../core/ports/mod.ts'
import { usdc } from '../../../core/x402/money.ts'
import { mendLedger } from '../../../server/operator/mend.ts'
import { type ChainSide, type OnChain, reconcileRange } from '../../../server/operator/reconcile.ts'
import { newCall, signed, T } from '../../conformance/storage_questions.ts'

const NETWORK = 'eip155:84532'
const ASSET = `0x${'a5'.repeat(20)}`
const PAY_TO = `0x${'99'.repeat(20)}`
const TRANSACTION = `0x${'77'.repeat(32)}`
const BLOCK = 7
const OFFER = {
  ...newCall('offer').offer,
  scheme: 'exact',
  network: NETWORK,
  asset: ASSET,
  payTo: PAY_TO,
  amount: '10000',
} as const
const ANN = `0x${'1a'.repeat(20)}`
const BOB = `0x${'2b'.repeat(20)}`

const keyOf = ({ payer, nonce }: Pick<OnChain, 'payer' | 'nonce'>) =>
  nonce === null ? undefined : exactKey({ network: NETWORK, asset: ASSET }, payer, nonce)

/** A payment of 0.01 USDC as a transaction of several has it. */
function transferOf(payer: string, count: number): OnChain {
  const nonce = `0x${String(count).padStart(64, '0')}`
  return { transaction: TRANSACTION, block: BLOCK, payer, amount: OFFER.amount, nonce }
}

const sideOf = (transfers: readonly OnChain[]): ChainSide => ({
  network: NETWORK,
  asset: ASSET,
  payTo: PAY_TO,
  fromBlock: 1,
  toBlock: 9,
  since: T,
  transfers,
  keyOf,
  timeOf: async () => T,
})

/** A call whose work is done and whose payment was sent; returns how its end is recorded. */
async function sent(storage: Storage, id: string, transfer: OnChain): Promise<() => Promise<boolean>> {
  const { payer, transaction, amount, block } = transfer
  const authorization = { ...signed(keyOf(transfer) ?? ''), payer, offer: OFFER }
  const call = newCall(id, { payer, offer: OFFER, quote: usdc(10_000n), expiresAt: T + 3_600_000 })
  await storage.openCall(call, authorization, { now: T, until: T + 60_000 })
  const result = { result: { made: id }, expiresAt: T + 3_600_000 }
  const claim = await storage.claimSettlement(id, authorization, { now: T, until: T + 60_000, result })
  if (claim.kind !== 'yours') throw new Error(claim.kind)
  const receipt = { transaction, network: NETWORK, payer, amount, block }
  return () => storage.finishSettlement(id, claim.token, { kind: 'paid', receipt }, { now: T, by: 'reply' })
}

const mend = async (storage: Storage, side: ChainSide) =>
  await mendLedger(
    { storage, side, gateway: 'base', now: T + 1_000 },
    (await reconcileRange(storage, side)).differences,
  )

for (const [of, payers] of [
  ['two wallets', [ANN, BOB]],
  ['one wallet', [ANN, ANN]],
] as const)
  for (const recorded of [0, 1])
    test(`of two payments of ${of} in one transaction, the one beside the recorded ${['first', 'second'][recorded]} is booked`, async () => {
      const storage = memoryStorage()
      const transfers = payers.map((payer, count) => transferOf(payer, count))
      const ends = [await sent(storage, 'first', transfers[0]!), await sent(storage, 'second', transfers[1]!)]
      await ends[recorded]?.()
      const side = sideOf(transfers)
      const { matched, differences } = await reconcileRange(storage, side)
      const missing = ['second', 'first'][recorded]!
      expect(matched).toBe(1)
      expect(differences.map(({ kind, call }) => [kind, call])).toEqual([['not_settled_in_ledger', missing]])
      expect((await mend(storage, side)).map(({ call }) => call)).toEqual([missing])
      expect((await storage.getCall(missing))?.paymentStatus).toBe('settled')
      expect(await reconcileRange(storage, side)).toMatchObject({ matched: 2, differences: [] })
    })

test('a payment that the gateway records while the ledger is read agrees with it', async () => {
  const storage = memoryStorage()
  const transfer = transferOf(ANN, 1)
  const end = await sent(storage, 'call', transfer)
  const reads: LedgerReads = {
    ...storage,
    async findCalls(...args) {
      await end()
      return await storage.findCalls(...args)
    },
  }
  expect(await reconcileRange(reads, sideOf([transfer]))).toMatchObject({ matched: 1, differences: [] })
})

test('a payment whose booking was interrupted is booked by the next attempt', async () => {
  for (const isLost of [false, true]) {
    const storage = memoryStorage()
    const side = sideOf([transferOf(ANN, 1)])
    let moves = 0
    const moveCall: Storage['moveCall'] = async (...move) => {
      if (moves++ > 0) throw new Error('the process ended')
      return await storage.moveCall(...move)
    }
    await expect(mend({ ...storage, moveCall }, side)).rejects.toThrow('the process ended')
    const [half] = await storage.findCalls(keyOf(side.transfers[0]!)!, 1)
    const failed = { workStatus: 'failed', error: 'lost', endedAt: T + 90_000 } as const
    if (isLost) await storage.moveCall(half!.id, { workStatus: ['queued'] }, failed)
    expect((await mend(storage, side)).map(({ call }) => call)).toEqual([half!.id])
    expect(await reconcileRange(storage, side)).toMatchObject({ matched: 1, differences: [] })
    expect((await storage.spendByModel(ANN, 0)).map(({ calls }) => calls)).toEqual([1])
  }
})
