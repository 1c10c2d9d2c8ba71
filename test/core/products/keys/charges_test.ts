/** Charges of a key by day and by model. */
import { expect, test } from 'bun:test'
import { FOX, GENERATIONS } from '../../../kit.ts'
import { CHARGE, selling } from '../../call/keys_kit.ts'
import { SKY } from '../../call/stream_kit.ts'

const DAY_MS = 86_400_000
type Subject = Awaited<ReturnType<typeof selling>>

const chargesOf = async ({ ask }: Subject, query = '', key?: string) => {
  const headers = key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } }
  const response = await ask(undefined, { path: `/api/v1/keys/charges${query}`, ...headers })
  return { status: response.status, body: (await response.json()) as Record<string, any> }
}

test('the charges of a key are summed by day and by model, and add up to what its channel was charged (contract 23.19)', async () => {
  const subject = await selling()
  expect((await chargesOf(subject)).body).toMatchObject({ calls: 0, charged: '0.000000', by_day: [], by_model: [] })
  expect((await subject.ask(SKY)).status).toBe(200)
  const first = new Date(subject.clock.now()).toISOString().slice(0, 10)
  await subject.clock.advance(DAY_MS)
  const second = new Date(subject.clock.now()).toISOString().slice(0, 10)
  expect([(await subject.ask(SKY)).status, (await subject.ask(SKY)).status]).toEqual([200, 200])
  expect((await subject.ask(FOX, { path: GENERATIONS })).status).toBe(200)
  const { status, body } = await chargesOf(subject)
  const channel = await subject.channel()
  expect([status, body]).toMatchObject([200, { object: 'key.charges', calls: 4, is_complete: true }])
  expect(Number(body.charged.replace('.', ''))).toBe(Number(channel?.charged))
  expect(body.by_day.map(({ day, calls }: { day: string; calls: number }) => [day, calls])).toEqual([
    [second, 3],
    [first, 1],
  ])
  // The most expensive model comes first.
  expect(body.by_model).toMatchObject([{ calls: 1 }, { calls: 3, charged: `0.00${Number(CHARGE) * 3}` }])
  expect((await chargesOf(subject, '?days=1')).body).toMatchObject({ calls: 3, since: second })
})

test('a child key sees its own charges, its parent those of both, and nobody those of another (contract 23.19)', async () => {
  const subject = await selling()
  const lent = await subject.ask({ name: 'Ada', cap: '0.01' }, { path: '/api/v1/keys' })
  const { key } = (await lent.json()) as { key: string }
  expect((await subject.ask(SKY, { headers: { authorization: `Bearer ${key}` } })).status).toBe(200)
  expect((await subject.ask(SKY)).status).toBe(200)
  expect((await chargesOf(subject, '', key)).body).toMatchObject({ calls: 1, charged: '0.001017' })
  expect((await chargesOf(subject)).body).toMatchObject({ calls: 2, charged: '0.002034' })
  expect((await chargesOf(subject, '', 'sk-fbx-t1unknown')).status).toBe(401)
})

test('days that are no number from 1 to 366 are refused with the field and the value', async () => {
  const subject = await selling()
  for (const days of ['0', '367', '-1', '1.5', 'all', ''])
    expect([days, (await chargesOf(subject, `?days=${days}`)).body]).toMatchObject([days, { error: expect.anything() }])
  expect((await chargesOf(subject, '?days=0')).status).toBe(400)
})
