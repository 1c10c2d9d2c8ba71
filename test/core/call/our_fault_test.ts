/** Answers that were delivered, and whose payments the gateway itself could not send before they ended. */
import { describe, expect, test } from 'bun:test'
import { type MemoryChain, memoryChain } from '../../../adapters/chains/evm/memory.ts'
import type { Chain } from '../../../core/mod.ts'
import { read } from '../../kit.ts'
import { SKY, table } from './stream_kit.ts'

/** A gateway without what it needs to send, as long as `lacks.reason` says so. */
async function lackingGateway() {
  const cash = memoryChain()
  const lacks: { reason: string | undefined } = { reason: undefined }
  const settle: Chain['settle'] = async (...args) =>
    lacks.reason === undefined ? await cash.settle(...args) : { kind: 'unavailable', reason: lacks.reason }
  const chain: MemoryChain = { ...cash, settle }
  const subject = await table(undefined, { chain })
  const { clock, gateway } = subject
  return {
    ...subject,
    cash,
    lacks,
    async buy() {
      const payment = await subject.signed(SKY)
      return { payment, ...(await read(await subject.post(SKY, { payment }))) }
    },
    async pass(minutes: number) {
      for (let second = 0; second < minutes * 60; second += 5) {
        await clock.advance(5_000)
        await gateway.maintain()
      }
    },
  }
}

describe('a payment that the gateway could not send (contract 1.92)', () => {
  for (const reason of ['no relayer key of that account', 'nothing was sent: no gas', 'the node is away'])
    test(`is not owed by its buyer: ${reason}`, async () => {
      const { buy, pass, lacks, cash, log } = await lackingGateway()
      lacks.reason = reason
      expect((await buy()).status).toBe(200)
      await pass(12)
      lacks.reason = undefined
      const next = await buy()
      expect([next.status, next.body.code, cash.transfers.length]).toEqual([200, undefined, 1])
      const alerts = log.lines.filter(({ level }) => level === 'alert').map(({ message }) => message)
      expect(alerts).toEqual(['a payment could not be sent before its authorization ended; its buyer owes nothing'])
    })

  test('is settled as soon as the gateway can', async () => {
    const { buy, pass, lacks, cash } = await lackingGateway()
    lacks.reason = 'no gas'
    await buy()
    await pass(1)
    lacks.reason = undefined
    await pass(2)
    expect(cash.transfers).toHaveLength(1)
  })

  test('is owed where the buyer took the money away meanwhile, and the chain has refused it once', async () => {
    const { buy, pass, lacks, cash, alice } = await lackingGateway()
    lacks.reason = 'no gas'
    await buy()
    const balance = cash.balanceOf(alice.wallet)
    cash.fund(alice.wallet, -balance)
    lacks.reason = undefined
    await pass(2)
    lacks.reason = 'no gas'
    await pass(12)
    cash.fund(alice.wallet, balance)
    const next = await buy()
    expect([next.status, next.body.code, cash.transfers.length]).toEqual([402, 'PAYMENT_UNFUNDED', 0])
  })

  test('is owed where the chain knows that its buyer has cancelled it', async () => {
    const { buy, pass, lacks, cash } = await lackingGateway()
    lacks.reason = 'no gas'
    const { payment } = await buy()
    cash.cancel(payment)
    await pass(2)
    lacks.reason = undefined
    const next = await buy()
    expect([next.status, next.body.code, cash.transfers.length]).toEqual([402, 'PAYMENT_UNFUNDED', 0])
  })
})
