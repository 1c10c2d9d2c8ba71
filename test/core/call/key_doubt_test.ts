/** Charges of one key that are stored together, and one that is not stored. */
import { expect, test } from 'bun:test'
import { processCallsOf } from '../../../adapters/chains/evm/channels/keys/open_calls.ts'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { type ChatAnswer, type Storage, timeouts } from '../../../core/mod.ts'
import { chatPieces, DONE } from '../../fakes/chat.ts'
import { door } from '../../kit.ts'
import { CHARGE, KEY, QUOTE, selling } from './keys_kit.ts'
import { deltaChunk, reading, SKY, STREAM, USED } from './stream_kit.ts'

test('what a charge has reserved is not given to another call while the charge may be undone (contract 23.6)', async () => {
  const memory = memoryStorage()
  const doors = [door(), door(), door(), door()]
  let charges = 0
  // The second charge arrives before the first, as one with a shorter answer does.
  const recordPaid: Storage['recordPaid'] = async (...given) => {
    await doors[charges++]?.passed
    return await memory.recordPaid(...given)
  }
  const subject = await selling(undefined, { balance: QUOTE * 2n, storage: { ...memory, recordPaid } })
  const first = subject.ask(SKY)
  const second = subject.ask(SKY)
  await subject.clock.settle()
  expect(charges).toBe(2)
  expect((await subject.ask(SKY)).status).toBe(402)
  doors[1]?.open()
  await subject.clock.settle()
  expect(charges).toBe(3)
  // The charge of the second begins anew from the record, which the charge of the first may still change.
  expect((await subject.ask(SKY)).status).toBe(402)
  for (const each of doors) each.open()
  expect([(await first).status, (await second).status]).toEqual([200, 200])
  expect(await subject.channel()).toMatchObject({ charged: CHARGE * 2n, reserved: 0n })
})

test('a charge that was stored, though its storage did not say so, reserves nothing more (contract 23.6)', async () => {
  for (const isShared of [false, true]) {
    const memory = { ...memoryStorage(), ...(isShared && { isShared: true as const }) }
    let isCharging = false
    const claimSettlement: Storage['claimSettlement'] = async (...given) => {
      isCharging ||= given[2].result !== undefined
      return await memory.claimSettlement(...given)
    }
    const moveRecord: Storage['moveRecord'] = async (...given) => {
      const isMoved = await memory.moveRecord(...given)
      if (isCharging && isMoved && given[0].kind === 'channel') {
        isCharging = false
        throw new Error('connection reset')
      }
      return isMoved
    }
    const subject = await selling(undefined, {
      balance: QUOTE * 2n,
      storage: { ...memory, claimSettlement, moveRecord },
    })
    const named = { headers: { authorization: `Bearer ${KEY}`, 'idempotency-key': 'order-1' } }
    expect((await subject.ask(SKY, named)).status).toBe(200)
    await subject.clock.advance(60_000)
    await subject.gateway.maintain()
    expect((await subject.calls()).map(({ paymentStatus }) => paymentStatus)).toEqual(['settled'])
    expect(await subject.channel()).toMatchObject({ charged: CHARGE, reserved: 0n })
  }
})

/** A stream of a key whose process stood still, until another one took it for lost and released its price. */
async function woken() {
  const memory = memoryStorage()
  const first = deltaChunk({ content: 'Hi' })
  const pieces = chatPieces(first)
  const replica = async (answer?: () => Promise<ChatAnswer>) =>
    await selling(answer, { balance: QUOTE + 5n, storage: { ...memory, isShared: true } })
  const [subject, other] = [await replica(async () => pieces.answer), await replica()]
  const reader = reading(await subject.ask(STREAM))
  expect(await reader.next()).toBe(first)
  for (const { clock } of [subject, other]) await clock.advance(timeouts.workLeaseMs + 1)
  await other.gateway.maintain()
  expect(await other.channel()).toMatchObject({ reserved: 0n })
  const rest = async () => {
    pieces.push(deltaChunk({ content: ' there' }), deltaChunk({}, { finish: 'stop' }), USED, DONE)
    const read = await reader.rest()
    await subject.idle()
    return read
  }
  const breakOff = async () => {
    pieces.end(new Error('the vendor is down'))
    await reader.rest()
    await subject.idle()
  }
  return { ...subject, other, rest, breakOff }
}

for (const [what, path, charged] of [
  ['its key was closed', '/api/v1/keys/close', 0n],
  ['its money was spent', undefined, CHARGE],
] as const)
  test(`a stream gives nothing more once ${what} while its process stood still (contract 1.87)`, async () => {
    const subject = await woken()
    const elsewhere = await subject.other.ask(path ? {} : SKY, path ? { path } : {})
    expect(elsewhere.status).toBe(200)
    const read = await subject.rest()
    expect([read.includes('there'), read.includes('or was refunded')]).toEqual([false, true])
    expect(await subject.channel()).toMatchObject({ charged, reserved: 0n })
  })

test('a stream that fails after another process took it for lost keeps nothing of its key', async () => {
  const subject = await woken()
  expect(processCallsOf(subject.storage).open.size).toBe(1)
  await subject.breakOff()
  expect((await subject.calls()).map(({ workStatus }) => workStatus)).toEqual(['failed'])
  expect(processCallsOf(subject.storage).open.size).toBe(0)
})

test('a stream whose process stood still goes on, whole and charged, and its price is reserved again', async () => {
  const subject = await woken()
  const read = await subject.rest()
  expect([read.includes('there'), read.endsWith(DONE)]).toEqual([true, true])
  expect(await subject.channel()).toMatchObject({ charged: CHARGE, reserved: 0n })
})
