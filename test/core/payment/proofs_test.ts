import { expect, test } from 'bun:test'
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import type { Fate } from '../../../core/ports/mod.ts'
import { judgeProof } from '../../../core/identity/proofs.ts'
import { noteHandedOut } from '../../../core/payment/settlement/sent_authorizations.ts'
import { timeouts } from '../../../core/mod.ts'
import { noRetries } from '../../../core/payment/settlement/retries.ts'
import { newCall, signed, T } from '../../conformance/storage_questions.ts'
import { testClock, testLog } from '../../kit.ts'

const RECEIPT = { transaction: '0x1', network: 'eip155:84532', payer: '0xa', amount: '1' }
const LATER = T + 60_000

/** A call of `key`, and what an authorization proves of it while the chain says that its fate is this. */
async function world(fate: Fate | (() => Promise<Fate>) = { kind: 'open' }) {
  const storage = memoryStorage()
  const clock = testClock(T)
  const chain = { ...memoryChain(), fate: async () => (typeof fate === 'function' ? await fate() : fate) }
  const opened = await storage.openCall(newCall('call'), signed('key'), { now: T, until: LATER })
  if (opened.kind !== 'opened') throw new Error('the call did not open')
  const money = { storage, chain, clock, log: testLog(), timeouts, retries: noRetries() }
  const judged = async (authorization = { ...signed('fresh'), expiresAt: LATER }) => {
    const call = await storage.getCall('call')
    return call && (await judgeProof(money, call, authorization))
  }
  return { storage, judged }
}

test('an authorization that no call has used and the chain has not seen proves its wallet', async () => {
  expect(await (await world()).judged()).toEqual({ kind: 'proof' })
})

test('an authorization that the chain has seen, or that is dead, proves nothing', async () => {
  for (const fate of [{ kind: 'paid', receipt: RECEIPT }, { kind: 'dead' }] as readonly Fate[])
    expect(await (await world(fate)).judged()).toMatchObject({ kind: 'none', code: 'PAYMENT_REPLAY' })
})

test('an authorization proves nothing while the chain does not say what became of it', async () => {
  expect(await (await world({ kind: 'unknown', reason: 'behind' })).judged()).toEqual({ kind: 'unavailable' })
  expect(await (await world(() => Promise.reject(new Error('away')))).judged()).toEqual({ kind: 'unavailable' })
})

test('an authorization proves nothing from the millisecond on in which it ends', async () => {
  const { judged } = await world()
  expect(await judged({ ...signed('fresh'), expiresAt: T })).toMatchObject({ kind: 'none', code: 'PAYMENT_UNFUNDED' })
  expect(await judged({ ...signed('fresh'), expiresAt: T + 1 })).toEqual({ kind: 'proof' })
})

test("the call's own authorization proves its wallet until a settlement begins", async () => {
  const { storage, judged } = await world()
  expect(await judged(signed('key'))).toEqual({ kind: 'proof' })
  await storage.claimSettlement('call', signed('key'), {
    now: T,
    until: LATER,
    result: { result: 1, expiresAt: LATER },
  })
  expect(await judged(signed('key'))).toMatchObject({ kind: 'none', code: 'PAYMENT_REPLAY' })
})

test('an authorization of another call, or one that a poll handed out, proves nothing', async () => {
  const { storage, judged } = await world()
  await storage.openCall(newCall('other'), signed('used'), { now: T, until: LATER })
  expect(await judged(signed('used'))).toMatchObject({ kind: 'none', served: { id: 'other' } })
  await noteHandedOut(storage, { ...signed('noted'), expiresAt: LATER }, T)
  expect(await judged({ ...signed('noted'), expiresAt: LATER })).toMatchObject({ kind: 'none', code: 'PAYMENT_REPLAY' })
})
