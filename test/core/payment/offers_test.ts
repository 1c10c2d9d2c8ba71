/** Offers of a gateway of several rails, and the order in which it judges payments. */
import { expect, test } from 'bun:test'
import { offersOf } from '../../../core/payment/offers.ts'
import { timeouts } from '../../../core/payment/timeouts.ts'
import { usdc } from '../../../core/x402/money.ts'
import type { OffersContext } from '../../../core/payment/offers.ts'
import type { Chain, Identity } from '../../../core/ports/mod.ts'
import type { Terms } from '../../../core/x402/offer.ts'
import type { Payment } from '../../../core/x402/protocol.ts'
import { testClock } from '../../kit.ts'

const paymentMethod = (name: string, minValiditySeconds?: number): Terms => {
  return {
    scheme: 'exact',
    network: 'eip155:8453',
    asset: '0xAA',
    payTo: '0xBB',
    extra: { name },
    ...(minValiditySeconds && { minValiditySeconds }),
  }
}
const PRICE = { amount: usdc(7n), maxTimeoutSeconds: 300 }
const refused = (reason: string): Identity => ({ kind: 'refused', code: 'PAYMENT_INVALID', reason })

function offering(terms: readonly Terms[], knows = '') {
  const requests: unknown[] = []
  const chain = {
    terms: () => terms,
    async identify(_, { extra }) {
      requests.push(extra?.name)
      return extra?.name === knows
        ? { kind: 'known', payer: 'p', key: 'k', expiresAt: 1 }
        : refused(String(extra?.name))
    },
  } as Partial<Chain> as Chain
  return {
    requests,
    ...offersOf({ ports: { chain, clock: testClock() }, timeouts } as unknown as OffersContext),
  }
}

test('at() asks for the time of the work, and where it takes more to settle, for that on top', () => {
  const { at } = offering([paymentMethod('plain'), paymentMethod('batched', 604_800)])
  expect(at(PRICE).map(({ maxTimeoutSeconds }) => maxTimeoutSeconds)).toEqual([300, 605_100])
})

test('at() asks for the same times again, whichever rail an earlier sale was on', () => {
  const { at } = offering([paymentMethod('plain'), paymentMethod('batched', 604_800)])
  for (const sold of at(PRICE))
    expect(at({ amount: PRICE.amount, maxTimeoutSeconds: sold.maxTimeoutSeconds }, [sold])).toEqual(at(PRICE))
  const closed = offering([])
  for (const sold of at(PRICE))
    expect(closed.at({ amount: PRICE.amount, maxTimeoutSeconds: sold.maxTimeoutSeconds }, [sold])).toEqual([sold])
})

test('identify() judges the offer that the payment names before others of its network and asset', async () => {
  const naming = (name?: string) =>
    ({
      x402Version: 2,
      payload: {},
      accepted: { ...paymentMethod('x'), amount: '7', maxTimeoutSeconds: 1, extra: name ? { name } : undefined },
    }) as unknown as Payment
  for (const [named, knows, order] of [
    ['batched', 'batched', ['batched']],
    ['plain', 'plain', ['plain']],
    [undefined, 'batched', ['plain', 'batched']],
  ] as const) {
    const { at, identify, requests } = offering([paymentMethod('plain'), paymentMethod('batched')], knows)
    expect(await identify(naming(named), at(PRICE))).toMatchObject({ kind: 'known', offer: { extra: { name: knows } } })
    expect(requests).toEqual([...order])
  }
  const { at, identify, requests } = offering([paymentMethod('plain'), paymentMethod('batched')])
  expect(await identify(naming('batched'), at(PRICE))).toEqual(refused('batched') as never)
  expect(requests).toEqual(['batched', 'plain'])
})
