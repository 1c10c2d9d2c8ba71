/** Proofs of a wallet to a poll: a closed list. */
import { expect, test } from 'bun:test'
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { pollProofs } from '../../../core/identity/poll_proofs.ts'
import { timeouts } from '../../../core/mod.ts'
import { noRetries } from '../../../core/payment/settlement/retries.ts'
import { newCall, signed, T } from '../../conformance/storage_questions.ts'
import { testClock, testLog } from '../../kit.ts'

async function world() {
  const storage = memoryStorage()
  const chain = { ...memoryChain(), fate: async () => ({ kind: 'open' }) as const, proves: async () => true }
  const opened = await storage.openCall(newCall('call'), signed('key'), { now: T, until: T + 60_000 })
  if (opened.kind !== 'opened') throw new Error('the call did not open')
  const money = { storage, chain, clock: testClock(T), log: testLog(), timeouts, retries: noRetries() }
  return { proofs: pollProofs(money, { isKey: async (id, key) => key === `key of ${id}` }), call: opened.call }
}

test('a poll is proven by its key, a signature, a sign-in or an authorization, and by nothing else (contract 1.41)', async () => {
  const { proofs } = await world()
  expect(Object.keys(proofs).toSorted()).toEqual(['authorization', 'pollKey', 'signIn', 'signature'])
})

test('each proves the wallet of the call, and a stranger by none of them', async () => {
  const { proofs, call } = await world()
  const seconds = T / 1000
  const fresh = { ...signed('fresh'), expiresAt: T + 60_000, payer: call.payer }
  const signature = { wallet: call.payer, message: '', signature: '', seconds }
  const kinds = async (judged: readonly Promise<{ kind: string }>[]) =>
    (await Promise.all(judged)).map(({ kind }) => kind)
  expect(
    await kinds([
      proofs.pollKey(call, 'key of call'),
      proofs.signature(call, signature),
      proofs.signIn(call, call.payer),
      proofs.authorization(call, fresh),
    ]),
  ).toEqual(['proof', 'proof', 'proof', 'proof'])
  expect(
    await kinds([
      proofs.pollKey(call, 'key of another'),
      proofs.signature(call, { ...signature, wallet: 'another' }),
      proofs.signature(call, { ...signature, seconds: seconds - 301 }),
      proofs.signIn(call, 'another'),
      proofs.authorization(call, { ...fresh, payer: 'another' }),
    ]),
  ).toEqual(Array.from({ length: 5 }, () => 'stranger'))
})
