/**
 * Ids that read by themselves are made with a secret: whoever knows the id of a call, which PAYMENT_REPLAY tells
 * everybody, cannot make them (contract 1.41).
 */
import { expect, test } from 'bun:test'
import { idFrom } from '../../../core/lib/ids.ts'
import { masked } from '../../../server/log.ts'
import { rentTo } from '../../actors.ts'
import { embedded, FOX, kit, ORIGIN, read, testClock } from '../../kit.ts'
import { STRANGER } from '../../conformance/public_payment.ts'

const CALL = '/api/v1/voice/call'
const ORDER = { to: '+14155550123', task: 'Ask whether a table for two is free tonight at eight.' }

test('the record of a phone call is not found by what a replay tells of its job', async () => {
  const clock = testClock()
  const { buyer, gateway, ports } = kit({ ports: { clock, vendors: embedded(clock) } })
  const alice = buyer()
  await rentTo(ports.storage, alice.wallet, clock.now())
  const payment = alice.sign(await alice.ask(ORDER, { path: CALL }))
  const { status, body } = await alice.buy(ORDER, { path: CALL, payment })
  expect(status).toBe(200)
  const { job_id } = (await alice.buy({ ...ORDER, max_duration: 6 }, { path: CALL, payment })).body
  const statusOf = async (id: string) =>
    (await read(await gateway.fetch(new Request(`${ORIGIN}${CALL}/${id}`), { ip: STRANGER }))).status
  expect([await statusOf(idFrom(job_id, 'call_')), await statusOf(body.call_id)]).toEqual([404, 200])
})

test('an address is kept with the call as a keyed hash, and another one does not fit it', async () => {
  const { buyer, ports } = kit()
  const { body } = await buyer().buy(FOX)
  const stored = JSON.stringify((await ports.storage.getCall(body.id))?.request)
  expect([
    stored.includes('192.0.2.1'),
    /"_from":"[0-9a-f]{32}"/.test(stored),
    JSON.stringify(body).includes('_from'),
  ]).toEqual([false, true, false])
})

test('no id that reads by itself is in the access log', () => {
  const [call, key] = ['0123456789abcdef'.repeat(2), 'fedcba9876543210'.repeat(2)]
  for (const path of [
    `/api/v1/responses/resp_${call}_${key}`,
    `/v1/responses/resp_${call}_${key}/cancel`,
    `/api/v1/responses/resp%5F${call}%5F${key}`,
    `${CALL}/call_${key}`,
  ]) {
    expect([masked(path).includes(key), masked(path).endsWith('/cancel')]).toEqual([false, path.endsWith('/cancel')])
  }
  const secret = '0123456789abcdef0123456789abcdef'
  expect([
    masked(`/api/media/images/2026-11-20/${secret}-0.png`),
    masked(`/api/media/${secret}-0.png`),
    masked(`/api/media/images%2F2026-11-20%2F${secret}-0.png`),
  ]).toEqual(['/api/media/images/2026-11-20/...', '/api/media/...', '/api/media/...'])
  const apiKey = 'sk-fbx-t185paEWcHsaLCYRbPIpw4jhcJNV56UuFl5TIPa3K9PAw3BF4je'
  expect(masked(`/api/v1/keys/x${apiKey}y/close`)).toBe('/api/v1/keys/xsk-fbx-.../close')
  expect(masked('/api/v1/images/generations')).toBe('/api/v1/images/generations')
})
