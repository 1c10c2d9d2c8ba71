import { describe, expect, test } from 'bun:test'
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import type { Payment } from '../../../core/x402/protocol.ts'
import { brokenChains, brokenHistories } from '../../conformance/broken_chains.ts'
import { cashSubject } from '../../conformance/cash_harness.ts'
import { chainHistories, everyChainLaw } from '../../conformance/chain_histories.ts'
import { chainLaws } from '../../conformance/chains.ts'
import { runBroken, runLaws } from '../../conformance/law.ts'
import { brokenUpto, memoryUptoSubject, uptoLaws } from '../../conformance/upto.ts'

const timeouts = () => AbortSignal.timeout(10_000)

runLaws('cash', everyChainLaw, () => cashSubject())
runBroken('chains', chainLaws, brokenChains)
runBroken('histories of chains', chainHistories, brokenHistories)
runLaws('cash by upto', uptoLaws, () => memoryUptoSubject())
runBroken('chains by upto', uptoLaws, brokenUpto)

describe('cash', () => {
  const START = Date.UTC(2026, 10, 20)

  test('late settlements land when delivered, if they are still valid then', async () => {
    const cash = memoryChain()
    const [alice, bob] = [cash.wallet('alice'), cash.wallet('bob')]
    const offer = cash.offer(10_000n, 60)
    for (const who of [alice, bob]) cash.fund(who, 10_000n)
    const early = cash.sign(offer, { from: alice, now: START })
    const late = cash.sign(offer, { from: bob, now: START })
    cash.simulate('late', 'late', 'refused')
    const sent = async (payment: Payment, now = START) =>
      (await cash.settle(payment, offer, { now, signal: timeouts() })).kind
    expect([await sent(early), cash.transfers.length]).toEqual(['unknown', 0])
    cash.deliver()
    expect(cash.balanceOf(offer.payTo)).toBe(10_000n)
    expect([await sent(early), await sent(late), await sent(late)]).toEqual(['settled', 'unknown', 'refused'])
    cash.advance(START + 60_000)
    cash.deliver()
    expect([await sent(late, START + 60_000), cash.transfers.length, cash.balanceOf(bob)]).toEqual([
      'refused',
      1,
      10_000n,
    ])
  })

  test('before() holds a question until a test lets it go', async () => {
    const requests: string[] = []
    let release = () => {}
    const blocked = new Promise<void>((resolve) => (release = resolve))
    const cash = memoryChain({ before: (question) => (requests.push(question), blocked) })
    const offer = cash.offer(1n)
    const verdict = cash.verify(cash.sign(offer, { from: cash.wallet('alice'), now: START }), offer, {
      now: START,
      signal: timeouts(),
    })
    expect(requests).toEqual(['verify'])
    release()
    expect(await verdict).toMatchObject({ code: 'PAYMENT_UNFUNDED' })
  })
})
