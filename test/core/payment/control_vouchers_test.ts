/** An operator's limits on spending are the same for every way to pay. */
import { describe, expect, test } from 'bun:test'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { wholeAnswer } from '../../fakes/chat.ts'
import { metrics } from '../../../server/metrics.ts'
import { controls } from '../../../core/payment/control/controls.ts'
import type { Rules } from '../../../core/payment/control/rules.ts'
import type { Offer } from '../../../core/mod.ts'
import { voucherBuyer, voucherChain } from '../../adapters/chains/evm/channels/vouchers.ts'
import { decodeHeader, door, testClock } from '../../kit.ts'
import { SKY, table } from '../call/stream_kit.ts'

/** 10 tokens in, 2 out, and the fee. */
const CHARGE = 1_017n

/** A gateway that sells by vouchers under an operator's limits. Each channel of the buyer has a salt of its own. */
async function limited(rules: Partial<Rules>, script?: Parameters<typeof table>[0]) {
  const clock = testClock()
  const storage = memoryStorage()
  const control = controls({ storage, clock })
  await control.change((before) => ({ ...before, ...rules }))
  const counted = metrics({ version: '1', clock })
  const subject = await table(script, {
    controls: control,
    ports: { clock, storage, chain: voucherChain(storage), meter: counted.meterOf('main') },
    name: 'main',
  })
  const offer = decodeHeader((await subject.post(SKY)).headers.get('payment-required')).accepts[0] as Offer
  return {
    ...subject,
    control,
    counted,
    async buy(base: bigint, salt = 1n) {
      return await subject.post(SKY, {
        payment: await voucherBuyer('alice', { ...offer, extra: offer.extra ?? {}, salt }).sign(offer, base),
      })
    },
  }
}

const PER_DAY = { wallet_limits: { '*': { usdc_per_day: '0.005' } } }

describe('limits on spending with vouchers', () => {
  test('a wallet that pays by vouchers spends no more in a day than it may (contract 1.70)', async () => {
    const { buy } = await limited(PER_DAY)
    const statuses: number[] = []
    for (let base = 0n; statuses.length < 20; base += CHARGE) {
      const { status } = await buy(base)
      statuses.push(status)
      if (status !== 200) base -= CHARGE
    }
    // Each of them could have come to its quote of 0.002.
    expect(statuses).toEqual([200, 200, 200, ...Array.from({ length: 17 }, () => 429)])
  })

  test('so does a gateway that is paid by vouchers (contract 1.70)', async () => {
    const { buy, control } = await limited({ gateway_limits: { main: { usdc_per_day: '0.005' } } })
    const statuses: number[] = []
    for (let base = 0n; statuses.length < 4; base += CHARGE) statuses.push((await buy(base)).status)
    await control.refresh()
    statuses.push((await buy(3n * CHARGE)).status)
    expect(statuses).toEqual([200, 200, 200, 429, 429])
  })

  test('calls of many channels at the same time are counted before any of them ends (contract 1.70)', async () => {
    const ready = door()
    let isWaiting = false
    const { buy, clock } = await limited(PER_DAY, async () => {
      if (isWaiting) await ready.passed
      return wholeAnswer()
    })
    for (const salt of [1n, 2n]) expect((await buy(0n, salt)).status).toBe(200)
    isWaiting = true
    const both = [buy(CHARGE, 1n), buy(CHARGE, 2n)]
    await clock.settle()
    ready.open()
    const statuses = (await Promise.all(both)).map(({ status }) => status)
    expect(statuses.toSorted()).toEqual([200, 429])
  })

  test('calls that are paid by vouchers are among those that were opened and completed', async () => {
    const { buy, counted, idle } = await limited({})
    for (const base of [0n, CHARGE, 2n * CHARGE]) expect((await buy(base)).status).toBe(200)
    await idle()
    const { body } = await counted.scrape()
    for (const state of ['opened', 'completed'])
      expect(body).toContain(`farebox_calls_total{gateway="main",state="${state}"} 3\n`)
  })
})
