/** One gateway on several rails: the laws through it, and whose an offer is, today and after a restart. */
import { afterAll, expect, test } from 'bun:test'
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import { multiChain } from '../../../adapters/chains/multi_chain.ts'
import { usdc } from '../../../core/x402/money.ts'
import type { Chain } from '../../../core/ports/mod.ts'
import type { Offer } from '../../../core/x402/protocol.ts'
import { cashHarness, cashSubject } from '../../conformance/cash_harness.ts'
import { everyChainLaw } from '../../conformance/chain_histories.ts'
import { runLaws } from '../../conformance/law.ts'
import { START } from '../../kit.ts'
import { harness } from './evm/batched/batched_kit.ts'

/** Another rail beside the one that is asked: of another network, and asked for no balance. */
function beside(): Chain {
  const { balance: _, ...chain } = memoryChain({ network: 'eip155:1', asset: `0x${'1'.repeat(40)}` })
  return chain
}

for (const [position, around] of [
  ['first', (chain: Chain) => [chain, beside()]],
  ['last', (chain: Chain) => [beside(), chain]],
] as const) {
  runLaws(`several, ${position}`, everyChainLaw, async () => {
    const h = cashHarness()
    const chain = multiChain(around(h.chain))
    return cashSubject({
      ...h,
      chain: { ...chain, terms: (now) => chain.terms(now).filter(({ network }) => network === h.offer.network) },
    })
  })
}

const at = { now: START, signal: AbortSignal.timeout(10_000) }
/** Two rails of one network and asset: a plain one, and batched payments. */
const nano = await harness()
afterAll(() => nano.close())
const plainOffer: Offer = { ...nano.offer, maxTimeoutSeconds: 300, extra: { name: 'USDC', version: '2' } }
const plain = () => memoryChain({ network: plainOffer.network, asset: plainOffer.asset, payTo: plainOffer.payTo })

/** A chain that notes what it is asked. */
function noting(chain: Chain, requests: string[], name: string): Chain {
  const note =
    <A extends unknown[], R>(what: string, ask: (...args: A) => R) =>
    (...args: A): R => (requests.push(`${name} ${what}`), ask(...args))
  return {
    ...chain,
    identify: note('identify', chain.identify),
    verify: note('verify', chain.verify),
    settle: note('settle', chain.settle),
    fate: note('fate', chain.fate),
  }
}

test('terms are in the order of the rails', () => {
  const multiple = multiChain([plain(), nano.chain, beside()])
  expect(multiple.terms(START).map(({ network, extra }) => [network, extra.name])).toEqual([
    [plainOffer.network, 'USDC'],
    [plainOffer.network, 'GatewayWalletBatched'],
    ['eip155:1', 'USDC'],
  ])
  expect(() => multiChain([])).toThrow(RangeError)
})

test('a payment is asked about where its offer belongs, though two rails share network and asset', async () => {
  const requests: string[] = []
  const cash = plain()
  cash.fund(cash.wallet('alice'), 1_000_000n)
  const multiple = multiChain([noting(cash, requests, 'plain'), noting(nano.chain, requests, 'nano')])
  const batched = await nano.sign(await nano.payer(), nano.offer)
  const simple = cash.sign(plainOffer, { from: cash.wallet('alice'), now: START })
  for (const [payment, offer] of [
    [batched, nano.offer],
    [simple, plainOffer],
  ] as const) {
    expect((await multiple.identify(payment, offer, at)).kind).toBe('known')
    expect((await multiple.verify(payment, offer, at)).kind).toBe('valid')
    expect((await multiple.settle(payment, offer, at)).kind).toBe('settled')
    expect((await multiple.fate(payment, offer, at)).kind).toBe('paid')
  }
  const steps = ['identify', 'verify', 'settle', 'fate']
  expect(requests).toEqual([...steps.map((step) => `nano ${step}`), ...steps.map((step) => `plain ${step}`)])
})

test('an offer sold earlier finds its rail: by the terms as they were, or by its signature', async () => {
  let isOpen = true
  const closing = (chain: Chain): Chain => ({ ...chain, terms: (now) => (isOpen ? chain.terms(now) : []) })
  const [before, after]: [string[], string[]] = [[], []]
  const multiple = multiChain([closing(plain()), noting(closing(nano.chain), before, 'nano')])
  const payment = await nano.sign(await nano.payer(), nano.offer)
  expect((await multiple.verify(payment, nano.offer, at)).kind).toBe('valid')
  isOpen = false
  const restarted = multiChain([closing(plain()), noting(closing(nano.chain), after, 'nano')])
  for (const chain of [multiple, restarted]) expect((await chain.settle(payment, nano.offer, at)).kind).toBe('settled')
  expect((await restarted.fate(payment, nano.offer, at)).kind).toBe('paid')
  expect([before, after]).toEqual([
    ['nano verify', 'nano settle'],
    ['nano identify', 'nano settle', 'nano fate'],
  ])
})

test('a payment that no rail knows is refused, and unavailable while one of them cannot tell', async () => {
  const payment = await nano.sign(await nano.payer(), nano.offer, { forge: 'another key' })
  const strange = { ...nano.offer, network: 'eip155:5' }
  const away: Chain = { ...plain(), identify: async () => ({ kind: 'unavailable', reason: 'the node is away' }) }
  expect(await multiChain([plain(), nano.chain]).identify(payment, strange, at)).toMatchObject({
    kind: 'refused',
    code: 'PAYMENT_INVALID',
  })
  expect(await multiChain([plain(), away]).identify(payment, strange, at)).toMatchObject({ kind: 'unavailable' })
  expect(await multiChain([plain(), nano.chain]).settle(payment, strange, at)).toMatchObject({ kind: 'refused' })
})

test('a balance is that of the first rail that knows such addresses, and a rail that is away is not skipped', async () => {
  const { signal } = at
  const base58: Chain = {
    ...plain(),
    balance: async (address) => (address.startsWith('0x') ? Promise.reject(new RangeError('not base58')) : usdc(7n)),
  }
  const cash = plain()
  cash.fund(cash.wallet('alice'), 5n)
  const both = multiChain([base58, cash])
  expect([await both.balance?.('So1ana', { signal }), await both.balance?.(cash.wallet('alice'), { signal })]).toEqual([
    usdc(7n),
    usdc(5n),
  ])
  await expect(both.balance?.('0xnothing', { signal })).rejects.toThrow(RangeError)
  const away: Chain = { ...plain(), balance: () => Promise.reject(new Error('the node does not answer')) }
  await expect(multiChain([away, cash]).balance?.(cash.wallet('alice'), { signal })).rejects.toThrow('does not answer')
  expect(multiChain([beside()]).balance).toBeUndefined()
})

test('a wallet is proven by whichever rail can, and by none where none can', async () => {
  const proof = { wallet: 'w', message: 'm', signature: 's' }
  const proving = (answer: boolean): Chain => ({ ...plain(), proves: async () => answer })
  expect(await multiChain([plain(), proving(false), proving(true)]).proves?.(proof)).toBe(true)
  expect(await multiChain([proving(false)]).proves?.(proof)).toBe(false)
  expect(multiChain([plain()]).proves).toBeUndefined()
})
